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
    receiver::{Received, Receiver, Scripted, Step, answer},
};

const ENDPOINTS: usize = 24;

/// Endpoints that never answer: so many that each node has one, but for a chance of 1 in 4,096. A
/// node that stops waits for them, and must not let other shards wait.
const SILENT: usize = 12;

/// How long an event may be on its way while a node stops: a second, and one more for a loaded
/// machine. The lease would last 45 s.
const AT_ONCE: Duration = Duration::from_secs(2);

/// When each event was emitted, and when it came in.
#[derive(Default)]
struct Times {
    emitted: HashMap<String, Duration>,
    received: HashMap<String, Duration>,
}

impl Times {
    /// The longest that an event was on its way, once all are there.
    fn longest(&self) -> Option<Duration> {
        let way =
            |(id, from): (&String, &Duration)| Some(self.received.get(id)?.saturating_sub(*from));
        let ways = self.emitted.iter().map(way);
        ways.max_by_key(|way| way.unwrap_or(Duration::MAX))?
    }
}

/// Emits to `tenants` in turn, every few milliseconds, for some time.
async fn emit_for(
    program: &mut PgConnection,
    tenants: &[String],
    times: &Mutex<Times>,
    time: Duration,
) {
    let end = monotonic() + time;
    for tenant in tenants.iter().cycle() {
        if monotonic() > end {
            return;
        }
        let event = Emit::new(tenant, "order.paid", "{}");
        let begun = monotonic(); // before the commit, so rather too early
        let id = snaphook::emit(&mut *program, event).await.unwrap().to_string();
        times.lock().unwrap().emitted.insert(id, begun);
        pause(Duration::from_millis(5)).await;
    }
}

/// Waits until the shards are shared so: how many each node owns.
async fn wait_for_owners(program: &mut PgConnection, expected: &[(&str, i64)]) {
    let end = monotonic() + Duration::from_mins(1);
    loop {
        let text = "SELECT coalesce(owner, 'nobody'), count(*) FROM snaphook.shards
                    GROUP BY 1 ORDER BY 1";
        let owners: Vec<(String, i64)> =
            sqlx::query_as(text).fetch_all(&mut *program).await.unwrap();
        if owners.iter().map(|(owner, many)| (owner.as_str(), *many)).eq(expected.iter().copied()) {
            return;
        }
        assert!(monotonic() < end, "{owners:?}");
        pause(Duration::from_millis(20)).await;
    }
}

/// The tenants whose endpoint has no silent one in its shard.
async fn unhindered(program: &mut PgConnection) -> Vec<String> {
    let text = "SELECT tenant FROM snaphook.endpoints WHERE shard NOT IN (
                    SELECT shard FROM snaphook.endpoints WHERE tenant LIKE 'silent%')";
    sqlx::query_scalar(text).fetch_all(program).await.unwrap()
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
    let silent = Scripted::start([Step::ReadHead, Step::Hang]).await;
    for n in 0..SILENT {
        let fields = json!({"url": silent.url("/"), "timeout": "5s"});
        one.client.add_endpoint(&format!("silent{n}"), fields);
    }
    let mut program = PgConnection::connect(&database.url).await.unwrap();
    wait_for_owners(&mut program, &[("one", 32), ("two", 32)]).await;

    let tenants = unhindered(&mut program).await;
    emit_for(&mut program, &tenants, &times, Duration::from_secs(1)).await;
    until("all of the first second", || times.lock().unwrap().longest()).await;
    assert!(sent(&one.client) > 0.0 && sent(&two.client) > 0.0, "both deliver");

    for n in 0..SILENT {
        let event = Emit::new(format!("silent{n}"), "order.paid", "{}");
        snaphook::emit(&mut program, event).await.unwrap();
    }
    until("requests that are not answered", || (silent.open() == SILENT).then_some(())).await;
    let stopping = tokio::task::spawn_blocking(move || one.terminate());
    emit_for(&mut program, &tenants, &times, Duration::from_secs(2)).await;
    assert!(!stopping.is_finished(), "it waits for those that are silent");
    assert!(stopping.await.unwrap().success());
    until("all of the rest", || times.lock().unwrap().longest()).await;

    let longest = times.lock().unwrap().longest().unwrap();
    assert!(longest < AT_ONCE, "an event took {longest:?}");
    wait_for_owners(&mut program, &[("two", 64)]).await;
    let waiting = two.client.call("GET /v1/deliveries?state=pending", &Value::Null);
    assert_eq!(waiting["data"].as_array().unwrap().len(), SILENT, "nothing else waits");
    drop(two);
    program.close().await.unwrap();
    database.remove().await;
}
