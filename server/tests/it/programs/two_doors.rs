//! The doors share a database and a pipeline, and keep nobody waiting for one another: a storm of
//! providers who try again delays nothing that programs emit, and a backlog of what they emitted
//! delays neither what providers are told nor what they sent.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};
use snaphook::{domain::source::SourceToken, world::real::monotonic};

use super::{
    node::{Client, Node, until},
    received_killed::{SECRET, body_of, post_signed},
    troubled_database::emit_by,
};
use crate::support::{
    databases::{Database, on_both},
    program::rest,
    receiver::{Received, Receiver, answer},
    soak::soak,
};

/// Between two of the events whose way is timed: 50 a second.
const EVERY: Duration = Duration::from_millis(20);

/// How many of them, first without anything beside them, then with it.
const CALM: usize = 100;
const TIMED: (usize, usize) = (200, 3_000);

/// Providers that post at once, each as fast as it is answered, and programs that emit so.
const PROVIDERS: usize = 32;
const PROGRAMS: usize = 8;

/// How long the receiver takes that is behind: its endpoint, with 16 requests at once, gets 40 a
/// second, so of what comes in a storm all but a little waits.
const SLOW: Duration = Duration::from_millis(400);

/// As much is waiting at the end: whoever stood behind it would come ten seconds late.
const WAITING: usize = 400;

/// A way takes no longer than this beside a storm: in `make soak` ten times what it takes in a calm,
/// or a quarter of a second, for 32 providers share two cores with the server. In `make test`
/// other tests do so too, and the program is not optimized: half of what standing behind the storm
/// would cost.
fn assert_not_delayed(what: &str, calm: Duration, beside: Duration) {
    let bound = soak(Duration::from_secs(5), (10 * calm).max(Duration::from_millis(250)));
    assert!(beside < bound, "{what}: {beside:?}, and {calm:?} with nothing beside it");
}

/// When each thing arrived at the receiver, by what its request is about.
type Arrivals = Arc<Mutex<HashMap<String, Duration>>>;

/// A receiver that takes `takes` for each answer, behind an endpoint of `acme` for these types.
async fn receive(
    node: &Node,
    types: &str,
    takes: Duration,
    named: impl Fn(&Received) -> String + Send + Sync + 'static,
) -> (Receiver, Arrivals) {
    let arrivals = Arrivals::default();
    let log = arrivals.clone();
    let receiver = Receiver::start_slow(takes, move |request: &Received| {
        log.lock().unwrap().entry(named(request)).or_insert_with(monotonic);
        answer(204, "")
    })
    .await;
    let fields = json!({ "url": receiver.url("/"), "event_types": [types] });
    node.client.call("POST /v1/tenants/acme/endpoints", &fields);
    (receiver, arrivals)
}

fn event_id(request: &Received) -> String {
    request.headers["webhook-id"].to_str().unwrap().to_owned()
}

/// The provider's id, of what a source passes on.
fn provider_id(request: &Received) -> String {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body["id"].as_str().unwrap_or_default().to_owned()
}

async fn start(database: &Database) -> (Node, SourceToken) {
    let node = Node::start(database, "one", &[]).await;
    node.client.call("PUT /v1/tenants/acme", &json!({}));
    let source = json!({"tenant": "acme", "name": "shop", "scheme": "stripe", "secrets": [SECRET]});
    let source = node.client.call("POST /v1/sources", &source);
    let token: SourceToken = source["id"].as_str().unwrap().parse().unwrap();
    until("the source", || {
        let body = body_of("first");
        (post_signed(&node.client.address, &token, &body, &body).ok()? == 200).then_some(())
    })
    .await;
    (node, token)
}

/// What most of them took: all but one of a hundred.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * 99 / 100]
}

/// Does `act` 50 times a second, whatever each takes; gives when each began and what it is about.
fn paced(many: usize, act: impl Fn(usize) -> String) -> Vec<(String, Duration, Duration)> {
    let begun = monotonic();
    let mut done = Vec::with_capacity(many);
    for n in 0..many {
        let at = begun + EVERY * u32::try_from(n).unwrap();
        rest(at.saturating_sub(monotonic()));
        let now = monotonic();
        done.push((act(n), now, monotonic().saturating_sub(now)));
    }
    done
}

/// How long each took from its beginning to the receiver.
async fn ways(done: &[(String, Duration, Duration)], arrivals: &Arrivals) -> Vec<Duration> {
    let all = || {
        let arrivals = arrivals.lock().unwrap();
        let way = |(what, begun, _): &(String, Duration, Duration)| {
            arrivals.get(what).map(|arrived| arrived.saturating_sub(*begun))
        };
        done.iter().map(way).collect()
    };
    until("all that was sent", all).await
}

/// What the providers of a storm were answered.
#[derive(Default)]
struct Storm {
    stop: AtomicBool,
    next: AtomicUsize,
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
}

impl Storm {
    /// Genuine requests, each sent three times as providers do who did not hear the answer, and
    /// forged ones between them.
    fn provider(self: Arc<Self>, address: String, token: SourceToken) -> JoinHandle<()> {
        std::thread::spawn(move || {
            while !self.stop.load(Ordering::Relaxed) {
                let id = format!("storm_{}", self.next.fetch_add(1, Ordering::Relaxed));
                let (body, forged) = (body_of(&id), body_of("forged"));
                for (sent, expected) in [(&body, 200), (&forged, 401), (&body, 200), (&body, 200)] {
                    let status = post_signed(&address, &token, &body, sent).unwrap();
                    assert_eq!(status, expected, "{id}");
                    let counted = if status == 200 { &self.acknowledged } else { &self.refused };
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    }

    fn begin(node: &Node, token: &SourceToken) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let storm = Arc::new(Self::default());
        let provider = || storm.clone().provider(node.client.address.clone(), token.clone());
        let providers = (0..PROVIDERS).map(|_| provider()).collect();
        (storm, providers)
    }

    fn end(&self, providers: Vec<JoinHandle<()>>) {
        self.stop.store(true, Ordering::Relaxed);
        for provider in providers {
            provider.join().unwrap();
        }
    }
}

/// What the server counted of requests of providers that came to `result`.
fn counted(node: &Node, result: &str) -> usize {
    let (_, text) = node.client.get("/metrics");
    let is_it = |line: &&str| {
        line.starts_with("snaphook_inbound_requests_total{")
            && line.contains(r#"scheme="stripe""#)
            && line.contains(&format!(r#"result="{result}""#))
    };
    let line = text.lines().find(is_it).unwrap_or_else(|| panic!("no {result}: {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_providers_delays_nothing_that_is_emitted() {
    on_both(async |database| {
        let (node, token) = start(database).await;
        let (_receiver, arrivals) = receive(&node, "order.*", Duration::ZERO, event_id).await;
        let (_behind, behind) = receive(&node, "shop.*", SLOW, provider_id).await;
        let emit = |_| emit_by(&node.client).expect("all is well");
        let calm = p99(ways(&paced(CALM, emit), &arrivals).await);

        let (storm, providers) = Storm::begin(&node, &token);
        until("a storm", || (storm.acknowledged.load(Ordering::Relaxed) > 100).then_some(())).await;
        let done = paced(soak(TIMED.0, TIMED.1), emit);
        storm.end(providers);
        let beside = p99(ways(&done, &arrivals).await);

        assert_not_delayed("an event, from its emit to its receiver", calm, beside);
        let (new, arrived) = (storm.next.load(Ordering::Relaxed), behind.lock().unwrap().len());
        assert!(new > arrived + WAITING, "it was a storm: {new} came, {arrived} went on");
        assert_eq!(counted(&node, "accepted"), new + 1, "each once, and the very first");
        assert_eq!(counted(&node, "duplicate"), storm.acknowledged.load(Ordering::Relaxed) - new);
        assert_eq!(counted(&node, "rejected"), storm.refused.load(Ordering::Relaxed));
    })
    .await;
}

/// Programs that emit as fast as they can until the test says so.
fn emitters(node: &Node, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let emitter = |(client, stop): (Client, Arc<AtomicBool>)| {
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                emit_by(&client).expect("all is well");
            }
        })
    };
    (0..PROGRAMS).map(|_| emitter((node.client.clone(), stop.clone()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_what_was_emitted_delays_no_provider_and_nothing_of_theirs() {
    on_both(async |database| {
        let (node, token) = start(database).await;
        let (_receiver, arrivals) = receive(&node, "shop.*", Duration::ZERO, provider_id).await;
        let (_behind, behind) = receive(&node, "order.*", SLOW, event_id).await;
        let send = |n: usize, when: &str| {
            let id = format!("{when}_{n}");
            let body = body_of(&id);
            assert_eq!(post_signed(&node.client.address, &token, &body, &body).unwrap(), 200);
            id
        };
        let acks = |done: &[(String, Duration, Duration)]| {
            p99(done.iter().map(|(_, _, took)| *took).collect())
        };
        let done = paced(CALM, |n| send(n, "calm"));
        let (calm, calm_ack) = (p99(ways(&done, &arrivals).await), acks(&done));

        let event = json!({"tenant": "acme", "type": "order.paid", "data": {}});
        let batch = json!({ "events": vec![event; 1_000] });
        for _ in 0..3 {
            node.client.call("POST /v1/events/batch", &batch);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let emitters = emitters(&node, &stop);
        let done = paced(soak(TIMED.0, TIMED.1), |n| send(n, "beside"));
        stop.store(true, Ordering::Relaxed);
        for emitter in emitters {
            emitter.join().unwrap();
        }

        assert_not_delayed("a provider's thanks", calm_ack, acks(&done));
        let beside = p99(ways(&done, &arrivals).await);
        assert_not_delayed("a request, from its provider to its receiver", calm, beside);
        let arrived = behind.lock().unwrap().len();
        assert!(arrived < 3_000 - WAITING, "it was a backlog: {arrived} went on");
    })
    .await;
}
