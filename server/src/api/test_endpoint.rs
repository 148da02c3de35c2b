//! `POST …/endpoints/{endpoint}/test`: one signed test event to one endpoint, and what came of
//! its first attempt.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    attempts::AttemptBody,
    auth::Manager,
    error::ApiError,
    extract::{NoBody, id},
};
use crate::domain::id::{DeliveryId, EndpointId, EventId};

/// Between two looks for the attempt.
const STEP: Duration = Duration::from_millis(50);

/// What came of a test.
#[derive(Serialize, ToSchema)]
pub struct TestResult {
    #[schema(value_type = String)]
    event: EventId,
    #[schema(value_type = String)]
    delivery: DeliveryId,
    /// `delivered` or `failed`; `pending` if no attempt has ended yet.
    outcome: &'static str,
    /// The receiver's status code.
    status: Option<i16>,
    /// Why it failed, by its stable name.
    reason: Option<String>,
    /// Why it failed, for people.
    detail: Option<String>,
    /// How long it took, in milliseconds.
    took_ms: Option<i64>,
}

/// Send a test event to one endpoint, and wait for its first attempt
///
/// The event has the type `snaphook.test` and goes to this endpoint alone. A failed test is
/// retried like any delivery.
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/test", tag = "endpoints",
    operation_id = "test_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    responses((status = 200, body = TestResult))
)]
pub async fn test(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    _: NoBody,
) -> Result<Json<TestResult>, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let delivery = api.manage.send_test_event(&caller.actor, &tenant, id).await?;
    let first = api.await_first_attempt(delivery).await?;
    let (outcome, first) = match first {
        Some(first) => (first.outcome, Some(first)),
        None => ("pending", None),
    };
    Ok(Json(TestResult {
        event: delivery.event,
        delivery,
        outcome,
        status: first.as_ref().and_then(|first| first.status),
        reason: first.as_ref().and_then(|first| first.reason.clone()),
        detail: first.as_ref().and_then(|first| first.error.clone()),
        took_ms: first.map(|first| first.took_ms),
    }))
}

impl Api {
    async fn await_first_attempt(
        &self,
        delivery: DeliveryId,
    ) -> Result<Option<AttemptBody>, ApiError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a person waits for the outcome here; the delivery does not"
        )]
        let mut steps = tokio::time::interval(STEP);
        for _ in 0..self.settings.test_wait.as_millis() / STEP.as_millis() {
            steps.tick().await;
            let attempts = self.store.read().await?.list_attempts(delivery).await?;
            if let Some(first) = attempts.into_iter().next() {
                return Ok(Some(first.into()));
            }
        }
        Ok(None)
    }
}
