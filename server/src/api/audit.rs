//! `/v1/audit`: who changed what.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Api, auth::Manager, error::ApiError, extract::Params, listing::Listing};
use crate::{
    domain::{tenant::TenantId, time::Timestamp},
    store::audit::AuditRow,
};

/// One change.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct AuditBody {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// An API key's id, or `command line`.
    actor: String,
    /// What was done, as `endpoint.update`.
    action: String,
    /// To what: an id.
    object: String,
    #[schema(value_type = Option<String>)]
    tenant: Option<TenantId>,
    /// What else is worth knowing.
    #[schema(value_type = Object)]
    detail: Map<String, Value>,
}

impl From<AuditRow> for AuditBody {
    fn from(row: AuditRow) -> Self {
        let AuditRow { at, actor, action, object, tenant, detail, .. } = row;
        Self { at, actor, action, object, tenant, detail }
    }
}

/// List the changes, the newest first
#[utoipa::path(
    get, path = "/v1/audit", tag = "system", operation_id = "list_audit",
    params(("tenant" = Option<String>, Query)),
    responses((status = 200, body = Listing<AuditBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    mut params: Params,
) -> Result<Json<Listing<AuditBody>>, ApiError> {
    let tenant = caller.within(params.text("tenant").as_deref())?;
    let bound = tenant.as_ref().map(ToString::to_string).unwrap_or_default();
    let page = params.page(&caller, "audit", &[bound])?;
    let paged = api.store.read().await?.list_audit(tenant.as_ref(), page).await?;
    Ok(Listing::of(paged, AuditBody::from))
}
