//! Requests as bytes on a socket: what no well-behaved client sends, and how it ends.

use std::{net::SocketAddr, time::Duration};

use snaphook::{
    ingress::router,
    server::connections::{ConnectionLimits, serve},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{TestDoor, TestSource, on_both, shop};

const LONG: Duration = Duration::from_secs(20);

const BODY: &[u8] = b"{\"a\":1}";

/// Lets the door listen. Whole requests may take half a second.
async fn listen(door: &TestDoor) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits =
        ConnectionLimits { request: Duration::from_millis(500), ..ConnectionLimits::default() };
    let serving = serve(listener, router(door.ingress.clone()), limits, CancellationToken::new());
    #[expect(clippy::disallowed_methods, reason = "a server that ends with the test")]
    drop(tokio::spawn(serving));
    address
}

/// The head of a request that is genuine with `body`, but for its framing, which is to follow.
fn head(door: &TestDoor, source: &TestSource, id: &str, body: &[u8]) -> String {
    let request = door.signed(source, id, body);
    let mut head = format!("POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", request.uri());
    for (name, value) in request.headers() {
        head.extend([name.as_str(), ": ", value.to_str().unwrap(), "\r\n"]);
    }
    head
}

/// Sends bytes, perhaps the end of them too, and gives the status of each answer that came.
async fn exchange(address: SocketAddr, bytes: &[u8], end: bool) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have had enough before all is written.
    let _ = stream.write_all(bytes).await;
    if end {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("it ends");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let statuses = text.split("HTTP/1.1 ").skip(1).map(|rest| rest[..3].parse().unwrap());
    statuses.collect()
}

/// The rest of a request whose head is genuine, whether its sender then ends the connection, the
/// statuses that may come, and whether it is an event after 200.
type Case = (String, bool, &'static [u16], bool, &'static str);

fn cases() -> Vec<Case> {
    let whole = format!("Content-Length: 7\r\n\r\n{}", std::str::from_utf8(BODY).unwrap());
    let many = |name: &str, n: usize| format!("{name}: v\r\n").repeat(n);
    let chunked = |rest: &str| format!("Transfer-Encoding: chunked\r\n\r\n{rest}");
    let length = |rest: &str| format!("Content-Length: {rest}");
    vec![
        (whole.clone(), false, &[200], true, "as it should be"),
        (length("8\r\n") + &whole, false, &[400], false, "two lengths"),
        (length("7, 8\r\n") + &whole, false, &[400], false, "two in one"),
        (length("-7\r\n\r\n"), false, &[400], false, "below nothing"),
        (length("+7\r\n\r\n{\"a\":1}"), false, &[400], false, "a sign"),
        (length("99999999999999999999\r\n\r\n"), false, &[400], false, "no number"),
        (length("99999999999\r\n\r\n"), false, &[413], false, "promised"),
        (chunked("7\r\n{\"a\":1}\r\n0\r\n\r\n"), false, &[200], true, "chunks"),
        (
            chunked("4;ext=1\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\nX-T: v\r\n\r\n"),
            false,
            &[200],
            true,
            "chunks with extensions and trailers",
        ),
        (
            chunked("ffffffffffffffff\r\n{}"),
            true,
            &[400, 413],
            false,
            "a chunk as large as numbers go",
        ),
        (chunked("fffffffffffffffff\r\n{}"), true, &[400], false, "and larger"),
        (chunked("x\r\n{\"a\":1}"), true, &[400], false, "a chunk without a size"),
        (chunked("7\r\n{\"a\":1}\r\n"), true, &[400], false, "its chunks end early"),
        (
            "Transfer-Encoding: gzip\r\n\r\n{\"a\":1}".to_owned(),
            true,
            &[400, 401],
            false,
            "an encoding that we have not",
        ),
        (length("7\r\n\r\n{\"a\""), true, &[400], false, "it ends early"),
        (length("7\r\n\r\n{\"a\""), false, &[408], false, "it stands still"),
        ("Expect: 100-continue\r\n".to_owned() + &whole, false, &[100, 200], true, "it asks first"),
        (many("X-Flood", 20_000) + &whole, false, &[431], false, "a flood of headers"),
        (many("X-Many", 120) + &whole, false, &[431], false, "more headers than anybody needs"),
        (format!("X-Long: {}\r\n{whole}", "x".repeat(1 << 20)), false, &[431], false, "a long one"),
        (
            format!("X-Hub-Signature-256: {}\r\n{whole}", "x".repeat(1 << 20)),
            false,
            &[431],
            false,
            "a signature of a megabyte",
        ),
        (format!("X-Hub-Signature-256: sha256=ff\r\n{whole}"), false, &[401], false, "two of them"),
        (format!("X-Nul: a\0b\r\n{whole}"), false, &[400], false, "a NUL"),
        (format!("X-Folded: a\r\n b\r\n{whole}"), false, &[400], false, "a folded line"),
        (format!("X Y: 1\r\n{whole}"), false, &[400], false, "a name with a blank"),
        (format!("X-Bare: 1\n{whole}"), false, &[200, 400], true, "a bare line feed"),
    ]
}

#[tokio::test]
async fn whatever_comes_is_answered_by_the_table_and_stored_once_or_not_at_all() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let address = listen(door).await;
        for (n, (rest, end, statuses, stored, why)) in cases().into_iter().enumerate() {
            let before = door.events().await.len();
            let request = head(door, &source, &format!("id-{n}"), BODY) + &rest;
            let got = exchange(address, request.as_bytes(), end).await;
            let last = *got.last().unwrap_or_else(|| panic!("{why}: no answer"));
            assert!(got.iter().all(|status| statuses.contains(status)), "{why}: {got:?}");
            let new = door.events().await.len() - before;
            assert_eq!(new, usize::from(stored && last == 200), "{why}: {got:?}");
            // The signature does not cover the id: so that the next one is no copy of this.
            forget(door).await;
        }
        assert_eq!(door.kept(&source).await.len(), 1, "what was refused for its signature");
        assert_eq!(door.engine.budget.held(), 0, "no memory stays behind");
    })
    .await;
}

async fn forget(door: &TestDoor) {
    let mut tx = door.store.begin().await.unwrap();
    let end_of_time = snaphook::domain::time::Timestamp::from_seconds(9_000_000_000);
    tx.delete_received_before(end_of_time).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn odd_signatures_and_odd_bodies_are_told_apart_and_break_nothing() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        let address = listen(door).await;
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let twice = r#"{"id":"a","id":"b","type":"t"}"#;
        for (body, why) in [
            (deep.as_str(), "deep"),
            (twice, "the same member twice"),
            ("\u{feff}{\"id\":\"c\"}", "a byte order mark"),
            (
                "{\"id\":\"\\u0000\",\"type\":\"\\u0000/\\ud800\"}",
                "an id and a type that hide things",
            ),
            (
                &format!(r#"{{"id":"{}","type":"{}"}}"#, "x".repeat(9_999), "y".repeat(9_999)),
                "long ones",
            ),
            ("", "nothing"),
            ("{", "no JSON"),
        ] {
            let before = door.events().await.len();
            for _ in 0..2 {
                let mut request = head(door, &source, "", body.as_bytes()).into_bytes();
                request
                    .extend(format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes());
                assert_eq!(exchange(address, &request, false).await, [200], "{why}");
            }
            let events = door.events().await.len() - before;
            let has_id = body.contains("\"id\"") && body != twice;
            assert!(events == 1 || (events == 2 && !has_id), "{why}: {events} events");
        }

        let signed = door.signed(&source, "", b"{}");
        let good = signed.headers()["stripe-signature"].to_str().unwrap().to_owned();
        let (time, proof) = good.split_once(',').unwrap();
        let before = door.events().await.len();
        for (header, why) in [
            (format!("{time}000,{proof}"), "milliseconds"),
            (format!("{time}.0,{proof}"), "a fraction"),
            (good.replace("t=", "t=+"), "a sign"),
            (good.replace("t=", "t=0"), "a leading nought"),
            (format!("t=1e9,{proof}"), "an exponent"),
            (format!("t=,{proof}"), "no time"),
            (format!("{time},{}", "v1=ff,".repeat(2_700)), "thousands of signatures in 16 KiB"),
            (format!("{time},{}", "v1=ff,".repeat(4_000)), "and more"),
            ("v1=".to_owned(), "an empty one"),
            (String::new(), "nothing at all"),
            ("\u{a0}\u{a1}".to_owned(), "no ASCII"),
        ] {
            let request = format!(
                "POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nStripe-Signature: {header}\r\n\
                 Content-Length: 2\r\n\r\n{{}}",
                signed.uri()
            );
            assert_eq!(exchange(address, request.as_bytes(), false).await, [401], "{why}");
        }
        assert_eq!(door.events().await.len(), before);
    })
    .await;
}

#[tokio::test]
async fn a_request_for_nobody_or_by_another_method_costs_nothing() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let address = listen(door).await;
        for (line, status) in [
            ("POST /in/src_00000000000000000000000000 HTTP/1.1".to_owned(), 404),
            (format!("POST /in/{}/ HTTP/1.1", source.row.token), 404),
            (format!("POST /in/{}%00 HTTP/1.1", source.row.token), 404),
            ("POST /in/ HTTP/1.1".to_owned(), 404),
            (format!("GET /in/{} HTTP/1.1", source.row.token), 405),
            (format!("BREW /in/{} HTTP/1.1", source.row.token), 405),
        ] {
            let request =
                format!("{line}\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            assert_eq!(exchange(address, request.as_bytes(), false).await, [status], "{line}");
        }
        assert!(door.kept(&source).await.is_empty());
    })
    .await;
}
