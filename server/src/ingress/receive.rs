//! One request, from its head to its answer.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::Method,
    response::{IntoResponse, Response},
};
use snaphook_signature::Scheme;

use super::{
    Ingress,
    answer::Outcome,
    body::{self, BodyError},
    handshake,
    judge::{Doubt, Incoming, Judged},
};
use crate::{
    domain::{
        event::Door,
        received::{Digest, Finding},
        request_state::RequestState,
    },
    engine::sources::LiveSource,
    store::{Arrival, Receipt, StoreError},
};

/// Bodies beyond this are hashed and read apart from the tasks that serve connections: at about
/// 1 GB/s a quarter of a millisecond.
const APART_BYTES: usize = 256 << 10;

/// `POST /in/{source}`.
pub async fn receive(State(ingress): State<Arc<Ingress>>, request: Request) -> Response {
    let begun = ingress.engine.world.monotonic();
    let metrics = &ingress.engine.metrics;
    let Some(source) = ingress.source_of(&request) else {
        // A book that was never read knows no source, and says nothing of any.
        let loaded = ingress.engine.sources.is_loaded();
        let outcome = if loaded { Outcome::Unknown } else { Outcome::Unavailable };
        metrics.inbound_request("none", outcome.name());
        return outcome.into_response();
    };
    let scheme = label_of(&source);
    let outcome = ingress.handle(source, request).await;
    metrics.inbound_request(scheme, outcome.name());
    if matches!(outcome, Outcome::Acknowledged(..)) {
        metrics.inbound_ack(ingress.engine.world.monotonic().saturating_sub(begun));
    }
    outcome.into_response()
}

impl Ingress {
    fn source_of(&self, request: &Request) -> Option<Arc<LiveSource>> {
        let token = request.uri().path().strip_prefix("/in/")?.parse().ok()?;
        self.engine.sources.find(&token)
    }

    async fn handle(&self, source: Arc<LiveSource>, request: Request) -> Outcome {
        let (head, body) = request.into_parts();
        let at = self.engine.now();
        if !handshake::takes(&source, head.method.as_str(), at) {
            return Outcome::Method;
        }
        let body = match body::read(body, source.body_limit, &self.engine.budget).await {
            Ok(body) => body,
            Err(BodyError::TooLarge) => return Outcome::TooLarge,
            Err(BodyError::Broken) => return Outcome::Broken,
            Err(BodyError::NoRoom) => return Outcome::Unavailable,
        };
        let incoming = Incoming { source, head, body, at: self.engine.now() };
        if let Some(answered) = self.greet(&incoming).await {
            return answered;
        }
        if incoming.head.method != Method::POST {
            return Outcome::Method;
        }
        let judged = match self.published(&incoming).await {
            Ok(published) => judge(incoming, published).await,
            Err(doubt) => Some((incoming, Err(doubt))),
        };
        match judged {
            Some((incoming, Ok(Judged::Arrival(arrival)))) => self.store(&incoming, arrival).await,
            Some((incoming, Ok(Judged::Handshake(asked)))) => self.answer(&incoming, asked).await,
            Some((incoming, Err(Doubt::Refused(step, reason)))) => {
                self.rejects.put(&incoming, step, reason);
                Outcome::Rejected(incoming.source)
            }
            Some((_, Err(Doubt::Unknown))) | None => Outcome::Unavailable,
        }
    }

    /// Acknowledges only what is on disk.
    async fn store(&self, incoming: &Incoming, arrival: Arrival) -> Outcome {
        let source = &incoming.source;
        let digest = arrival.digest();
        let said = (arrival.key.clone(), arrival.source_type.clone());
        let stored = match self.engine.store.receive(arrival).await {
            Ok(receipt) => {
                let finding = receipt.finding;
                let kept = match finding {
                    Finding::Conflict => Some(RequestState::Conflict),
                    Finding::ReplaySuspected => Some(RequestState::ReplaySuspected),
                    Finding::New | Finding::Duplicate | Finding::Held => None,
                };
                match kept {
                    Some(state) => self.keep_apart(incoming, state, receipt, said, digest).await,
                    None => Ok(()),
                }
                .map(|()| finding)
            }
            Err(error) => Err(error),
        };
        match stored {
            Ok(finding) => {
                if matches!(finding, Finding::New | Finding::Held) {
                    self.engine.metrics.event_accepted(Door::Source.name());
                    self.engine.wake();
                }
                Outcome::Acknowledged(source.clone(), finding)
            }
            Err(error) => {
                tracing::warn!(source = %source.name, tenant = %source.tenant, "a request could not be stored: {error}");
                Outcome::Unavailable
            }
        }
    }

    /// Keeps a genuine request that a person should look at. Sent again it is the same one, and
    /// its sender is thanked again.
    async fn keep_apart(
        &self,
        incoming: &Incoming,
        state: RequestState,
        receipt: Receipt,
        (provider_id, provider_type): (Option<String>, Option<String>),
        digest: Option<Digest>,
    ) -> Result<(), StoreError> {
        let mut request = self.rejects.request_of(incoming, state);
        request.body = Some(incoming.body.clone());
        request.event = Some(receipt.event);
        request.digest = digest;
        (request.provider_id, request.provider_type) = (provider_id, provider_type);
        let mut tx = self.engine.store.begin().await?;
        let new = tx.add_request(&request).await?;
        tx.commit().await?;
        if new {
            let source = &incoming.source;
            tracing::warn!(
                source = %source.name, tenant = %source.tenant, request = %request.id, event = %receipt.event,
                "a genuine request is kept apart, as {state}; look at it, and accept it if it is right"
            );
        }
        Ok(())
    }
}

/// Judges a request; a large one beside the tasks that serve connections. `None` when that broke.
async fn judge(
    incoming: Incoming,
    published: Option<Arc<str>>,
) -> Option<(Incoming, Result<Judged, Doubt>)> {
    let large = incoming.body.len() > APART_BYTES;
    let judge = move || {
        let judged = incoming.judge(published.as_deref());
        (incoming, judged)
    };
    if large { tokio::task::spawn_blocking(judge).await.ok() } else { Some(judge()) }
}

/// The scheme's name in the table of providers, or `custom`.
fn label_of(source: &LiveSource) -> &'static str {
    let Ok(ready) = &source.ready else { return "custom" };
    Scheme::names().find(|name| *name == ready.scheme.name()).unwrap_or("custom")
}
