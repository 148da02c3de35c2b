//! Events by every door, each attempt judged by the libraries that receivers use, also when
//! secrets are rotated between two attempts. psql, psycopg, Django, Node and the program sqlite3
//! have their tests in tests/programs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json, value::RawValue};
use snaphook::{Emit, domain::time::Timestamp, world::real::wall_clock};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use super::node::{Node, until};
use crate::support::{
    databases::{Database, Kind, on_both},
    oracle::{Library, Question, Recorded, assert_accepted},
    receiver::{Received, Receiver, answer},
};

/// Attempt 2 comes by `try-now`, between the rotation and attempt 3, which the schedule brings.
/// Every event fails twice, which must not open the circuit.
const SETTINGS: &[(&str, &str)] = &[
    ("SNAPHOOK_DELIVERY_RETRY_SCHEDULE", "0s,10m,1s"),
    ("SNAPHOOK_DELIVERY_JITTER", "0"),
    ("SNAPHOOK_CIRCUIT_OPEN_AFTER", "1000"),
];

/// What each event carries, told apart by its door.
fn data(door: &str) -> String {
    format!(r#"{{"door":  "{door}", "amount": 1.10}}"#)
}

const DOORS: &[&str] = &["http", "raw", "command line", "rust", "sql", "view"];

/// One event through each door, and one by each SQL door that is rolled back.
async fn emit_by_every_door(database: &Database, node: &Node) {
    let json = |text: String| RawValue::from_string(text).unwrap();
    let event = format!(r#"{{"tenant":"acme","type":"order.paid","data":{}}}"#, data("http"));
    node.client.call("POST /v1/events", &json(event));
    node.client.call("POST /v1/tenants/acme/events/order.paid", &json(data("raw")));
    let emitted = node.run(&["emit", "acme", "order.paid", "--data", &data("command line")]);
    assert_eq!(emitted.code, 0, "{emitted:?}");
    let by_rust = |door: &str| Emit::new("acme", "order.paid", data(door));
    let view = match database.kind {
        Kind::Postgres => "snaphook.outbox",
        Kind::Sqlite => "snaphook_outbox",
    };
    let insert = |door: &str| {
        let insert =
            format!("INSERT INTO {view} (tenant, type, data) VALUES ('acme', 'order.paid'");
        sqlx::AssertSqlSafe(format!("{insert}, '{}')", data(door)))
    };
    match database.kind {
        Kind::Postgres => {
            let select = |door: &str| {
                let data = data(door);
                let select = format!("SELECT snaphook.emit('acme', 'order.paid', '{data}')");
                sqlx::AssertSqlSafe(select)
            };
            let mut program = PgConnection::connect(&database.url).await.unwrap();
            let mut tx = program.begin().await.unwrap();
            snaphook::emit(&mut *tx, by_rust("undone")).await.unwrap();
            tx.execute(select("undone")).await.unwrap();
            tx.execute(insert("undone")).await.unwrap();
            tx.rollback().await.unwrap();
            let mut tx = program.begin().await.unwrap();
            snaphook::emit(&mut *tx, by_rust("rust")).await.unwrap();
            tx.execute(select("sql")).await.unwrap();
            tx.execute(insert("view")).await.unwrap();
            tx.commit().await.unwrap();
        }
        Kind::Sqlite => {
            let mut program = SqliteConnection::connect(&database.url).await.unwrap();
            let mut tx = program.begin().await.unwrap();
            snaphook::emit(&mut *tx, by_rust("undone")).await.unwrap();
            tx.execute(insert("undone")).await.unwrap();
            tx.rollback().await.unwrap();
            let mut tx = program.begin().await.unwrap();
            snaphook::emit(&mut *tx, by_rust("rust")).await.unwrap();
            tx.execute(insert("sql")).await.unwrap();
            tx.execute(insert("view")).await.unwrap();
            tx.commit().await.unwrap();
        }
    }
}

/// What came in, by event, with the receiver's time.
type Log = Arc<Mutex<HashMap<String, Vec<(Received, Timestamp)>>>>;

async fn failing_twice(log: Log) -> Receiver {
    let reply = move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        let mut log = log.lock().unwrap();
        let attempts = log.entry(id).or_default();
        attempts.push((request.clone(), wall_clock()));
        answer(if attempts.len() <= 2 { 500 } else { 204 }, "")
    };
    Receiver::start(reply).await
}

fn header<'a>(request: &'a Received, name: &str) -> &'a str {
    request.headers[name].to_str().unwrap()
}

fn ask(request: &(Received, Timestamp), library: Library, secret: &str) -> Question {
    let (request, now) = request;
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()));
    let recorded = Recorded { headers: headers.collect(), body: request.body.to_vec() };
    Question { request: recorded, library, secret: secret.to_owned(), now: now.seconds() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_by_any_door_verifies_on_each_attempt_also_across_a_rotation() {
    on_both(async |database| {
        let node = Node::start(database, "one", SETTINGS).await;
        let log = Log::default();
        let receiver = failing_twice(log.clone()).await;
        let endpoint = node.client.add_endpoint("acme", json!({ "url": receiver.url("/hooks") }));
        let first = node.client.secret(&endpoint);

        emit_by_every_door(database, &node).await;
        let attempts_of_all = |least: usize| {
            let log = log.lock().unwrap();
            let ready = log.values().filter(|attempts| attempts.len() >= least).count();
            (ready == DOORS.len()).then_some(())
        };
        until("first attempts", || attempts_of_all(1)).await;
        let rotate = |body| node.client.call(&format!("POST {endpoint}/secrets/rotate"), &body);
        let second = rotate(json!({ "overlap": "24h" }))["secret"].as_str().unwrap().to_owned();
        let pair = rotate(json!({ "kind": "ed25519" }));
        let public = pair["public_key"].as_str().unwrap();
        let waiting = until("all of them to wait for attempt 2", || {
            let list = "GET /v1/deliveries?state=pending";
            let listed = node.client.call(list, &Value::Null)["data"].as_array().unwrap().clone();
            let failed = listed.iter().filter(|delivery| delivery["attempts"] == 1).count();
            (failed == DOORS.len()).then_some(listed)
        });
        for delivery in waiting.await {
            let delivery = delivery["id"].as_str().unwrap();
            node.client.call(&format!("POST /v1/deliveries/{delivery}/try-now"), &json!({}));
        }
        until("third attempts", || attempts_of_all(3)).await;
        until("nothing that waits", || {
            let listed = node.client.call("GET /v1/deliveries?state=delivered", &Value::Null);
            (listed["data"].as_array().unwrap().len() == DOORS.len()).then_some(())
        })
        .await;

        let log = log.lock().unwrap();
        assert_eq!(log.len(), DOORS.len(), "what was rolled back is not heard of");
        let mut questions = Vec::new();
        for attempts in log.values() {
            assert_eq!(attempts.len(), 3);
            questions.push(ask(&attempts[0], Library::StandardWebhooks, &first));
            for later in &attempts[1..] {
                questions.push(ask(later, Library::StandardWebhooks, &first));
                questions.push(ask(later, Library::StandardWebhooks, &second));
                questions.push(ask(later, Library::Ed25519, public));
            }
            let times = attempts.iter().map(|(request, _)| header(request, "webhook-timestamp"));
            let times: Vec<i64> = times.map(|time| time.parse().unwrap()).collect();
            assert!(times[1] < times[2], "a fresh time: {times:?}");
            for (time, (request, now)) in times.iter().zip(attempts) {
                assert!((0..5).contains(&(now.seconds() - time)), "sent {time}, came {now}");
                assert_eq!(request.body, attempts[0].0.body, "the same body");
            }
        }
        assert_accepted(&questions);
        for door in DOORS {
            let bodies = log.values().map(|attempts| String::from_utf8_lossy(&attempts[0].0.body));
            let exact = bodies.filter(|body| body.contains(&data(door))).count();
            assert_eq!(exact, 1, "byte for byte, by {door}");
        }
    })
    .await;
}
