//! Faults that others' receivers had, with the inputs that showed them. `tests/field-cases.md` has
//! the list.

use axum::body::Body;
use http::{HeaderValue, Request};
use serde_json::json;
use snaphook::domain::request_state::RequestState;

use super::{TestDoor, TestSource, on_both, shop};

/// The same request with this header, instead of its own if it has one.
fn with(mut request: Request<Body>, name: &'static str, value: &'static str) -> Request<Body> {
    request.headers_mut().insert(name, HeaderValue::from_static(value));
    request
}

/// A genuine request of GitHub's.
fn github(door: &TestDoor, source: &TestSource, id: &'static str) -> Request<Body> {
    let request = door.signed(source, "", br#"{"action":"opened"}"#);
    with(with(request, "x-github-delivery", id), "x-github-event", "issues")
}

#[tokio::test]
async fn what_is_forged_is_refused_before_its_body_is_looked_into() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        let deep = "[".repeat(200_000);
        for (body, why) in [(&*deep, "deep"), ("{\"a\":", "no JSON"), ("", "nothing")] {
            let mut request = door.signed(&source, "", b"another body");
            *request.body_mut() = Body::from(body.to_owned());
            let answer = door.send(request).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (401, 0), "{why}");
        }
    })
    .await;
}

/// Some providers send wrong signatures on purpose, among right ones.
#[tokio::test]
async fn probes_with_right_wrong_and_no_signatures_are_told_apart() {
    on_both(async |door| {
        for scheme in ["github", "stripe", "slack", "shopify", "twilio", "mailgun", "telegram"] {
            let settings = json!({"name": scheme, "scheme": scheme});
            let source = door.add_source(settings).await;
            for (number, right) in [true, false, true, false, false].into_iter().enumerate() {
                let body = format!("{{\"n\":{number}}}");
                let mut request = door.signed(&source, "", body.as_bytes());
                if !right && scheme == "mailgun" {
                    *request.body_mut() = Body::from(body); // its signature is in the body
                } else if !right {
                    let ours = request.headers().keys().find(|name| *name != "content-type");
                    let name = ours.unwrap().clone();
                    request.headers_mut().remove(name);
                }
                let expected = if right { 200 } else { 401 };
                assert_eq!(door.send(request).await.status, expected, "{scheme} {number}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_mark_of_a_retry_decides_nothing() {
    on_both(async |door| {
        let source = door.add_source(shop("slack")).await;
        let body = br#"{"type":"event_callback","event_id":"Ev1"}"#;
        for _ in 0..2 {
            let request = door.signed(&source, "", body);
            let request = with(request, "x-slack-retry-num", "1");
            let request = with(request, "x-slack-retry-reason", "http_timeout");
            assert_eq!(door.send(request).await.status, 200);
        }
        assert_eq!(door.events().await.len(), 1, "it is new although it says that it is not");
    })
    .await;
}

#[tokio::test]
async fn one_message_under_many_ids_is_one_event_by_what_its_owner_says() {
    on_both(async |door| {
        let mut settings = shop("slack");
        settings["id_from"] = json!(["{json:/event/channel}-{json:/event/ts}"]);
        settings["id_scope"] = json!("object");
        let source = door.add_source(settings.clone()).await;
        let body = |id: &str, ts: &str| {
            format!(r#"{{"event_id":"{id}","event":{{"channel":"C1","ts":"{ts}"}}}}"#)
        };
        assert_eq!(door.post(&source, "", body("Ev1", "1.5").as_bytes()).await, 200);
        assert_eq!(door.post(&source, "", body("Ev1", "1.5").as_bytes()).await, 200);
        assert_eq!(door.events().await.len(), 1);

        settings["name"] = json!("chat");
        settings["id_scope"] = json!("event");
        let source = door.add_source(settings).await;
        for id in ["Ev1", "Ev2", "Ev3"] {
            assert_eq!(door.post(&source, "", body(id, "1.5").as_bytes()).await, 200);
        }
        assert_eq!(door.events().await.len(), 2, "one more");
    })
    .await;
}

/// GitHub signs the body alone: type and id are whatever the sender of a copy writes.
#[tokio::test]
async fn a_copy_under_another_type_or_id_goes_nowhere() {
    on_both(async |door| {
        let source = door.add_source(shop("github")).await;
        door.add_endpoint("a").await;
        assert_eq!(door.send(github(door, &source, "d-1")).await.status, 200);
        let renamed = with(github(door, &source, "d-1"), "x-github-event", "deployment");
        assert_eq!(door.send(renamed).await.status, 200, "its id was seen");
        let copied = with(github(door, &source, "d-2"), "x-github-event", "deployment");
        assert_eq!(door.send(copied).await.status, 200, "its signature was seen");
        assert_eq!(door.events().await.len(), 1);
        assert_eq!(door.states(&source).await, [RequestState::ReplaySuspected]);
        assert_eq!(door.deliver().await, 1);
    })
    .await;
}
