//! Events going in: dedup, row and fan-out in one transaction.

use bytes::Bytes;
use snaphook::{
    domain::time::Timestamp,
    store::{StoreError, events::EventFilter, page::Page},
};

use super::{add_endpoint, emit, fresh, new_event, on_both};

#[tokio::test]
async fn an_event_and_its_deliveries_are_there_with_the_commit_or_not_at_all() {
    on_both(async |store| {
        let orders = add_endpoint(store, "acme", 1, &["order.*"]).await;
        let all = add_endpoint(store, "acme", 2, &["*"]).await;
        add_endpoint(store, "acme", 3, &["invoice.paid", "order", "order.paid.*"]).await;
        add_endpoint(store, "other", 4, &["*"]).await;
        let event = new_event("acme", "order.paid");

        let mut tx = store.begin().await.unwrap();
        let undone = tx.accept(&event).await.unwrap();
        tx.rollback().await.unwrap();
        let kept = emit(store, &event).await;

        let mut rows: Vec<_> =
            fresh(store).await.iter().map(|row| (row.event_id, row.endpoint_id)).collect();
        rows.sort();
        assert_eq!(rows, [(kept.event, orders.id), (kept.event, all.id)]);
        let ids = [undone.event, kept.event];
        let found = store.read().await.unwrap().list_events_by_id(&ids).await.unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&kept.event]);
        assert_eq!(found[&kept.event].payload, event.payload, "byte for byte");
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_with_several_matching_patterns_gets_an_event_once() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["order.paid", "order.*", "*"]).await;
        emit(store, &new_event("acme", "order.paid")).await;
        assert_eq!(fresh(store).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_that_nobody_wants_is_kept() {
    on_both(async |store| {
        let accepted = emit(store, &new_event("nobody_yet", "order.paid")).await;
        let mut tx = store.read().await.unwrap();
        assert_eq!(tx.list_events_by_id(&[accepted.event]).await.unwrap().len(), 1);
        assert_eq!(fresh(store).await, []);
    })
    .await;
}

#[tokio::test]
async fn the_same_key_is_the_same_event_of_its_tenant_alone() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let mut event = new_event("acme", "order.paid");
        event.dedup = Some("order-42".to_owned());
        let first = emit(store, &event).await;
        assert!(!first.duplicate && !first.differs);

        let same = emit(store, &event).await;
        let mut other_data = event.clone();
        other_data.payload = Bytes::from_static(b"{}");
        let differs = emit(store, &other_data).await;
        let mut of_another = event.clone();
        of_another.tenant = super::tenant("other");
        let another = emit(store, &of_another).await;

        assert_eq!((same.event, same.duplicate, same.differs), (first.event, true, false));
        assert_eq!((differs.event, differs.duplicate, differs.differs), (first.event, true, true));
        assert!(another.event != first.event && !another.duplicate);
        assert_eq!(fresh(store).await.len(), 1, "delivered once");
    })
    .await;
}

#[tokio::test]
async fn ids_rise_in_the_order_in_which_a_connection_emits() {
    on_both(async |store| {
        let mut tx = store.begin().await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..50 {
            ids.push(tx.accept(&new_event("acme", "order.paid")).await.unwrap().event);
        }
        tx.ring().await.unwrap();
        tx.commit().await.unwrap();

        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        let clock = store.read().await.unwrap().clock().await.unwrap();
        let age = clock.since(ids[49].created_at());
        assert!(age.as_secs() < 60, "an id tells when it was made: {age:?} ago");
    })
    .await;
}

#[tokio::test]
async fn each_event_of_a_group_has_its_own_verdict() {
    on_both(async |store| {
        let good = new_event("acme", "order.paid");
        let mut oversize = good.clone();
        oversize.payload = Bytes::from(vec![b'x'; (1 << 20) + 1]);
        let mut keyed = good.clone();
        keyed.dedup = Some("once".to_owned());

        let results = store
            .accept_many(vec![good.clone(), oversize, keyed.clone(), keyed, good.clone()])
            .await
            .unwrap();

        assert!(matches!(&results[1], Err(StoreError::Refused(why)) if why.contains("limit")));
        let accepted: Vec<_> = [0, 2, 3, 4].map(|n| *results[n].as_ref().unwrap()).into();
        assert_eq!(
            accepted.iter().map(|one| one.duplicate).collect::<Vec<_>>(),
            [false, false, true, false]
        );
        assert_eq!(accepted[1].event, accepted[2].event);
    })
    .await;
}

#[tokio::test]
async fn a_group_of_any_size_is_told_of_each_event_in_its_order() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let mut stored = 0;
        for size in [1, 2, 3, 127, 128, 129, 255, 256, 257, 520] {
            let keyed = |n: usize| {
                let mut event = new_event("acme", "order.paid");
                event.dedup = Some(format!("{size}-{}", n.min(size / 2)));
                event
            };
            let accepted = store.accept_many((0..size).map(keyed).collect()).await.unwrap();
            let accepted: Vec<_> = accepted.into_iter().map(Result::unwrap).collect();

            assert_eq!(accepted.len(), size);
            let (first, repeats) = accepted.split_at(size / 2 + 1);
            assert!(first.is_sorted_by(|one, next| one.event < next.event), "of {size}");
            assert!(first.iter().all(|one| !one.duplicate), "of {size}");
            let last = first.last().unwrap().event;
            assert!(repeats.iter().all(|one| one.duplicate && one.event == last), "of {size}");
            stored += first.len();
        }
        assert_eq!(fresh(store).await.len(), stored);
    })
    .await;
}

#[tokio::test]
async fn whoever_writes_next_finds_nothing_of_what_was_undone() {
    on_both(async |store| {
        let mut oversize = new_event("acme", "order.paid");
        oversize.payload = Bytes::from(vec![b'x'; (1 << 20) + 1]);
        for _ in 0..3 {
            let mut dropped = store.begin().await.unwrap();
            dropped.accept(&new_event("acme", "order.paid")).await.unwrap();
            drop(dropped);
            assert!(store.accept(oversize.clone()).await.is_err());
            emit(store, &new_event("acme", "order.paid")).await;
        }
        let mut tx = store.read().await.unwrap();
        let found = tx.list_events(&EventFilter::default(), Page::first(10)).await.unwrap();
        assert_eq!(found.rows.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn callers_that_arrive_together_all_hear_of_their_own_event() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let calls = (0..40).map(|_| store.accept(new_event("acme", "order.paid")));
        let accepted = futures_util::future::join_all(calls).await;

        let mut ids: Vec<_> = accepted.iter().map(|one| one.as_ref().unwrap().event).collect();
        ids.sort();
        ids.dedup();
        let rows: Vec<_> = fresh(store).await.iter().map(|row| row.event_id).collect();
        assert_eq!(rows.len(), 40);
        assert_eq!(ids.len(), 40);
    })
    .await;
}

#[tokio::test]
async fn all_that_an_emitter_says_is_kept() {
    on_both(async |store| {
        let mut event = new_event("acme", "order.paid");
        event.content_type = Some("text/plain".to_owned());
        event.version = Some("2024-01".to_owned());
        event.occurred_at = Some(Timestamp(1_700_000_000_123_000));
        event.traceparent =
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
        event.checked = true;

        let id = emit(store, &event).await.event;

        let mut tx = store.read().await.unwrap();
        let kept = tx.list_events_by_id(&[id]).await.unwrap().remove(&id).unwrap();
        assert_eq!((kept.tenant.as_str(), kept.event_type.as_str()), ("acme", "order.paid"));
        assert_eq!(kept.content_type, event.content_type);
        assert_eq!(kept.version, event.version);
        assert_eq!(kept.occurred_at, event.occurred_at);
        assert_eq!(kept.traceparent, event.traceparent);
        assert!(kept.checked);
    })
    .await;
}

#[tokio::test]
async fn a_database_that_answers_says_so() {
    on_both(async |store| store.ping().await.unwrap()).await;
}
