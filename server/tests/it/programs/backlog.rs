//! Very many deliveries that wait for one endpoint: they wait in the database, take no memory,
//! hold nobody up, and go once they may.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::world::real::monotonic;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use super::{
    node::{Node, pause, until},
    troubled_database::{assert_all_arrive, emit},
};
use crate::support::{
    databases::{Database, Kind, on_both},
    receiver::{Received, Receiver, answer},
    soak::soak,
};

/// Rows that wait: in `make test`, and in `make soak`.
const ROWS: (usize, usize) = (10_000, 1_000_000);

/// Rows that are emitted in one transaction.
const CHUNK: usize = 5_000;

/// What one process may hold: a debug build has more of its own.
const MEGABYTES: u64 = if cfg!(debug_assertions) { 300 } else { 150 };

/// Emits for `waits` by SQL, which is the quickest door.
async fn emit_rows(database: &Database, rows: usize) {
    for _ in 0..rows / CHUNK {
        match database.kind {
            Kind::Postgres => {
                let text = format!(
                    "SELECT count(snaphook.emit('waits', 'order.paid', '{{\"n\": 1}}'))
                     FROM generate_series(1, {CHUNK})"
                );
                let mut connection = PgConnection::connect(&database.url).await.unwrap();
                connection.execute(AssertSqlSafe(text)).await.unwrap();
                connection.close().await.unwrap();
            }
            Kind::Sqlite => {
                let text = format!(
                    "PRAGMA busy_timeout = 60000;
                     INSERT INTO snaphook_outbox (tenant, type, data)
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CHUNK})
                     SELECT 'waits', 'order.paid', '{{\"n\": 1}}' FROM n"
                );
                let mut connection = SqliteConnection::connect(&database.url).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
                pause(Duration::from_millis(100)).await; // the file is others' too
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_waits_in_the_database_and_not_in_memory() {
    on_both(async |database| {
        let rows = soak(ROWS.0, ROWS.1);
        let node = Node::start(database, "one", &[]).await;
        let (arrived, log) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (count, seen): (_, Arc<Mutex<HashMap<String, u8>>>) = (arrived.clone(), log);
        let twice = seen.clone();
        let backlog = Receiver::start(move |request: &Received| {
            let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
            *seen.lock().unwrap().entry(id).or_default() += 1;
            count.fetch_add(1, Ordering::Relaxed);
            answer(204, "")
        })
        .await;
        let fields = json!({"url": backlog.url("/"), "max_in_flight": 64});
        let endpoint = node.client.add_endpoint("waits", fields);
        node.client.call(&format!("POST {endpoint}/pause"), &Value::Null);
        let (_receiver, received) = super::troubled_database::receive(&node, &json!({})).await;

        emit_rows(database, rows).await;
        // Long enough for all of them to be read and parked, were somebody to do so.
        pause(Duration::from_secs(1)).await;
        for _ in 0..10 {
            let begun = monotonic();
            let event = until("an emit that is taken", || emit(&node).ok()).await;
            assert_all_arrive(&[event], &received).await;
            let took = monotonic().saturating_sub(begun);
            assert!(took < Duration::from_secs(5), "beside a backlog an event took {took:?}");
        }
        assert!(node.megabytes() < MEGABYTES, "{} MB while {rows} wait", node.megabytes());

        node.client.call(&format!("POST {endpoint}/resume"), &Value::Null);
        let mut before = 0;
        while arrived.load(Ordering::Relaxed) < rows {
            until("the next of them", || {
                let now = arrived.load(Ordering::Relaxed);
                (now > before || now >= rows).then(|| before = now)
            })
            .await;
            assert!(node.megabytes() < MEGABYTES, "{} MB at {before}", node.megabytes());
        }
        until("an empty queue", || {
            let waiting = node.client.call("GET /v1/deliveries?state=pending", &Value::Null);
            waiting["data"].as_array().unwrap().is_empty().then_some(())
        })
        .await;
        let twice = twice.lock().unwrap();
        assert!(
            twice.len() == rows && twice.values().all(|times| *times == 1),
            "each of them once"
        );
        drop(node);
    })
    .await;
}
