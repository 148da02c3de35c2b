//! Receiving over HTTP: a body that is kept raw and bounded, verified before anything reads it.
//!
//! The one part of this crate with a clock and HTTP's types. It is behind the features `axum` and
//! `tower`, and knows no framework by itself.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "tower")]
mod tower;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

#[cfg(feature = "tower")]
pub use self::tower::{VerifyWebhook, WebhookLayer};
use crate::{
    received::{Received, Refusal},
    scheme::IdScope,
    verifier::{Verified, Verifier},
};

/// GitHub sends the largest bodies, up to 25 MiB.
const BODY_BYTES_MAX: usize = 25 << 20;

/// What verifies the requests of one sender: a [`Verifier`], the size of a body, the URL that the
/// sender knows, and a clock. Cheap to clone.
///
/// Schemes whose key must be fetched (Amazon SNS, PayPal, Plaid) need
/// [`Verifier::need`] and a client of your own; this fetches nothing.
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    verifier: Verifier,
    body_bytes_max: usize,
    url: Option<String>,
    clock: fn() -> i64,
}

/// A request that is genuine: its raw body, its headers, and what it says of itself.
#[derive(Clone, Debug)]
pub struct VerifiedEvent {
    /// The event's id and type, and which secret matched.
    pub verified: Verified,
    /// The bytes as they were received.
    pub body: Bytes,
    /// All headers.
    pub headers: HeaderMap,
    id_scope: IdScope,
}

/// Why a request was not let in. It is answered with a status and nothing else: a forger should
/// learn no more.
#[derive(Debug)]
pub enum Rejection {
    /// Not genuine, too old, or unreadable: 401.
    Refused(Refusal),
    /// More than the limit: 413.
    TooLarge,
    /// The body ended early: 400.
    Unread,
}

impl Webhooks {
    /// With the system's clock, and bodies of up to 25 MiB.
    pub fn new(verifier: Verifier) -> Self {
        let inner =
            Inner { verifier, body_bytes_max: BODY_BYTES_MAX, url: None, clock: seconds_now };
        Self { inner: Arc::new(inner) }
    }

    /// Takes no larger bodies than this, in bytes.
    #[must_use]
    pub fn with_body_limit(self, bytes: usize) -> Self {
        self.with(|inner| inner.body_bytes_max = bytes)
    }

    /// The URL that was registered with the sender, for schemes that sign it. Without it those
    /// refuse everything: what a proxy or a client says of the URL is not to be trusted.
    #[must_use]
    pub fn with_url(self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.with(|inner| inner.url = Some(url))
    }

    /// Another clock, in seconds since 1970. For tests.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> i64) -> Self {
        self.with(|inner| inner.clock = clock)
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::into_inner(self.inner).expect("set up before it is cloned");
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// Reads the body to its end, and verifies.
    pub async fn receive<B>(&self, request: Request<B>) -> Result<VerifiedEvent, Rejection>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, self.inner.body_bytes_max).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() { Rejection::TooLarge } else { Rejection::Unread }
        })?;
        let body = body.to_bytes();
        let headers: Vec<_> =
            parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let mut request = Received::new(&headers, &body).with_method(parts.method.as_str());
        let Inner { verifier, url, clock, .. } = &*self.inner;
        if let Some(url) = url {
            request = request.with_url(url);
        }
        let verified = verifier.verify(&request, clock()).map_err(Rejection::Refused)?;
        drop(headers);
        Ok(VerifiedEvent { verified, body, headers: parts.headers, id_scope: verifier.id_scope() })
    }
}

#[expect(clippy::disallowed_methods, reason = "for programs without a clock to hand in")]
fn seconds_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

impl VerifiedEvent {
    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// What tells a repeat from a new event: the event's id; with its type and a hash of the body,
    /// where the id names a thing that several events share. `None` when there is no id: then each
    /// request is an event of its own.
    pub fn dedup_key(&self) -> Option<String> {
        let id = self.verified.event_id.clone()?;
        Some(match self.id_scope {
            IdScope::Event => id,
            IdScope::Object => {
                let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.body);
                let event_type = self.verified.event_type.as_deref().unwrap_or_default();
                format!("{id} {event_type} {}", hex::encode(hash))
            }
        })
    }
}

impl Rejection {
    /// 401, 413 or 400.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Refused(_) => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unread => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::TooLarge => f.write_str("the body is larger than the limit"),
            Self::Unread => f.write_str("the body ended before its end"),
        }
    }
}

impl std::error::Error for Rejection {}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhooks({:?})", self.inner.verifier)
    }
}
