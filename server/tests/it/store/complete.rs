//! Completions: the attempt becomes history and the queue moves on, once, whoever comes late.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use snaphook::{
    domain::{attempt::Mark, delivery::Cause, id::DeliveryId, time::Timestamp},
    store::{Completion, Finished, Row, Store},
};

use super::{NOW, add_endpoint, fresh, new_event, on_both, one_delivery};
use crate::support::databases::{Database, Kind};

fn finished(row: &Row, mark: Mark, started_at: Timestamp) -> Finished {
    Finished {
        row: row.clone(),
        mark,
        cause: (mark == Mark::Dead).then_some(Cause::Exhausted),
        due_at: started_at + Duration::from_mins(5),
        sent: true,
        counted: true,
        started_at,
        took: Duration::from_millis(12),
        status: Some(if mark == Mark::Delivered { 204 } else { 500 }),
        reason: (mark != Mark::Delivered).then_some("status"),
        detail: "{}".to_owned(),
        response: None,
    }
}

async fn complete(store: &Store, batch: &[Finished]) -> Completion {
    let mut tx = store.begin_statement().await.unwrap();
    let completion = tx.complete(batch, NOW).await.unwrap();
    tx.commit().await.unwrap();
    completion
}

async fn lane(store: &Store, row: &Row) -> Vec<Row> {
    let mut tx = store.read_engine().await.unwrap();
    tx.list_lane(row.shard, row.endpoint_id, 100).await.unwrap()
}

#[tokio::test]
async fn a_delivered_row_leaves_the_queue() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let completion = complete(store, &[finished(&row, Mark::Delivered, NOW)]).await;
        assert_eq!(completion, Completion::default());
        assert!(fresh(store).await.is_empty() && lane(store, &row).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_answer_of_any_bytes_is_kept() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let bytes = bytes::Bytes::from_static(&[0xff, 0xfe, 0x80, 0x00, b'"', b'\\']);
        let answered =
            Finished { response: Some(bytes.clone()), ..finished(&row, Mark::Delivered, NOW) };

        complete(store, &[answered]).await;

        let id = DeliveryId { event: row.event_id, endpoint: row.endpoint_id };
        let attempts = store.read().await.unwrap().list_attempts(id).await.unwrap();
        assert_eq!(attempts[0].mark, Mark::Delivered, "its status decides, not its bytes");
        assert_eq!(attempts[0].response.as_deref(), Some(&bytes[..]));
    })
    .await;
}

#[tokio::test]
async fn a_retry_waits_in_its_lane_with_its_attempt_counted() {
    on_both(async |store| {
        let row = one_delivery(store).await;

        complete(store, &[finished(&row, Mark::Retry, NOW)]).await;

        assert!(fresh(store).await.is_empty());
        let waiting = lane(store, &row).await;
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].attempt, waiting[0].rung, waiting[0].run), (1, 1, 0));
        assert_eq!(waiting[0].due_at, NOW + Duration::from_mins(5));
    })
    .await;
}

#[tokio::test]
async fn an_attempt_that_the_ladder_does_not_count_uses_up_no_rung() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let probe = Finished { counted: false, ..finished(&row, Mark::Retry, NOW) };
        complete(store, &[probe]).await;
        let waiting = lane(store, &row).await;
        assert_eq!((waiting[0].attempt, waiting[0].rung), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_result_that_comes_late_is_told_so_and_changes_no_state() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        complete(store, &[finished(&row, Mark::Retry, NOW)]).await;
        let before = lane(store, &row).await;

        let late = finished(&row, Mark::Delivered, NOW + Duration::from_secs(1));
        let completion = complete(store, &[late]).await;

        assert!(completion.late.contains(&(row.event_id, row.endpoint_id)));
        assert_eq!(lane(store, &row).await, before, "the retry still stands");
    })
    .await;
}

/// On PostgreSQL a row is found by its place, and a place is used again: a row that was changed
/// twice may lie where it lay before.
#[tokio::test]
async fn a_row_that_came_back_to_its_place_is_not_taken_for_what_it_was() {
    for (change, reason) in [
        ("attempt = attempt + 1", None),
        ("run = run + 1", None),
        ("attempt = attempt + 1", Some("status")),
        ("run = run + 1", Some("status")),
    ] {
        let database = Database::migrated(Kind::Postgres).await;
        let store = database.open().await;
        let row = one_delivery(&store).await;
        // Into another index and back, with the first place free by then.
        for statement in [
            &*format!("UPDATE snaphook.queue SET state = 1, {change}"),
            "VACUUM snaphook.queue",
            "UPDATE snaphook.queue SET state = 0",
        ] {
            database.execute(statement).await;
        }
        let now = fresh(&store).await.pop().unwrap();
        assert_eq!(now.slot, row.slot, "it lies where it lay");

        // Without a reason it is settled by a statement of its own.
        let late = Finished { reason, ..finished(&row, Mark::Delivered, NOW) };
        let completion = complete(&store, &[late]).await;

        assert!(completion.late.contains(&(row.event_id, row.endpoint_id)), "{change} {reason:?}");
        assert_eq!(fresh(&store).await, [now], "{change} {reason:?}");
        store.close().await;
        database.remove().await;
    }
}

#[tokio::test]
async fn a_batch_that_is_completed_again_after_an_unheard_commit_changes_nothing() {
    on_both(async |store| {
        let row = one_delivery(store).await;
        let batch = [finished(&row, Mark::Retry, NOW)];
        complete(store, &batch).await;
        let before = lane(store, &row).await;

        complete(store, &batch).await;

        assert_eq!(lane(store, &row).await, before);
    })
    .await;
}

#[tokio::test]
async fn of_a_large_batch_each_is_settled_by_itself_in_a_transaction_or_without() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        for begin in [true, false] {
            store.accept_many(vec![new_event("acme", "order.paid"); 300]).await.unwrap();
            let rows = fresh(store).await;
            let mark = |n: usize| if n.is_multiple_of(7) { Mark::Retry } else { Mark::Delivered };
            let mut batch: Vec<_> =
                rows.iter().enumerate().map(|(n, row)| finished(row, mark(n), NOW)).collect();
            // Somebody else was faster with two of them, of one with the same result.
            complete(store, &[finished(&rows[3], Mark::Retry, NOW), batch[290].clone()]).await;
            batch[3].started_at = NOW + Duration::from_secs(1);
            batch[290].started_at = NOW + Duration::from_secs(1);

            let mut tx = if begin {
                store.begin_engine().await.unwrap()
            } else {
                store.begin_statement().await.unwrap()
            };
            let completion = tx.complete(&batch, NOW).await.unwrap();
            tx.commit().await.unwrap();

            let late = [batch[3].pair(), batch[290].pair()];
            assert_eq!(completion.late, HashSet::from(late));
            assert!(fresh(store).await.is_empty());
            let waiting = lane(store, &rows[0]).await;
            let waiting: BTreeSet<_> = waiting.iter().map(|row| row.event_id).collect();
            let expected = (0..300).filter(|n| *n == 3 || mark(*n) == Mark::Retry);
            let expected: BTreeSet<_> = expected.map(|n| rows[n].event_id).collect();
            assert_eq!(waiting, expected);
            for (n, marks) in [
                (3, vec![Mark::Retry, Mark::Late]),
                (4, vec![Mark::Delivered]),
                (7, vec![Mark::Retry]),
            ] {
                let id = DeliveryId { event: rows[n].event_id, endpoint: rows[n].endpoint_id };
                let attempts = store.read().await.unwrap().list_attempts(id).await.unwrap();
                let found: Vec<_> = attempts.iter().map(|attempt| attempt.mark).collect();
                assert_eq!(found, marks, "the delivery {n}");
                assert!(attempts.iter().all(|attempt| attempt.detail == "{}"));
            }
            let rest = lane(store, &rows[0]).await;
            let rest: Vec<_> = rest.iter().map(|row| finished(row, Mark::Delivered, NOW)).collect();
            complete(store, &rest).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_batch_is_nothing_to_do() {
    on_both(async |store| assert_eq!(complete(store, &[]).await, Completion::default())).await;
}
