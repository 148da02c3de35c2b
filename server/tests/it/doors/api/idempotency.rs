//! `Idempotency-Key` on every POST.

use std::time::Duration;

use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};

use super::{Answer, TestApi, on_both};

async fn post(api: &TestApi, key: &str, path: &str, body: &Value) -> Answer {
    let request = Request::post(path)
        .header(header::AUTHORIZATION, format!("Bearer {}", api.operator))
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body.to_string()))
        .unwrap();
    api.send(request).await
}

const PATH: &str = "/v1/tenants/acme/endpoints";

#[tokio::test]
async fn a_request_sent_again_is_answered_and_not_done_again() {
    on_both(async |api| {
        let body = json!({"url": "https://example.com/"});

        let first = post(api, "k-1", PATH, &body).await;
        let again = post(api, "k-1", PATH, &body).await;

        assert_eq!((first.status, &first.bytes), (again.status, &again.bytes), "the secret too");
        assert!(first.headers.get("idempotency-replayed").is_none());
        assert_eq!(again.headers["idempotency-replayed"], "true");
        assert_eq!(api.get(PATH).await.json()["data"].as_array().unwrap().len(), 1);
        post(api, "k-2", PATH, &body).await.expect(201);
        assert_eq!(api.get(PATH).await.json()["data"].as_array().unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_good_for_one_request_one_path_and_a_day() {
    on_both(async |api| {
        let body = json!({"url": "https://example.com/"});
        post(api, "k", PATH, &body).await.expect(201);

        let other = post(api, "k", PATH, &json!({"url": "https://example.com/other"})).await;
        assert_eq!(other.problem(422), "idempotency_key_reused");
        let event = json!({"tenant": "acme", "type": "a", "data": 1});
        post(api, "k", "/v1/events", &event).await.expect(202);
        api.world.pass(Duration::from_hours(24));
        let next_day = post(api, "k", PATH, &json!({"url": "https://example.com/other"})).await;
        next_day.expect(201);
    })
    .await;
}

#[tokio::test]
async fn what_was_refused_can_be_corrected_under_its_key() {
    on_both(async |api| {
        post(api, "k", PATH, &json!({"url": "http://10.0.0.1/"})).await.problem(422);
        post(api, "k", PATH, &json!({"url": "https://example.com/"})).await.expect(201);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_at_work_is_not_begun_twice() {
    use snaphook::store::idempotency::IdempotencyKey;
    on_both(async |api| {
        let event = json!({"tenant": "acme", "type": "a", "data": 1});
        let first = post(api, "k", "/v1/events", &event).await.expect(202);
        // As if the process had died after the event was stored and before its answer was.
        let mut tx = api.store.begin().await.unwrap();
        let keys = tx.list_api_keys(None, snaphook::store::page::Page::first(9)).await.unwrap();
        let key = IdempotencyKey {
            api_key: keys.rows[0].id,
            route: "POST /v1/events".to_owned(),
            key: "k".to_owned(),
        };
        tx.delete_idempotency(&key).await.unwrap();
        let now = snaphook::world::World::now(&*api.world);
        let seen = tx.claim_idempotency(&key, &digest_of(&event), now).await.unwrap();
        assert_eq!(seen, snaphook::store::idempotency::Seen::New);
        tx.commit().await.unwrap();

        let answer = post(api, "k", "/v1/events", &event).await;
        assert_eq!(answer.problem(409), "idempotency_key_in_use");
        api.world.pass(Duration::from_mins(3));
        let again = post(api, "k", "/v1/events", &event).await.expect(202);

        assert_eq!(again["id"], first["id"], "the event is found, not stored twice");
        assert_eq!(api.get("/v1/events").await.json()["data"].as_array().unwrap().len(), 1);
    })
    .await;
}

fn digest_of(body: &Value) -> Vec<u8> {
    let text = format!("application/json\n\n{body}");
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    on_both(async |api| {
        let body = json!({"url": "https://example.com/"});
        for key in ["", &"k".repeat(257), "k\u{e9}"] {
            let answer = post(api, key, PATH, &body).await;
            assert_eq!(answer.problem(400), "invalid_idempotency_key", "{key:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn of_requests_that_come_together_under_one_key_one_is_done() {
    on_both(async |api| {
        let body = json!({"url": "https://example.com/"});
        let together = (0..12).map(|_| post(api, "k", PATH, &body));
        let answers = futures_util::future::join_all(together).await;

        let done = answers.iter().filter(|answer| answer.status == 201).collect::<Vec<_>>();
        assert!(!done.is_empty() && done.iter().all(|one| one.bytes == done[0].bytes));
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            assert_eq!(answer.problem(409), "idempotency_key_in_use");
        }
        assert_eq!(api.get(PATH).await.json()["data"].as_array().unwrap().len(), 1);
    })
    .await;
}
