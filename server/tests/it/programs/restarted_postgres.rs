//! PostgreSQL restarted under load, as for an upgrade and after a crash, and all of its sessions
//! cut: what was accepted is delivered, nothing twice, and the program says what is wrong.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::{Emit, world::real::monotonic};
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::{
    node::{Client, Node, until},
    troubled_database::emit_by,
};
use crate::support::{
    cluster::Cluster,
    program::get,
    receiver::{Received, Receiver, answer},
    soak::soak,
};

/// From when the database is back, a new event is delivered within this time: of a loaded machine,
/// and with the machine to itself.
const AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3));

/// Events accepted before each mishap.
const ACCEPTED_BEFORE: usize = 100;

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// Stopped in this mode, and started once everybody has noticed.
    Away(&'static str),
    /// Restarted in this mode, as fast as it can.
    Restarted(&'static str),
    /// All sessions of the node are ended.
    Cut,
}

/// In `make test` once, and in `make soak` ten times over.
const FEW: &[Mishap] = &[Mishap::Away("fast"), Mishap::Restarted("immediate"), Mishap::Cut];
const ALL: &[Mishap] = &[
    Mishap::Away("fast"),
    Mishap::Away("immediate"),
    Mishap::Restarted("fast"),
    Mishap::Restarted("immediate"),
    Mishap::Cut,
];

/// What the world outside knows.
#[derive(Default)]
struct Seen {
    accepted: Mutex<HashSet<String>>,
    refused: AtomicU32,
    /// By event, how often it came.
    arrivals: Mutex<HashMap<String, usize>>,
}

impl Seen {
    fn accepted(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }

    fn has_arrived(&self, event: &str) -> bool {
        self.arrivals.lock().unwrap().contains_key(event)
    }
}

/// Emits until the test says so. A caller always gets a whole answer: accepted, or come back.
fn emitter(client: Client, seen: Arc<Seen>, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            match emit_by(&client) {
                Ok(event) => {
                    seen.accepted.lock().unwrap().insert(event);
                }
                Err(wait) => {
                    assert!((1..60).contains(&wait), "Retry-After: {wait}");
                    seen.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    })
}

async fn receive(node: &Node, seen: &Arc<Seen>) -> Receiver {
    let log = seen.clone();
    let receiver = Receiver::start(move |request: &Received| {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        *log.arrivals.lock().unwrap().entry(id).or_default() += 1;
        answer(204, "")
    })
    .await;
    node.client.add_endpoint("acme", json!({ "url": receiver.url("/") }));
    receiver
}

fn complaints(node: &Node) -> usize {
    node.log().matches("waits for the database").count()
}

/// What `/readyz` says besides this status.
async fn says(node: &Node, status: u16) -> String {
    let said = || Some(get(&node.client.address, "/readyz")).filter(|said| said.0 == status);
    until(&format!("/readyz to say {status}"), said).await.1
}

async fn happens(mishap: Mishap, cluster: &Cluster, node: &Node, seen: &Seen) {
    let (before, refused) = (complaints(node), seen.refused.load(Ordering::Relaxed));
    match mishap {
        Mishap::Away(mode) => {
            cluster.stop(mode);
            let why = says(node, 503).await;
            assert!(why.contains("the database does not answer"), "{why}");
            assert_eq!(get(&node.client.address, "/healthz").0, 200, "the process lives");
            until("the log", || (complaints(node) > before).then_some(())).await;
            let told = || (seen.refused.load(Ordering::Relaxed) > refused).then_some(());
            until("a caller who is told", told).await;
            cluster.start_again();
        }
        Mishap::Restarted(mode) => cluster.restart(mode),
        Mishap::Cut => {
            let mut administrator = PgConnection::connect(&cluster.database.url).await.unwrap();
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            let cut = administrator.execute(cut).await.unwrap();
            assert!(cut.rows_affected() > 0);
            administrator.close().await.unwrap();
        }
    }
}

async fn goes_on(mishap: Mishap, cluster: &Cluster, node: &Node, seen: &Seen) {
    let begun = monotonic();
    let event = until("an emit that is taken", || emit_by(&node.client).ok()).await;
    until("its delivery", || seen.has_arrived(&event).then_some(())).await;
    // The bell is heard again too: what a program emits does not wait for a sweep.
    let mut program = PgConnection::connect(&cluster.database.url).await.unwrap();
    let event = Emit::new("acme", "order.paid", "{}");
    let event = snaphook::emit(&mut program, event).await.unwrap().to_string();
    until("a program's event", || seen.has_arrived(&event).then_some(())).await;
    program.close().await.unwrap();
    let took = monotonic().saturating_sub(begun);
    assert!(took < soak(AGAIN.0, AGAIN.1), "after {mishap:?} it took {took:?}");
    says(node, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_restarted_under_load_loses_nothing_and_doubles_nothing() {
    let cluster = Cluster::start();
    let node = Node::start(&cluster.database, "one", &[]).await;
    let seen = Arc::new(Seen::default());
    let _receiver = receive(&node, &seen).await;
    let stop = Arc::new(AtomicBool::new(false));
    let emitters: Vec<_> =
        (0..4).map(|_| emitter(node.client.clone(), seen.clone(), stop.clone())).collect();

    for mishap in soak(FEW, ALL).repeat(soak(1, 10)) {
        let before = seen.accepted();
        until("a load", || (seen.accepted() >= before + ACCEPTED_BEFORE).then_some(())).await;
        happens(mishap, &cluster, &node, &seen).await;
        goes_on(mishap, &cluster, &node, &seen).await;
    }
    stop.store(true, Ordering::Relaxed);
    for emitter in emitters {
        emitter.join().unwrap();
    }

    let accepted = seen.accepted.lock().unwrap().clone();
    until("all that was accepted", || {
        accepted.iter().all(|event| seen.has_arrived(event)).then_some(())
    })
    .await;
    until("an empty queue", || {
        let waiting = node.client.call("GET /v1/deliveries?state=pending", &Value::Null);
        waiting["data"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    // The process lived, so it knows of each request that it made.
    let arrivals = seen.arrivals.lock().unwrap().clone();
    let again: Vec<_> = arrivals.iter().filter(|(_, times)| **times > 1).collect();
    assert!(again.is_empty(), "{} of {} came again: {again:?}", again.len(), arrivals.len());
}
