//! `/v1/keys`: API keys. A key's text is shown once, when it is made.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderName, StatusCode, header},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    auth::Manager,
    error::ApiError,
    extract::{Body, Params, id},
    listing::Listing,
};
use crate::{
    domain::{
        id::ApiKeyId,
        problem::Problem,
        scope::{Scope, Scopes},
        tenant::TenantId,
        time::Timestamp,
    },
    manage::api_keys::{NewApiKey, create_api_key, revoke_api_key},
    store::api_keys::ApiKeyRow,
};

/// An API key.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct ApiKeyBody {
    #[schema(value_type = String)]
    id: ApiKeyId,
    /// For people.
    name: String,
    /// `operator` or `tenant`.
    role: &'static str,
    /// The tenant that it is bound to.
    #[schema(value_type = Option<String>)]
    tenant: Option<TenantId>,
    /// Of `read`, `emit`, `manage`.
    #[schema(value_type = Vec<String>)]
    scopes: Scopes,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// Its text: in the answer of create alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl From<ApiKeyRow> for ApiKeyBody {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            role: if row.tenant.is_some() { "tenant" } else { "operator" },
            tenant: row.tenant,
            scopes: row.scopes,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            key: None,
        }
    }
}

/// A new API key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewApiKeyInput {
    /// For people.
    #[serde(default)]
    name: String,
    /// The tenant to bind it to; an operator's key without.
    #[schema(value_type = Option<String>)]
    tenant: Option<TenantId>,
    /// Of `read`, `emit`, `manage`.
    #[schema(value_type = Vec<String>)]
    scopes: Vec<Scope>,
    /// It is good until then.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// List the API keys, the newest first
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", operation_id = "list_keys",
    params(("tenant" = Option<String>, Query)),
    responses((status = 200, body = Listing<ApiKeyBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    mut params: Params,
) -> Result<Json<Listing<ApiKeyBody>>, ApiError> {
    let tenant = caller.within(params.text("tenant").as_deref())?;
    let bound = tenant.as_ref().map(ToString::to_string).unwrap_or_default();
    let page = params.page(&caller, "keys", &[bound])?;
    let paged = api.store.read().await?.list_api_keys(tenant.as_ref(), page).await?;
    Ok(Listing::of(paged, ApiKeyBody::from))
}

/// Create an API key; its text is in this answer alone
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", operation_id = "create_key",
    request_body = NewApiKeyInput, responses((status = 201, body = ApiKeyBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Body(input): Body<NewApiKeyInput>,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Json<ApiKeyBody>), ApiError> {
    let tenant = match input.tenant {
        Some(tenant) => Some(caller.tenant(tenant.as_str())?),
        None => caller.actor.tenant.clone(),
    };
    if let Some(tenant) = &tenant
        && api.store.read().await?.find_tenant(tenant).await?.is_none()
    {
        return Err(ApiError::not_found("tenant", tenant.as_str()));
    }
    let scopes = Scopes::new(input.scopes).ok_or_else(|| {
        ApiError::invalid(vec![Problem::new(
            "scopes",
            "it is empty; name one at least: read, emit, manage",
        )])
    })?;
    let new = NewApiKey { name: input.name, tenant, scopes, expires_at: input.expires_at };
    let made = create_api_key(&api.store, &*api.manage.world, &caller.actor, new).await?;
    let mut body = ApiKeyBody::from(made.0);
    body.key = Some(made.1.expose().to_owned());
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(body)))
}

/// Show an API key, without its text
#[utoipa::path(
    get, path = "/v1/keys/{key}", tag = "keys", operation_id = "show_key",
    params(("key" = String, Path)), responses((status = 200, body = ApiKeyBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(key): Path<String>,
) -> Result<Json<ApiKeyBody>, ApiError> {
    let id: ApiKeyId = id("API key", &key)?;
    let found = api.store.read().await?.find_api_key(caller.actor.tenant.as_ref(), id).await?;
    Ok(Json(found.ok_or_else(|| ApiError::not_found("API key", &key))?.into()))
}

/// Revoke an API key; within five seconds it is refused everywhere
#[utoipa::path(
    delete, path = "/v1/keys/{key}", tag = "keys", operation_id = "revoke_key",
    params(("key" = String, Path)), responses((status = 204))
)]
pub async fn revoke(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(key): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id: ApiKeyId = id("API key", &key)?;
    revoke_api_key(&api.store, &*api.manage.world, &caller.actor, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
