//! How an endpoint is doing, as the API shows it.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    domain::{
        circuit::{Circuit, CircuitState},
        endpoint_state::EndpointState,
        health::HealthState,
        time::Timestamp,
    },
    store::EndpointRow,
};

/// How an endpoint is doing.
#[derive(Serialize, ToSchema)]
#[schema(as = EndpointHealth)]
pub struct HealthBody {
    /// `healthy`; `failing` when no attempt has succeeded since some time; `disabled`.
    #[schema(value_type = String)]
    state: HealthState,
    /// Since when it fails, or is disabled.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Why its last failed attempt failed, by its stable name.
    reason: Option<String>,
    /// What was answered to that attempt, if anything was.
    status: Option<u16>,
    /// When an attempt last succeeded. Some minutes late at most.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_success_at: Option<Timestamp>,
    /// When an attempt last failed. Some minutes late at most.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_failure_at: Option<Timestamp>,
    /// When each step of `health.warn_after` was reached, as far as it was.
    #[schema(value_type = Vec<String>)]
    warned_at: Vec<Timestamp>,
    /// While it fails: the first failed attempt after that disables it.
    #[schema(value_type = Option<String>, format = DateTime)]
    disables_at: Option<Timestamp>,
    /// Whether requests flow.
    circuit: CircuitBody,
}

/// Whether requests to an endpoint flow.
#[derive(Serialize, ToSchema)]
#[schema(as = Circuit)]
pub struct CircuitBody {
    /// `closed`: they flow. `open`: they rest, as the last ones all failed, and now and then one
    /// goes as a probe. `half_open`: a probe has passed, and more go step by step.
    #[schema(value_type = String)]
    state: CircuitState,
    /// Since when it is open or half-open.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// When the next probe goes, if something waits by then.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_probe_at: Option<Timestamp>,
}

impl HealthBody {
    /// Of a row, where endpoints are disabled after so long.
    pub fn of(row: &EndpointRow, disable_after: Duration) -> Self {
        let health = &row.health;
        let disabled = row.state == EndpointState::Disabled;
        let failing_since = health.failing_since.filter(|_| !disabled);
        Self {
            state: if disabled { HealthState::Disabled } else { health.state() },
            since: if disabled { Some(row.state_since) } else { failing_since },
            reason: health.last_reason.clone(),
            status: health.last_status,
            last_success_at: health.last_success_at,
            last_failure_at: health.last_failure_at,
            warned_at: health.warned_at.clone(),
            disables_at: failing_since.map(|since| since + disable_after),
            circuit: CircuitBody::from(&health.circuit),
        }
    }
}

impl From<&Circuit> for CircuitBody {
    fn from(circuit: &Circuit) -> Self {
        Self { state: circuit.state(), since: circuit.since(), next_probe_at: circuit.probe_at() }
    }
}
