//! Workers as they run, in real time, in a world whose receivers are functions: what is measured
//! is the pipeline, not sockets.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use snaphook::{
    domain::time::Timestamp,
    engine::{Engine, EngineSettings, Worker},
    store::Store,
    telemetry::metrics::Metrics,
    world::{
        Boxed, Request, Response, Sent, Timings, World,
        real::{chance, monotonic, wall_clock},
    },
};

use super::simulated::keyring;

/// A request that left.
#[derive(Clone, Debug)]
pub struct Seen {
    /// By which node.
    pub node: String,
    /// To where.
    pub url: String,
    /// The event's id.
    pub event: String,
    /// When, by the monotonic clock.
    pub at: Duration,
}

/// How long a receiver takes, by its URL.
type Takes = dyn Fn(&str) -> Duration + Send + Sync;

/// Receivers that say yes, and all that they saw; shared by all nodes of a test.
#[derive(Clone)]
pub struct Receivers {
    takes: Arc<Takes>,
    begun: Arc<Mutex<Vec<Seen>>>,
    answered: Arc<Mutex<Vec<Seen>>>,
}

impl Receivers {
    /// Each takes as long as `takes` says for its URL.
    pub fn new(takes: impl Fn(&str) -> Duration + Send + Sync + 'static) -> Self {
        Self { takes: Arc::new(takes), begun: Arc::default(), answered: Arc::default() }
    }

    /// Requests that left.
    pub fn begun(&self) -> Vec<Seen> {
        self.begun.lock().unwrap().clone()
    }

    /// Requests that were answered.
    pub fn answered(&self) -> Vec<Seen> {
        self.answered.lock().unwrap().clone()
    }

    /// Waits until `wanted` is true of the requests that were answered; panics after `within`.
    pub async fn wait(&self, within: Duration, wanted: impl Fn(&[Seen]) -> bool) {
        let until = monotonic() + within;
        while !wanted(&self.answered()) {
            assert!(monotonic() < until, "not within {within:?}: {:#?}", self.begun());
            pause(Duration::from_millis(2)).await;
        }
    }

    /// Waits until so many requests were answered; panics after `within`.
    pub async fn wait_for(&self, count: usize, within: Duration) {
        self.wait(within, |seen| seen.len() >= count).await;
    }
}

/// One node's view of the world.
pub struct LiveWorld {
    node: String,
    receivers: Receivers,
    panics: AtomicU32,
}

impl LiveWorld {
    /// The next look at the wall clock panics.
    pub fn panic_once(&self) {
        self.panics.fetch_add(1, Ordering::SeqCst);
    }
}

impl World for LiveWorld {
    fn now(&self) -> Timestamp {
        let planned = self
            .panics
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(planned.is_err(), "a planned panic");
        wall_clock()
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn random(&self) -> u64 {
        chance()
    }

    fn send(&self, request: Request) -> Boxed<'_, Sent> {
        Box::pin(async move {
            let begun = monotonic();
            let seen = Seen {
                node: self.node.clone(),
                url: request.url.to_string(),
                event: request.headers["webhook-id"].to_str().unwrap().to_owned(),
                at: begun,
            };
            self.receivers.begun.lock().unwrap().push(seen.clone());
            pause((self.receivers.takes)(&request.url)).await;
            self.receivers.answered.lock().unwrap().push(seen);
            Sent {
                result: Ok(Response {
                    status: 200,
                    headers: HeaderMap::new(),
                    body: Bytes::from_static(b"noted"),
                    truncated: false,
                }),
                timings: Timings { total: monotonic().saturating_sub(begun), ..Timings::default() },
                address: None,
            }
        })
    }
}

/// Lets real time pass.
#[expect(clippy::disallowed_methods, reason = "a test of what happens in real time")]
pub async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Settings by which a lost node is missed within seconds.
pub fn quick(node: &str) -> EngineSettings {
    EngineSettings {
        node: node.to_owned(),
        timeout: Duration::from_secs(1),
        lease: Duration::from_secs(4),
        ..EngineSettings::default()
    }
}

/// Starts a worker of this name.
pub fn start(
    store: Store,
    receivers: &Receivers,
    settings: EngineSettings,
) -> (Worker, Arc<LiveWorld>) {
    let world = Arc::new(LiveWorld {
        node: settings.node.clone(),
        receivers: receivers.clone(),
        panics: AtomicU32::new(0),
    });
    let engine = Engine::new(store, world.clone(), settings, keyring(), Metrics::new());
    (Worker::start(engine), world)
}
