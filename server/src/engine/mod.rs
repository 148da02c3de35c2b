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
mod completer;
mod detail;
mod first;
pub mod lanes;
mod leases;
mod live;
mod owner;
pub mod prepare;
pub mod scans;
mod schemas;
mod settings;
mod upkeep;
mod worker;

use std::sync::Arc;

use tokio::sync::Notify;

pub use attempt::Job;
pub use detail::Detail;
pub use owner::Owner;
pub use settings::EngineSettings;
pub use worker::Worker;

use crate::{
    domain::time::Timestamp,
    store::{Store, seal::Keyring},
    telemetry::metrics::Metrics,
    world::World,
};

/// What every step of the pipeline has at hand. One a process, shared.
pub struct Engine {
    /// The database.
    pub store: Store,
    /// Time, chance and the network.
    pub world: Arc<dyn World>,
    /// The operator's settings, as far as the pipeline needs them.
    pub settings: EngineSettings,
    /// Opens what is sealed.
    pub keyring: Keyring,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Rung when something changed that the worker may want to know at once.
    bell: Notify,
}

impl Engine {
    /// An engine that does nothing yet: an [`Owner`] or a [`Worker`] drives it.
    pub fn new(
        store: Store,
        world: Arc<dyn World>,
        settings: EngineSettings,
        keyring: Keyring,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self { store, world, settings, keyring, metrics, bell: Notify::new() })
    }

    /// Lets this process's worker look at once, as after an event or a command of its own.
    pub fn wake(&self) {
        self.bell.notify_one();
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        self.world.now()
    }
}
