//! A world that the test owns: the clock stands until it is turned, chance is drawn from a seed,
//! and receivers are a function. Days of retries pass in milliseconds.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use snaphook::{
    domain::{
        endpoint::EndpointSettings,
        endpoint_state::EndpointState,
        event::Door,
        event_type::EventType,
        health::Health,
        id::{EndpointId, SecretId, id_at},
        outcome::{Plain, Reason},
        secret_kind::SecretKind,
        shard::shard_of,
        tenant::TenantId,
        time::Timestamp,
    },
    engine::{Engine, EngineSettings, Job, Owner},
    faults::Faults,
    store::{
        NewEvent, Store, StoreError,
        endpoints::EndpointRow,
        seal::{Keyring, MasterKey, Place},
        secrets::SecretRow,
    },
    telemetry::metrics::Metrics,
    world::{Boxed, Request, Response, SendError, Sent, Timings, World},
};
use snaphook_signature::Secret;

/// What a receiver answers to the `n`th request for its URL, counted from 1.
pub type Answer = Box<dyn Fn(&str, u32) -> Reply + Send + Sync>;

/// What comes of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer with this status.
    Status(u16),
    /// An answer that asks for a pause.
    RetryAfter(u16, &'static str),
    /// An answer that says something.
    Says(u16, String),
    /// No answer, for this reason.
    Fails(Reason),
    /// A defect of ours.
    Panics,
}

/// The world outside. It survives the process's crashes, as the real one does.
pub struct Simulated {
    now: AtomicI64,
    dice: AtomicU64,
    faults: Mutex<Arc<Faults>>,
    answer: Answer,
    seen: Mutex<Vec<Request>>,
    counts: Mutex<HashMap<String, u32>>,
    /// Which (URL, event) pairs were answered with a 2xx.
    pleased: Mutex<HashSet<(String, String)>>,
    /// How far the clock goes on by itself whenever somebody asks for it.
    tick: AtomicI64,
    /// Which of the next looks at the wall clock panic, counted from 0.
    panics: Mutex<HashSet<u64>>,
    looks: AtomicU64,
}

impl Simulated {
    /// A world that begins now, for the database stamps events with its own clock.
    pub fn new(answer: impl Fn(&str, u32) -> u16 + Send + Sync + 'static) -> Arc<Self> {
        Self::with(move |url, count| Reply::Status(answer(url, count)))
    }

    /// As `new`, with answers of all kinds.
    pub fn with(answer: impl Fn(&str, u32) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        #[expect(clippy::disallowed_methods, reason = "where the simulated clock starts")]
        let start = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Arc::new(Self {
            now: AtomicI64::new(i64::try_from(start.as_micros()).unwrap()),
            dice: AtomicU64::new(7),
            faults: Mutex::default(),
            answer: Box::new(answer),
            seen: Mutex::default(),
            counts: Mutex::default(),
            pleased: Mutex::default(),
            tick: AtomicI64::new(0),
            panics: Mutex::default(),
            looks: AtomicU64::new(0),
        })
    }

    /// Turns the clock forward to `time`, never back.
    pub fn turn_to(&self, time: Timestamp) {
        self.now.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Sets the clock, back too: to the time of a recorded request.
    pub fn set_to(&self, time: Timestamp) {
        self.now.store(time.0, Ordering::Relaxed);
    }

    /// Turns the clock forward.
    pub fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// Sends die with the process, too.
    pub fn set_faults(&self, faults: Arc<Faults>) {
        *self.faults.lock().unwrap() = faults;
    }

    /// From now on the clock goes on by `tick` whenever somebody looks at the monotonic one.
    pub fn set_tick(&self, tick: Duration) {
        self.tick.store(i64::try_from(tick.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// Makes these of the next looks at the wall clock panic, counted from 0.
    pub fn panic_at_looks(&self, looks: impl IntoIterator<Item = u64>) {
        self.looks.store(0, Ordering::Relaxed);
        *self.panics.lock().unwrap() = looks.into_iter().collect();
    }

    /// All requests that left, in their order.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// How many events each URL said yes to.
    pub fn pleased(&self) -> HashSet<(String, String)> {
        self.pleased.lock().unwrap().clone()
    }

    fn receive(&self, request: &Request) -> Reply {
        let url = request.url.to_string();
        let count = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(url.clone()).or_default();
            *count += 1;
            *count
        };
        self.seen.lock().unwrap().push(request.clone());
        let reply = (self.answer)(&url, count);
        if matches!(reply, Reply::Status(200..300)) {
            // What a source took has our id under a name that no provider has.
            let ids = ["snaphook-id", "webhook-id"].map(|name| request.headers.get(name));
            let id = ids.into_iter().flatten().next().map_or("", |id| id.to_str().unwrap());
            let id = id.to_owned();
            self.pleased.lock().unwrap().insert((url, id));
        }
        reply
    }
}

impl World for Simulated {
    fn now(&self) -> Timestamp {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        let planned = self.panics.lock().unwrap().contains(&look);
        assert!(!planned, "a planned panic");
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        let tick = self.tick.load(Ordering::Relaxed);
        Duration::from_micros(self.now.fetch_add(tick, Ordering::Relaxed).cast_unsigned())
    }

    fn random(&self) -> u64 {
        let mut z = self.dice.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 27)
    }

    fn send(&self, request: Request) -> Boxed<'_, Sent> {
        Box::pin(async move {
            let died = |detail: &str| Sent {
                result: Err(SendError {
                    reason: Plain::ClosedEarly.into(),
                    detail: detail.to_owned(),
                }),
                timings: Timings::default(),
                address: None,
            };
            let faults = self.faults.lock().unwrap().clone();
            if faults.step().is_err() {
                return died("died before the request left");
            }
            let reply = self.receive(&request);
            if faults.step().is_err() {
                return died("died before the answer came");
            }
            let mut headers = HeaderMap::new();
            let mut body = Bytes::from_static(b"noted");
            let status = match reply {
                Reply::Status(status) => Ok(status),
                Reply::RetryAfter(status, pause) => {
                    headers.insert("retry-after", HeaderValue::from_static(pause));
                    Ok(status)
                }
                Reply::Says(status, text) => {
                    body = text.into();
                    Ok(status)
                }
                Reply::Fails(reason) => Err(SendError::new(reason, "as the test says")),
                Reply::Panics => panic!("a planned panic"),
            };
            Sent {
                result: status.map(|status| Response { status, headers, body, truncated: false }),
                timings: Timings { total: Duration::from_millis(3), ..Timings::default() },
                address: None,
            }
        })
    }
}

/// The master key of all tests.
pub fn keyring() -> Keyring {
    Keyring::new(
        MasterKey::parse("3b9f1c0de5a27486f1d2c3b4a5968778695a4b3c2d1e0f11223344556677889a")
            .unwrap(),
        Vec::new(),
    )
}

/// An engine in that world.
pub fn engine(store: Store, world: Arc<Simulated>) -> Arc<Engine> {
    engine_named(store, world, "node-1")
}

/// As [`engine`], under a node name of its own.
pub fn engine_named(store: Store, world: Arc<Simulated>, node: &str) -> Arc<Engine> {
    let settings = EngineSettings { node: node.to_owned(), ..EngineSettings::default() };
    Engine::new(store, world, settings, keyring(), Metrics::new())
}

/// An endpoint of `acme` with one secret, saved as the doors would save it.
pub async fn plant(store: &Store, world: &Simulated, settings: EndpointSettings) -> EndpointId {
    let id = plant_at(store, world.now(), world.random(), settings).await;
    world.pass(Duration::from_micros(10)); // the next one's id is another
    id
}

/// As [`plant`], at this time and with this chance.
pub async fn plant_at(
    store: &Store,
    now: Timestamp,
    chance: u64,
    settings: EndpointSettings,
) -> EndpointId {
    let tenant = TenantId::parse("acme").unwrap();
    let id = EndpointId(id_at(now, chance));
    let mut row = EndpointRow {
        id,
        tenant: tenant.clone(),
        shard: shard_of(id),
        state: EndpointState::Active,
        state_reason: None,
        state_since: now,
        discarding: false,
        settings,
        sealed: None,
        health: Health::default(),
        epoch: 0,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let secret = Secret::new_hmac(&[9; 32]);
    let secret_id = SecretId(id_at(now, chance));
    let sealed = keyring().seal(secret.text().as_bytes(), Place::of_secret(&tenant, secret_id));
    let mut tx = store.begin().await.unwrap();
    tx.add_endpoint(&mut row).await.unwrap();
    let secret = SecretRow {
        id: secret_id,
        endpoint: id,
        tenant,
        kind: SecretKind::Hmac,
        sealed,
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    tx.add_secret(&secret).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Settings of an endpoint at `url`, all else by default.
pub fn at(url: &str) -> EndpointSettings {
    EndpointSettings { url: url.to_owned(), ..EndpointSettings::default() }
}

/// An event of `acme`.
pub fn event(event_type: &str, key: Option<&str>) -> NewEvent {
    NewEvent {
        tenant: TenantId::parse("acme").unwrap(),
        event_type: EventType::parse(event_type).unwrap(),
        payload: Bytes::from_static(br#"{"amount": 4999}"#),
        content_type: None,
        key: key.map(str::to_owned),
        dedup: key.map(str::to_owned),
        version: None,
        occurred_at: None,
        traceparent: None,
        door: Door::Http,
        checked: true,
    }
}

/// One look at everything, and one attempt of each delivery whose turn it is. Gives how many.
pub async fn turn(engine: &Engine, owner: &mut Owner) -> Result<usize, StoreError> {
    owner.refresh().await?;
    owner.obey().await?;
    owner.fetch().await?;
    let jobs: Vec<Job> = owner.take(64).await?;
    let mut done = Vec::new();
    for job in &jobs {
        done.push(engine.attempt(job).await);
    }
    let finished: Vec<_> = done.iter().map(|done| done.finished.clone()).collect();
    let completion = engine.complete(&finished).await?;
    owner.finish(&done, &completion);
    engine.disable_gone(&finished).await?;
    owner.save_health().await?;
    owner.end_unwanted().await?;
    Ok(jobs.len())
}

/// Delivers until nothing is waiting, turning the clock to each due time. Held deliveries wait.
pub async fn run_dry(
    engine: &Engine,
    owner: &mut Owner,
    world: &Simulated,
) -> Result<(), StoreError> {
    owner.claim().await?;
    loop {
        if turn(engine, owner).await? > 0 || owner.has_more() {
            continue;
        }
        match owner.next_due() {
            Some(due) => {
                world.turn_to(due);
                owner.claim().await?;
            }
            None => return Ok(()),
        }
    }
}
