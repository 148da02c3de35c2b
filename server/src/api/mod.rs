//! The door for programs: `/v1`, JSON over HTTP. A handler reads its input, calls one thing and
//! maps the outcome; nothing is decided here but who may ask.
//!
//! Not here: the server around it (listening, TLS, shutdown), which is `server.rs`.

mod api_keys;
mod attempts;
mod audit;
mod auth;
mod batch;
mod deliveries;
mod docs;
mod emit;
mod endpoint_health;
mod endpoint_state;
mod endpoints;
mod error;
mod event_headers;
mod event_types;
mod events;
mod extract;
mod idempotency;
mod listing;
mod openapi;
mod queues;
mod raw_event;
mod request_id;
mod requests;
mod secrets;
mod source_secrets;
mod sources;
mod system;
mod tenants;
mod test_endpoint;

use std::{any::Any, sync::Arc, time::Duration};

use axum::{Router, http::StatusCode, middleware, response::IntoResponse, response::Response};
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::{router::OpenApiRouter, routes};

pub use openapi::document;

use self::{auth::KnownKeys, error::ApiError};
use crate::{
    domain::{
        health::HealthRules,
        retry::{Jitter, RetrySchedule},
    },
    engine::Engine,
    manage::Manage,
    store::Store,
    telemetry::metrics::Metrics,
};

/// The operator's settings, as far as the API needs them.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// How others reach us: the URLs of sources begin with it.
    pub base_url: String,
    /// The largest payload, in bytes.
    pub payload_bytes_max: usize,
    /// Whether events of undeclared types are refused.
    pub strict_event_types: bool,
    /// Whether `/metrics` is served here, to operators' keys; else it has a listener of its own.
    pub serves_metrics: bool,
    /// The pauses before each attempt, where an endpoint sets nothing else.
    pub schedule: RetrySchedule,
    /// The part of a pause that chance may add.
    pub jitter: Jitter,
    /// Without a success for so long, an endpoint is disabled.
    pub disable_after: Duration,
    /// How long `POST …/test` waits for the receiver.
    pub test_wait: Duration,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1:8080".to_owned(),
            payload_bytes_max: crate::domain::limits::PAYLOAD_BYTES_DEFAULT,
            strict_event_types: false,
            serves_metrics: true,
            schedule: RetrySchedule::default(),
            jitter: Jitter::default(),
            disable_after: HealthRules::default().disable_after,
            test_wait: Duration::from_secs(32),
        }
    }
}

/// What all handlers share.
pub struct Api {
    store: Store,
    manage: Arc<Manage>,
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    settings: ApiSettings,
    known_keys: KnownKeys,
    tasks: TaskTracker,
}

impl Api {
    /// Changes go through `manage`; reads go to its store. What needs the network, or the sources
    /// as they are live, goes to `engine`.
    pub fn new(manage: Arc<Manage>, engine: Arc<Engine>, settings: ApiSettings) -> Arc<Self> {
        Arc::new(Self {
            store: manage.store.clone(),
            manage,
            metrics: engine.metrics.clone(),
            engine,
            settings,
            known_keys: KnownKeys::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Waits until requests that go on without their callers are done.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// All routes.
pub fn router(api: Arc<Api>) -> Router {
    let (router, _) = routes().split_for_parts();
    finished(router.merge(docs::router()), api)
}

/// Health and metrics alone: for a node that does not have the role `api`.
pub fn system_router(api: Arc<Api>) -> Router {
    let (router, _) = system_routes().split_for_parts();
    finished(router, api)
}

fn finished(router: Router<Arc<Api>>, api: Arc<Api>) -> Router {
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn_with_state(api.clone(), idempotency::once))
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(middleware::from_fn_with_state(api.clone(), request_id::assign))
        .with_state(api)
}

fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::show, tenants::put, tenants::update, tenants::delete))
        .routes(routes!(endpoints::list, endpoints::create))
        .routes(routes!(endpoints::show, endpoints::update, endpoints::delete))
        .routes(routes!(endpoint_state::pause))
        .routes(routes!(endpoint_state::resume))
        .routes(routes!(endpoint_state::enable))
        .routes(routes!(endpoint_state::probe))
        .routes(routes!(test_endpoint::test))
        .routes(routes!(secrets::list, secrets::create))
        .routes(routes!(secrets::rotate))
        .routes(routes!(secrets::revoke))
        .routes(routes!(secrets::reveal))
        .routes(routes!(sources::list, sources::create))
        .routes(routes!(sources::show, sources::update, sources::delete))
        .routes(routes!(sources::pause))
        .routes(routes!(sources::resume))
        .routes(routes!(sources::arm))
        .routes(routes!(source_secrets::list, source_secrets::create))
        .routes(routes!(source_secrets::rotate))
        .routes(routes!(source_secrets::revoke))
        .routes(routes!(source_secrets::reveal))
        .routes(routes!(requests::list))
        .routes(routes!(requests::show))
        .routes(routes!(requests::verify))
        .routes(routes!(requests::accept))
        .routes(routes!(requests::redeliver))
        .routes(routes!(event_types::list, event_types::create))
        .routes(routes!(
            event_types::show,
            event_types::put,
            event_types::update,
            event_types::delete
        ))
        .routes(routes!(events::list, emit::create))
        .routes(routes!(batch::create))
        .routes(routes!(raw_event::create))
        .routes(routes!(events::show))
        .routes(routes!(events::payload))
        .routes(routes!(event_headers::show))
        .routes(routes!(events::list_deliveries))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::show))
        .routes(routes!(deliveries::redeliver))
        .routes(routes!(deliveries::try_now))
        .routes(routes!(deliveries::cancel))
        .routes(routes!(queues::claim))
        .routes(routes!(queues::ack))
        .routes(routes!(queues::nack))
        .routes(routes!(api_keys::list, api_keys::create))
        .routes(routes!(api_keys::show, api_keys::revoke))
        .routes(routes!(audit::list))
        .merge(system_routes())
}

fn system_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(system::alive))
        .routes(routes!(system::ready))
        .routes(routes!(system::metrics))
}

async fn unknown_route(uri: axum::http::Uri) -> ApiError {
    let detail = format!("there is no route {:?}; see /docs for those there are", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_route", detail)
}

async fn unknown_method(method: axum::http::Method, uri: axum::http::Uri) -> ApiError {
    let detail = format!("{method} is not possible on {:?}; see /docs", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// A defect of ours. The panic's own words go to the log alone.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands over the box")]
fn after_panic(panic: Box<dyn Any + Send>) -> Response {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words");
    tracing::error!("a handler panicked: {words}");
    ApiError::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_answered_without_its_words() {
        let caught: [Box<dyn Any + Send>; 3] =
            [Box::new("secret words"), Box::new(String::from("secret words")), Box::new(7)];
        for panic in caught {
            let response = after_panic(panic);
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(response.headers()["content-type"], "application/problem+json");
        }
    }
}
