//! Receivers that answer badly, without end, or not at all. Each ends with a name, in bounded
//! time and memory.

use std::time::Duration;

use futures_util::future::join_all;
use snaphook::world::{Request, World};

use super::{megabytes, post, request, status, told, world};
use crate::support::receiver::{Scripted, Step};

const OK: &str = "HTTP/1.1 200 OK\r\n";

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn headers(count: usize, bytes: usize) -> Vec<u8> {
    let mut text = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".to_vec();
    for number in 0..count {
        text.extend(format!("x-{number}: ").bytes());
        text.resize(text.len() + bytes, b'a');
        text.extend(b"\r\n");
    }
    text.extend(b"\r\n");
    text
}

fn after_request(text: &str) -> Vec<Step> {
    vec![Step::Read, Step::send(text)]
}

fn and_then(text: &str, last: Step) -> Vec<Step> {
    vec![Step::Read, Step::send(text), last]
}

fn drip(text: &str) -> Step {
    Step::Drip(text.as_bytes().to_vec(), Duration::from_millis(50))
}

/// What the receiver does, and why.
type Scripts = Vec<(Vec<Step>, &'static str)>;

fn cut_short() -> Scripts {
    let ten_chunks = "5\r\nhello\r\n".repeat(10);
    vec![
        (after_request(""), "closes at once"),
        (vec![], "closes before it has read"),
        (after_request("HTTP/1.1 200"), "half a status line"),
        (after_request("HTTP/1.1 200 OK\r\nx: y\r\n"), "half of the headers"),
        (after_request("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc"), "short body"),
        (after_request(&format!("{CHUNKED}{ten_chunks}")), "no last chunk"),
    ]
}

fn no_http() -> Scripts {
    let lengths = "content-length: 1\r\ncontent-length: 2\r\n\r\nab";
    vec![
        (after_request("SSH-2.0-OpenSSH_9.2\r\n"), "SSH after the request"),
        (vec![Step::send("SSH-2.0-OpenSSH_9.2\r\n"), Step::Hang], "SSH at once"),
        (after_request("220 mail.example ESMTP\r\n"), "mail"),
        (after_request("<html>hello</html>\r\n\r\n"), "HTTP/0.9"),
        (after_request("HTTP/1.1 999 x\r\ncontent-length: 0\r\n\r\n"), "status 999"),
        (after_request("HTTP/1.1 99 x\r\n\r\n"), "status 99"),
        (after_request("HTTP/1.1 2x0 OK\r\n\r\n"), "no number"),
        (after_request("HTTP/3.0 200 OK\r\n\r\n"), "another version"),
        (after_request("HTTP/1.1 200 OK\r\nbad header\r\n\r\n"), "a header without colon"),
        (after_request("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"), "no length"),
        (after_request(&format!("HTTP/1.1 200 OK\r\n{lengths}")), "two lengths"),
        (after_request(&format!("{CHUNKED}zz\r\nhello\r\n0\r\n\r\n")), "no chunk size"),
        (after_request(&format!("{CHUNKED}fffffffffffffffff\r\n")), "a chunk of 17 digits"),
        (and_then("HTTP/1.1 ", Step::Flood(vec![b'2'; 4096])), "a status line without end"),
    ]
}

fn too_large() -> Scripts {
    vec![
        (vec![Step::Read, Step::Send(headers(10_000, 10)), Step::Hang], "10,000 headers"),
        (vec![Step::Read, Step::Send(headers(1, 1 << 20)), Step::Hang], "a header of 1 MB"),
        (vec![Step::Read, Step::Send(headers(101, 1)), Step::Hang], "101 headers"),
        (and_then(OK, Step::Flood(b"x: y\r\n".repeat(99))), "headers without end"),
    ]
}

fn too_slow() -> Scripts {
    let goes_on = Step::Flood(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec());
    vec![
        (vec![Step::Read, Step::Hang], "silence"),
        (vec![Step::Hang], "a request that is not read"),
        (vec![Step::Read, goes_on], "1xx without end"),
        (vec![Step::Read, drip("H")], "a dripping status line"),
        (and_then(OK, drip("x: y\r\n")), "dripping headers"),
        (and_then(&format!("{OK}\r\n"), drip(".")), "a dripping body"),
        (and_then(&format!("{OK}content-length: 9\r\n\r\n"), Step::Hang), "no body"),
        (and_then(CHUNKED, drip("1\r\nx\r\n")), "dripping chunks"),
    ]
}

#[tokio::test]
async fn every_bad_answer_ends_with_its_name() {
    for (expected, scripts) in [
        ("closed_early", cut_short()),
        ("protocol", no_http()),
        ("headers_too_large", too_large()),
        ("timeout_total", too_slow()),
    ] {
        let ends = scripts.into_iter().map(|(script, why)| async move {
            let receiver = Scripted::start(script).await;
            let began = tokio::time::Instant::now();
            let limit = Duration::from_millis(900);
            let limited = Request { timeout: limit, ..request(&receiver.url("/")) };
            let sent = world().send(limited).await;
            assert_eq!(told(&sent), expected, "{why}: {:?}", sent.result);
            assert!(began.elapsed() < limit * 3, "{why}: {:?}", began.elapsed());
        });
        join_all(ends).await;
    }
}

#[tokio::test]
async fn odd_answers_that_are_whole_are_answers() {
    for (answer, expected, why) in [
        ("HTTP/1.0 200 OK\r\n\r\nold", 200, "HTTP/1.0, until the end of the connection"),
        ("HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, "no reason phrase"),
        ("HTTP/1.1 200 \u{e9}t\u{e9}\r\ncontent-length: 0\r\n\r\n", 200, "a reason in UTF-8"),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 204, "204 with a length"),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", 304, "304"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            101,
            "101",
        ),
        ("HTTP/1.1 599 x\r\ncontent-length: 0\r\n\r\n", 599, "the last status"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
            200,
            "a length told twice",
        ),
    ] {
        let receiver = Scripted::start(after_request(answer)).await;
        let world = world();
        for _ in 0..2 {
            assert_eq!(status(&post(&world, &receiver.url("/")).await), expected, "{why}");
        }
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_off_and_its_connection_closed() {
    for head in
        ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"]
    {
        let script = [Step::Read, Step::send(head), Step::Flood(vec![b'x'; 65_536])];
        let receiver = Scripted::start(script).await;
        let sent = post(&world(), &receiver.url("/")).await;
        let total = sent.timings.total;
        let response = sent.result.unwrap();
        assert_eq!(response.status, 200);
        assert!(response.truncated && response.body.len() == 16_384);
        assert!(total < Duration::from_secs(2), "{total:?}");
    }
}

#[tokio::test]
async fn a_receiver_that_stops_reading_does_not_hold_the_attempt() {
    let receiver = Scripted::start([Step::ReadHead, Step::Stall]).await;
    let large = Request {
        body: vec![b'x'; 16 << 20].into(),
        timeout: Duration::from_millis(300),
        ..request(&receiver.url("/"))
    };
    let sent = world().send(large).await;
    assert_eq!(told(&sent), "timeout_total");
    assert!(sent.timings.total < Duration::from_secs(2), "{:?}", sent.timings);
}

#[tokio::test]
async fn an_answer_to_a_request_that_nobody_made_is_not_taken_for_the_next_one() {
    let two = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    let receiver = Scripted::start([Step::Read, Step::send(two), Step::Read, Step::Hang]).await;
    let world = world();
    for _ in 0..5 {
        assert_eq!(status(&post(&world, &receiver.url("/")).await), 200);
    }
    assert_eq!(receiver.connections(), 5);
}

#[tokio::test]
async fn an_answer_given_before_the_request_was_read_is_taken() {
    let receiver = Scripted::start([
        Step::ReadHead,
        Step::send("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"),
        Step::Hang,
    ])
    .await;
    let large = Request { body: vec![b'x'; 8 << 20].into(), ..request(&receiver.url("/")) };
    let sent = world().send(large).await;
    assert_eq!(told(&sent), "413", "{:?}", sent.result);
}

#[tokio::test]
async fn a_compressed_answer_is_kept_as_it_came() {
    // The beginning of a gzip stream: whoever unpacked it would find no end, or ten gigabytes.
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [b"10000\r\n".to_vec(), vec![0x1f; 65_536], b"\r\n".to_vec()].concat();
    let receiver = Scripted::start([Step::Read, Step::send(head), Step::Flood(chunk)]).await;

    let response = post(&world(), &receiver.url("/")).await.result.unwrap();

    assert_eq!((response.status, response.body.len()), (200, 16_384));
    assert!(response.truncated && response.body.iter().all(|byte| *byte == 0x1f));
    let request = String::from_utf8(receiver.requests().remove(0)).unwrap().to_lowercase();
    assert!(!request.contains("accept-encoding"), "{request}");
}

/// All of them at once, each many times: what they send is never gathered.
#[tokio::test]
async fn hostile_answers_cost_little_memory() {
    let scripts = [
        and_then(OK, Step::Flood(b"x: y\r\n".repeat(99))),
        vec![Step::Read, Step::Send(headers(1, 1 << 20)), Step::Hang],
        vec![Step::Read, Step::send("HTTP/1.1 "), Step::Flood(vec![b'2'; 4096])],
        vec![Step::Read, Step::send(CHUNKED), Step::Flood(b"5;".repeat(4096))],
        vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Flood(vec![b'x'; 65_536])],
    ];
    let before = megabytes();
    for script in scripts {
        let receiver = Scripted::start(script).await;
        let limit = Duration::from_secs(2);
        let world = world();
        let posts =
            (0..32).map(|_| world.send(Request { timeout: limit, ..request(&receiver.url("/")) }));
        let began = tokio::time::Instant::now();
        join_all(posts).await;
        assert!(began.elapsed() < limit * 3, "{:?}", began.elapsed());
    }
    // 160 attempts with 64 KiB of headers each would be 10 MB, were all of them open at once.
    let grown = megabytes().saturating_sub(before);
    assert!(grown < 48, "{grown} MB");
}
