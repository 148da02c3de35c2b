//! `/v1/sources`: where signed requests of providers come in. The verify token is write-only, and
//! secrets are a resource of their own.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Manager, Reader},
    error::ApiError,
    extract::{Body, NoBody, Params, id},
    listing::{Listing, try_listing},
};
use crate::{
    domain::{
        duration,
        problem::Problem,
        size,
        source::{
            Answer, IdScopeText, SchemeText, SourceState, SourceToken, Token, next_steps, url_of,
        },
        tenant::TenantId,
        time::Timestamp,
    },
    store::{SourceRow, seal::SealError},
};

/// A source. All but `name` and `scheme` may be left out; null brings back a default.
#[derive(Serialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceBody {
    /// A part of its URL that nobody can guess.
    #[schema(value_type = String, read_only)]
    id: SourceToken,
    /// Whose it is. Set when it is made; a tenant's own key need not say it.
    tenant: String,
    /// The first part of the types of its events: `stripe` in `stripe.invoice.paid`.
    name: String,
    /// Where requests come in: give it to the provider.
    #[schema(read_only)]
    url: String,
    /// A provider's name, as `stripe`, or an object that says how a sender signs.
    #[schema(value_type = Value)]
    scheme: SchemeText,
    /// The header that has the signature, where it is not the scheme's own.
    signature_header: Option<String>,
    /// How far a timestamp may be off, instead of what the scheme says.
    #[schema(value_type = Option<String>)]
    tolerance: Option<duration::Text>,
    /// The second part of a credential, where a provider has two.
    public_key: Option<String>,
    /// What the provider's handshake must name (Meta). Write-only.
    #[schema(value_type = Option<String>)]
    verify_token: Option<Token>,
    /// What the provider signs as its URL, where that is not `url`.
    public_url: Option<String>,
    /// Where the event's id is, as `header:X-Id` or `json:/id`: the first that is there.
    #[schema(required = false)]
    id_from: Vec<String>,
    /// `event` or `object`: whether two requests with one id are one event.
    #[schema(value_type = Option<String>)]
    id_scope: Option<IdScopeText>,
    /// Where the event's type is.
    #[schema(required = false)]
    type_from: Vec<String>,
    /// The most that a body may have, `25MiB` by default.
    #[schema(value_type = Option<String>)]
    body_limit: Option<size::Text>,
    /// The status of a refusal, 401 or 400.
    #[schema(required = false)]
    reject_status: u16,
    /// What a genuine request is answered with: `status`, `headers`, `body`.
    #[schema(value_type = Object, required = false)]
    answer: Answer,
    /// JSON Schemas by the provider's types.
    #[schema(value_type = Object, required = false)]
    schemas: Map<String, Value>,
    /// How many rejected requests are kept, 1,000 by default.
    keep_rejected: Option<u32>,
    /// `active`, or `paused`: what it takes is held.
    #[schema(value_type = String, read_only)]
    state: SourceState,
    /// Since when it is in this state.
    #[schema(value_type = String, format = DateTime, read_only)]
    state_since: Timestamp,
    /// Until then the provider's handshake may set the secret.
    #[schema(value_type = Option<String>, format = DateTime, read_only)]
    armed_until: Option<Timestamp>,
    /// Whether it stands in the settings file, and is changed there alone.
    #[schema(read_only)]
    from_file: bool,
    #[schema(value_type = String, format = DateTime, read_only)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime, read_only)]
    updated_at: Timestamp,
    /// The secrets that it begins with, as the provider shows them. Taken by create alone.
    #[serde(skip)]
    #[schema(write_only, required = false)]
    #[expect(dead_code, reason = "a field of the request, for the OpenAPI document")]
    secrets: Vec<String>,
    /// What is left to do. In the answer of create alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(read_only, required = false)]
    next_steps: Vec<String>,
}

impl Api {
    fn show_source(&self, row: SourceRow) -> Result<SourceBody, SealError> {
        let settings = self.manage.open_source_settings(&row)?.shown();
        Ok(SourceBody {
            url: url_of(&self.settings.base_url, &row.token),
            id: row.token,
            tenant: row.tenant.to_string(),
            name: settings.name,
            scheme: settings.scheme,
            signature_header: settings.signature_header,
            tolerance: settings.tolerance,
            public_key: settings.public_key,
            verify_token: settings.verify_token,
            public_url: settings.public_url,
            id_from: settings.id_from,
            id_scope: settings.id_scope,
            type_from: settings.type_from,
            body_limit: settings.body_limit,
            reject_status: settings.reject_status,
            answer: settings.answer,
            schemas: settings.schemas,
            keep_rejected: settings.keep_rejected,
            state: row.state,
            state_since: row.state_since,
            armed_until: row.armed_until,
            from_file: row.from_file,
            created_at: row.created_at,
            updated_at: row.updated_at,
            secrets: Vec::new(),
            next_steps: Vec::new(),
        })
    }

    /// A source that the caller may know of.
    pub(super) async fn find_source(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<SourceRow, ApiError> {
        let token: SourceToken = id("source", text)?;
        let tenant = caller.actor.tenant.as_ref();
        let found = self.store.read().await?.find_source(tenant, &token).await?;
        found.ok_or_else(|| ApiError::not_found("source", text))
    }
}

type Shown = Result<Json<SourceBody>, ApiError>;

/// List the sources, the newest first
#[utoipa::path(
    get, path = "/v1/sources", tag = "sources", operation_id = "list_sources",
    params(("tenant" = Option<String>, Query)),
    responses((status = 200, body = Listing<SourceBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    mut params: Params,
) -> Result<Json<Listing<SourceBody>>, ApiError> {
    let tenant = caller.within(params.text("tenant").as_deref())?;
    let taken = tenant.as_ref().map_or_else(String::new, ToString::to_string);
    let page = params.page(&caller, "sources", &[taken])?;
    let paged = api.store.read().await?.list_sources(tenant.as_ref(), page).await?;
    Ok(try_listing(paged, |row| api.show_source(row))?)
}

/// Create a source
///
/// The answer says where requests come in, and what is left to do.
#[utoipa::path(
    post, path = "/v1/sources", tag = "sources", operation_id = "create_source",
    request_body = SourceBody, responses((status = 201, body = SourceBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Body(mut change): Body<Map<String, Value>>,
) -> Result<(StatusCode, Json<SourceBody>), ApiError> {
    let tenant = tenant_of(&caller, change.remove("tenant"))?;
    let has_secret =
        change.get("secrets").and_then(Value::as_array).is_some_and(|secrets| !secrets.is_empty());
    let row = api.manage.create_source(&caller.actor, &tenant, change).await?;
    let url = url_of(&api.settings.base_url, &row.token);
    let next_steps = next_steps(&row.settings, &url, has_secret);
    Ok((StatusCode::CREATED, Json(SourceBody { next_steps, ..api.show_source(row)? })))
}

/// Whose a new source is to be.
fn tenant_of(caller: &Caller, given: Option<Value>) -> Result<TenantId, ApiError> {
    let invalid = |problem: &str| ApiError::invalid(vec![Problem::new("tenant", problem)]);
    match given {
        Some(Value::String(name)) => caller.tenant(&name),
        None | Some(Value::Null) => caller
            .actor
            .tenant
            .clone()
            .ok_or_else(|| invalid("it is missing; say whose the source is to be")),
        Some(_) => Err(invalid("write a tenant's id in quotes")),
    }
}

/// Show a source
#[utoipa::path(
    get, path = "/v1/sources/{source}", tag = "sources", operation_id = "show_source",
    params(("source" = String, Path)), responses((status = 200, body = SourceBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(source): Path<String>,
) -> Shown {
    let row = api.find_source(&caller, &source).await?;
    Ok(Json(api.show_source(row)?))
}

/// Change what is named of a source
///
/// `schemas` is merged member by member; null removes one.
#[utoipa::path(
    patch, path = "/v1/sources/{source}", tag = "sources", operation_id = "update_source",
    params(("source" = String, Path)), request_body = SourceBody,
    responses((status = 200, body = SourceBody))
)]
pub async fn update(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    Body(change): Body<Map<String, Value>>,
) -> Shown {
    let token = id("source", &source)?;
    let row = api.manage.update_source(&caller.actor, &token, &change).await?;
    Ok(Json(api.show_source(row)?))
}

/// Delete a source: requests to its URL are answered with 404
///
/// What it took before stays, and so do its deliveries.
#[utoipa::path(
    delete, path = "/v1/sources/{source}", tag = "sources", operation_id = "delete_source",
    params(("source" = String, Path)), responses((status = 204))
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
) -> Result<StatusCode, ApiError> {
    let token = id("source", &source)?;
    api.manage.delete_source(&caller.actor, &token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a source: what it takes is answered, kept and held
#[utoipa::path(
    post, path = "/v1/sources/{source}/pause", tag = "sources", operation_id = "pause_source",
    params(("source" = String, Path)), responses((status = 200, body = SourceBody))
)]
pub async fn pause(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    _: NoBody,
) -> Shown {
    let (token, state) = (id("source", &source)?, SourceState::Paused);
    let row = api.manage.set_source_state(&caller.actor, &token, state).await?;
    Ok(Json(api.show_source(row)?))
}

/// Resume a paused source: what was held goes on
#[utoipa::path(
    post, path = "/v1/sources/{source}/resume", tag = "sources", operation_id = "resume_source",
    params(("source" = String, Path)), responses((status = 200, body = SourceBody))
)]
pub async fn resume(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    _: NoBody,
) -> Shown {
    let (token, state) = (id("source", &source)?, SourceState::Active);
    let row = api.manage.set_source_state(&caller.actor, &token, state).await?;
    Ok(Json(api.show_source(row)?))
}

/// Arm a source: within the next hour the provider's handshake may set its secret anew
#[utoipa::path(
    post, path = "/v1/sources/{source}/arm", tag = "sources", operation_id = "arm_source",
    params(("source" = String, Path)), responses((status = 200, body = SourceBody))
)]
pub async fn arm(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    _: NoBody,
) -> Shown {
    let row = api.manage.arm_source(&caller.actor, &id("source", &source)?).await?;
    Ok(Json(api.show_source(row)?))
}
