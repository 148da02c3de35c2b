//! Statements that run now and then: partitions made ahead, stored answers forgotten, limits told
//! to the doors in SQL.

use std::time::Duration;

use bytes::Bytes;
use snaphook::{
    domain::id::ApiKeyId,
    store::{
        Dialect, StoreError,
        idempotency::{IdempotencyKey, Seen},
    },
};

use super::{NOW, new_event, on_both};

#[tokio::test]
async fn days_are_made_ahead_once() {
    on_both(async |store| {
        let mut tx = store.begin_engine().await.unwrap();
        tx.add_days(7).await.unwrap(); // seven were made when the database was
        let made = tx.add_days(9).await.unwrap();
        let again = tx.add_days(9).await.unwrap();
        // A partition of events and one of attempts for each of two more days.
        let expected = if store.dialect() == Dialect::Postgres { 4 } else { 0 };
        assert_eq!((made, again), (expected, 0));
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn stored_answers_are_forgotten_by_their_age() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        let key = |text: &str| IdempotencyKey {
            api_key: ApiKeyId(1),
            route: "POST /v1/events".to_owned(),
            key: text.to_owned(),
        };
        let later = NOW + Duration::from_secs(9);
        tx.claim_idempotency(&key("old"), b"a", NOW).await.unwrap();
        tx.claim_idempotency(&key("new"), b"a", later).await.unwrap();

        assert_eq!(tx.delete_idempotency_before(later).await.unwrap(), 1);

        for (text, expected) in [("old", Seen::New), ("new", Seen::AtWork)] {
            let seen = tx.claim_idempotency(&key(text), b"a", later).await.unwrap();
            assert_eq!(seen, expected, "{text}");
        }
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_doors_in_sql_keep_to_the_limit_that_they_are_told() {
    on_both(async |store| {
        let mut tx = store.begin_engine().await.unwrap();
        tx.set_payload_limit(1_024).await.unwrap();
        tx.commit().await.unwrap();
        for (bytes, fits) in [(1_024, true), (1_025, false)] {
            let mut event = new_event("acme", "order.paid");
            event.payload = Bytes::from(vec![b'x'; bytes]);
            let accepted = store.accept(event).await;
            match accepted {
                Ok(_) => assert!(fits, "{bytes}"),
                Err(StoreError::Refused(_)) => assert!(!fits, "{bytes}"),
                Err(error) => panic!("{bytes}: {error}"),
            }
        }
    })
    .await;
}
