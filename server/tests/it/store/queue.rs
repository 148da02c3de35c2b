//! The queue as its owner reads it: fresh rows by cursor, lanes by endpoint.

use std::time::Duration;

use snaphook::{
    domain::id::EventId,
    store::{Cursor, EndpointRow, Row, Store, Stretch, Tx},
};

use super::{add_endpoint, emit, fresh, new_event, on_both};
use crate::support::{
    databases::{self, Kind},
    live::pause,
};

async fn lane(store: &Store, row: &Row) -> Vec<Row> {
    let mut tx = store.read_engine().await.unwrap();
    tx.list_lane(row.shard, row.endpoint_id, 100).await.unwrap()
}

#[tokio::test]
async fn fresh_rows_are_read_in_the_order_of_their_events_from_a_cursor_on() {
    on_both(async |store| {
        let endpoint = add_endpoint(store, "acme", 1, &["*"]).await;
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(emit(store, &new_event("acme", "order.paid")).await.event);
        }

        let mut tx = store.read_engine().await.unwrap();
        let behind = |event| [Cursor { shard: endpoint.shard, after: (event, endpoint.id) }];
        let first = tx.list_fresh(&behind(EventId(0)), 3, None).await.unwrap();
        let rest = tx.list_fresh(&behind(ids[2]), 100, None).await.unwrap();

        let events = |rows: &[Row]| rows.iter().map(|row| row.event_id).collect::<Vec<_>>();
        assert_eq!(events(&first), ids[..3]);
        assert_eq!(events(&rest), ids[3..]);
        assert!(first.iter().all(|row| (row.run, row.attempt, row.rung) == (0, 0, 0)));
    })
    .await;
}

#[tokio::test]
async fn a_parked_row_waits_in_its_lane_and_in_nobodys_way() {
    on_both(async |store| {
        let busy = add_endpoint(store, "acme", 1, &["a"]).await;
        let idle = add_endpoint(store, "acme", 2, &["b"]).await;
        for event_type in ["a", "a", "b"] {
            emit(store, &new_event("acme", event_type)).await;
        }
        let rows = fresh(store).await;
        let (parked, left): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.endpoint_id == busy.id);

        let mut tx = store.begin_engine().await.unwrap();
        assert_eq!(tx.park(&parked).await.unwrap(), 2);
        tx.commit().await.unwrap();

        assert_eq!(fresh(store).await, left);
        assert_eq!(left[0].endpoint_id, idle.id);
        let waiting = lane(store, &parked[0]).await;
        assert_eq!(waiting.len(), 2);
        let mut tx = store.read_engine().await.unwrap();
        let lanes = tx.list_lanes(&[busy.shard]).await.unwrap();
        let lanes: Vec<_> = lanes.into_iter().filter(|(id, _)| *id != idle.id).collect();
        assert_eq!(lanes, [(busy.id, waiting[0].due_at)]);
    })
    .await;
}

#[tokio::test]
async fn a_statement_by_itself_holds_once_it_is_committed() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        emit(store, &new_event("acme", "a")).await;
        let rows = fresh(store).await;

        let mut tx = store.begin_statement().await.unwrap();
        assert_eq!(tx.park(&rows).await.unwrap(), 1);
        tx.commit().await.unwrap();

        assert_eq!(fresh(store).await, []);
        assert_eq!(lane(store, &rows[0]).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn several_lanes_are_read_at_once_each_up_to_its_own_limit() {
    on_both(async |store| {
        let mut lanes = Vec::new();
        for (number, event_type) in (1..).zip(["a", "b", "c"]) {
            let endpoint = add_endpoint(store, "acme", number, &[event_type]).await;
            for _ in 0..4 {
                emit(store, &new_event("acme", event_type)).await;
            }
            lanes.push((endpoint.shard, endpoint.id));
        }
        let mut tx = store.begin_engine().await.unwrap();
        tx.park(&fresh(store).await).await.unwrap();
        tx.commit().await.unwrap();

        let asked = [(lanes[0].0, lanes[0].1, 3), (lanes[2].0, lanes[2].1, 100)];
        let mut tx = store.read_engine().await.unwrap();
        let rows = tx.list_lane_rows(&asked).await.unwrap();

        for ((shard, endpoint), expected) in lanes.into_iter().zip([3, 0, 4]) {
            let own: Vec<_> =
                rows.iter().filter(|row| row.endpoint_id == endpoint).cloned().collect();
            let alone = tx.list_lane(shard, endpoint, expected).await.unwrap();
            assert_eq!(own, alone, "the soonest {expected} of {endpoint}");
        }
    })
    .await;
}

#[tokio::test]
async fn fresh_rows_of_single_lanes_are_read_from_an_event_to_an_event() {
    on_both(async |store| {
        let mut lanes = Vec::new();
        for (number, event_type) in (1..).zip(["a", "b", "c"]) {
            let endpoint = add_endpoint(store, "acme", number, &[event_type]).await;
            let mut events = Vec::new();
            for _ in 0..5 {
                events.push(emit(store, &new_event("acme", event_type)).await.event);
            }
            lanes.push((endpoint, events));
        }
        let parked: Vec<Row> =
            fresh(store).await.into_iter().filter(|row| row.event_id == lanes[0].1[2]).collect();
        let mut tx = store.begin_engine().await.unwrap();
        tx.park(&parked).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.read_engine().await.unwrap();
        for (first, last, limit, expected, what) in [
            (0, 4, 100, vec![0, 1, 3, 4], "all but what is parked"),
            (1, 3, 100, vec![1, 3], "between the two, with them"),
            (0, 4, 2, vec![0, 1], "no more than wanted"),
            (2, 2, 100, vec![], "none"),
        ] {
            let of = |(endpoint, events): &(EndpointRow, Vec<EventId>)| Stretch {
                shard: endpoint.shard,
                endpoint: endpoint.id,
                first: events[first],
                last: events[last],
                limit,
            };
            let asked = [of(&lanes[0]), of(&lanes[2])];
            let rows = tx.list_fresh_of_lanes(&asked).await.unwrap();
            let of = |lane: usize| {
                let (endpoint, events) = &lanes[lane];
                let own = rows.iter().filter(|row| row.endpoint_id == endpoint.id);
                own.map(|row| events.iter().position(|event| *event == row.event_id).unwrap())
                    .collect::<Vec<_>>()
            };
            assert_eq!((of(0), of(1)), (expected, vec![]), "{what}");
            let all: Vec<usize> = (first..=last).take(usize::try_from(limit).unwrap()).collect();
            assert_eq!(of(2), all, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_row_is_parked_once() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        emit(store, &new_event("acme", "order.paid")).await;
        let rows = fresh(store).await;
        for expected in [1, 0] {
            let mut tx = store.begin_engine().await.unwrap();
            assert_eq!(tx.park(&rows).await.unwrap(), expected);
            tx.commit().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_due_is_counted_with_the_oldest_due_time() {
    on_both(async |store| {
        add_endpoint(store, "acme", 1, &["*"]).await;
        for _ in 0..3 {
            emit(store, &new_event("acme", "order.paid")).await;
        }
        let oldest = fresh(store).await.iter().map(|row| row.due_at).min().unwrap();

        let mut tx = store.read().await.unwrap();
        let before = tx.count_queue(oldest - Duration::from_secs(1)).await.unwrap();
        let after = tx.count_queue(oldest + Duration::from_mins(1)).await.unwrap();

        assert_eq!((before.due, before.oldest_due), (0, Some(oldest)));
        assert_eq!((after.due, after.oldest_due), (3, Some(oldest)));
    })
    .await;
}

#[tokio::test]
async fn whether_anything_was_emitted_is_told_by_a_number_before_its_commit() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let count = async || {
            let count = store.read_engine().await.unwrap().count_emits().await.unwrap();
            count.map(|(count, _)| count)
        };
        let before = count().await;
        assert_eq!(before.is_some(), database.kind == Kind::Postgres, "SQLite looks each time");
        assert_eq!(count().await, before, "nothing was emitted");
        if before.is_none() {
            return;
        }
        let mut tx = store.begin().await.unwrap();
        tx.accept(&new_event("acme", "order.paid")).await.unwrap();
        let open = count().await;
        assert!(open > before, "what is not committed yet counts: it may be found soon");
        tx.commit().await.unwrap();
        assert_eq!(count().await, open);
    })
    .await;
}

#[tokio::test]
async fn what_was_over_at_a_horizon_is_left_out_and_nothing_else() {
    databases::on_both(async |database| {
        let store = database.open().await;
        let endpoint = add_endpoint(&store, "acme", 1, &["*"]).await;
        let emit = async |tx: &mut Tx| tx.accept(&new_event("acme", "a.b")).await.unwrap().event;
        let mut open = None;
        let mut late = None;
        if database.kind == Kind::Postgres {
            let mut tx = store.begin().await.unwrap();
            late = Some(emit(&mut tx).await);
            open = Some(tx);
        } // SQLite has one writer at a time: nothing can be late
        let mut tx = store.begin().await.unwrap();
        let early = emit(&mut tx).await;
        tx.commit().await.unwrap();
        let over = store.read_engine().await.unwrap().count_emits().await.unwrap();
        let horizon = over.map(|(_, transactions)| transactions.over);
        if let Some(open) = open {
            open.commit().await.unwrap();
        }
        let mut tx = store.begin().await.unwrap();
        let after = emit(&mut tx).await;
        tx.commit().await.unwrap();

        let cursor = [Cursor { shard: endpoint.shard, after: (EventId(0), endpoint.id) }];
        let list = async |since| {
            let mut tx = store.read_engine().await.unwrap();
            let rows = tx.list_fresh(&cursor, 100, since).await.unwrap();
            rows.into_iter().map(|row| row.event_id).collect::<Vec<_>>()
        };
        let all: Vec<EventId> = late.into_iter().chain([early, after]).collect();
        assert_eq!(list(None).await, all);
        // As long as one is open, whatever came after it may be new: it is told again.
        assert_eq!(list(horizon).await, all);
        // Those of other tests are in the same server, and hold it back for a moment.
        for _ in 0..500 {
            let over = store.read_engine().await.unwrap().count_emits().await.unwrap();
            let since = over.map(|(_, transactions)| transactions.over);
            let told = list(since).await;
            if since.is_none() {
                assert_eq!(told, all, "SQLite tells all each time");
            }
            if since.is_none() || told.is_empty() {
                return;
            }
            pause(Duration::from_millis(20)).await;
        }
        panic!("all of it was over, and it is told all the same");
    })
    .await;
}
