//! What goes over the wire, byte by byte, and what is told of the answer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, Version, header};
use snaphook::{
    domain::outcome::Plain,
    world::{Request, World},
};

use super::{failed, post, request, status, world};
use crate::support::receiver::{Receiver, Scripted, Step, answer};

#[tokio::test]
async fn the_request_is_exactly_what_was_signed() {
    let receiver =
        Scripted::start([Step::Read, Step::send("HTTP/1.1 204 No Content\r\n\r\n"), Step::Hang])
            .await;
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", HeaderValue::from_static("evt_1"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.append("x-many", HeaderValue::from_static("one"));
    headers.append("x-many", HeaderValue::from_static("two"));
    let url = receiver.url("/hooks/a%20b?x=1&y=%2F");
    let sent = world().send(Request { headers, ..request(&url) }).await;

    assert_eq!(status(&sent), 204);
    let port = receiver.address.port();
    let expected = format!(
        "POST /hooks/a%20b?x=1&y=%2F HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nwebhook-id: evt_1\r\n\
         content-type: application/json\r\nx-many: one\r\nx-many: two\r\ncontent-length: 17\r\n\r\n\
         {{\"hello\":\"world\"}}"
    );
    let got = receiver.requests().remove(0);
    assert_eq!(String::from_utf8(got).unwrap(), expected);
}

#[tokio::test]
async fn a_get_has_nothing_behind_it_and_may_have_a_limit_of_its_own() {
    let response = "HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n";
    let body = "x".repeat(20_000);
    let receiver =
        Scripted::start([Step::Read, Step::send(response), Step::send(&body), Step::Hang]).await;
    let get = Request {
        method: Method::GET,
        body: Bytes::new(),
        answer_bytes: Some(20_000),
        ..request(&receiver.url("/certs/a.pem?b"))
    };
    let response = world().send(get).await.result.unwrap();

    assert_eq!((response.body.len(), response.truncated), (20_000, false));
    let port = receiver.address.port();
    let expected = format!("GET /certs/a.pem?b HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let got = receiver.requests().remove(0);
    assert_eq!(String::from_utf8(got).unwrap(), expected);
}

#[tokio::test]
async fn any_bytes_are_a_body() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    let world = world();
    for body in [
        Bytes::new(),
        Bytes::from_static(b"\xff\x00\r\n\r\nPOST / HTTP/1.1\r\n"),
        Bytes::from(vec![0xa5; 2 << 20]),
    ] {
        let sent = world.send(Request { body: body.clone(), ..request(&receiver.url("/")) }).await;
        assert_eq!(status(&sent), 200);
        let got = receiver.requests().pop().unwrap();
        assert_eq!(got.body, body, "{} bytes", body.len());
        assert_eq!(got.headers[header::CONTENT_LENGTH], body.len().to_string());
        assert_eq!(got.headers.get_all(header::HOST).iter().count(), 1);
        assert!(!got.headers.contains_key(header::ACCEPT_ENCODING));
        assert!(!got.headers.contains_key(header::TRANSFER_ENCODING));
        assert_eq!(got.version, Version::HTTP_11);
    }
}

#[tokio::test]
async fn headers_of_the_connection_are_refused_before_anybody_hears_of_it() {
    let receiver = Receiver::start(|_| answer(200, "")).await;
    for name in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("1"))]);
        let sent = world().send(Request { headers, ..request(&receiver.url("/")) }).await;
        let error = failed(sent, Plain::InvalidRequest);
        assert!(error.detail.contains(name.as_str()), "{error}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn the_answer_is_given_with_its_headers_and_the_beginning_of_its_body() {
    let receiver = Receiver::start(|_| {
        Response::builder()
            .status(503)
            .header("retry-after", "120")
            .header("x-reason", "asleep")
            .body("come back".into())
            .unwrap()
    })
    .await;
    let response = post(&world(), &receiver.url("/")).await.result.unwrap();
    assert_eq!(response.status, 503);
    assert_eq!(response.headers[header::RETRY_AFTER], "120");
    assert_eq!(&response.body[..], b"come back");
    assert!(!response.truncated);
}

#[tokio::test]
async fn answers_before_the_final_one_are_skipped() {
    let receiver = Scripted::start([
        Step::Read,
        Step::send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
        Step::send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ])
    .await;
    assert_eq!(status(&post(&world(), &receiver.url("/")).await), 200);
}

#[tokio::test]
async fn each_part_of_an_attempt_is_timed() {
    let receiver = Scripted::start([
        Step::Read,
        Step::send("HTTP/1.1 200 OK\r\n\r\n"),
        Step::Drip(b".".to_vec(), Duration::from_millis(100)),
    ])
    .await;
    let slow = Request { timeout: Duration::from_millis(350), ..request(&receiver.url("/")) };
    let sent = world().send(slow).await;
    let timings = sent.timings;
    let error = failed(sent, Plain::TimeoutTotal);
    assert!(error.detail.contains("200"), "the status is told: {error}");
    assert!(timings.reading >= Duration::from_millis(200), "{timings:?}");
    assert!(timings.total >= Duration::from_millis(350), "{timings:?}");
    assert!(timings.total < Duration::from_millis(900), "{timings:?}");
    assert!(timings.tls.is_zero(), "{timings:?}");
    let sum = timings.dns + timings.connect + timings.waiting + timings.reading;
    assert!(sum <= timings.total && sum + Duration::from_millis(50) > timings.total, "{timings:?}");
}
