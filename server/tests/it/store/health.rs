//! Health as it is kept: by the owner of the shard alone, and not over what was reset.

use std::time::Duration;

use snaphook::{
    domain::{
        circuit::{Circuit, CircuitState},
        delivery::Cause,
        duration::Text,
        health::{Health, HealthState},
        id::EventId,
    },
    store::{EndpointRow, HealthRecord, SHARDS, Store, deliveries::HeldBy},
};

use super::{NOW, add_endpoint, emit, fresh, new_event};
use crate::support::databases::{self, Kind};

fn resting() -> Health {
    let (since, wait) = (NOW, Text(Duration::from_secs(30)));
    let circuit = Circuit::Open { since, probe_at: NOW + wait.0, wait, probed: None };
    let mut health = Health::default();
    (health.failing_since, health.last_failure_at) = (Some(NOW), Some(NOW));
    health.circuit = circuit;
    health
}

async fn find(store: &Store, row: &EndpointRow) -> EndpointRow {
    store.read().await.unwrap().find_endpoint(row.id).await.unwrap().unwrap()
}

#[tokio::test]
async fn only_the_owner_of_the_shard_writes_and_not_over_what_changed_since() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let row = add_endpoint(&store, "acme", 1, &["*"]).await;
        let mut tx = store.begin().await.unwrap();
        let lease = NOW + Duration::from_secs(45);
        tx.claim_free_shards("one", NOW, lease, i64::from(SHARDS)).await.unwrap();
        tx.commit().await.unwrap();
        let record =
            |seen, lease| HealthRecord { endpoint: row.id, seen, lease, health: resting() };
        let strangers = database.kind == Kind::Postgres; // SQLite has one node
        for (node, record, expected, why) in [
            ("one", record(row.epoch - 1, 1), false, "it changed since"),
            ("two", record(row.epoch, 1), !strangers, "not its shard"),
            ("one", record(row.epoch, 0), !strangers, "not its lease any more"),
            ("one", record(row.epoch, 1), true, "its own"),
        ] {
            let mut tx = store.begin_engine().await.unwrap();
            let written = tx.set_health(node, &[record]).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(written == [row.id], expected, "{why}");
        }
        let kept = find(&store, &row).await;
        assert_eq!((kept.health.failing_since, kept.epoch), (Some(NOW), row.epoch), "no new epoch");
        assert_eq!(kept.health.circuit, resting().circuit);

        let mut tx = store.begin().await.unwrap();
        tx.reset_health(row.id).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(find(&store, &row).await.health, Health::default());
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_an_endpoint_that_rests_is_held_by_its_circuit() {
    super::on_both(async |store| {
        let row = add_endpoint(store, "acme", 1, &["*"]).await;
        emit(store, &new_event("acme", "order.paid")).await;
        let health = resting();
        let record = HealthRecord { endpoint: row.id, seen: row.epoch, lease: 1, health };
        let mut tx = store.begin().await.unwrap();
        let lease = NOW + Duration::from_secs(45);
        tx.claim_free_shards("one", NOW, lease, i64::from(SHARDS)).await.unwrap();
        tx.set_health("one", &[record]).await.unwrap();
        tx.commit().await.unwrap();

        let delivery = fresh(store).await.pop().unwrap();
        let id = snaphook::domain::id::DeliveryId {
            event: delivery.event_id,
            endpoint: delivery.endpoint_id,
        };
        let mut tx = store.read().await.unwrap();
        let shown = tx.find_delivery(None, id).await.unwrap().unwrap();
        assert_eq!((shown.standing.name(), shown.held_by), ("held", Some(HeldBy::Circuit)));
        assert_eq!(tx.count_held().await.unwrap(), 1);
        assert_eq!(tx.count_queue(delivery.due_at).await.unwrap().due, 0, "held is not due");
        let counts = tx.count_endpoint_health().await.unwrap();
        assert_eq!(counts, [(HealthState::Failing, CircuitState::Open, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_lane_is_read_in_the_order_of_events_from_behind_any_of_them() {
    super::on_both(async |store| {
        let row = add_endpoint(store, "acme", 1, &["*"]).await;
        for _ in 0..4 {
            emit(store, &new_event("acme", "order.paid")).await;
        }
        let mut rows = fresh(store).await;
        let mut tx = store.begin_engine().await.unwrap();
        tx.park(&rows).await.unwrap();
        tx.commit().await.unwrap();
        rows.sort_by_key(|row| row.event_id);
        let events: Vec<EventId> = rows.iter().map(|row| row.event_id).collect();

        let mut tx = store.read_engine().await.unwrap();
        for (after, limit, expected) in [
            (EventId(0), 9, &events[..]),
            (EventId(0), 2, &events[..2]),
            (events[1], 9, &events[2..]),
            (events[3], 9, &[]),
        ] {
            let lanes = [(row.shard, row.id, after, limit)];
            let read = tx.list_lane_rows_by_event(&lanes).await.unwrap();
            let read: Vec<EventId> = read.into_iter().map(|row| row.event_id).collect();
            assert_eq!(read, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_discarded_is_dead_of_disabled_and_counts_no_attempt() {
    super::on_both(async |store| {
        let row = add_endpoint(store, "acme", 1, &["*"]).await;
        let other = add_endpoint(store, "acme", 2, &["*"]).await;
        for _ in 0..3 {
            emit(store, &new_event("acme", "order.paid")).await;
        }
        let rows = fresh(store).await;
        let mut tx = store.begin_engine().await.unwrap();
        let parked: Vec<_> =
            rows.iter().filter(|one| one.endpoint_id == row.id).take(1).cloned().collect();
        tx.park(&parked).await.unwrap(); // of both states
        tx.commit().await.unwrap();

        let mut tx = store.begin().await.unwrap();
        let detail = "{\"by\":\"discarded\"}";
        let cause = Some(Cause::Disabled);
        assert_eq!(tx.end_waiting(row.id, cause, NOW, detail).await.unwrap(), 3);
        assert_eq!(tx.end_waiting(row.id, cause, NOW, detail).await.unwrap(), 0);
        tx.commit().await.unwrap();

        let id = snaphook::domain::id::DeliveryId { event: rows[0].event_id, endpoint: row.id };
        let mut tx = store.read().await.unwrap();
        let shown = tx.find_delivery(None, id).await.unwrap().unwrap();
        assert_eq!((shown.standing.name(), shown.cause, shown.attempts), ("dead", cause, 0));
        let attempts = tx.list_attempts(id).await.unwrap();
        assert_eq!((attempts[0].sent, attempts[0].reason.as_deref()), (false, Some("disabled")));
        assert!(fresh(store).await.iter().all(|one| one.endpoint_id == other.id));
    })
    .await;
}
