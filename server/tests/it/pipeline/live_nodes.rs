//! Several nodes on one PostgreSQL, in real time: they share the work, and go on without the one
//! that stops.

use std::{collections::HashMap, sync::mpsc, thread::JoinHandle, time::Duration};

use snaphook::{engine::EngineSettings, store::Store, world::real::monotonic};
use sqlx::{Connection, PgConnection};

use crate::support::{
    databases::{Database, Kind},
    live::{Receivers, pause, quick, start},
    simulated::{Simulated, at, event, plant},
};

const SECOND: Duration = Duration::from_secs(1);

const ENDPOINTS: usize = 40;

async fn planted() -> (Database, Store) {
    let database = Database::migrated(Kind::Postgres).await;
    let store = database.open().await;
    let world = Simulated::new(|_, _| 200);
    for n in 0..ENDPOINTS {
        plant(&store, &world, at(&format!("https://e{n}.example/"))).await;
    }
    (database, store)
}

async fn emit(store: &Store) {
    store.accept(event("order.paid", None)).await.unwrap();
}

/// How many shards each node owns.
async fn shares(database: &Database) -> HashMap<String, i64> {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT owner, count(*) FROM snaphook.shards WHERE owner IS NOT NULL GROUP BY owner",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    rows.into_iter().collect()
}

async fn wait_for_shares(database: &Database, expected: &[(&str, i64)], within: Duration) {
    let until = monotonic() + within;
    loop {
        let shares = shares(database).await;
        if expected.iter().all(|(node, least)| shares.get(*node).is_some_and(|has| has >= least)) {
            return;
        }
        assert!(monotonic() < until, "not within {within:?}: {shares:?}");
        pause(SECOND / 50).await;
    }
}

/// A node in a process of its own, as far as one process can have another: its runtime ends
/// without a word.
struct Mortal {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Mortal {
    fn start(url: &str, receivers: &Receivers, settings: EngineSettings) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (url, receivers) = (url.to_owned(), receivers.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let options = snaphook::store::Options { migrate: false, serve: false };
            let store = runtime.block_on(Store::open(&url, options)).unwrap();
            let guard = runtime.enter();
            let worker = start(store, &receivers, settings);
            let _ = stopped.recv();
            drop((worker, guard));
            runtime.shutdown_background();
        });
        Self { stop, thread }
    }

    fn die(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[tokio::test]
async fn two_nodes_share_the_shards_and_one_goes_on_when_the_other_stops() {
    let (database, store) = planted().await;
    let receivers = Receivers::new(|_| Duration::ZERO);
    let (one, _) = start(database.open().await, &receivers, quick("one"));
    wait_for_shares(&database, &[("one", 64)], 10 * SECOND).await;
    let (two, _) = start(database.open().await, &receivers, quick("two"));
    wait_for_shares(&database, &[("one", 20), ("two", 20)], 10 * SECOND).await;

    for round in 1..=5 {
        emit(&store).await;
        receivers.wait_for(round * ENDPOINTS, 5 * SECOND).await;
    }
    let by_one = receivers.answered().iter().filter(|seen| seen.node == "one").count();
    assert!(by_one > ENDPOINTS && by_one < 4 * ENDPOINTS, "both take part: {by_one} of 200");

    one.drain().await;
    emit(&store).await;
    receivers.wait_for(6 * ENDPOINTS, SECOND).await;

    assert_eq!(receivers.begun().len(), 6 * ENDPOINTS, "and each request was made once");
    two.drain().await;
    assert_eq!(shares(&database).await, HashMap::new(), "all is given back");
    database.remove().await;
}

#[tokio::test]
async fn a_node_that_dies_is_missed_when_its_lease_is_over_and_not_before() {
    let (database, store) = planted().await;
    let receivers = Receivers::new(|_| Duration::ZERO);
    let settings = quick("one");
    let lease = settings.lease;
    let mortal = Mortal::start(&database.url, &receivers, settings);
    wait_for_shares(&database, &[("one", 64)], 10 * SECOND).await;
    mortal.die();
    let died = monotonic();
    emit(&store).await;
    let (two, _) = start(database.open().await, &receivers, quick("two"));

    receivers.wait_for(ENDPOINTS, lease + 3 * SECOND).await;

    let first = receivers.begun()[0].at.saturating_sub(died);
    assert!(first > lease * 3 / 4, "after {first:?}, under somebody else's lease");
    assert!(receivers.answered().iter().all(|seen| seen.node == "two"));
    two.drain().await;
    database.remove().await;
}

#[tokio::test]
async fn a_node_that_comes_back_under_its_name_goes_on_at_once() {
    let (database, store) = planted().await;
    let receivers = Receivers::new(|_| Duration::ZERO);
    let settings = EngineSettings { node: "one".to_owned(), ..EngineSettings::default() };
    let mortal = Mortal::start(&database.url, &receivers, settings.clone());
    wait_for_shares(&database, &[("one", 64)], 10 * SECOND).await;
    mortal.die();
    emit(&store).await;

    let (back, _) = start(database.open().await, &receivers, settings);
    receivers.wait_for(ENDPOINTS, 3 * SECOND).await; // of a lease of 45

    back.drain().await;
    database.remove().await;
}
