//! Two servers of which one stands still for longer than its lease and wakes up, and the other is
//! killed: nothing is lost, no result is overwritten, and no endpoint gets more at once than it
//! allows.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::{Emit, world::real::monotonic};
use sqlx::{Connection, PgConnection};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::node::{Node, pause, until};
use crate::support::{
    databases::{Database, Kind},
    receiver::{Received, Receiver, answer},
    soak::{is_soak, soak},
};

const ENDPOINTS: usize = 24;

/// `max_in_flight` of each.
const CAP: usize = 3;

/// The shortest that is allowed beside a timeout of 30 s.
const LEASE: Duration = Duration::from_secs(40);

/// Emits every few milliseconds until it is told to stop; gives the events.
async fn emit_on(url: String, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut program = PgConnection::connect(&url).await.unwrap();
    let mut emitted = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let tenant = format!("t{}", emitted.len() % ENDPOINTS);
        let event = Emit::new(tenant, "order.paid", "{}");
        emitted.push(snaphook::emit(&mut program, event).await.unwrap().to_string());
        pause(Duration::from_millis(3)).await;
    }
    program.close().await.unwrap();
    emitted
}

/// Deliveries whose record is not one ending, numbered through; late results aside.
async fn bad_records(database: &Database) -> Vec<String> {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let text =
        "SELECT event_id || ' ' || string_agg(n || ':' || outcome, ' ' ORDER BY n, started_at)
        FROM snaphook.attempts WHERE outcome <> 5
        GROUP BY event_id, endpoint_id
        HAVING count(*) FILTER (WHERE outcome <> 0) <> 1 OR max(n) <> count(*)
            OR max(n) FILTER (WHERE outcome = 0) > max(n) FILTER (WHERE outcome <> 0)";
    let found = sqlx::query_scalar(text).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    found
}

/// In `make test` the still node wakes within its lease, and the killed one comes back under its
/// name; in `make soak` the other has to take over, both times.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_and_one_that_dies_lose_nothing() {
    let database = Database::migrated(Kind::Postgres).await;
    let lease = format!("{}s", LEASE.as_secs());
    let settings = [("SNAPHOOK_DELIVERY_LEASE", &*lease)];
    let one = Node::start(&database, "one", &settings).await;
    let mut two = Node::start(&database, "two", &settings).await;
    let seen: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let log = seen.clone();
    let receiver = Receiver::start_slow(Duration::from_millis(20), move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        *log.lock().unwrap().entry(id).or_default() += 1;
        answer(204, "")
    })
    .await;
    for n in 0..ENDPOINTS {
        let url = receiver.url(&format!("/{n}"));
        one.client.add_endpoint(&format!("t{n}"), json!({"url": url, "max_in_flight": CAP}));
    }
    let stop: Arc<AtomicBool> = Arc::default();
    let emitter = AbortOnDropHandle::new(
        TaskTracker::new().spawn(emit_on(database.url.clone(), stop.clone())),
    );
    let count = || seen.lock().unwrap().len();
    until("a load on both", || (count() > 200).then_some(())).await;

    one.signal("STOP");
    pause(soak(Duration::from_secs(3), LEASE + Duration::from_secs(15))).await;
    one.signal("CONT");
    pause(Duration::from_secs(1)).await;
    two.kill();
    let begun = monotonic();
    if is_soak() {
        pause(Duration::from_secs(5)).await;
    } else {
        two.restart().await;
    }
    stop.store(true, Ordering::Relaxed);
    let emitted: HashSet<String> = emitter.await.unwrap().into_iter().collect();
    until("all that was emitted", || {
        let seen = seen.lock().unwrap();
        emitted.iter().all(|event| seen.contains_key(event)).then_some(())
    })
    .await;
    let took = monotonic().saturating_sub(begun);
    assert!(took < LEASE + Duration::from_secs(10), "it took {took:?}");
    until("an empty queue", || {
        let waiting = one.client.call("GET /v1/deliveries?state=pending", &Value::Null);
        waiting["data"].as_array().unwrap().is_empty().then_some(())
    })
    .await;

    assert!(receiver.most_at_once() <= CAP, "{} at once", receiver.most_at_once());
    let again: usize = seen.lock().unwrap().values().map(|times| times - 1).sum();
    assert!(again <= 2 * ENDPOINTS * CAP, "{again} requests were sent again");
    assert_eq!(bad_records(&database).await, [""; 0]);
    drop((one, two));
    database.remove().await;
}
