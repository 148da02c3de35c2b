//! The table of answers: what a provider hears, and what is done.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, header};
use serde_json::json;
use snaphook::{domain::source::SourceState, faults::Faults, world::World as _};

use super::{TestDoor, on_both, shop};

#[tokio::test]
async fn a_genuine_request_is_an_event_with_its_deliveries_once() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        door.add_endpoint("a").await;
        let body = br#"{"id":"evt_1","type":"charge.paid","n":1.10}"#;

        let answer = door.send(door.signed(&source, "", body)).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
        assert_eq!(door.deliver().await, 1);
        for _ in 0..3 {
            assert_eq!(door.post(&source, "", body).await, 200, "seen before");
            door.world.pass(Duration::from_secs(7)); // so that it is signed anew
        }
        assert_eq!(door.deliver().await, 1);

        let events = door.events().await;
        let mut tx = door.store.read().await.unwrap();
        let event = tx.list_events_by_id(&events).await.unwrap().remove(&events[0]).unwrap();
        assert_eq!(event.event_type, "shop.charge.paid");
        assert_eq!(&event.payload[..], body, "byte for byte");
        assert!(door.kept(&source).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_has_no_id_is_its_own_event_each_time() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        for _ in 0..3 {
            assert_eq!(door.post(&source, "", b"{}").await, 200);
        }
        assert_eq!(door.events().await.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn an_id_of_a_thing_has_many_events_and_each_of_them_once() {
    on_both(async |door| {
        let by_scheme = door.add_source(shop("postmark")).await;
        let settings = json!({"name": "own", "scheme": "stripe", "id_scope": "object"});
        let by_setting = door.add_source(settings).await;
        for (source, bodies) in [
            (
                &by_scheme,
                [
                    r#"{"MessageID":"m","RecordType":"Open","n":1}"#,
                    r#"{"MessageID":"m","RecordType":"Open","n":2}"#,
                    r#"{"MessageID":"m","RecordType":"Click","n":1}"#,
                ],
            ),
            (
                &by_setting,
                [
                    r#"{"id":"m","type":"open","n":1}"#,
                    r#"{"id":"m","type":"open","n":2}"#,
                    r#"{"id":"m","type":"click","n":1}"#,
                ],
            ),
        ] {
            let before = door.events().await.len();
            for body in bodies.iter().chain(&bodies) {
                assert_eq!(door.post(source, "", body.as_bytes()).await, 200);
            }
            assert_eq!(door.events().await.len(), before + 3);
            assert!(door.kept(source).await.is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_an_empty_body_and_the_sources_status() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let lenient = json!({"name": "old", "scheme": "github", "reject_status": 400});
        let lenient = door.add_source(lenient).await;
        for (source, status) in [(&source, 401), (&lenient, 400)] {
            let mut request = door.signed(source, "1", b"{}");
            *request.body_mut() = Body::from("[]");
            let answer = door.send(request).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (status, 0));
        }
        assert_eq!(door.events().await, []);
    })
    .await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whole_however_it_comes() {
    on_both(async |door| {
        let settings = json!({"name": "shop", "scheme": "github", "body_limit": 20});
        let source = door.add_source(settings).await;
        let (fits, over) = (vec![b'x'; 20], vec![b'x'; 21]);
        assert_eq!(door.post(&source, "1", &fits).await, 200);
        assert_eq!(door.post(&source, "2", &over).await, 413, "announced");

        let chunked = door.signed(&source, "3", &over).map(|_| {
            let chunks =
                over.chunks(4).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk)));
            Body::from_stream(stream::iter(chunks.collect::<Vec<_>>()))
        });
        assert_eq!(door.send(chunked).await.status, 413, "in chunks");
        assert_eq!(door.events().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_body_is_taken_as_it_comes_whatever_it_is() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let multipart =
            b"--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n\xff\r\n--b--\r\n";
        for (n, (kind, encoding, body)) in [
            ("application/json", "identity", &b"\xef\xbb\xbf{\"a\":1}"[..]),
            ("application/json", "gzip", b"\x1f\x8b\x08\x00\x00\x00"),
            ("application/octet-stream", "identity", b"\xff\xfe\x00"),
            ("multipart/form-data; boundary=b", "identity", multipart),
            ("application/x-www-form-urlencoded", "identity", b"payload=%7B%7D"),
            ("\u{a0}", "identity", b"no content type at all"),
            ("text/plain", "identity", b""),
        ]
        .into_iter()
        .enumerate()
        {
            let mut request = door.signed(&source, &n.to_string(), body);
            let value = http::HeaderValue::from_bytes(kind.as_bytes()).unwrap();
            request.headers_mut().insert(header::CONTENT_TYPE, value);
            request.headers_mut().insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
            // In chunks of one byte, of which nothing must depend.
            let bytes = Bytes::copy_from_slice(body);
            let chunks = (0..bytes.len()).map(move |at| Ok::<_, Infallible>(bytes.slice(at..=at)));
            *request.body_mut() = Body::from_stream(stream::iter(chunks));

            assert_eq!(door.send(request).await.status, 200, "{kind}");
            let event = *door.events().await.last().unwrap();
            let mut tx = door.store.read().await.unwrap();
            let event = tx.list_events_by_id(&[event]).await.unwrap().remove(&event).unwrap();
            assert_eq!(&event.payload[..], body, "{kind}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_not_on_disk_is_asked_for_again() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let broken =
            TestDoor::on(door.store.with_faults(Arc::new(Faults::crash_at(1))), door.world.clone());
        let answer = broken.send(door.signed(&source, "1", b"{}")).await;
        assert_eq!(answer.status, 503, "a book that was never read says nothing of any source");
        assert!(answer.headers.contains_key(header::RETRY_AFTER));

        let faults = Arc::new(Faults::default());
        let broken = TestDoor::on(door.store.with_faults(faults.clone()), door.world.clone());
        broken.engine.sources.refresh().await.unwrap();
        faults.fail_in(1);
        let answer = broken.send(door.signed(&source, "1", b"{}")).await;
        assert_eq!(answer.status, 503);
        assert!(answer.headers.contains_key(header::RETRY_AFTER));
        assert_eq!(door.events().await, []);

        faults.mend();
        assert_eq!(broken.send(door.signed(&source, "1", b"{}")).await.status, 200);
        assert_eq!(door.events().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_finds_no_memory_is_asked_for_again() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let all = door.engine.budget.hold(128 << 20);
        assert_eq!(door.post(&source, "1", b"{}").await, 503);
        drop(all);
        assert_eq!(door.post(&source, "1", b"{}").await, 200);
        assert_eq!(door.engine.budget.held(), 0, "given back");
    })
    .await;
}

#[tokio::test]
async fn what_a_paused_source_takes_is_kept_and_goes_on_once_it_is_resumed() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        door.add_endpoint("a").await;
        let source = door.set(source, |row| row.state = SourceState::Paused).await;
        for id in ["1", "2", "2"] {
            assert_eq!(door.post(&source, id, id.as_bytes()).await, 200);
        }
        door.engine.release_held().await.unwrap();
        assert_eq!(door.deliver().await, 0);
        assert_eq!(door.events().await.len(), 2);

        door.set(source, |row| row.state = SourceState::Active).await;
        door.engine.release_held().await.unwrap();
        door.engine.release_held().await.unwrap();
        assert_eq!(door.deliver().await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_source_that_was_deleted_is_gone_and_what_it_held_is_not() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        door.add_endpoint("a").await;
        let source = door.set(source, |row| row.state = SourceState::Paused).await;
        assert_eq!(door.post(&source, "1", b"{}").await, 200);
        let now = door.world.now();
        let source = door.set(source, |row| row.deleted_at = Some(now)).await;
        assert_eq!(door.post(&source, "2", b"{}").await, 404);
        door.engine.release_held().await.unwrap();
        assert_eq!(door.deliver().await, 1, "it was acknowledged");
    })
    .await;
}

#[tokio::test]
async fn nobody_but_a_source_is_there_and_nothing_comes_but_by_post() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let token = &source.row.token;
        for path in [
            "/in/src_00000000000000000000000000".to_owned(),
            "/in/src_".to_owned(),
            "/in/%00".to_owned(),
            format!("/in/{}", source.row.id.0),
            format!("/in/{}", token.as_str().to_uppercase()),
            format!("/in/{token}x"),
        ] {
            let answer = door.send(Request::post(&path).body(Body::from("{}")).unwrap()).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (404, 0), "{path}");
        }
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
            let request = Request::builder().method(method).uri(format!("/in/{token}"));
            let answer = door.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, 405, "{method}");
            assert_eq!(answer.headers[header::ALLOW], "POST");
        }
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_needs_a_particular_answer_gets_it() {
    on_both(async |door| {
        let source = door
            .add_source(json!({
                "name": "shop",
                "scheme": "github",
                "answer": {"status": 202, "headers": {"X-Ok": "yes"}, "body": "[accepted]"},
            }))
            .await;
        for _ in 0..2 {
            let answer = door.send(door.signed(&source, "1", b"{}")).await;
            assert_eq!(answer.status, 202);
            assert_eq!(answer.headers["x-ok"], "yes");
            assert_eq!(answer.body, "[accepted]");
        }
        let answer = door
            .send(Request::post(format!("/in/{}", source.row.token)).body(Body::empty()).unwrap())
            .await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (401, 0));
    })
    .await;
}
