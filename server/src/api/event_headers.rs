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
#[derive(Serialize, ToSchema)]
#[schema(as = EventHeaders)]
pub struct HeadersBody {
    /// In their order, repeated ones repeated; none where no source took the event.
    headers: Vec<WholeHeaderBody>,
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
    let own = source.settings.signature_header.as_deref();
    let proofs = scheme.iter().flat_map(|scheme| scheme.proof_headers()).chain(own);
    let proofs: Vec<String> = proofs.map(str::to_ascii_lowercase).collect();
    let shown = inbound.headers.iter().map(|(name, value)| HeaderBody {
        name: name.to_owned(),
        value: if proofs.iter().any(|proof| name.starts_with(proof.as_str())) || may_prove(name) {
            HIDDEN.to_owned()
        } else {
            String::from_utf8_lossy(value).into_owned()
        },
    });
    shown.collect()
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
/// payload can process the event as an endpoint does.
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
    let found = api.store.read().await?.list_events_by_id(&[id]).await?.remove(&id);
    let found = found.ok_or_else(|| ApiError::not_found("event", &event))?;
    let headers = found.inbound.iter().flat_map(|inbound| inbound.headers.iter()).map(whole);
    Ok(Json(HeadersBody { headers: headers.collect() }))
}
