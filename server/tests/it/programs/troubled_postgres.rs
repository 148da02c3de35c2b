//! PostgreSQL that goes away, takes no writes, has a transaction left open or one that commits
//! late: callers are told, operators can see it, and nothing is lost.

use std::time::Duration;

use serde_json::json;
use snaphook::{Emit, world::real::monotonic};
use sqlx::{Connection, Executor, PgConnection};

use super::{
    node::{Node, pause, until},
    troubled_database::{assert_all_arrive, emit, receive, start},
};
use crate::support::{
    databases::{Database, Kind},
    gate::Gate,
    program::{get, get_with},
    soak::soak,
};

/// After the database is back, all goes on by itself within this time.
const BACK: Duration = Duration::from_secs(10);

async fn ready(node: &Node, expected: u16) {
    until(&format!("/readyz to say {expected}"), || {
        (get(&node.client.address, "/readyz").0 == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_waited_for_and_said_so() {
    let database = Database::migrated(Kind::Postgres).await;
    let gate = Gate::before(database.server()).await;
    let url = database.url_at(gate.address);
    let node = Node::start(&database, "one", &[("SNAPHOOK_DATABASE", &url)]).await;
    let (_receiver, received) = receive(&node, &json!({})).await;
    let mut emitted: Vec<String> = (0..50).map(|_| emit(&node).expect("all is well")).collect();

    gate.close();
    ready(&node, 503).await;
    assert_eq!(get(&node.client.address, "/healthz").0, 200, "the process lives");
    let wait = emit(&node).expect_err("nothing can be written");
    assert!((1..60).contains(&wait), "Retry-After: {wait}");
    until("a line in the log", || node.log().contains("waits for the database").then_some(()))
        .await;
    gate.open();
    let begun = monotonic();
    ready(&node, 200).await;
    emitted.push(until("an emit that is taken", || emit(&node).ok()).await);
    assert_all_arrive(&emitted, &received).await;
    let took = monotonic().saturating_sub(begun);
    assert!(took < BACK, "it took {took:?}");

    // A server that takes no writes, as during a fail-over.
    let mut administrator = PgConnection::connect(&database.url).await.unwrap();
    let name = database.name();
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    administrator.execute(sqlx::AssertSqlSafe(read_only)).await.unwrap();
    gate.close();
    gate.open();
    until("a refusal", || emit(&node).err()).await;
    let writable = format!("ALTER DATABASE {name} RESET default_transaction_read_only");
    let mut transaction = administrator.begin().await.unwrap();
    transaction.execute("SET TRANSACTION READ WRITE").await.unwrap();
    transaction.execute(sqlx::AssertSqlSafe(writable)).await.unwrap();
    transaction.commit().await.unwrap();
    gate.close();
    gate.open();
    emitted.push(until("an emit that is taken", || emit(&node).ok()).await);
    assert_all_arrive(&emitted, &received).await;
    administrator.close().await.unwrap();
    drop(node);
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_snapshot_is_told_of_and_costs_nothing() {
    let database = Database::migrated(Kind::Postgres).await;
    let (node, _receiver, received) = start(&database).await;
    let mut old = PgConnection::connect(&database.url).await.unwrap();
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    old.execute("SELECT count(*) FROM snaphook.queue").await.unwrap();
    let begun = monotonic();

    let emitted: Vec<String> =
        (0..soak(200, 20_000)).map(|_| emit(&node).expect("all is well")).collect();
    assert_all_arrive(&emitted, &received).await;
    let last = monotonic();
    assert_all_arrive(&[emit(&node).expect("all is well")], &received).await;
    let took = monotonic().saturating_sub(last);
    assert!(took < Duration::from_secs(2), "an event took {took:?} beside what cannot be cleared");

    let bearer = format!("Bearer {}", node.client.key);
    let seconds = until("the metric", || {
        let headers = [("authorization", &*bearer)];
        let text = get_with(&node.client.address, "/metrics", &headers);
        let name = "snaphook_oldest_transaction_seconds ";
        let value: f64 = text.lines().find_map(|line| line.strip_prefix(name))?.parse().unwrap();
        (value > 0.0).then_some(value)
    })
    .await;
    assert!(seconds <= monotonic().saturating_sub(begun).as_secs_f64() + 1.0, "{seconds}");
    old.execute("ROLLBACK").await.unwrap();
    old.close().await.unwrap();
    drop(node);
    database.remove().await;
}

/// With time of a test's own it may be hours: `pipeline/late_commits.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_commits_late_is_heard() {
    let database = Database::migrated(Kind::Postgres).await;
    let (node, _receiver, received) = start(&database).await;
    let mut late = PgConnection::connect(&database.url).await.unwrap();
    late.execute("BEGIN").await.unwrap();
    let event = Emit::new("acme", "order.paid", "{}");
    let event = snaphook::emit(&mut late, event).await.unwrap().to_string();
    let mut others = Vec::new();

    for _ in 0..soak(3, 120) {
        others.push(emit(&node).expect("all is well"));
        pause(Duration::from_millis(500)).await;
    }
    assert_all_arrive(&others, &received).await;
    assert!(!received.lock().unwrap().contains(&event), "it is not committed");
    late.execute("COMMIT").await.unwrap();

    assert_all_arrive(&[event], &received).await;
    late.close().await.unwrap();
    drop(node);
    database.remove().await;
}
