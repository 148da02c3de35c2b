//! `POST /v1/events/batch`: many events in one request, each with its own verdict: one that is
//! wrong does not keep the others out.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Emitter},
    emit::{AcceptedBody, EventInput},
    error::{ApiError, ProblemDocument},
    extract::{self, from_json_text, require_json},
    idempotency::Once,
};
use crate::{
    domain::{
        event::Door,
        limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX},
        problem::Problem,
    },
    store::NewEvent,
};

/// Up to 1,000 events, 10 MiB in all.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchInput {
    /// Each as for `POST /v1/events`.
    #[schema(value_type = Vec<EventInput>)]
    events: Vec<Box<RawValue>>,
}

/// What became of a batch.
#[derive(Serialize, ToSchema)]
pub struct BatchBody {
    /// One for each event, in their order.
    results: Vec<BatchResult>,
}

/// What became of one event of a batch.
#[derive(Serialize, ToSchema)]
pub struct BatchResult {
    /// 202 if it was accepted, else the status of the problem.
    status: u16,
    /// The event, if it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<AcceptedBody>,
    /// What is wrong with it, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemDocument>,
}

impl From<Result<AcceptedBody, ApiError>> for BatchResult {
    fn from(result: Result<AcceptedBody, ApiError>) -> Self {
        match result {
            Ok(event) => {
                Self { status: StatusCode::ACCEPTED.as_u16(), event: Some(event), error: None }
            }
            Err(error) => {
                Self { status: error.status().as_u16(), event: None, error: Some(error.document()) }
            }
        }
    }
}

/// Send many events
///
/// 202 means that the batch was read; each event has its own verdict, and those with 202 are on
/// disk. When the database takes none of them, the whole request is a 503.
#[utoipa::path(
    post, path = "/v1/events/batch", tag = "events", operation_id = "create_events",
    request_body = BatchInput, responses((status = 202, body = BatchBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Emitter(caller): Emitter,
    once: Option<Extension<Once>>,
    request: Request,
) -> Result<(StatusCode, Json<BatchBody>), ApiError> {
    let (parts, body) = request.into_parts();
    require_json(&parts.headers)?;
    let input: BatchInput = from_json_text(&extract::read(body, BATCH_BYTES_MAX).await?)?;
    let count = input.events.len();
    if !(1..=BATCH_EVENTS_MAX).contains(&count) {
        let problem = format!("there are {count}; send 1 to {BATCH_EVENTS_MAX} events at once");
        return Err(ApiError::invalid(vec![Problem::new("events", problem)]));
    }
    let mut checked = Vec::with_capacity(count);
    for (index, text) in input.events.iter().enumerate() {
        let dedup = once.as_ref().map(|once| once.0.dedup(index));
        checked.push(api.read_one(&caller, text, dedup).await);
    }
    let good: Vec<NewEvent> = checked.iter().filter_map(|one| one.as_ref().ok().cloned()).collect();
    let mut accepted = api.store.accept_many(good).await?.into_iter();
    let mut results: Vec<BatchResult> = Vec::with_capacity(count);
    let mut new_events = 0;
    for one in checked {
        let result = match one {
            Ok(event) => match accepted.next() {
                Some(Ok(accepted)) => {
                    new_events += u64::from(!accepted.duplicate);
                    Ok(AcceptedBody::new(&event, accepted))
                }
                Some(Err(error)) => Err(error.into()),
                None => Err(ApiError::internal()),
            },
            Err(error) => Err(error),
        };
        results.push(result.into());
    }
    api.metrics.events_accepted_many(Door::Http.name(), new_events);
    (api.manage.wake)();
    let busy = |result: &BatchResult| result.status == StatusCode::SERVICE_UNAVAILABLE.as_u16();
    if results.iter().all(busy) {
        let busy = crate::store::StoreError::Full("no event of the batch was stored".to_owned());
        return Err(busy.into());
    }
    Ok((StatusCode::ACCEPTED, Json(BatchBody { results })))
}

impl Api {
    async fn read_one(
        &self,
        caller: &Caller,
        text: &RawValue,
        dedup: Option<String>,
    ) -> Result<NewEvent, ApiError> {
        let input: EventInput = from_json_text(text.get().as_bytes())?;
        let (texts, data) = input.split();
        self.check_event(caller, texts, (data, None), dedup).await
    }
}
