//! `/v1/tenants`: the operator's customers, under the operator's own ids.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Manager, OperatorManager, Reader},
    error::ApiError,
    extract::{Body, MaybeBody, Params},
    listing::Listing,
};
use crate::{domain::time::Timestamp, manage::tenants::TenantChange, store::tenants::TenantRow};

/// A tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
pub struct TenantBody {
    /// Your own key for the customer.
    id: String,
    /// Whom notices about it go to.
    owner_email: Option<String>,
    /// Your own notes.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Limits of this tenant alone: `endpoints`, the most it may have.
    #[schema(value_type = Object)]
    limits: Map<String, Value>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<TenantRow> for TenantBody {
    fn from(row: TenantRow) -> Self {
        Self {
            id: row.id.to_string(),
            owner_email: row.owner_email,
            metadata: row.metadata,
            limits: row.limits,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// What can be set on a tenant.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantInput {
    /// Whom notices about it go to; null removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "absent, null and a text are three things")]
    owner_email: Option<Option<String>>,
    /// Your own notes. PATCH merges its members, null removes one.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// `endpoints`: the most that the tenant may have.
    #[schema(value_type = Option<Object>)]
    limits: Option<Map<String, Value>>,
}

/// Tells a null from a field that is absent.
#[expect(clippy::option_option, reason = "absent, null and a value are three things")]
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

impl From<TenantInput> for TenantChange {
    fn from(input: TenantInput) -> Self {
        let TenantInput { owner_email, metadata, limits } = input;
        Self { owner_email, metadata, limits }
    }
}

/// List the tenants
#[utoipa::path(
    get, path = "/v1/tenants", tag = "tenants", operation_id = "list_tenants",
    responses((status = 200, body = Listing<TenantBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    params: Params,
) -> Result<Json<Listing<TenantBody>>, ApiError> {
    let page = params.page(&caller, "tenants", &[])?;
    let mut tx = api.store.read().await?;
    // A tenant's own key sees the list that it would see if it were the only one.
    if let Some(own) = &caller.actor.tenant {
        let data = tx.find_tenant(own).await?.into_iter().map(TenantBody::from).collect();
        return Ok(Json(Listing { data, next: None, previous: None }));
    }
    Ok(Listing::of(tx.list_tenants(page).await?, TenantBody::from))
}

/// Show a tenant
#[utoipa::path(
    get, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "show_tenant",
    params(("tenant" = String, Path)),
    responses((status = 200, body = TenantBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(tenant): Path<String>,
) -> Result<Json<TenantBody>, ApiError> {
    let id = caller.tenant(&tenant)?;
    let found = api.store.read().await?.find_tenant(&id).await?;
    Ok(Json(found.ok_or_else(|| ApiError::not_found("tenant", &tenant))?.into()))
}

/// Create a tenant, or set one to exactly this
#[utoipa::path(
    put, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "put_tenant",
    params(("tenant" = String, Path)), request_body = Option<TenantInput>,
    responses((status = 200, body = TenantBody), (status = 201, body = TenantBody))
)]
pub async fn put(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Path(tenant): Path<String>,
    MaybeBody(input): MaybeBody<TenantInput>,
) -> Result<(StatusCode, Json<TenantBody>), ApiError> {
    let id = crate::domain::tenant::TenantId::parse(&tenant).map_err(|error| {
        ApiError::invalid(vec![crate::domain::problem::Problem::new("tenant", error)])
    })?;
    let (row, made) = api.manage.put_tenant(&caller.actor, &id, input.into()).await?;
    Ok((if made { StatusCode::CREATED } else { StatusCode::OK }, Json(row.into())))
}

/// Change what is named of a tenant
#[utoipa::path(
    patch, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "update_tenant",
    params(("tenant" = String, Path)), request_body = TenantInput,
    responses((status = 200, body = TenantBody))
)]
pub async fn update(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(tenant): Path<String>,
    Body(input): Body<TenantInput>,
) -> Result<Json<TenantBody>, ApiError> {
    let id = caller.tenant(&tenant)?;
    if input.limits.is_some() && !caller.actor.is_operator() {
        let detail = "limits: only an operator's key may set them; leave them out";
        return Err(ApiError::forbidden("operator_only", detail));
    }
    Ok(Json(api.manage.update_tenant(&caller.actor, &id, input.into()).await?.into()))
}

/// Delete a tenant
///
/// Its endpoints go, what waits for them is canceled, its keys end. Its events and the history of
/// its deliveries stay until their retention is over.
#[utoipa::path(
    delete, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "delete_tenant",
    params(("tenant" = String, Path)), responses((status = 204))
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Path(tenant): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = caller.tenant(&tenant)?;
    api.manage.delete_tenant(&caller.actor, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
