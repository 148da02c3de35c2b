//! `snaphook listen`: a receiver that verifies.

use std::{io::Write as _, net::TcpStream, time::Duration};

use snaphook_signature::{Received as Signed, Scheme, Secret, Verifier, sign_standard};

use crate::support::{
    program::{Program, Running, closed_port, post, rest, whole_exchange},
    receiver::{Received, Receiver, answer},
};

fn start(program: &Program, arguments: &[&str]) -> (Running, String) {
    let mut running = program.start(&[&["listen", "--port", "0"], arguments].concat());
    let line = running.wait_for("listening on http://");
    let address = line.split("http://").nth(1).unwrap().split(',').next().unwrap().to_owned();
    (running, address)
}

fn signed_now(secret: &Secret, body: &[u8]) -> [(&'static str, String); 3] {
    let now = snaphook::world::real::wall_clock().seconds();
    [
        ("webhook-id", "evt_1".to_owned()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", sign_standard("evt_1", now, body, [secret]).unwrap()),
    ]
}

fn send(address: &str, secret: &Secret, body: &[u8]) -> u16 {
    let headers = signed_now(secret, body);
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    post(address, &headers, body)
}

const BODY: &[u8] = br#"{"type":"order.paid","data":{}}"#;

#[test]
fn what_is_genuine_is_taken_and_ends_with_0() {
    let secret = Secret::new_hmac(&[7; 32]);
    let program = Program::new().with("SNAPHOOK_SECRET", secret.text());
    let (running, address) = start(&program, &["--once"]);

    let status = send(&address, &secret, BODY);

    let ended = running.end();
    assert_eq!((status, ended.code), (204, 0), "{ended:?}");
    assert!(ended.out.ends_with("\tok\t204\tevt_1\torder.paid\t31\t\n"), "{ended:?}");
    assert!(!format!("{ended:?}").contains(secret.text()));
}

#[test]
fn what_is_forged_is_refused_and_ends_with_8() {
    let program = Program::new();
    program.write("secret.txt", Secret::new_hmac(&[7; 32]).text());
    let (running, address) = start(&program, &["--once", "--json", "--secret-file", "secret.txt"]);

    let status = send(&address, &Secret::new_hmac(&[8; 32]), BODY);

    let ended = running.end();
    assert_eq!((status, ended.code), (401, 8), "{ended:?}");
    let seen: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(seen["verdict"], "bad_signature");
    assert_eq!(seen["status"], 401);
}

#[test]
fn failures_come_first_and_then_the_status_that_was_asked_for() {
    let secret = Secret::new_hmac(&[7; 32]);
    let program = Program::new().with("SNAPHOOK_SECRET", secret.text());
    let (_running, address) =
        start(&program, &["--fail-first", "2", "--status", "410", "--delay", "1ms"]);

    let statuses = [(); 3].map(|()| send(&address, &secret, BODY));

    assert_eq!(statuses, [503, 503, 410]);
}

/// Nobody reads, so it stands still while it prints; the interrupt comes then.
#[test]
fn an_interrupt_that_comes_while_a_line_is_printed_ends_it() {
    let (mut running, address) = start(&Program::new(), &["--json"]);
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(100_000)); // more than a pipe holds
    let request =
        format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{long}", long.len());
    let mut sender = TcpStream::connect(address).unwrap();
    sender.write_all(request.as_bytes()).unwrap();
    rest(Duration::from_millis(500));
    running.signal("INT");
    rest(Duration::from_millis(200));

    running.read_until("xxx");

    assert!(running.ends_within(Duration::from_secs(10)), "it goes on");
}

#[test]
fn a_secret_that_is_none_is_refused_before_anything_listens() {
    let ended = Program::new().with("SNAPHOOK_SECRET", "whsec_short").run(&["listen"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("the secret: "), "{ended:?}");
}

/// A provider that signs, a tunnel, `listen`, the program under development: what arrives there has
/// the bytes that were signed, and its answer goes all the way back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_genuine_is_handed_on_byte_for_byte_and_answered_as_the_program_does() {
    let program = Receiver::start(|request: &Received| {
        let status = if request.body.starts_with(b"{") { 201 } else { 409 };
        let mut answer = answer(status, "challenge");
        answer.headers_mut().insert("x-own", "1".parse().unwrap());
        answer
    })
    .await;
    let url = program.url("/hook?own=1");
    let github = ["--scheme", "github", "--secret", "a secret", "--forward-to", &url];
    let (mut running, address) = start(&Program::new(), &github);
    let verifier = Verifier::new(Scheme::named("github").unwrap(), &["a secret"], None).unwrap();
    let escaped = br#"{"u":"https:\/\/x"}"#;
    for (body, status) in [(&escaped[..], 201), (b"\x00\xff\r\n", 409)] {
        let signed = verifier.sign(&Signed::new(&[], body), "d-1", 0).unwrap().headers;
        let mut headers: Vec<(&str, &str)> =
            signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.extend([("x-twice", "1"), ("x-twice", "2"), ("x-forwarded-for", "192.0.2.1")]);

        let (head, text) = whole_exchange(&address, "POST /any?b=2", &headers, body).unwrap();

        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains("x-own: 1") && text == "challenge", "{head}");
        assert!(!head.contains("content-type"), "nothing is added: {head}");
        let arrived = program.requests().pop().unwrap();
        assert_eq!((arrived.path.as_str(), &arrived.body[..]), ("/hook?own=1&b=2", body));
        let pairs: Vec<(&str, &[u8])> =
            arrived.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert!(verifier.verify(&Signed::new(&pairs, &arrived.body), 0).is_ok());
        let twice = arrived.headers.get_all("x-twice").iter().map(|value| value.to_str().unwrap());
        assert_eq!(twice.collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(arrived.headers["x-forwarded-for"], "192.0.2.1");
    }
    assert!(running.read_until("\t409\t")[0].contains("\tok\t201\td-1\t"));

    assert_eq!(post(&address, &[("x-hub-signature-256", "sha256=00")], escaped), 401);
    assert_eq!(program.requests().len(), 2, "what is forged goes no further");
}

#[test]
fn a_program_that_cannot_be_reached_is_told_and_answered_with_502() {
    let port = closed_port().to_string();
    let (mut running, address) = start(&Program::new(), &["--forward-to", &port]);

    assert_eq!(post(&address, &[], BODY), 502);

    let told = format!("cannot reach http://localhost:{port}/");
    assert!(running.read_until(&told)[0].contains("\tunverified\t502\t"));
}

#[test]
fn what_would_come_back_to_itself_is_refused() {
    let port = closed_port().to_string();
    let ended = Program::new().run(&["listen", "--port", &port, "--forward-to", &port]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("is where it listens itself"), "{ended:?}");
}
