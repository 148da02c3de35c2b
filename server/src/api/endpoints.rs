//! `/v1/tenants/{tenant}/endpoints`: where events go. Values of headers and the private key of a
//! client certificate are write-only: they are shown as a mark that, sent back, keeps them.

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
    auth::{Manager, Reader},
    endpoint_health::HealthBody,
    error::ApiError,
    extract::{Body, Params, id},
    listing::{Listing, try_listing},
};
use crate::{
    domain::{
        duration,
        endpoint::{Reach, ScheduleText, StatusText},
        endpoint_kind::EndpointKind,
        endpoint_state::EndpointState,
        format::Format,
        id::EndpointId,
        own_headers::OwnHeaders,
        profile::Profiles,
        rate::RateLimit,
        time::Timestamp,
        tls_settings::TlsSettings,
    },
    store::{EndpointRow, seal::SealError},
};

/// An endpoint. All but `url` may be left out, and of one of kind `queue` that too; null brings back a default.
#[derive(Serialize, ToSchema)]
#[schema(as = Endpoint)]
pub struct EndpointBody {
    #[schema(value_type = String, read_only)]
    id: EndpointId,
    #[schema(read_only)]
    tenant: String,
    /// `http`: deliveries are posted to its URL. `queue`: consumers pull them. Stays as it was made.
    #[schema(value_type = String, required = false)]
    kind: EndpointKind,
    /// Where requests go, in the form in which it is stored, signed and connected to. Null for one
    /// of kind `queue`.
    url: Option<String>,
    /// For people.
    #[schema(required = false)]
    description: String,
    /// `active`, `paused` or `disabled`.
    #[schema(value_type = String, read_only)]
    state: EndpointState,
    /// Why it takes nothing, if it does not.
    #[schema(read_only)]
    state_reason: Option<String>,
    /// Since when it is in this state.
    #[schema(value_type = String, format = DateTime, read_only)]
    state_since: Timestamp,
    /// Whether what it held is being discarded. When that is done it becomes active.
    #[schema(read_only)]
    discarding: bool,
    /// How it is doing.
    #[schema(read_only)]
    health: HealthBody,
    /// Which events it wants: exact types, `order.*`, `*`.
    #[schema(required = false)]
    event_types: Vec<String>,
    /// Conditions on the payload, JSON Pointers as keys.
    #[schema(value_type = Option<Object>)]
    filter: Value,
    /// `event`, `thin`, `standard`, `cloudevents`, `cloudevents-binary` or `raw`.
    #[schema(value_type = String, required = false)]
    format: Format,
    /// How requests are signed: the name of a profile, or several.
    #[schema(value_type = Value, required = false)]
    signature: Profiles,
    /// Further headers of each request. Values are write-only.
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    headers: OwnHeaders,
    /// For the whole attempt, 1s to 30s.
    #[schema(value_type = Option<String>)]
    timeout: Option<duration::Text>,
    /// A preset (`standard`, `long`, `brisk`) or the pauses before each attempt.
    #[schema(value_type = Value, required = false)]
    retry_schedule: Option<ScheduleText>,
    /// Statuses that end a delivery at once, as `[400, "4xx"]`.
    #[schema(value_type = Vec<Value>, required = false)]
    final_statuses: Vec<StatusText>,
    /// Requests that may be under way at once.
    max_in_flight: Option<u32>,
    /// Requests in a time, as `100/s`.
    #[schema(value_type = Option<String>)]
    rate_limit: Option<RateLimit>,
    /// Whether events go one after another.
    #[schema(required = false)]
    ordered: bool,
    /// `public`, or `internal`, which only an operator may set.
    #[schema(value_type = String, required = false)]
    reach: Reach,
    /// Your own notes.
    #[schema(value_type = Object, required = false)]
    metadata: Map<String, Value>,
    /// `ca`, `client_cert` and `client_key` as PEM; the key is write-only.
    #[schema(value_type = Object, required = false)]
    tls: TlsSettings,
    #[schema(value_type = String, format = DateTime, read_only)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime, read_only)]
    updated_at: Timestamp,
    /// The text of its first secret: shown by create alone. Bring one along with create to keep
    /// what receivers know already.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl Api {
    pub(super) fn show_endpoint(&self, row: EndpointRow) -> Result<EndpointBody, SealError> {
        let settings = self.manage.open_settings(&row)?.shown();
        let health = HealthBody::of(&row, self.settings.disable_after);
        Ok(EndpointBody {
            id: row.id,
            tenant: row.tenant.to_string(),
            kind: settings.kind,
            url: Some(settings.url).filter(|url| !url.is_empty()),
            description: settings.description,
            state: row.state,
            state_reason: row.state_reason,
            state_since: row.state_since,
            discarding: row.discarding,
            health,
            event_types: settings.event_types,
            filter: settings.filter,
            format: settings.format,
            signature: settings.signature,
            headers: settings.headers,
            timeout: settings.timeout,
            retry_schedule: settings.retry_schedule,
            final_statuses: settings.final_statuses,
            max_in_flight: settings.max_in_flight,
            rate_limit: settings.rate_limit,
            ordered: settings.ordered,
            reach: settings.reach,
            metadata: settings.metadata,
            tls: settings.tls,
            created_at: row.created_at,
            updated_at: row.updated_at,
            secret: None,
        })
    }
}

type Shown = Result<Json<EndpointBody>, ApiError>;

/// List a tenant's endpoints, the newest first
#[utoipa::path(
    get, path = "/v1/tenants/{tenant}/endpoints", tag = "endpoints",
    operation_id = "list_endpoints", params(("tenant" = String, Path)),
    responses((status = 200, body = Listing<EndpointBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(tenant): Path<String>,
    params: Params,
) -> Result<Json<Listing<EndpointBody>>, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let page = params.page(&caller, "endpoints", &[tenant.to_string()])?;
    let paged = api.store.read().await?.list_endpoints(&tenant, page).await?;
    Ok(try_listing(paged, |row| api.show_endpoint(row))?)
}

/// Create an endpoint, with a secret
///
/// The answer holds the text of the secret. It is shown here, by rotate and by reveal, and
/// nowhere else.
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints", tag = "endpoints",
    operation_id = "create_endpoint", params(("tenant" = String, Path)),
    request_body = EndpointBody, responses((status = 201, body = EndpointBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(tenant): Path<String>,
    Body(change): Body<Map<String, Value>>,
) -> Result<(StatusCode, Json<EndpointBody>), ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let (row, secret) = api.manage.create_endpoint(&caller.actor, &tenant, change).await?;
    let mut body = api.show_endpoint(row)?;
    body.secret = secret.map(|(_, secret)| secret.text().to_owned());
    Ok((StatusCode::CREATED, Json(body)))
}

/// Show an endpoint
#[utoipa::path(
    get, path = "/v1/tenants/{tenant}/endpoints/{endpoint}", tag = "endpoints",
    operation_id = "show_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    responses((status = 200, body = EndpointBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path((tenant, endpoint)): Path<(String, String)>,
) -> Shown {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let found = api.store.read().await?.find_tenant_endpoint(&tenant, id).await?;
    let row = found.ok_or_else(|| ApiError::not_found("endpoint", &endpoint))?;
    Ok(Json(api.show_endpoint(row)?))
}

/// Change what is named of an endpoint
///
/// `headers`, `metadata` and `tls` are merged member by member; null removes one.
#[utoipa::path(
    patch, path = "/v1/tenants/{tenant}/endpoints/{endpoint}", tag = "endpoints",
    operation_id = "update_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    request_body = EndpointBody, responses((status = 200, body = EndpointBody))
)]
pub async fn update(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    Body(change): Body<Map<String, Value>>,
) -> Shown {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let row = api.manage.update_endpoint(&caller.actor, &tenant, id, &change).await?;
    Ok(Json(api.show_endpoint(row)?))
}

/// Delete an endpoint; what waits for it is canceled
#[utoipa::path(
    delete, path = "/v1/tenants/{tenant}/endpoints/{endpoint}", tag = "endpoints",
    operation_id = "delete_endpoint",
    params(("tenant" = String, Path), ("endpoint" = String, Path)), responses((status = 204))
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    api.manage.delete_endpoint(&caller.actor, &tenant, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
