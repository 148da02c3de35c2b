//! Pause, resume, enable, probe: what people do to an endpoint as it runs. 200 when the owner of its
//! shard has heard, else 202: accepted, and in force within seconds.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api,
    auth::Manager,
    endpoints::EndpointBody,
    error::ApiError,
    extract::{MaybeBody, NoBody, id},
};
use crate::{manage::endpoint_state::Held, store::EndpointRow};

type Told = Result<(StatusCode, Json<EndpointBody>), ApiError>;

/// What becomes of what a disabled endpoint held.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnableInput {
    /// `send` (the default), or `discard`: then it ends as dead of `disabled`, without a request.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    held: Option<Held>,
}

impl Api {
    fn told_endpoint(&self, (row, heard): (EndpointRow, bool)) -> Told {
        let status = if heard { StatusCode::OK } else { StatusCode::ACCEPTED };
        Ok((status, Json(self.show_endpoint(row)?)))
    }
}

/// Pause an endpoint: its deliveries are held
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/pause", tag = "endpoints",
    operation_id = "pause_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    responses((status = 200, body = EndpointBody), (status = 202, body = EndpointBody))
)]
pub async fn pause(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    _: NoBody,
) -> Told {
    let tenant = caller.tenant(&tenant)?;
    let id = id("endpoint", &endpoint)?;
    let told = api.manage.pause_endpoint(&caller.actor, &tenant, id).await?;
    api.told_endpoint(told)
}

/// Resume a paused endpoint: what was held goes out
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/resume", tag = "endpoints",
    operation_id = "resume_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    responses((status = 200, body = EndpointBody), (status = 202, body = EndpointBody))
)]
pub async fn resume(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    _: NoBody,
) -> Told {
    let tenant = caller.tenant(&tenant)?;
    let id = id("endpoint", &endpoint)?;
    let told = api.manage.resume_endpoint(&caller.actor, &tenant, id).await?;
    api.told_endpoint(told)
}

/// Enable a disabled endpoint, and send or discard what it held
///
/// While a long list is discarded the answer is 202 and `discarding` is true; the endpoint becomes
/// active when all of it is.
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/enable", tag = "endpoints",
    operation_id = "enable_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    request_body = EnableInput,
    responses((status = 200, body = EndpointBody), (status = 202, body = EndpointBody))
)]
pub async fn enable(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    MaybeBody(input): MaybeBody<EnableInput>,
) -> Told {
    let tenant = caller.tenant(&tenant)?;
    let id = id("endpoint", &endpoint)?;
    let told = api
        .manage
        .enable_endpoint(&caller.actor, &tenant, id, input.held.unwrap_or_default())
        .await?;
    api.told_endpoint(told)
}

/// Probe an endpoint whose circuit is open: what waits longest goes now
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/probe", tag = "endpoints",
    operation_id = "probe_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    responses((status = 200, body = EndpointBody), (status = 202, body = EndpointBody))
)]
pub async fn probe(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    _: NoBody,
) -> Told {
    let tenant = caller.tenant(&tenant)?;
    let id = id("endpoint", &endpoint)?;
    let told = api.manage.probe_endpoint(&caller.actor, &tenant, id).await?;
    api.told_endpoint(told)
}
