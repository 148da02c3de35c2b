//! `POST /v1/tenants/{tenant}/events/{type}`: the body is the payload, byte for byte, of any
//! content type.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, Request, State},
    http::{StatusCode, header},
};

use super::{
    Api,
    auth::Emitter,
    emit::{AcceptedBody, EventTexts},
    error::ApiError,
    extract::{self, Params, is_json, refuse_encoded},
    idempotency::Once,
};
use crate::domain::{
    format::json_problem,
    limits::check_content_type,
    problem::Problem,
    tenant::TenantId,
    time::{self, Timestamp},
};

/// What a body without a content type is taken for (RFC 9110, 8.3).
const UNKNOWN: &str = "application/octet-stream";

/// Send an event of any content type
///
/// The body is the payload, byte for byte.
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/events/{type}", tag = "events",
    operation_id = "create_raw_event",
    params(
        ("tenant" = String, Path), ("type" = String, Path),
        ("key" = Option<String>, Query, description = "Makes two events one"),
        ("version" = Option<String>, Query, description = "The version of its schema"),
        ("occurred_at" = Option<String>, Query, description = "When it happened, RFC 3339"),
        ("traceparent" = Option<String>, Query, description = "W3C Trace Context"),
    ),
    request_body(content = Vec<u8>, content_type = "*/*"),
    responses((status = 202, body = AcceptedBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Emitter(caller): Emitter,
    once: Option<Extension<Once>>,
    Path((tenant, event_type)): Path<(String, String)>,
    mut params: Params,
    request: Request,
) -> Result<(StatusCode, Json<AcceptedBody>), ApiError> {
    // What is no tenant's name is told below, as any field that is wrong.
    if TenantId::parse(&tenant).is_ok() {
        caller.tenant(&tenant)?;
    }
    let texts = EventTexts {
        tenant: Some(tenant),
        event_type,
        key: params.text("key"),
        version: params.text("version"),
        occurred_at: params
            .read("occurred_at", |text| Timestamp::parse(text).ok_or_else(|| time::refusal(text))),
        traceparent: params.text("traceparent"),
    };
    params.finish()?;
    let (parts, body) = request.into_parts();
    refuse_encoded(&parts.headers)?;
    let content_type = match parts.headers.get(header::CONTENT_TYPE) {
        Some(value) => {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            check_content_type(&text).map_err(|problem| {
                ApiError::invalid(vec![Problem::new("content-type", problem)])
            })?;
            text
        }
        None => UNKNOWN.to_owned(),
    };
    let payload = extract::read(body, api.settings.payload_bytes_max).await?;
    if is_json(&content_type)
        && let Some(error) = json_problem(&payload)
    {
        let problem = format!("it calls itself {content_type} and is no JSON: {error}");
        return Err(ApiError::invalid(vec![Problem::new("data", problem)]));
    }
    let content_type = Some(content_type).filter(|given| given != "application/json");
    let dedup = once.map(|once| once.0.dedup(0));
    let event = api.check_event(&caller, texts, (payload, content_type), dedup).await?;
    Ok((StatusCode::ACCEPTED, Json(api.accept(event).await?)))
}
