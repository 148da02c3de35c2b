//! Whether we live, whether we can work, and what we count.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, auth::Reader, error::ApiError};
use crate::telemetry::metrics::CONTENT_TYPE;

/// How the process is.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `alive` or `ready`.
    status: &'static str,
}

/// Whether the process is alive
#[utoipa::path(
    get, path = "/healthz", tag = "system", operation_id = "healthz",
    responses((status = 200, body = Health)), security(())
)]
pub async fn alive() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Whether it can work: the database answers and its schema is up to date
#[utoipa::path(
    get, path = "/readyz", tag = "system", operation_id = "readyz",
    responses((status = 200, body = Health)), security(())
)]
pub async fn ready(State(api): State<Arc<Api>>) -> Result<Json<Health>, ApiError> {
    let not_ready =
        |problem: String| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", problem);
    let pending = match api.store.list_pending_migrations().await {
        Ok(pending) => pending,
        Err(error) => {
            tracing::warn!("not ready: {error}");
            return Err(not_ready("the database does not answer".to_owned()));
        }
    };
    if pending.is_empty() {
        return Ok(Json(Health { status: "ready" }));
    }
    Err(not_ready(format!("the schema lacks {} migrations", pending.len())))
}

/// What is counted, for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "system", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub async fn metrics(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
) -> Result<impl IntoResponse, ApiError> {
    caller.needs_operator()?;
    if !api.settings.serves_metrics {
        let detail = "metrics have a listener of their own here, see metrics.listen";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_route", detail));
    }
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], api.metrics.render()))
}
