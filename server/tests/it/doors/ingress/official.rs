//! Providers sign with their own libraries; a handler verifies with them what we pass on.

use axum::body::Body;
use http::Request;
use serde_json::json;
use snaphook::world::World as _;

use super::{TestDoor, TestSource, on_both};
use crate::support::oracle::{Library, Order, Question, Recorded, assert_accepted, sign};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// Spaces, digits and letters that a parser would not give back as they are.
const BODY: &str = r#"{"id": "evt_1",  "type":"charge.paid","event_id":"Ev1","event":{"type":"message"},"n":1.10,"note":"späti ☕ \u001B[0m \/"}"#;

const LIBRARIES: [(Library, &str, &str); 5] = [
    (Library::Stripe, "stripe", "charge.paid"),
    (Library::GitHub, "github", "push"),
    (Library::StandardWebhooks, "standardwebhooks", "charge.paid"),
    (Library::Svix, "svix", "charge.paid"),
    (Library::Slack, "slack", "message"),
];

fn request(source: &TestSource, headers: &[(String, String)]) -> Request<Body> {
    let mut request = Request::post(format!("/in/{}", source.row.token))
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Body::from(BODY)).unwrap()
}

/// What the endpoint got that wants what this source takes.
fn forwarded(door: &TestDoor, host: &str) -> Recorded {
    let requests = door.world.requests();
    let url = format!("https://{host}.example/");
    let mut ours = requests.iter().filter(|request| *request.url == *url);
    let request = ours.next().expect("it was passed on");
    assert!(ours.next().is_none(), "once");
    let headers = request.headers.iter();
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
    Recorded { headers, body: request.body.to_vec() }
}

#[tokio::test]
async fn what_official_libraries_sign_is_taken_once_and_passed_on_so_that_they_accept_it() {
    on_both(async |door| {
        let now = door.world.now().seconds();
        let orders: Vec<_> = LIBRARIES
            .iter()
            .map(|(library, ..)| Order {
                library: *library,
                secret: SECRET.to_owned(),
                id: "msg_1".to_owned(),
                now,
                body: BODY.as_bytes().to_vec(),
            })
            .collect();
        let mut questions = Vec::new();
        for ((library, scheme, event_type), signatures) in LIBRARIES.iter().zip(sign(&orders)) {
            let source =
                door.add_source_without_secret(json!({"name": scheme, "scheme": scheme})).await;
            door.add_secret(&source, SECRET).await;
            let wanted = format!("{scheme}.{event_type}");
            door.add_endpoint_for(scheme, &wanted).await;
            for headers in &signatures {
                for _ in 0..2 {
                    let answer = door.send(request(&source, headers)).await;
                    assert_eq!(answer.status, 200, "{library:?}");
                }
            }
            door.deliver().await;
            let request = forwarded(door, scheme);
            assert_eq!(request.body, BODY.as_bytes(), "{library:?}: byte for byte");
            let secret = SECRET.to_owned();
            questions.push(Question { request, library: *library, secret, now });
        }
        assert_eq!(door.events().await.len(), LIBRARIES.len());
        assert_accepted(&questions);
    })
    .await;
}
