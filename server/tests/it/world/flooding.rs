//! HTTP/2 peers that flood, stall and lie, frame by frame. Each costs one attempt, bounded in time
//! and memory, and ends with a name.

use std::time::Duration;

use snaphook::world::{Request, World};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::{megabytes, told, with_authority, world};
use crate::support::{certificates::Authority, receiver::accept};

/// Kinds of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// `:status: 200` (RFC 7541, appendix A).
const OK: u8 = 0x88;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// What the peer sends once, and then again and again; and how that may end.
struct Peer {
    why: &'static str,
    first: Vec<u8>,
    flood: Vec<u8>,
    ends: &'static [&'static str],
}

fn peer(why: &'static str, first: Vec<u8>, flood: Vec<u8>, ends: &'static [&'static str]) -> Peer {
    Peer { why, first, flood, ends }
}

/// A header field that is not in any table: a name of one byte, and a value of so many.
fn field(bytes: u8) -> Vec<u8> {
    let mut field = vec![0x00, 1, b'x', bytes];
    field.resize(field.len() + usize::from(bytes), b'a');
    field
}

fn floods() -> Vec<Peer> {
    const SLOW: &[&str] = &["timeout_total", "protocol", "closed_early"];
    const WRONG: &[&str] = &["protocol", "closed_early"];
    let many = |frame: Vec<u8>| frame.repeat(64);
    vec![
        peer("pings", vec![], many(frame(PING, 0, 0, &[7; 8])), SLOW),
        peer("settings", vec![], many(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9])), SLOW),
        peer("empty settings", vec![], many(frame(SETTINGS, 0, 0, &[])), SLOW),
        peer("acknowledgments of nothing", vec![], many(frame(SETTINGS, 1, 0, &[])), SLOW),
        peer("windows", vec![], many(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])), SLOW),
        peer("a window of nothing", vec![], many(frame(WINDOW_UPDATE, 0, 0, &[0; 4])), WRONG),
        peer(
            "a window over its limit",
            vec![],
            many(frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
            WRONG,
        ),
        peer(
            "resets of streams that were never opened",
            vec![],
            many(frame(RST_STREAM, 0, 99, &[0, 0, 0, 8])),
            WRONG,
        ),
        peer(
            "a reset of the request",
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 2]),
            many(frame(RST_STREAM, 0, 1, &[0, 0, 0, 2])),
            WRONG,
        ),
        peer("a promise", frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, OK]), vec![], WRONG),
        peer("a goodbye at once", frame(GOAWAY, 0, 0, &[0; 8]), vec![], WRONG),
        peer(
            "goodbyes without end",
            vec![],
            many(frame(GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])),
            SLOW,
        ),
        peer(
            "headers that go on and on",
            frame(HEADERS, 0, 1, &[OK]),
            many(frame(CONTINUATION, 0, 1, &field(100))),
            &["headers_too_large", "protocol", "closed_early"],
        ),
        peer(
            "headers that go on with nothing",
            frame(HEADERS, 0, 1, &[OK]),
            many(frame(CONTINUATION, 0, 1, &[])),
            SLOW,
        ),
        peer("garbage for headers", frame(HEADERS, 4, 1, &[0xff; 64]), vec![], WRONG),
        peer("a body before its headers", frame(DATA, 0, 1, b"hello"), vec![], WRONG),
        peer("a body of nobody's", vec![], many(frame(DATA, 0, 77, b"hello")), WRONG),
        peer("a frame over its limit", frame(DATA, 0, 1, &vec![0; 1 << 20]), vec![], WRONG),
        peer("bytes that are no frames", b"HTTP/1.1 200 OK\r\n\r\n".repeat(99), vec![], WRONG),
    ]
}

/// Speaks TLS and agrees on HTTP/2, then sends what it is to send.
async fn start(peer: &Peer, root: &Authority) -> (String, AbortOnDropHandle<()>) {
    let config = root.issue("hooks.example", |_| {}).server(&["h2"], None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://hooks.example:{}/", listener.local_addr().unwrap().port());
    let (first, flood) = (peer.first.clone(), peer.flood.clone());
    let task = accept(listener, std::sync::Arc::default(), move |stream, _| {
        let (config, first, flood) = (config.clone(), first.clone(), flood.clone());
        async move {
            let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
            let (mut read, mut write) = tokio::io::split(stream);
            let send = async {
                write.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
                // The request is under way by then.
                let mut preface = [0; 24];
                read.read_exact(&mut preface).await?;
                let mut some = [0; 512];
                let _ = read.read(&mut some).await?;
                write.write_all(&first).await?;
                let drain = async {
                    let mut rest = [0; 4_096];
                    while read.read(&mut rest).await.is_ok_and(|length| length > 0) {}
                };
                let pour =
                    async { while !flood.is_empty() && write.write_all(&flood).await.is_ok() {} };
                tokio::join!(drain, pour);
                std::io::Result::Ok(())
            };
            // An error means that the client went away.
            let _ = send.await;
        }
    });
    (url, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flood_of_frames_ends_with_its_name() {
    let root = Authority::new("test root");
    let before = megabytes();
    for peer in floods() {
        let (url, _task) = start(&peer, &root).await;
        let limit = Duration::from_millis(1_500);
        let limited = Request { timeout: limit, ..with_authority(&url, root.pem()) };

        let began = tokio::time::Instant::now();
        let sent = world().send(limited).await;

        let (told, took) = (told(&sent), began.elapsed());
        assert!(peer.ends.contains(&&*told), "{}: {told}: {:?}", peer.why, sent.result);
        assert!(took < limit * 2, "{}: {took:?}", peer.why);
    }
    let grown = megabytes().saturating_sub(before);
    assert!(grown < 64, "{grown} MB");
}
