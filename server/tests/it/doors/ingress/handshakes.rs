//! Handshakes as the providers make them, and requests for which something must be fetched first.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{Method, Request};
use serde_json::{Value, json};
use snaphook::{
    domain::{source::Token, time::Timestamp},
    store::seal::Place,
};

use super::{Answer, TestDoor, TestSource, on_both, shop};
use crate::support::{
    databases,
    simulated::{Reply, Simulated, keyring},
};

/// When the requests were recorded.
const RECORDED: Timestamp = Timestamp::from_seconds(1_750_000_000);

const CASES: &str = include_str!("../../../../../signature/tests/handshakes.json");

fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).unwrap()
}

fn case(name: &str) -> Value {
    cases().into_iter().find(|case| case["name"] == name).unwrap()
}

fn vector(text: &str, name: &str) -> Value {
    let all: Vec<Value> = serde_json::from_str(text).unwrap();
    all.into_iter().find(|case| case["name"] == name).unwrap()
}

/// A recorded request, to this source.
fn request(source: &TestSource, recorded: &Value) -> Request<Body> {
    let url = recorded["url"].as_str().unwrap_or_default();
    let query = url.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let method = recorded["method"].as_str().unwrap_or("POST");
    let mut request =
        Request::builder().method(method).uri(format!("/in/{}{query}", source.row.token));
    for pair in recorded["headers"].as_array().unwrap() {
        request = request.header(pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
    }
    let body = BASE64_STANDARD.decode(recorded["body_base64"].as_str().unwrap()).unwrap();
    request.body(Body::from(body)).unwrap()
}

/// The source that a recorded handshake is for.
async fn source_of(door: &TestDoor, case: &Value) -> TestSource {
    let provider = case["provider"].as_str().unwrap();
    let name = case["name"].as_str().unwrap().replace('/', "_");
    let mut settings = json!({"name": name, "scheme": provider});
    settings["public_key"] = case["public_key"].clone();
    let source = door.add_source_without_secret(settings).await;
    match (provider, case["secret"].as_str()) {
        ("meta", Some(token)) => {
            door.add_secret(&source, "app-secret").await;
            door.set(source, |row| {
                row.settings.verify_token = Some(Token(token.to_owned()));
                let private = serde_json::to_vec(&row.settings.take_private()).unwrap();
                let place = Place::of_source(&row.tenant, row.id);
                row.sealed = Some(keyring().seal(&private, place));
            })
            .await
        }
        (_, Some(secret)) => {
            door.add_secret(&source, secret).await;
            source
        }
        (_, None) => source,
    }
}

fn assert_is(answer: &Answer, expected: &Value, name: &Value) {
    assert_eq!(u64::from(answer.status.as_u16()), expected["status"].as_u64().unwrap(), "{name}");
    for pair in expected["headers"].as_array().unwrap() {
        let found = &answer.headers[pair[0].as_str().unwrap()];
        assert_eq!(found.to_str().unwrap(), pair[1].as_str().unwrap(), "{name}");
    }
    if let Some(body) = expected["body_base64"].as_str() {
        assert_eq!(BASE64_STANDARD.encode(&answer.body), body, "{name}");
    }
    if expected["body_json"].is_object() {
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body, expected["body_json"], "{name}");
    }
    if !answer.body.is_empty() {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{name}");
    }
}

#[tokio::test]
async fn every_recorded_handshake_is_answered_and_none_is_an_event() {
    on_both(async |door| {
        door.world.set_to(RECORDED);
        for case in cases() {
            let source = source_of(door, &case).await;
            let answer = door.send(request(&source, &case["request"])).await;
            assert_is(&answer, &case["expect_response"], &case["name"]);
        }
        assert!(door.events().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_secret_of_a_handshake_verifies_what_comes_next_and_is_asked_for_once() {
    on_both(async |door| {
        door.world.set_to(RECORDED);
        let case = case("asana/handshake/x_hook_secret");
        let source = source_of(door, &case).await;
        let event = |secret: &str| {
            let body = br#"{"events":[{"action":"changed"}]}"#;
            let verifier = source.row.settings.verifier(&[secret]).unwrap();
            let signed =
                verifier.sign(&snaphook_signature::Received::new(&[], body), "", 0).unwrap();
            let mut request = Request::post(format!("/in/{}", source.row.token));
            for (name, value) in &signed.headers {
                request = request.header(name, value);
            }
            request.body(Body::from(&body[..])).unwrap()
        };
        let first = case["store_secret"].as_str().unwrap();
        assert_eq!(door.send(event(first)).await.status, 401, "before");
        assert_eq!(door.send(request(&source, &case["request"])).await.status, 200);
        assert_eq!(door.send(event(first)).await.status, 200, "after");

        let mut second = case["request"].clone();
        second["headers"][0][1] = json!("f".repeat(64));
        let refused = door.send(request(&source, &second)).await;
        assert_eq!(refused.status, 401, "nobody waits for another");
        assert!(refused.headers.get("x-hook-secret").is_none());
        assert_eq!(door.send(event(&"f".repeat(64))).await.status, 401);

        let source_row = source.row.clone();
        let armed = door
            .set(TestSource { row: source_row }, |row| {
                row.armed_until = Some(RECORDED + Duration::from_hours(1));
            })
            .await;
        assert_eq!(door.send(request(&armed, &second)).await.status, 200, "armed");
        assert_eq!(door.send(event(&"f".repeat(64))).await.status, 200);
        assert_eq!(door.send(event(first)).await.status, 200, "the first is live too");
        second["headers"][0][1] = json!("e".repeat(64));
        assert_eq!(door.send(request(&armed, &second)).await.status, 401, "armed for one");
        assert_eq!(door.events().await.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn of_two_first_handshakes_at_once_one_brings_the_secret() {
    on_both(async |door| {
        door.world.set_to(RECORDED);
        let case = case("asana/handshake/x_hook_secret");
        let source = source_of(door, &case).await;
        let requests = (0..8).map(|number| {
            let mut one = case["request"].clone();
            one["headers"][0][1] = json!(format!("{number:064}"));
            door.send(request(&source, &one))
        });
        let answers = futures_util::future::join_all(requests).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        let mut tx = door.store.read().await.unwrap();
        assert_eq!(tx.list_live_source_secrets(source.row.id, RECORDED).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_handshake_that_is_refused_is_kept_with_what_failed() {
    on_both(async |door| {
        door.world.set_to(RECORDED);
        let case = case("meta/handshake/hub_challenge_wrong_token");
        let source = source_of(door, &case).await;
        assert_eq!(door.send(request(&source, &case["request"])).await.status, 403);
        let kept = door.kept(&source).await;
        assert_eq!(kept[0].step.as_deref(), Some("handshake"));
        assert!(kept[0].reason.as_deref().unwrap().contains("verify token"));
    })
    .await;
}

#[tokio::test]
async fn methods_that_no_handshake_uses_are_refused() {
    on_both(async |door| {
        for (scheme, method, expected, why) in [
            ("stripe", Method::GET, 405, "it has no handshake"),
            ("dropbox", Method::GET, 405, "no challenge"),
            ("dropbox", Method::HEAD, 405, "another method than its handshake's"),
            ("trello", Method::HEAD, 200, "its handshake"),
            ("trello", Method::PUT, 405, "nobody's"),
        ] {
            let settings = json!({"name": format!("{scheme}_{method}"), "scheme": scheme});
            let source = door.add_source(settings).await;
            let request = Request::builder()
                .method(&method)
                .uri(format!("/in/{}", source.row.token))
                .body(Body::empty())
                .unwrap();
            assert_eq!(door.send(request).await.status, expected, "{scheme} {method}: {why}");
        }
    })
    .await;
}

const SNS: &str = include_str!("../../../../../signature/tests/vectors/aws_sns.json");
const PAYPAL: &str = include_str!("../../../../../signature/tests/vectors/paypal.json");
const PLAID: &str = include_str!("../../../../../signature/tests/vectors/plaid.json");

/// A door in a world where hosts publish these texts, or answer nothing while it is down.
async fn door_where(
    database: &databases::Database,
    published: Vec<(&'static str, String)>,
) -> (TestDoor, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let world = Simulated::with(move |url, _| {
        let found = published.iter().find(|(host, _)| url.contains(host));
        match found.filter(|_| !is_down.load(Ordering::SeqCst)) {
            Some((_, text)) => Reply::Says(200, text.clone()),
            None => Reply::Status(500),
        }
    });
    world.set_to(RECORDED);
    (TestDoor::on(database.open().await, world), down)
}

/// The same with one letter of its body changed.
fn forged(recorded: &Value) -> Value {
    let mut forged = recorded.clone();
    let mut body = BASE64_STANDARD.decode(forged["body_base64"].as_str().unwrap()).unwrap();
    let last = body.iter().rposition(u8::is_ascii_lowercase).unwrap();
    body[last] ^= 1;
    forged["body_base64"] = json!(BASE64_STANDARD.encode(body));
    forged
}

#[tokio::test]
async fn what_a_provider_publishes_is_fetched_once_and_while_it_cannot_be_had_it_shall_try_again() {
    let sns = vector(SNS, "aws_sns/good_v2_sha256");
    let paypal = vector(PAYPAL, "paypal/good");
    let plaid = vector(PLAID, "plaid/good");
    let key =
        json!({"key": serde_json::from_str::<Value>(plaid["secret"].as_str().unwrap()).unwrap()});
    databases::on_both(async |database| {
        let published = vec![
            ("amazonaws.com", sns["secret"].as_str().unwrap().to_owned()),
            ("paypal.com", paypal["public_key"].as_str().unwrap().to_owned()),
            ("plaid.com", key.to_string()),
        ];
        let (door, down) = door_where(database, published).await;
        for (vector, scheme, secret, public_key, url) in [
            (
                &sns,
                "aws_sns",
                "arn:aws:sns:us-west-2:123456789012:MyTopic",
                None,
                "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-",
            ),
            (
                &paypal,
                "paypal",
                paypal["secret"].as_str().unwrap(),
                None,
                "https://api.paypal.com/v1/notifications/certs/",
            ),
            (
                &plaid,
                "plaid",
                "the API's secret",
                Some("client@sandbox"),
                "https://sandbox.plaid.com/webhook_verification_key/get",
            ),
        ] {
            down.store(true, Ordering::SeqCst);
            let before = door.world.requests().len();
            let settings = json!({"name": scheme, "scheme": scheme, "public_key": public_key});
            let source = door.add_source_without_secret(settings).await;
            door.add_secret(&source, secret).await;
            let first = door.send(request(&source, vector)).await;
            assert_eq!(first.status, 503, "{scheme}: it cannot be had");
            assert!(first.headers.contains_key("retry-after"));
            assert!(door.kept(&source).await.is_empty(), "{scheme}: nothing is said of it");
            down.store(false, Ordering::SeqCst);
            door.world.pass(Duration::from_secs(5));
            assert_eq!(door.send(request(&source, vector)).await.status, 200, "{scheme}");
            assert_eq!(door.send(request(&source, vector)).await.status, 200, "{scheme}: again");
            let asked = door.world.requests().split_off(before);
            assert_eq!(asked.len(), 2, "{scheme}");
            assert!(asked.iter().all(|asked| asked.url.starts_with(url) && !asked.internal));

            assert_ne!(
                door.send(request(&source, &forged(vector))).await.status,
                200,
                "{scheme}: forged"
            );
        }
        door.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_subscription_of_sns_is_confirmed_by_fetching_its_page() {
    let confirmation = vector(SNS, "aws_sns/subscription_confirmation");
    databases::on_both(async |database| {
        let certificate = confirmation["secret"].as_str().unwrap().to_owned();
        let (door, down) =
            door_where(database, vec![("amazonaws.com", "confirmed".to_owned())]).await;
        let source = door.add_source_without_secret(shop("aws_sns")).await;
        door.add_secret(&source, &certificate).await; // so that nothing else is fetched
        let answer = door.send(request(&source, &confirmation)).await;
        assert_eq!(answer.status, 503, "the page does not answer");
        down.store(false, Ordering::SeqCst);
        assert_eq!(door.send(request(&source, &confirmation)).await.status, 200);
        let asked = door.world.requests();
        assert_eq!(asked.len(), 2);
        let confirms = "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription";
        assert!(asked[1].url.starts_with(confirms), "{}", asked[1].url);
        assert_eq!(asked[1].method, Method::GET);
        assert!(door.events().await.is_empty());
        door.store.close().await;
    })
    .await;
}
