//! The pipeline. Events come in by the doors in SQL, whichever way they came; deliveries go out
//! at `attempt`; everything in between is rows waiting for their due time.
//!
//! ```text
//! SQL, HTTP, command line ─► accept ─► events + queue ─┐ (one transaction)
//!                                                      ▼
//!   leases ─► scans, lanes ─► take ─► attempt ─► complete ─► attempts, dead letters
//!   (which shards are ours)   (fetch)  (prepare, send, classify)   (queue: gone, or due again)
//! ```
//! Each step is a function that a test can call by itself; `worker` only decides when.

mod attempt;
pub mod budget;
mod completer;
mod detail;
mod first;
mod giving_up;
pub mod kept;
pub mod lanes;
mod leases;
mod live;
mod owner;
pub mod prepare;
mod prune;
pub mod published;
mod pulls;
pub mod scans;
mod settings;
pub mod sources;
mod timetable;
mod upkeep;
mod worker;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::sync::Notify;

pub use attempt::{Done, Job};
pub use budget::Budget;
pub use detail::Detail;
pub use owner::Owner;
pub use published::Published;
pub use settings::EngineSettings;
pub use sources::SourceBook;
pub use timetable::heartbeat;
pub use worker::Worker;

use self::budget::PAYLOADS_BYTES_MAX;
use crate::{
    domain::time::Timestamp,
    store::{Dialect, Store, StoreError, seal::Keyring},
    telemetry::metrics::Metrics,
    world::World,
};

/// No offset was measured yet.
const UNKNOWN: i64 = i64::MIN;

/// What every step of the pipeline has at hand. One a process, shared.
pub struct Engine {
    /// The database.
    pub store: Store,
    /// Time, chance and the network.
    pub world: Arc<dyn World>,
    /// The operator's settings, as far as the pipeline needs them.
    pub settings: EngineSettings,
    /// Opens what is sealed.
    pub keyring: Arc<Keyring>,
    /// What providers publish to verify by.
    pub published: Published,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where signed requests of providers come in.
    pub sources: Arc<SourceBook>,
    /// Memory for payloads.
    pub budget: Arc<Budget>,
    /// Rung when something changed that the worker may want to know at once.
    bell: Notify,
    /// What to add to our monotonic clock to get the database's, in microseconds; [`UNKNOWN`]
    /// until it was measured.
    offset: AtomicI64,
    /// By how much the database's clock was ahead of our wall clock at that time.
    ahead: AtomicI64,
}

impl Engine {
    /// An engine that does nothing yet: an [`Owner`] or a [`Worker`] drives it.
    pub fn new(
        store: Store,
        world: Arc<dyn World>,
        settings: EngineSettings,
        keyring: impl Into<Arc<Keyring>>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let keyring = keyring.into();
        let sources = SourceBook::new(store.clone(), keyring.clone(), settings.base_url.clone());
        Arc::new(Self {
            published: Published::new(Arc::clone(&world)),
            store,
            world,
            settings,
            keyring,
            metrics,
            sources,
            budget: Budget::new(PAYLOADS_BYTES_MAX),
            bell: Notify::new(),
            offset: AtomicI64::new(UNKNOWN),
            ahead: AtomicI64::new(0),
        })
    }

    /// Lets this process's worker look at once, as after an event or a command of its own.
    pub fn wake(&self) {
        self.bell.notify_one();
    }

    /// The database's clock, which all nodes and all emits share. It goes on by our monotonic
    /// clock, so that a jump of our wall clock makes nothing due. On SQLite it is our wall clock.
    pub fn now(&self) -> Timestamp {
        match self.offset.load(Ordering::Relaxed) {
            UNKNOWN => self.world.now(),
            offset => Timestamp(self.monotonic().saturating_add(offset)),
        }
    }

    fn monotonic(&self) -> i64 {
        i64::try_from(self.world.monotonic().as_micros()).unwrap_or(i64::MAX)
    }

    /// On SQLite the wall clock is the only one: what waits for its time waits by it, so whoever
    /// set it should know.
    fn watch_wall_clock(&self) {
        let ahead = self.world.now().0.saturating_sub(self.monotonic());
        let was = self.ahead.swap(ahead, Ordering::Relaxed);
        let by = ahead.saturating_sub(was);
        if was != 0 && by.abs() > 1_000_000 {
            tracing::warn!(
                seconds = by / 1_000_000,
                "the wall clock was set: retries come that much earlier, or later if negative"
            );
        }
    }

    /// Measures how far our clock is from the database's.
    pub async fn adjust_clock(&self) -> Result<(), StoreError> {
        if self.store.dialect() == Dialect::Sqlite {
            self.watch_wall_clock(); // it has ours
            return Ok(());
        }
        let mut tx = self.store.read_engine().await?;
        let before = self.monotonic();
        let theirs = tx.clock().await?;
        let halfway = before + (self.monotonic() - before) / 2;
        self.offset.store(theirs.0.saturating_sub(halfway), Ordering::Relaxed);
        let ahead = theirs.0.saturating_sub(self.world.now().0);
        if ahead.abs_diff(self.ahead.swap(ahead, Ordering::Relaxed)) > 1_000_000 {
            tracing::warn!(
                seconds = ahead / 1_000_000,
                "this node's clock differs from the database's"
            );
        }
        Ok(())
    }
}
