//! What consumers pull: which rows are theirs to take, and in which order.

use std::time::Duration;

use snaphook::{
    domain::{
        attempt::Mark,
        endpoint_kind::EndpointKind,
        id::{DeliveryId, EventId},
        retry::{Jitter, RetrySchedule},
        time::Timestamp,
    },
    store::{
        Store,
        endpoints::EndpointRow,
        pulls::{Pull, Pulled},
    },
};

use super::{emit, fresh, new_endpoint, new_event, on_both};

/// An endpoint that is pulled, with as many events.
async fn queue(store: &Store, events: usize) -> (EndpointRow, Vec<EventId>) {
    let mut row = new_endpoint("acme", 1, &["*"]);
    row.settings.kind = EndpointKind::Queue;
    row.settings.url.clear();
    let mut tx = store.begin().await.unwrap();
    tx.add_endpoint(&mut row).await.unwrap();
    tx.commit().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..events {
        ids.push(emit(store, &new_event("acme", "order.paid")).await.event);
    }
    (row, ids)
}

fn events(found: &[Pulled]) -> Vec<EventId> {
    found.iter().map(|pulled| pulled.row.event_id).collect()
}

async fn clock(store: &Store) -> Timestamp {
    store.read().await.unwrap().clock().await.unwrap()
}

#[tokio::test]
async fn rows_to_be_pulled_are_no_nodes_to_send() {
    on_both(async |store| {
        let (row, ids) = queue(store, 3).await;
        let now = clock(store).await;

        assert_eq!(fresh(store).await, []);
        let mut tx = store.begin().await.unwrap();
        assert!(tx.has_pulled(row.id, now).await.unwrap());
        assert!(!tx.has_pulled(row.id, now - Duration::from_mins(1)).await.unwrap(), "not due");
        assert_eq!(events(&tx.list_pulled(row.id, now, 2).await.unwrap()), ids[..2]);
        let first = tx.find_pulled_first(row.id).await.unwrap().unwrap();
        assert_eq!((first.row.event_id, first.payload_bytes), (ids[0], 12));
        tx.rollback().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_claimed_row_is_due_again_when_its_lease_ends_and_keeps_its_place_when_settled() {
    on_both(async |store| {
        let (endpoint, ids) = queue(store, 1).await;
        let now = clock(store).await;
        let (until, later) = (now + Duration::from_secs(30), now + Duration::from_secs(31));
        let id = DeliveryId { event: ids[0], endpoint: endpoint.id };
        let mut tx = store.begin().await.unwrap();
        let pulled = tx.find_pulled(id).await.unwrap().unwrap();
        assert!(pulled.claimed_at.is_none() && !pulled.is_for(1));
        tx.set_claimed(&pulled.row, now, until).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.list_pulled(endpoint.id, now, 9).await.unwrap(), []);
        assert_eq!(tx.list_lease_ended(now, 9).await.unwrap(), []);
        let claimed = tx.find_pulled(id).await.unwrap().unwrap();
        assert_eq!(
            (claimed.claimed_at, claimed.is_for(1), claimed.is_for(2)),
            (Some(now), true, false)
        );
        let over = tx.list_lease_ended(later, 9).await.unwrap().pop().unwrap();
        let ladder = (&RetrySchedule::default(), Jitter::NONE);
        let ended = over.end(Pull::LeaseEnded, None, ladder, (later, 0), "{}".to_owned());
        assert_eq!((ended.mark, ended.took), (Mark::Retry, Duration::from_secs(31)));
        assert_eq!(tx.complete(&[ended], later).await.unwrap().late.len(), 0);
        tx.commit().await.unwrap();

        let mut tx = store.begin().await.unwrap();
        let due = later + Duration::from_secs(5);
        assert_eq!(tx.list_pulled(endpoint.id, later, 9).await.unwrap(), [], "it is paused");
        let again = tx.list_pulled(endpoint.id, due, 9).await.unwrap().pop().unwrap();
        assert_eq!((again.claimed_at, again.row.attempt, again.row.rung), (None, 1, 1));
        tx.rollback().await.unwrap();
    })
    .await;
}
