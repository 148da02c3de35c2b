//! The headers that an event's request came with, where a source took it. Shown with the event,
//! they are without what proves the provider; whole they are for whoever may process the event
//! himself, as every endpoint of it does.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use snaphook_signature::Scheme;
use utoipa::ToSchema;

use super::{Api, auth::Manager, error::ApiError};
use crate::{
    domain::{event::Inbound, own_headers::HIDDEN},
    store::SourceRow,
};

/// A header that a source's request came with.
#[derive(Serialize, ToSchema)]
#[schema(as = Header)]
pub struct HeaderBody {
    /// In lower case.
    name: String,
    /// Its value; `(hidden)` where it proves the provider, or may. What is no UTF-8 is shown with
    /// marks in its place.
    value: String,
}

/// The headers that are passed on with an event.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = EventHeaders)]
pub struct HeadersBody {
    /// In their order, repeated ones repeated; none where no source took the event.
    headers: Vec<WholeHeaderBody>,
    /// The names of those that are left out, for they hold the source's secret itself, as a token.
    left_out: Vec<String>,
}

/// A header, byte for byte.
#[derive(Serialize, ToSchema)]
#[schema(as = WholeHeader)]
pub struct WholeHeaderBody {
    /// In lower case.
    name: String,
    /// Its value, where that is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Its value, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// What may be shown of an event's headers: a token is a secret, and a signature nobody's business.
pub(super) fn shown(inbound: &Inbound, source: &SourceRow) -> Vec<HeaderBody> {
    let scheme = source.settings.scheme().ok();
    let proofs = proofs(scheme.as_deref(), source);
    let shown = inbound.headers.iter().map(|(name, value)| HeaderBody {
        name: name.to_owned(),
        value: if begins_as_any(&proofs, name) || may_prove(name) {
            HIDDEN.to_owned()
        } else {
            String::from_utf8_lossy(value).into_owned()
        },
    });
    shown.collect()
}

/// The beginnings of the names of the headers that prove the provider, in lower case.
fn proofs(scheme: Option<&Scheme>, source: &SourceRow) -> Vec<String> {
    let own = source.settings.signature_header.as_deref();
    let proofs = scheme.iter().flat_map(|scheme| scheme.proof_headers()).chain(own);
    proofs.map(str::to_ascii_lowercase).collect()
}

fn begins_as_any(beginnings: &[String], name: &str) -> bool {
    beginnings.iter().any(|beginning| name.starts_with(beginning.as_str()))
}

/// Whether a header of this name holds a proof with some provider or other.
fn may_prove(name: &str) -> bool {
    const PARTS: &[&str] =
        &["auth", "cookie", "hmac", "key", "password", "secret", "sign", "token"];
    PARTS.iter().any(|part| name.contains(part))
}

fn whole((name, value): (&str, &[u8])) -> WholeHeaderBody {
    let text = std::str::from_utf8(value).ok().map(str::to_owned);
    let value_base64 = text.is_none().then(|| BASE64_STANDARD.encode(value));
    WholeHeaderBody { name: name.to_owned(), value: text, value_base64 }
}

/// The headers that are passed on with an event, byte for byte
///
/// With those that prove the provider, which an event shows as hidden: whoever has them and the
/// payload can process the event as an endpoint does. A header that holds the source's secret itself,
/// as a token, is left out.
#[utoipa::path(
    get, path = "/v1/events/{event}/headers", tag = "events",
    operation_id = "show_event_headers", params(("event" = String, Path)),
    responses((status = 200, body = HeadersBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(event): Path<String>,
) -> Result<Json<HeadersBody>, ApiError> {
    let id = api.find_event(&caller, &event).await?.id;
    let mut tx = api.store.read().await?;
    let found = tx.list_events_by_id(&[id]).await?.remove(&id);
    let found = found.ok_or_else(|| ApiError::not_found("event", &event))?;
    let Some(inbound) = found.inbound else { return Ok(Json(HeadersBody::default())) };
    let source = tx.find_source_by_id(inbound.source).await?;
    let scheme = source.as_ref().and_then(|source| source.settings.scheme().ok());
    let secret = match (&source, scheme.filter(|scheme| scheme.shows_secret())) {
        (Some(source), Some(scheme)) => proofs(Some(&scheme), source),
        _ => Vec::new(),
    };
    let (left_out, headers): (Vec<_>, Vec<_>) =
        inbound.headers.iter().partition(|(name, _)| begins_as_any(&secret, name));
    let left_out = left_out.into_iter().map(|(name, _)| name.to_owned()).collect();
    Ok(Json(HeadersBody { headers: headers.into_iter().map(whole).collect(), left_out }))
}
