//! Figures for the metrics.

use snaphook::{
    domain::{
        circuit::CircuitState, endpoint_state::EndpointState, event::Door, health::HealthState,
        time::Timestamp,
    },
    store::{Dialect, NewEvent},
};

use super::{NOW, add_endpoint, emit, new_event, on_both};

#[tokio::test]
async fn what_waits_for_a_paused_endpoint_is_held_and_deleted_endpoints_do_not_count() {
    on_both(async |store| {
        let mut paused = add_endpoint(store, "acme", 1, &["*"]).await;
        let mut deleted = add_endpoint(store, "acme", 2, &["*"]).await;
        add_endpoint(store, "acme", 3, &["*"]).await;
        emit(store, &new_event("acme", "order.paid")).await;
        assert_eq!(store.read().await.unwrap().count_held().await.unwrap(), 0);

        paused.state = EndpointState::Paused;
        (deleted.state, deleted.deleted_at) = (EndpointState::Disabled, Some(NOW));
        let mut tx = store.begin().await.unwrap();
        tx.update_endpoint(&mut paused).await.unwrap();
        tx.update_endpoint(&mut deleted).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.read().await.unwrap();
        assert_eq!(tx.count_held().await.unwrap(), 1);
        let counts = tx.count_endpoint_health().await.unwrap();
        assert_eq!(counts, [(HealthState::Healthy, CircuitState::Closed, 1); 2], "one is paused");
    })
    .await;
}

#[tokio::test]
async fn events_are_counted_by_the_door_they_came_in_by() {
    on_both(async |store| {
        for door in [Door::Sql, Door::Sql, Door::Http] {
            emit(store, &NewEvent { door, ..new_event("acme", "order.paid") }).await;
        }
        let (from, before) = (Timestamp(0), Timestamp::from_seconds(4_000_000_000));

        let mut tx = store.read().await.unwrap();
        let by_sql = tx.count_events(Door::Sql, from, before).await.unwrap();
        let earlier =
            tx.count_events(Door::Sql, from, Timestamp::from_seconds(1_750_000_000)).await.unwrap();

        assert_eq!((by_sql, earlier), (2, 0));
    })
    .await;
}

#[tokio::test]
async fn a_transaction_that_is_left_open_is_seen_where_it_matters() {
    on_both(async |store| {
        let before = store.read().await.unwrap().oldest_transaction().await.unwrap();
        assert!(before.is_zero(), "{before:?}");

        let mut left_open = store.begin().await.unwrap();
        left_open.accept(&new_event("acme", "order.paid")).await.unwrap();

        let age = store.read().await.unwrap().oldest_transaction().await.unwrap();
        assert_eq!(age.is_zero(), store.dialect() == Dialect::Sqlite, "{age:?}");
        left_open.rollback().await.unwrap();
    })
    .await;
}
