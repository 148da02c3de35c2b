//! The door for providers: `POST /in/{source}`. Nothing of a request is believed before its
//! signature holds over the bytes that came; an event is on disk before its sender is thanked.
//!
//! ```text
//! find the source ─► read the body ─► verify ─► dedup, event and deliveries in one commit ─► 200
//!                                       └─► refused: answered at once, kept apart later
//! ```
//! From there on it is an event like any other. Not here: what a provider signs and how, which is
//! the crate `signature`; what is kept of sources, which is `engine/sources.rs`.

mod answer;
mod body;
mod handshake;
mod judge;
mod receive;
mod rejects;

use std::{any::Any, sync::Arc};

use axum::{Router, response::IntoResponse, response::Response, routing::any};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use self::{answer::Outcome, rejects::Rejects};
use crate::engine::Engine;

/// What all requests share.
pub struct Ingress {
    engine: Arc<Engine>,
    rejects: Rejects,
}

impl Ingress {
    /// The sources, the database and the world are the engine's.
    pub fn new(engine: Arc<Engine>) -> Arc<Self> {
        let rejects = Rejects::new(engine.clone());
        Arc::new(Self { engine, rejects })
    }

    /// Writes down what was refused, now and then, until `stop` and once more then.
    pub async fn keep_rejects(&self, stop: &CancellationToken) {
        self.rejects.keep(stop).await;
    }

    /// Writes down what was refused of late.
    pub async fn write_rejects(&self) {
        self.rejects.write().await;
    }
}

/// The one route.
pub fn router(ingress: Arc<Ingress>) -> Router {
    Router::new()
        .route("/in/{source}", any(receive::receive))
        .layer(CatchPanicLayer::custom(after_panic))
        .with_state(ingress)
}

/// A defect of ours: nothing is on disk, so the provider is asked to send it again. The panic's
/// own words go to the log alone.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands over the box")]
fn after_panic(panic: Box<dyn Any + Send>) -> Response {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words");
    tracing::error!("receiving a request panicked: {words}");
    Outcome::Unavailable.into_response()
}
