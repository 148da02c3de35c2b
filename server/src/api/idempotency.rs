//! `Idempotency-Key` on every POST: sent again with the same key, a request does its work once
//! and gets the same answer, for 24 h, per API key and path. Only what succeeded is kept: a
//! request that was refused changed nothing, and may be corrected under its key.
//!
//! A request under such a key goes on when its caller hangs up, for the caller will ask again.
//! Answers may hold secrets, so they are kept sealed.

use std::sync::Arc;

use aws_lc_rs::digest;
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tracing::Instrument as _;

use super::{Api, auth::Caller, error::ApiError, extract, request_id};
use crate::{
    domain::limits::{BATCH_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX},
    store::{
        idempotency::{IdempotencyKey, Seen},
        seal::Place,
    },
};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Marks a request that is done under an idempotency key, for handlers that store events.
#[derive(Clone)]
pub struct Once {
    digest: String,
}

impl Once {
    /// What stands in for the dedup key of the event number `index` of the request: should we die
    /// after the event is stored and before the answer is, the request sent again finds it.
    pub fn dedup(&self, index: usize) -> String {
        format!("idempotency-key/{}/{index}", self.digest)
    }
}

/// The middleware.
pub async fn once(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).cloned();
    match given {
        Some(given) if request.method() == Method::POST => {
            do_once(api, &given, request, next).await.unwrap_or_else(IntoResponse::into_response)
        }
        _ => next.run(request).await,
    }
}

async fn do_once(
    api: Arc<Api>,
    given: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let key = IdempotencyKey {
        api_key: Caller::of(&api, &parts.headers).await?.key,
        route: format!("POST {}", parts.uri.path()),
        key: read_key(given)?,
    };
    let body = extract::read(body, BATCH_BYTES_MAX.max(api.settings.payload_bytes_max * 2)).await?;
    let digest = digest_of(&parts, &body);
    let mut tx = api.store.begin().await?;
    let seen = tx.claim_idempotency(&key, &digest, api.manage.world.now()).await?;
    tx.commit().await?;
    match seen {
        Seen::New => {}
        Seen::Differs => {
            return Err(refusal(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "this Idempotency-Key came with another request before; use a new key for a new request",
            ));
        }
        Seen::AtWork => {
            return Err(refusal(
                StatusCode::CONFLICT,
                "idempotency_key_in_use",
                "a request with this Idempotency-Key is still at work; ask again in a moment",
            ));
        }
        Seen::Answered { status, body } => return replay(&api, &key, status, &body),
    }
    let mut request = Request::from_parts(parts, Body::from(body));
    request.extensions_mut().insert(Once { digest: event_digest(&key) });
    let work = {
        let api = api.clone();
        async move { work(&api, &key, request, next).await }
    };
    let task = api.tasks.spawn(request_id::inherit(work.in_current_span()));
    task.await.map_err(|_| ApiError::internal())?
}

/// Does the request and keeps its answer, or lets go of the key.
async fn work(
    api: &Api,
    key: &IdempotencyKey,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let answered = std::panic::AssertUnwindSafe(next.run(request));
    let Ok(response) = futures_util::FutureExt::catch_unwind(answered).await else {
        tracing::error!("a handler panicked under an idempotency key");
        forget(api, key).await?;
        return Err(ApiError::internal());
    };
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|_| ApiError::internal())?.to_bytes();
    if parts.status.is_success() {
        let sealed = api.manage.keyring.seal(&body, place(key));
        let mut tx = api.store.begin().await?;
        tx.finish_idempotency(key, parts.status.as_u16(), &sealed).await?;
        tx.commit().await?;
    } else {
        forget(api, key).await?;
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

async fn forget(api: &Api, key: &IdempotencyKey) -> Result<(), ApiError> {
    let mut tx = api.store.begin().await?;
    tx.delete_idempotency(key).await?;
    tx.commit().await?;
    Ok(())
}

fn replay(
    api: &Api,
    key: &IdempotencyKey,
    status: u16,
    sealed: &[u8],
) -> Result<Response, ApiError> {
    let body = api.manage.keyring.open(sealed, place(key)).map_err(|error| {
        tracing::warn!("a stored answer does not open: {error}");
        refusal(
            StatusCode::CONFLICT,
            "idempotency_answer_lost",
            "this request was done, but its answer was sealed with a master key that is gone; \
             look at what it made",
        )
    })?;
    let body = Bytes::copy_from_slice(&body);
    let status = StatusCode::from_u16(status).map_err(|_| ApiError::internal())?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (REPLAYED, "true"),
    ];
    Ok((status, headers, body).into_response())
}

fn refusal(status: StatusCode, code: &'static str, detail: &str) -> ApiError {
    ApiError::new(status, code, detail)
}

fn place(key: &IdempotencyKey) -> Place<'_> {
    Place { table: "idempotency", tenant: &key.key, row: key.api_key.0 }
}

fn read_key(given: &HeaderValue) -> Result<String, ApiError> {
    let text = given.to_str().ok().filter(|text| {
        (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    });
    text.map(str::to_owned).ok_or_else(|| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_idempotency_key",
            format!("an Idempotency-Key is 1 to {IDEMPOTENCY_KEY_BYTES_MAX} characters of ASCII"),
        )
    })
}

/// Stands for the whole request: sent again, it is the same to the last byte.
fn digest_of(parts: &Parts, body: &[u8]) -> Vec<u8> {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
    let query = parts.uri.query().unwrap_or_default();
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [content_type, b"\n", query.as_bytes(), b"\n", body] {
        context.update(part);
    }
    context.finish().as_ref().to_vec()
}

fn event_digest(key: &IdempotencyKey) -> String {
    let text = format!("{}\n{}\n{}", key.api_key, key.route, key.key);
    hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
}
