//! Requests that a source kept apart, looked at once more: verified as of their arrival, and made
//! events when a person says so.

use snaphook_signature::{IdScope, Received, Refusal, Verdict, Verified, Verifier};

use super::{Engine, sources::LiveSource};
use crate::{
    domain::{
        event::Door, forwarded::ForwardedHeaders, id::EventId, received::Finding,
        request_state::RequestState, time::Timestamp,
    },
    store::{Arrival, ArrivalSource, StoreError, requests::RequestRow},
};

/// What a look at a request came to.
#[derive(Clone, Debug)]
pub struct Look {
    /// As `snaphook verify` says it.
    pub verdict: Verdict,
    /// At which step it failed, and why.
    pub refusal: Option<(&'static str, String)>,
}

/// Why a request cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Its source was deleted.
    #[error("the source of this request is deleted, and its secrets with it")]
    NoSource,
    /// Its body was too large to be kept.
    #[error("the body of this request was too large to be kept; have the provider send it again")]
    NoBody,
    /// What the provider publishes could not be fetched, or the source's secrets cannot be opened.
    #[error("{0}")]
    NotNow(String),
    /// Somebody was faster.
    #[error("this request is accepted already")]
    Accepted,
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Verifies a request with the secrets that are live now, as of the time of its arrival; keeps
    /// what it came to.
    pub async fn look_again(&self, request: &RequestRow) -> Result<Look, KeptError> {
        let source = self.source_of(request).await?;
        let look = match self.verified(&source, request).await? {
            Ok(_) => Look { verdict: Verdict::Ok, refusal: None },
            Err(refusal) => Look {
                verdict: refusal.verdict(),
                refusal: Some((refusal.step().name(), refusal.to_string())),
            },
        };
        let refusal = look.refusal.as_ref().map(|(step, reason)| (*step, reason.as_str()));
        let mut tx = self.store.begin().await?;
        tx.update_request_verdict(request.id, look.verdict.name(), refusal, self.now()).await?;
        tx.commit().await?;
        Ok(look)
    }

    /// Makes a request an event, whatever was found of it, and marks it as accepted for ever. A
    /// rejected one that came again and was genuine is the event that it became then.
    pub async fn accept_kept(&self, request: &RequestRow, by: &str) -> Result<EventId, KeptError> {
        let source = self.source_of(request).await?;
        let arrival = self.arrival(&source, request)?;
        let unique = Arrival { dedup: None, evidence: None, ..arrival.clone() };
        let mut tx = self.store.begin().await?;
        let mut receipt = None;
        if request.state == RequestState::Rejected {
            receipt = tx.receive_many(&[&arrival]).await?.pop().filter(|receipt| {
                matches!(receipt.finding, Finding::New | Finding::Held | Finding::Duplicate)
            });
        }
        if receipt.is_none() {
            receipt = tx.receive_many(&[&unique]).await?.pop();
        }
        let Some(receipt) = receipt else { return Err(KeptError::Accepted) };
        if !tx.accept_request(request.id, receipt.event, by, self.now()).await? {
            return Err(KeptError::Accepted);
        }
        tx.commit().await?;
        if receipt.finding != Finding::Duplicate {
            self.metrics.event_accepted(Door::Source.name());
            self.wake();
        }
        Ok(receipt.event)
    }

    async fn source_of(
        &self,
        request: &RequestRow,
    ) -> Result<std::sync::Arc<LiveSource>, KeptError> {
        self.sources.refresh().await?; // a secret that was just added counts
        self.sources.get(request.source).ok_or(KeptError::NoSource)
    }

    async fn verified(
        &self,
        source: &LiveSource,
        request: &RequestRow,
    ) -> Result<Result<Verified, Refusal>, KeptError> {
        let body = request.body.as_ref().ok_or(KeptError::NoBody)?;
        let now = self.now();
        let verifier = verifier(source, now)?;
        let (headers, url) =
            (request.headers.pairs(), source.signed_url(query_of(&request.target)));
        let received = Received::new(&headers, body).with_method(&request.method).with_url(&url);
        let at = request.received_at.seconds();
        let need = match verifier.need(&received) {
            Ok(need) => need,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(need) = need else { return Ok(verifier.verify(&received, at)) };
        let plaid = source.ready.as_ref().ok().and_then(|ready| ready.plaid(now));
        let fetched = self.published.get(&need, plaid).await;
        let fetched = fetched.map_err(|error| KeptError::NotNow(error.to_string()))?;
        Ok(verifier.verify_with(&received, at, &fetched))
    }

    /// The event that a request would be, as it says itself.
    fn arrival(&self, source: &LiveSource, request: &RequestRow) -> Result<Arrival, KeptError> {
        let body = request.body.clone().ok_or(KeptError::NoBody)?;
        let headers = request.headers.pairs();
        let url = source.signed_url(query_of(&request.target));
        let received = Received::new(&headers, &body).with_method(&request.method).with_url(&url);
        // Without a secret nothing can read it, and what was told of it then is all there is.
        let (id, provider_type) = match verifier(source, self.now()) {
            Ok(verifier) => verifier.unproven(&received),
            Err(_) => (request.provider_id.clone(), request.provider_type.clone()),
        };
        let forwarded = ForwardedHeaders::of(headers.iter().copied());
        let of = ArrivalSource {
            id: source.id,
            tenant: &source.tenant,
            name: &source.name,
            names_object: source
                .ready
                .as_ref()
                .is_ok_and(|ready| ready.id_scope == IdScope::Object),
        };
        let said = (id.as_deref(), provider_type.as_deref(), None);
        Ok(Arrival::new(of, said, &forwarded, body))
    }
}

fn verifier(source: &LiveSource, now: Timestamp) -> Result<&Verifier, KeptError> {
    let ready = source.ready.as_ref().map_err(|problem| KeptError::NotNow(problem.clone()))?;
    ready.verifier(now).ok_or_else(|| {
        let why = "the source has no secret that is live; add the one that the provider shows";
        KeptError::NotNow(why.to_owned())
    })
}

fn query_of(target: &str) -> Option<&str> {
    target.split_once('?').map(|(_, query)| query)
}
