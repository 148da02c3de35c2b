//! The operator's settings, as far as the pipeline needs them.

use std::time::Duration;

use crate::domain::{
    circuit::CircuitRules,
    health::HealthRules,
    retry::{Jitter, RetrySchedule},
};

/// See `config::keys` for the reason of each default.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// This node's name, unique among those that share the database.
    pub node: String,
    /// How others reach us, for the format `thin`.
    pub base_url: String,
    /// For a whole attempt, where the endpoint sets nothing else.
    pub timeout: Duration,
    /// Of a shard, without renewal.
    pub lease: Duration,
    /// Requests on the wire at once, over all endpoints.
    pub concurrency: usize,
    /// Requests to one endpoint at once, where it sets nothing else.
    pub max_in_flight: u32,
    /// The pauses before each attempt, where the endpoint sets nothing else.
    pub schedule: RetrySchedule,
    /// The part of a pause that chance may add.
    pub jitter: Jitter,
    /// When an endpoint is given up.
    pub health: HealthRules,
    /// When an endpoint rests.
    pub circuit: CircuitRules,
    /// How long what sources saw is remembered: a provider may repeat a request for so long.
    pub keep_received: Duration,
    /// How long the requests are kept that sources kept apart.
    pub keep_requests: Duration,
    /// Whether an event is invalid whose type or version nobody declared.
    pub strict_event_types: bool,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            node: "node-1".to_owned(),
            base_url: "http://127.0.0.1:8080".to_owned(),
            timeout: Duration::from_secs(15),
            lease: Duration::from_secs(45),
            concurrency: 256,
            max_in_flight: 16,
            schedule: RetrySchedule::default(),
            jitter: Jitter::default(),
            health: HealthRules::default(),
            circuit: CircuitRules::default(),
            keep_received: Duration::from_hours(14 * 24),
            keep_requests: Duration::from_hours(30 * 24),
            strict_event_types: false,
        }
    }
}
