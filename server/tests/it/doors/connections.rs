//! Connections to the server: limits, and the end.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    http::StatusCode,
    routing::{get, post},
};
use snaphook::server::connections::{ConnectionLimits, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(10);

struct Started {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

async fn start(limits: ConnectionLimits) -> Started {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let slow = || async {
        tokio::task::yield_now().await;
        let _ = timeout(Duration::from_millis(200), std::future::pending::<()>()).await;
        "late"
    };
    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/slow", get(slow))
        .route("/echo", post(|body: String| async { body }))
        .route("/refuse", post(|| async { StatusCode::PAYLOAD_TOO_LARGE }));
    #[expect(clippy::disallowed_methods, reason = "a test that waits for it")]
    let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
    Started { address, stop, serving }
}

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn read_until(stream: &mut TcpStream, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let mut bytes = [0; 1024];
        let read = timeout(LONG, stream.read(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "it ended before {part:?}: {text}");
        text += std::str::from_utf8(&bytes[..read]).unwrap();
    }
    text
}

#[tokio::test]
async fn a_request_under_way_is_answered_and_idle_connections_end_at_the_stop() {
    let Started { address, stop, serving } = start(ConnectionLimits::default()).await;
    let mut idle = ask(address, "/").await;
    read_until(&mut idle, "hello").await;
    let mut busy = ask(address, "/slow").await;
    let _ = timeout(Duration::from_millis(50), std::future::pending::<()>()).await;

    stop.cancel();

    read_until(&mut busy, "late").await;
    assert_eq!(timeout(LONG, idle.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    timeout(LONG, serving).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_let_go() {
    let limits =
        ConnectionLimits { headers: Duration::from_millis(100), ..ConnectionLimits::default() };
    let Started { address, .. } = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nx-slow: ").await.unwrap();

    let mut rest = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut rest)).await;

    assert!(ended.is_ok(), "it was closed");
}

#[tokio::test]
async fn a_client_that_connects_and_does_not_say_what_it_wants_is_let_go() {
    for said in ["", "P", "PRI * HTTP/2.0\r\n"] {
        let limits =
            ConnectionLimits { silence: Duration::from_millis(100), ..ConnectionLimits::default() };
        let Started { address, .. } = start(limits).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let ended = timeout(LONG, stream.read(&mut [0; 1])).await;
        assert!(ended.is_ok(), "it was closed after {said:?}");
        let mut other = ask(address, "/").await;
        read_until(&mut other, "hello").await;
    }
}

#[test]
fn connections_are_a_quarter_of_the_files_within_bounds() {
    for (files, connections) in [
        (Some(256), 1_024),
        (Some(4_096), 1_024),
        (Some(10_000), 2_500),
        (Some(65_536), 4_096),
        (None, 4_096),
    ] {
        assert_eq!(ConnectionLimits::for_files(files).connections, connections, "{files:?}");
    }
}

#[tokio::test]
async fn a_client_that_never_ends_its_body_is_told_so() {
    let limits =
        ConnectionLimits { request: Duration::from_millis(100), ..ConnectionLimits::default() };
    let Started { address, .. } = start(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345";
    stream.write_all(head.as_bytes()).await.unwrap();

    read_until(&mut stream, "408 Request Timeout").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    let limits = ConnectionLimits { connections: 1, ..ConnectionLimits::default() };
    let Started { address, .. } = start(limits).await;
    let mut first = ask(address, "/").await;
    read_until(&mut first, "hello").await;
    let mut second = ask(address, "/").await;
    let early = timeout(Duration::from_millis(100), second.read(&mut [0; 1])).await;
    assert!(early.is_err(), "the second waits");

    drop(first);

    read_until(&mut second, "hello").await;
}

/// The head of a request that is refused unread, and a body of so many MiB in the same form.
fn large(chunked: bool, mebibytes: usize) -> (String, Vec<u8>) {
    let part = vec![b'x'; 1 << 20];
    if chunked {
        let head = "POST /refuse HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = [b"100000\r\n", part.as_slice(), b"\r\n"].concat();
        return (head.to_owned(), [chunk.repeat(mebibytes), b"0\r\n\r\n".to_vec()].concat());
    }
    let length = mebibytes << 20;
    let head = format!("POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    (head, part.repeat(mebibytes))
}

#[tokio::test]
async fn a_client_that_writes_all_before_it_reads_gets_its_answer() {
    let Started { address, .. } = start(ConnectionLimits::default()).await;
    for chunked in [false, true] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (head, body) = large(chunked, 16);

        stream.write_all(head.as_bytes()).await.unwrap();
        timeout(LONG, stream.write_all(&body)).await.unwrap().expect("nobody resets it");

        read_until(&mut stream, "HTTP/1.1 413 ").await;
        let next = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(next).await.unwrap();
        read_until(&mut stream, "hello").await;
    }
}

#[tokio::test]
async fn a_client_that_never_stops_writing_is_cut_off() {
    let Started { address, .. } = start(ConnectionLimits::default()).await;
    for chunked in [false, true] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (head, body) = large(chunked, 1024);
        stream.write_all(head.as_bytes()).await.unwrap();

        let written = timeout(LONG, stream.write_all(&body)).await.unwrap();

        assert!(written.is_err(), "a gibibyte is read for nothing");
    }
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_answered_at_once_and_not_asked_for_more() {
    let Started { address, .. } = start(ConnectionLimits::default()).await;
    let (head, _) = large(false, 16);
    let head = head.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();

    stream.write_all(head.as_bytes()).await.unwrap();

    let mut answer = Vec::new();
    timeout(LONG, stream.read_to_end(&mut answer)).await.expect("it is closed").unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        "POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "HTTP/1.1 100 Continue\r\n").await;
    stream.write_all(b"hi").await.unwrap();
    read_until(&mut stream, "hi").await;
}
