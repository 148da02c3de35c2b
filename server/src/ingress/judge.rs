//! Whether a request is genuine, and the arrival that it is then. Pure: all it needs is in memory.

use std::{borrow::Cow, sync::Arc};

use axum::http::{HeaderMap, Uri, request::Parts};
use bytes::Bytes;
use snaphook_signature::{Handshake, IdScope, Need, Received, Refusal, Verifier};

use crate::{
    domain::{forwarded::ForwardedHeaders, request_headers::RequestHeaders, time::Timestamp},
    engine::sources::{LiveSource, ReadySource},
    store::{Arrival, ArrivalSource},
};

/// A request that came in whole.
pub struct Incoming {
    /// Where.
    pub source: Arc<LiveSource>,
    /// Its head.
    pub head: Parts,
    /// Its body.
    pub body: Bytes,
    /// When.
    pub at: Timestamp,
}

/// Why a request is not taken.
pub enum Doubt {
    /// It is not genuine, or not in time: where that was found, and why.
    Refused(&'static str, String),
    /// It could not be told, by a fault of ours or of what we fetched.
    Unknown,
}

impl From<Refusal> for Doubt {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.step().name(), refusal.to_string())
    }
}

/// What a genuine request is.
pub enum Judged {
    /// An event.
    Arrival(Arrival),
    /// The provider tries whether somebody is there.
    Handshake(Handshake),
}

impl Incoming {
    /// What must be fetched before the request can be judged, if anything.
    pub fn need(&self) -> Result<Option<Need>, Doubt> {
        let headers = pairs(&self.head.headers);
        Ok(self.verifier()?.need(&Received::new(&headers, &self.body))?)
    }

    /// What the request is, if it is genuine. `published` is what was fetched for it.
    pub fn judge(&self, published: Option<&str>) -> Result<Judged, Doubt> {
        let (ready, verifier) = (self.ready()?, self.verifier()?);
        let headers = pairs(&self.head.headers);
        let url = self.url();
        let received = Received::new(&headers, &self.body)
            .with_method(self.head.method.as_str())
            .with_url(&url);
        let now = self.at.0.div_euclid(1_000_000);
        let told = match published {
            Some(text) => verifier.verify_with(&received, now, text)?,
            None => verifier.verify(&received, now)?,
        };
        if let Some(handshakes) = ready.handshakes(self.at)
            && let Some(asked) = handshakes.verified(&received, &told)
        {
            return Ok(Judged::Handshake(asked));
        }
        let source = ArrivalSource {
            id: self.source.id,
            tenant: &self.source.tenant,
            name: &self.source.name,
            names_object: ready.id_scope == IdScope::Object,
        };
        let said = (told.event_id.as_deref(), told.event_type.as_deref(), told.evidence.as_deref());
        let forwarded = ForwardedHeaders::of(headers.iter().copied());
        Ok(Judged::Arrival(Arrival::new(source, said, &forwarded, self.body.clone())))
    }

    fn verifier(&self) -> Result<&Verifier, Doubt> {
        self.ready()?.verifier(self.at).ok_or_else(|| {
            let why = "the source has no secret that is live; add the one that the provider shows";
            Doubt::Refused("key", why.to_owned())
        })
    }

    /// What of the source can verify. Where nothing can, the operator has to mend something, and
    /// the provider tries again.
    pub(super) fn ready(&self) -> Result<&ReadySource, Doubt> {
        self.source.ready.as_ref().map_err(|_| Doubt::Unknown)
    }

    /// The URL as the provider signs it: the one that it was given, with the query that came.
    fn url(&self) -> Cow<'_, str> {
        self.source.signed_url(self.head.uri.query())
    }

    /// Its headers as they are kept, in their order.
    pub fn request_headers(&self) -> RequestHeaders {
        pairs(&self.head.headers).into_iter().collect()
    }

    /// Its path and query.
    pub fn target(&self) -> String {
        target_of(&self.head.uri)
    }
}

fn target_of(uri: &Uri) -> String {
    uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string)
}

pub(super) fn pairs(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}
