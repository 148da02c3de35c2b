//! Requests that are kept apart: refused ones, and genuine ones that a person should look at.

use axum::body::Body;
use http::Request;
use serde_json::json;
use snaphook::domain::request_state::RequestState;

use super::{TestDoor, TestSource, on_both, shop};

#[tokio::test]
async fn another_body_under_a_known_id_is_kept_and_goes_nowhere() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        door.add_endpoint("a").await;
        let (first, other) = (br#"{"id":"evt_1","n":1}"#, br#"{"id":"evt_1","n":2}"#);
        assert_eq!(door.post(&source, "", first).await, 200);
        for _ in 0..3 {
            assert_eq!(door.post(&source, "", other).await, 200);
        }

        assert_eq!(door.deliver().await, 1);
        let kept = door.kept(&source).await;
        assert_eq!(kept.len(), 1, "sent again it is the same one");
        assert_eq!(kept[0].state, RequestState::Conflict);
        assert_eq!(kept[0].body.as_deref(), Some(&other[..]));
        assert_eq!(kept[0].provider_id.as_deref(), Some("evt_1"));
        assert_eq!(kept[0].event, Some(door.events().await[0]), "the one that was there before");
        assert!(kept[0].headers.get("stripe-signature").is_some());
    })
    .await;
}

#[tokio::test]
async fn a_signature_under_another_id_is_kept_and_goes_nowhere() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        door.add_endpoint("a").await;
        assert_eq!(door.post(&source, "id-1", b"{}").await, 200);
        for _ in 0..3 {
            assert_eq!(door.post(&source, "id-2", b"{}").await, 200);
        }
        assert_eq!(door.post(&source, "id-1", b"{}").await, 200);

        assert_eq!(door.deliver().await, 1);
        let kept = door.kept(&source).await;
        assert_eq!(kept.len(), 1, "sent again it is the same one");
        assert_eq!(kept[0].state, RequestState::ReplaySuspected);
        assert_eq!(kept[0].provider_id.as_deref(), Some("id-2"));
        assert_eq!(kept[0].event, Some(door.events().await[0]));
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_is_kept_whole_with_the_step_that_failed() {
    on_both(async |door| {
        let source = door.add_source(shop("stripe")).await;
        let signed = || door.signed(&source, "", b"{}");
        let mut forged = signed();
        *forged.body_mut() = Body::from("[]");
        let mut bare = signed();
        bare.headers_mut().remove("stripe-signature");
        let mut odd = signed();
        odd.headers_mut().insert("stripe-signature", "t=x,v1=ff".parse().unwrap());
        let stale = signed();
        door.world.pass(std::time::Duration::from_secs(301));

        for (request, step, part) in [
            (forged, "signature", "does not match the secret"),
            (bare, "signature", "is missing"),
            (odd, "timestamp", "is no timestamp"),
            (stale, "timestamp", "301 s old"),
        ] {
            let (parts, body) = request.into_parts();
            let uri = format!("{}?a=%20b", parts.uri);
            let headers = parts.headers.clone();
            let mut request = Request::post(uri).body(body).unwrap();
            *request.headers_mut() = parts.headers;
            assert_eq!(door.send(request).await.status, 401, "{step}: {part}");

            let kept = door.kept(&source).await.remove(0);
            assert_eq!(kept.state, RequestState::Rejected);
            assert_eq!(kept.step.as_deref(), Some(step), "{:?}", kept.reason);
            assert!(kept.reason.as_deref().unwrap().contains(part), "{:?}", kept.reason);
            assert_eq!(kept.method, "POST");
            assert_eq!(kept.target, format!("/in/{}?a=%20b", source.row.token));
            assert_eq!(kept.headers.iter().count(), headers.len());
            assert!(kept.body.is_some());
        }
        assert_eq!(door.events().await, []);
    })
    .await;
}

#[tokio::test]
async fn without_a_live_secret_nothing_is_genuine() {
    on_both(async |door| {
        let source = door.add_source_without_secret(shop("github")).await;
        assert_eq!(door.post(&source, "1", b"{}").await, 401);
        let kept = door.kept(&source).await;
        assert_eq!(kept[0].step.as_deref(), Some("key"));
    })
    .await;
}

async fn send_forged(door: &TestDoor, source: &TestSource, body: Vec<u8>) {
    let mut request = door.signed(source, "1", b"{}");
    *request.body_mut() = Body::from(body);
    assert_eq!(door.send(request).await.status, 401);
}

#[tokio::test]
async fn a_flood_of_forged_requests_fills_nothing() {
    on_both(async |door| {
        let settings = json!({"name": "shop", "scheme": "github", "keep_rejected": 40});
        let source = door.add_source(settings).await;
        let other = door.add_source(json!({"name": "other", "scheme": "github"})).await;
        for n in 0..500 {
            send_forged(door, &source, format!("[{n}]").into_bytes()).await;
        }
        send_forged(door, &other, b"[]".to_vec()).await;
        assert_eq!(door.kept(&source).await.len(), 32, "of one second, as many as fit");
        assert_eq!(door.kept(&other).await.len(), 1, "a flood at one source is none at another");

        for n in 0..20 {
            send_forged(door, &source, format!("[1,{n}]").into_bytes()).await;
        }
        let kept = door.kept(&source).await;
        assert_eq!(kept.len(), 40, "the oldest go");
        assert_eq!(kept[0].body.as_deref(), Some(&b"[1,19]"[..]));
    })
    .await;
}

#[tokio::test]
async fn refused_requests_take_ten_mebibytes_of_a_source_at_most() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        for _ in 0..14 {
            send_forged(door, &source, vec![b'x'; 1 << 20]).await;
            door.kept(&source).await;
        }
        let kept = door.kept(&source).await;
        let bytes: i64 = kept.iter().map(|row| row.size).sum();
        assert!((9 << 20..=10 << 20).contains(&bytes), "{bytes}");

        send_forged(door, &source, vec![b'x'; (1 << 20) + 1]).await;
        let newest = door.kept(&source).await.remove(0);
        assert_eq!(newest.body, None, "too large to be kept, and never cut");
    })
    .await;
}

#[tokio::test]
async fn a_source_that_keeps_no_refused_request_keeps_none() {
    on_both(async |door| {
        let settings = json!({"name": "shop", "scheme": "github", "keep_rejected": 0});
        let source = door.add_source(settings).await;
        send_forged(door, &source, b"[]".to_vec()).await;
        assert_eq!(door.states(&source).await, []);
    })
    .await;
}
