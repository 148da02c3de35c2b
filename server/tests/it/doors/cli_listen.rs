//! `snaphook listen`: a receiver that verifies.

use std::{io::Write as _, net::TcpStream, time::Duration};

use snaphook_signature::{Secret, sign_standard};

use crate::support::program::{Program, Running, post, rest};

fn start(program: &Program, arguments: &[&str]) -> (Running, String) {
    let mut running = program.start(&[&["listen", "--port", "0"], arguments].concat());
    let line = running.wait_for("listening on http://");
    let address = line.rsplit("http://").next().unwrap().to_owned();
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
