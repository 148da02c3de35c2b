//! Two servers on one PostgreSQL: they share the shards, and when one stops the other goes on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::{Emit, world::real::monotonic};
use sqlx::{Connection, PgConnection};

use super::node::{Client, Node, pause, until};
use crate::support::{
    databases::{Database, Kind},
    program::exchange,
    receiver::{Received, Receiver, answer},
};

const ENDPOINTS: usize = 24;

/// How long after its commit an event may come while a node stops. Its lease would be 45 s.
const AT_ONCE: Duration = Duration::from_secs(1);

/// When each event was emitted, and when it came in.
#[derive(Default)]
struct Times {
    emitted: HashMap<String, Duration>,
    received: HashMap<String, Duration>,
}

impl Times {
    /// The longest that an event was on its way, once all are there.
    fn longest(&self) -> Option<Duration> {
        let ways = self.emitted.iter().map(|(id, from)| Some(*self.received.get(id)? - *from));
        ways.max_by_key(|way| way.unwrap_or(Duration::MAX))?
    }
}

/// Emits to each endpoint in turn, as fast as the database commits, until `until` is over.
async fn emit_for(program: &mut PgConnection, times: &Mutex<Times>, time: Duration) {
    let end = monotonic() + time;
    for n in 0.. {
        if monotonic() > end {
            return;
        }
        let event = Emit::new(format!("t{}", n % ENDPOINTS), "order.paid", "{}");
        let begun = monotonic(); // before the commit, so rather too early
        let id = snaphook::emit(&mut *program, event).await.unwrap().to_string();
        times.lock().unwrap().emitted.insert(id, begun);
        pause(Duration::from_millis(5)).await;
    }
}

async fn owners(program: &mut PgConnection) -> Vec<(String, i64)> {
    sqlx::query_as(
        "SELECT coalesce(owner, ''), count(*) FROM snaphook.shards GROUP BY 1 ORDER BY 1",
    )
    .fetch_all(program)
    .await
    .unwrap()
}

/// Requests that a node has sent.
fn sent(client: &Client) -> f64 {
    let bearer = format!("Bearer {}", client.key);
    let (status, text) =
        exchange(&client.address, "GET /metrics", &[("authorization", &*bearer)], b"").unwrap();
    assert_eq!(status, 200, "{text}");
    let counts = text.lines().filter(|line| line.starts_with("snaphook_attempts_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_the_work_and_when_one_stops_the_other_goes_on_at_once() {
    let database = Database::migrated(Kind::Postgres).await;
    let mut one = Node::start(&database, "one", &[]).await;
    let two = Node::start(&database, "two", &[]).await;
    let times: Arc<Mutex<Times>> = Arc::default();
    let log = times.clone();
    let receiver = Receiver::start(move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        log.lock().unwrap().received.entry(id).or_insert_with(monotonic);
        answer(204, "")
    })
    .await;
    for n in 0..ENDPOINTS {
        one.client.add_endpoint(&format!("t{n}"), json!({ "url": receiver.url("/") }));
    }
    let mut program = PgConnection::connect(&database.url).await.unwrap();
    let shared = [("one".to_owned(), 32), ("two".to_owned(), 32)];
    let begun = monotonic();
    while owners(&mut program).await != shared {
        assert!(monotonic() - begun < Duration::from_mins(1), "{:?}", owners(&mut program).await);
        pause(Duration::from_millis(50)).await;
    }

    emit_for(&mut program, &times, Duration::from_secs(1)).await;
    until("all of the first second", || times.lock().unwrap().longest()).await;
    assert!(sent(&one.client) > 0.0 && sent(&two.client) > 0.0, "both deliver");

    let stopping = tokio::task::spawn_blocking(move || one.terminate());
    emit_for(&mut program, &times, Duration::from_secs(2)).await;
    assert!(stopping.await.unwrap().success());
    until("all of the rest", || times.lock().unwrap().longest()).await;

    let longest = times.lock().unwrap().longest().unwrap();
    assert!(longest < AT_ONCE, "an event took {longest:?}");
    assert_eq!(owners(&mut program).await, [("two".to_owned(), 64)]);
    let waiting = two.client.call("GET /v1/deliveries?state=pending", &Value::Null);
    assert_eq!(waiting["data"], json!([]));
    drop(two);
    program.close().await.unwrap();
    database.remove().await;
}
