//! A database that is away or held by others: callers are told to come back, nothing that was
//! accepted is lost, and all goes on by itself afterwards.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::world::real::monotonic;
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use super::node::{Client, Node, until};
use crate::support::{
    databases::{Database, Kind},
    program::whole_exchange,
    receiver::{Received, Receiver, answer},
};

/// The ids of events that came in.
pub(super) type Ids = Arc<Mutex<HashSet<String>>>;

/// A node with one endpoint of `acme`, and what that receives.
pub(super) async fn start(database: &Database) -> (Node, Receiver, Ids) {
    let node = Node::start(database, "one", &[]).await;
    let (receiver, ids) = receive(&node, &json!({})).await;
    (node, receiver, ids)
}

/// An endpoint of `acme` with these further fields, and what it receives.
pub(super) async fn receive(node: &Node, fields: &Value) -> (Receiver, Ids) {
    let ids = Ids::default();
    let log = ids.clone();
    let receiver = Receiver::start(move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        log.lock().unwrap().insert(id);
        answer(204, "")
    })
    .await;
    let mut fields = fields.clone();
    fields["url"] = json!(receiver.url("/"));
    node.client.add_endpoint("acme", fields);
    (receiver, ids)
}

/// Emits over HTTP: the event's id, or how many seconds to wait.
pub(super) fn emit(node: &Node) -> Result<String, u32> {
    emit_by(&node.client)
}

/// As `emit`.
pub(super) fn emit_by(client: &Client) -> Result<String, u32> {
    let bearer = format!("Bearer {}", client.key);
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let body = br#"{"tenant":"acme","type":"order.paid","data":{}}"#;
    let address = &client.address;
    let (head, body) = whole_exchange(address, "POST /v1/events", &headers, body).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    if head.starts_with("HTTP/1.1 202 ") {
        return Ok(body["id"].as_str().unwrap().to_owned());
    }
    assert!(head.starts_with("HTTP/1.1 503 "), "{head} {body}");
    let retry_after = head.lines().find_map(|line| line.strip_prefix("retry-after: "));
    Err(retry_after.unwrap_or_else(|| panic!("no Retry-After: {head}")).parse().unwrap())
}

pub(super) async fn assert_all_arrive(emitted: &[String], received: &Ids) {
    until("all that was accepted", || {
        let received = received.lock().unwrap();
        emitted.iter().all(|event| received.contains(event)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_the_database_cuts_are_made_anew() {
    let database = Database::migrated(Kind::Postgres).await;
    let (node, _receiver, received) = start(&database).await;
    let mut administrator = PgConnection::connect(&database.url).await.unwrap();
    let mut emitted = Vec::new();

    for _ in 0..3 {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'snaphook'";
        let cut = administrator.execute(cut).await.unwrap();
        assert!(cut.rows_affected() > 0);
        let ids = (0..20).filter_map(|_| emit(&node).ok()).collect::<Vec<_>>();
        assert!(ids.len() > 10, "most are accepted: {}", ids.len());
        emitted.extend(ids);
    }

    assert_all_arrive(&emitted, &received).await;
    // The bell is heard again too: an event by SQL does not wait for a sweep.
    let begun = monotonic();
    let event = snaphook::Emit::new("acme", "order.paid", "{}");
    let event = snaphook::emit(&mut administrator, event).await.unwrap().to_string();
    assert_all_arrive(&[event], &received).await;
    let took = monotonic().saturating_sub(begun);
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    drop(node);
    administrator.close().await.unwrap();
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_program_holds_is_waited_for_and_then_callers_are_sent_away() {
    let database = Database::migrated(Kind::Sqlite).await;
    let (node, _receiver, received) = start(&database).await;
    let mut program = SqliteConnection::connect(&database.url).await.unwrap();
    program.execute("BEGIN IMMEDIATE").await.unwrap();

    let begun = monotonic();
    let wait = emit(&node).expect_err("nobody can write now");
    let waited = monotonic().saturating_sub(begun);
    assert!((4..15).contains(&waited.as_secs()), "it waited {waited:?}");
    assert!((1..60).contains(&wait), "Retry-After: {wait}");
    let listed = node.client.call("GET /v1/deliveries", &Value::Null);
    assert_eq!(listed["data"], json!([]), "reading goes on");

    let event = snaphook::Emit::new("acme", "order.paid", "{}");
    let own = snaphook::emit(&mut program, event).await.unwrap().to_string();
    program.execute("COMMIT").await.unwrap();
    let next = emit(&node).expect("the file is free");
    assert_all_arrive(&[own, next], &received).await;
    database.remove().await;
}
