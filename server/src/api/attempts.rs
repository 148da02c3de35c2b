//! Attempts as the API shows them, within their delivery.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    domain::{attempt::Mark, delivery::Cause, time::Timestamp},
    store::attempts::AttemptRow,
};

/// An attempt, or an ending without a request.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptBody {
    /// From 1, over all runs.
    number: i32,
    /// 0, or which redelivery.
    run: i32,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `delivered` or `failed`; of endings without a request `dead`, `canceled` or `filtered`.
    pub outcome: &'static str,
    /// Of what the delivery died by it.
    #[schema(value_type = Option<String>)]
    cause: Option<Cause>,
    /// Whether it was an attempt: false for an ending without one, such as a cancellation. How far
    /// an attempt came that has no `status`, its `reason` tells.
    sent: bool,
    /// Whether it probed a circuit ahead of its time: its retry schedule does not count it.
    probe: bool,
    /// Whether its result came when another had settled the delivery; then it changed nothing.
    late: bool,
    /// The receiver's status code.
    pub status: Option<i16>,
    /// Why it failed, by its stable name, as `timeout_total`.
    pub reason: Option<String>,
    /// Why it failed, for people.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: i64,
    /// Where it went, what was answered, and how long each part took.
    #[schema(value_type = Object)]
    detail: Value,
    /// The beginning of the answer's body, if that is text.
    response: Option<String>,
    /// The beginning of the answer's body, if that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_base64: Option<String>,
}

impl From<AttemptRow> for AttemptBody {
    fn from(row: AttemptRow) -> Self {
        let detail: Value = serde_json::from_str(&row.detail).unwrap_or_default();
        let response = row.response.map(String::from_utf8);
        let (response, response_base64) = match response {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(bytes)) => (None, Some(BASE64_STANDARD.encode(bytes.as_bytes()))),
        };
        Self {
            number: row.number,
            run: row.run,
            at: row.started_at,
            outcome: outcome_of(row.mark, row.sent, row.status),
            cause: row.cause,
            sent: row.sent,
            probe: row.probe,
            late: row.mark == Mark::Late,
            status: row.status,
            reason: row.reason,
            error: detail["error"].as_str().map(str::to_owned),
            took_ms: row.duration_us / 1_000,
            detail,
            response,
            response_base64,
        }
    }
}

fn outcome_of(mark: Mark, sent: bool, status: Option<i16>) -> &'static str {
    match mark {
        Mark::Delivered => "delivered",
        Mark::Late if status.is_some_and(|status| (200..300).contains(&status)) => "delivered",
        Mark::Retry | Mark::Late => "failed",
        Mark::Dead if sent => "failed",
        Mark::Dead => "dead",
        Mark::Canceled => "canceled",
        Mark::Filtered => "filtered",
    }
}
