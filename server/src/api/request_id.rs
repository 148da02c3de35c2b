//! Around each request: its id, the caller's own, if it gave a usable one, or a new one, which is
//! in the answer, in the log, and in problem documents; and headers that keep tenants' data out
//! of caches.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use tracing::Instrument;

use super::Api;

/// The header that carries it, both ways.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Characters of an id that is taken from the caller.
const LENGTH_MAX: usize = 128;

tokio::task_local! {
    static CURRENT: Arc<str>;
}

/// The id of the request that this task is at work on.
pub fn current() -> Option<String> {
    CURRENT.try_with(ToString::to_string).ok()
}

/// Runs `work` in the name of the present request, for work in a task of its own.
pub fn inherit<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let id: Arc<str> = current().unwrap_or_default().into();
    CURRENT.scope(id, work)
}

/// Gives the request its id, and logs what became of it. Paths are logged as their routes, for a
/// query may hold what is not for logs.
pub async fn assign(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    let usable = given.filter(|id| {
        (1..=LENGTH_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    });
    let id: Arc<str> = match usable {
        Some(id) => id.into(),
        None => format!("req_{:016x}", api.manage.world.random()).into(),
    };
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str);
    let span = tracing::info_span!("request", request_id = %id, method = %request.method(), route);
    let is_private = request.uri().path().starts_with("/v1/");
    let begun = api.manage.world.monotonic();

    let work = async {
        let response = next.run(request).await;
        let took = api.manage.world.monotonic().saturating_sub(begun);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(status = response.status().as_u16(), took_ms, "answered");
        response
    };
    let mut response = CURRENT.scope(id.clone(), work.instrument(span)).await;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(HEADER, value);
    }
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if is_private {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}
