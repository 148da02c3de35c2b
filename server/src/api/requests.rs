//! Requests that a source kept apart: refused ones, and genuine ones that a person should look at.
//! Their headers and bodies may hold what proves a sender, so lists are without them.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Manager, Reader},
    error::ApiError,
    extract::{NoBody, Params, id},
    listing::Listing,
};
use crate::{
    domain::{
        id::{EventId, RequestId},
        request_state::RequestState,
        source::SourceToken,
        time::Timestamp,
    },
    engine::kept::KeptError,
    store::requests::RequestRow,
};

/// A request that a source kept apart.
#[derive(Serialize, ToSchema)]
#[schema(as = Request)]
pub struct RequestBody {
    #[schema(value_type = String)]
    id: RequestId,
    /// Where it came in; null once that source is deleted.
    #[schema(value_type = Option<String>)]
    source: Option<SourceToken>,
    tenant: String,
    #[schema(value_type = String, format = DateTime)]
    received_at: Timestamp,
    /// `rejected`; `conflict`: the id of an event with another body; `replay_suspected`: a
    /// signature that came under another id; or `accepted`.
    #[schema(value_type = String)]
    state: RequestState,
    /// The step that failed, at the last look: `header`, `id`, `timestamp`, `signature`, `url`,
    /// `body`, `key`.
    step: Option<String>,
    /// What was wrong, in words.
    reason: Option<String>,
    method: String,
    /// Bytes of its headers and its body.
    size: i64,
    /// What a genuine one calls its event.
    provider_id: Option<String>,
    /// And that event's type.
    provider_type: Option<String>,
    /// The event that was there before; of an accepted one, the event that it became.
    #[schema(value_type = Option<String>)]
    event: Option<EventId>,
    /// What the last look at it came to: `ok`, `stale`, `bad_signature` or `malformed`.
    verdict: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    accepted_at: Option<Timestamp>,
    /// Whose key it was.
    accepted_by: Option<String>,
    /// Path and query. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// In their order. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<HeaderBody>>,
    /// As text, where it is UTF-8. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Where it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// One header.
#[derive(Serialize, ToSchema)]
#[schema(as = RequestHeader)]
pub struct HeaderBody {
    name: String,
    /// As text; what is no UTF-8 in it is replaced.
    value: String,
}

/// How many deliveries were begun anew.
#[derive(Serialize, ToSchema)]
#[schema(as = RequestRedelivery)]
pub struct RedeliveredBody {
    /// Deliveries of the event; those that still wait are not among them.
    redelivered: u32,
}

impl RequestBody {
    fn of(row: RequestRow, source: Option<SourceToken>) -> Self {
        Self {
            id: row.id,
            source,
            tenant: row.tenant.to_string(),
            received_at: row.received_at,
            state: row.state,
            step: row.step,
            reason: row.reason,
            method: row.method,
            size: row.size,
            provider_id: row.provider_id,
            provider_type: row.provider_type,
            event: row.event,
            verdict: row.verdict,
            verified_at: row.verified_at,
            accepted_at: row.accepted_at,
            accepted_by: row.accepted_by,
            target: None,
            headers: None,
            body: None,
            body_base64: None,
        }
    }

    fn whole(row: RequestRow, source: Option<SourceToken>) -> Self {
        let header = |(name, value): (&str, &[u8])| HeaderBody {
            name: name.to_owned(),
            value: String::from_utf8_lossy(value).into_owned(),
        };
        let headers = Some(row.headers.iter().map(header).collect());
        let target = Some(row.target.clone());
        let (body, body_base64) = match row.body.as_deref().map(std::str::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text.to_owned()), None),
            Some(Err(_)) => (None, row.body.as_ref().map(|body| BASE64_STANDARD.encode(body))),
        };
        Self { target, headers, body, body_base64, ..Self::of(row, source) }
    }
}

impl From<KeptError> for ApiError {
    fn from(error: KeptError) -> Self {
        let detail = error.to_string();
        match error {
            KeptError::Store(error) => error.into(),
            KeptError::NoSource => Self::new(StatusCode::CONFLICT, "source_deleted", detail),
            KeptError::NoBody => Self::new(StatusCode::CONFLICT, "body_not_kept", detail),
            KeptError::NotNow(_) => Self::new(StatusCode::CONFLICT, "cannot_verify", detail),
            KeptError::Accepted => Self::new(StatusCode::CONFLICT, "request_accepted", detail),
        }
    }
}

impl Api {
    async fn find_request(&self, caller: &Caller, text: &str) -> Result<RequestRow, ApiError> {
        let id: RequestId = id("request", text)?;
        let tenant = caller.actor.tenant.as_ref();
        let found = self.store.read().await?.find_request(tenant, id).await?;
        found.ok_or_else(|| ApiError::not_found("request", text))
    }

    async fn show_request(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Json<RequestBody>, ApiError> {
        let row = self.find_request(caller, text).await?;
        let tokens = self.store.read().await?.list_source_tokens(&[row.source]).await?;
        let token = tokens.into_iter().next().map(|(_, token)| token);
        Ok(Json(RequestBody::whole(row, token)))
    }
}

/// List the requests that a source kept apart, the newest first
#[utoipa::path(
    get, path = "/v1/sources/{source}/requests", tag = "sources",
    operation_id = "list_source_requests",
    params(
        ("source" = String, Path),
        ("state" = Option<String>, Query, description = "`rejected`, `conflict`, `replay_suspected` or `accepted`"),
    ),
    responses((status = 200, body = Listing<RequestBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(source): Path<String>,
    mut params: Params,
) -> Result<Json<Listing<RequestBody>>, ApiError> {
    let source = api.find_source(&caller, &source).await?;
    let names: Vec<&str> = RequestState::ALL.iter().map(|state| state.name()).collect();
    let taken = params.peek("state").to_owned();
    let state = params.choice("state", RequestState::from_name, &names);
    let page = params.page(&caller, "requests", &[source.token.to_string(), taken])?;
    let paged = api.store.read().await?.list_requests(source.id, state, page).await?;
    Ok(Listing::of(paged, |row| RequestBody::of(row, Some(source.token.clone()))))
}

/// Show a request with its headers and its body
#[utoipa::path(
    get, path = "/v1/requests/{request}", tag = "sources", operation_id = "show_request",
    params(("request" = String, Path)), responses((status = 200, body = RequestBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(request): Path<String>,
) -> Result<Json<RequestBody>, ApiError> {
    api.show_request(&caller, &request).await
}

/// Verify a request again, as of its arrival, with the secrets that are live now
///
/// `verdict` says what it came to. Nothing else is done: accept makes it an event.
#[utoipa::path(
    post, path = "/v1/requests/{request}/verify", tag = "sources", operation_id = "verify_request",
    params(("request" = String, Path)), responses((status = 200, body = RequestBody))
)]
pub async fn verify(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(request): Path<String>,
    _: NoBody,
) -> Result<Json<RequestBody>, ApiError> {
    let row = api.find_request(&caller, &request).await?;
    let look = api.engine.look_again(&row).await?;
    let verdict = look.verdict.name();
    api.manage.note_request(&caller.actor, "request.verify", &row, verdict).await?;
    api.show_request(&caller, &request).await
}

/// Accept a request: it becomes an event, and is marked as accepted for ever
///
/// Whatever was found of it: this is a person's word in place of a proof.
#[utoipa::path(
    post, path = "/v1/requests/{request}/accept", tag = "sources", operation_id = "accept_request",
    params(("request" = String, Path)), responses((status = 200, body = RequestBody))
)]
pub async fn accept(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(request): Path<String>,
    _: NoBody,
) -> Result<Json<RequestBody>, ApiError> {
    let row = api.find_request(&caller, &request).await?;
    let event = api.engine.accept_kept(&row, &caller.actor.name).await?.to_string();
    api.manage.note_request(&caller.actor, "request.accept", &row, &event).await?;
    api.show_request(&caller, &request).await
}

/// Redeliver the event that an accepted request became, to every endpoint
#[utoipa::path(
    post, path = "/v1/requests/{request}/redeliver", tag = "sources",
    operation_id = "redeliver_request",
    params(("request" = String, Path)), responses((status = 200, body = RedeliveredBody))
)]
pub async fn redeliver(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(request): Path<String>,
    _: NoBody,
) -> Result<Json<RedeliveredBody>, ApiError> {
    let row = api.find_request(&caller, &request).await?;
    let redelivered = api.manage.redeliver_request(&caller.actor, &row).await?;
    Ok(Json(RedeliveredBody { redelivered }))
}
