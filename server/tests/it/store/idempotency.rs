//! Answers that are kept for requests that are sent again.

use std::time::Duration;

use snaphook::{
    domain::id::ApiKeyId,
    store::idempotency::{IdempotencyKey, Seen},
};

use super::{NOW, on_both};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey {
        api_key: ApiKeyId(1),
        route: "POST /v1/events".to_owned(),
        key: text.to_owned(),
    }
}

#[tokio::test]
async fn a_request_is_taken_on_once_and_its_answer_is_kept_for_a_day() {
    on_both(async |store| {
        let answered = Seen::Answered { status: 201, body: b"sealed".to_vec() };
        let mut tx = store.begin().await.unwrap();
        for (digest, later, expected, why) in [
            ("a", 0, Seen::New, "the first"),
            ("a", 1, Seen::AtWork, "not answered yet"),
            ("b", 1, Seen::Differs, "another request under its key"),
            ("a", 120, Seen::New, "given up"),
        ] {
            let now = NOW + Duration::from_secs(later);
            let seen = tx.claim_idempotency(&key("k"), digest.as_bytes(), now).await.unwrap();
            assert_eq!(seen, expected, "{why}");
        }
        tx.finish_idempotency(&key("k"), 201, b"sealed").await.unwrap();
        for (digest, later, expected, why) in [
            ("a", 121, answered.clone(), "answered"),
            ("b", 121, Seen::Differs, "another request"),
            ("a", 120 + 86_399, answered, "just within a day"),
            ("b", 120 + 86_400, Seen::New, "a day later the key is free"),
        ] {
            let now = NOW + Duration::from_secs(later);
            let seen = tx.claim_idempotency(&key("k"), digest.as_bytes(), now).await.unwrap();
            assert_eq!(seen, expected, "{why}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_that_came_to_nothing_can_be_sent_again() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.claim_idempotency(&key("k"), b"a", NOW).await.unwrap(), Seen::New);
        tx.delete_idempotency(&key("k")).await.unwrap();
        assert_eq!(tx.claim_idempotency(&key("k"), b"b", NOW).await.unwrap(), Seen::New);
        let elsewhere = IdempotencyKey { route: "POST /v1/keys".to_owned(), ..key("k") };
        assert_eq!(tx.claim_idempotency(&elsewhere, b"c", NOW).await.unwrap(), Seen::New);
    })
    .await;
}
