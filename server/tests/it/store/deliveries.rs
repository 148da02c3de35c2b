//! Deliveries: the queue and the past seen as one; and the endings that people bring about.

use std::time::Duration;

use snaphook::{
    domain::{
        attempt::Mark,
        delivery::Cause,
        endpoint_kind::EndpointKind,
        endpoint_state::EndpointState,
        id::{DeliveryId, EndpointId, EventId},
    },
    store::{
        Finished, Row, Store,
        deliveries::{DeliveryFilter, Standing},
        page::Page,
    },
};

use super::{NOW, add_endpoint, emit, fresh, new_event, on_both, one_delivery, tenant};

fn finished(row: &Row, mark: Mark, cause: Option<Cause>) -> Finished {
    let sent = matches!(mark, Mark::Retry | Mark::Delivered | Mark::Dead);
    Finished {
        mark,
        cause,
        sent,
        counted: sent,
        ..Finished::canceled(row.clone(), NOW, "{}".into())
    }
}

async fn complete(store: &Store, done: Finished) {
    let mut tx = store.begin().await.unwrap();
    tx.complete(&[done], NOW).await.unwrap();
    tx.commit().await.unwrap();
}

fn id_of(row: &Row) -> DeliveryId {
    DeliveryId { event: row.event_id, endpoint: row.endpoint_id }
}

async fn standing(store: &Store, id: DeliveryId) -> Option<(Standing, Option<Cause>, i64)> {
    let mut tx = store.read().await.unwrap();
    let found = tx.find_delivery(None, id).await.unwrap()?;
    assert_eq!(found.due_at.is_some(), found.standing.is_waiting());
    Some((found.standing, found.cause, found.attempts))
}

#[tokio::test]
async fn a_delivery_stands_where_its_queue_row_or_its_last_ending_says() {
    use Standing::{Canceled, Dead, Delivered, Filtered, Pending};
    for (mark, cause, expected) in [
        (Mark::Retry, None, (Pending, None, 1)),
        (Mark::Delivered, None, (Delivered, None, 1)),
        (Mark::Dead, Some(Cause::Gone), (Dead, Some(Cause::Gone), 1)),
        (Mark::Canceled, None, (Canceled, None, 0)),
        (Mark::Filtered, None, (Filtered, None, 0)),
    ] {
        on_both(async |store| {
            let row = one_delivery(store).await;
            assert_eq!(standing(store, id_of(&row)).await, Some((Pending, None, 0)));
            complete(store, finished(&row, mark, cause)).await;
            assert_eq!(standing(store, id_of(&row)).await, Some(expected), "{mark}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_redelivery_waits_again_and_its_end_counts() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        complete(store, finished(&row, Mark::Dead, Some(Cause::Exhausted))).await;
        let mut tx = store.begin().await.unwrap();
        let last = tx.find_last_attempt(id_of(&row)).await.unwrap();
        assert_eq!(last, Some((1, 0)));
        let again = Row { run: 1, attempt: 1, ..row.clone() };
        assert!(tx.add_run(&again, EndpointKind::Http).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(standing(store, id_of(&row)).await.unwrap().0, Standing::Pending);

        let mut tx = store.begin().await.unwrap();
        let again = tx.lock_row(row.shard, row.event_id, row.endpoint_id).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        complete(store, finished(&again, Mark::Delivered, None)).await;

        assert_eq!(standing(store, id_of(&row)).await, Some((Standing::Delivered, None, 2)));
        let mut tx = store.read().await.unwrap();
        let attempts = tx.list_attempts(id_of(&row)).await.unwrap();
        let seen: Vec<_> = attempts.iter().map(|one| (one.number, one.run, one.mark)).collect();
        assert_eq!(seen, [(1, 0, Mark::Dead), (2, 1, Mark::Delivered)]);
        assert_eq!(tx.find_last_attempt(id_of(&row)).await.unwrap(), Some((2, 1)));
    })
    .await;
}

#[tokio::test]
async fn a_delivery_to_a_paused_endpoint_is_held() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let mut tx = store.begin().await.unwrap();
        let mut endpoint = tx.find_endpoint(row.endpoint_id).await.unwrap().unwrap();
        endpoint.state = EndpointState::Paused;
        assert!(tx.update_endpoint(&mut endpoint).await.unwrap());
        tx.commit().await.unwrap();

        assert_eq!(standing(store, id_of(&row)).await.unwrap().0, Standing::Held);
        for (wanted, expected) in [(Standing::Held, 1), (Standing::Pending, 0)] {
            let filter = DeliveryFilter { standing: Some(wanted), ..DeliveryFilter::default() };
            let mut tx = store.read().await.unwrap();
            let list = tx.list_deliveries(&filter, Page::first(9)).await.unwrap();
            assert_eq!(list.rows.len(), expected, "{wanted}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_foreign_delivery_is_not_found() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let mut tx = store.read().await.unwrap();
        for (name, expected) in [("acme", true), ("evil", false)] {
            let found = tx.find_delivery(Some(&tenant(name)), id_of(&row)).await.unwrap();
            assert_eq!(found.is_some(), expected, "{name}");
        }
        let other = DeliveryId { endpoint: EndpointId(7), ..id_of(&row) };
        assert!(tx.find_delivery(None, other).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_an_endpoint_is_canceled_fresh_or_laned_and_nothing_else() {
    on_both(async |store| {
        let first = add_endpoint(store, "acme", 1, &["*"]).await;
        let other = add_endpoint(store, "acme", 2, &["*"]).await;
        for _ in 0..3 {
            emit(store, &new_event("acme", "order.paid")).await;
        }
        let rows = fresh(store).await;
        let laned = rows.iter().find(|row| row.endpoint_id == first.id).unwrap();
        complete(store, finished(laned, Mark::Retry, None)).await;

        let mut tx = store.begin().await.unwrap();
        let later = NOW + Duration::from_secs(1);
        assert_eq!(tx.end_waiting(first.id, None, later, "{}").await.unwrap(), 3);
        assert_eq!(tx.end_waiting(first.id, None, later, "{}").await.unwrap(), 0);
        tx.commit().await.unwrap();

        for row in &rows {
            let expected =
                if row.endpoint_id == other.id { Standing::Pending } else { Standing::Canceled };
            assert_eq!(standing(store, id_of(row)).await.unwrap().0, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn a_directed_event_goes_to_one_endpoint_alone() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        let target = add_endpoint(store, "acme", 2, &["order.paid"]).await;
        let mut tx = store.begin().await.unwrap();
        let event = tx.accept(&new_event("acme", "snaphook.test")).await.unwrap().event;
        tx.direct_event(event, &tenant("acme"), target.id, EndpointKind::Http, NOW).await.unwrap();
        tx.commit().await.unwrap();

        let rows: Vec<(EventId, EndpointId)> =
            fresh(store).await.iter().map(|row| (row.event_id, row.endpoint_id)).collect();
        assert_eq!(rows, [(event, target.id)]);
    })
    .await;
}
