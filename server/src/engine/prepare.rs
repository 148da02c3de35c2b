//! From a parcel to a request: body, headers, signatures. Pure, and the same code for the first
//! attempt and every later one; what differs between attempts is the time, and so the signature.
//!
//! Secrets are chosen here, at the moment of sending, by their own end times, so that a rotation
//! needs nobody to act when its overlap is over.
//!
//! What a source took goes on as it came: that is `passed_on`.

mod passed_on;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use snaphook_signature::{Secret, SignError, Verifier, sign_sha256_hex, sign_standard, sign_t_v1};

use crate::{
    domain::{
        endpoint::{EndpointSettings, Reach},
        format::{EventView, Format, render},
        forwarded::ForwardedHeaders,
        id::SecretId,
        own_headers::name_problem,
        profile::{Profiles, Scheme},
        time::Timestamp,
    },
    world::{Request, TlsProfile},
};

/// What `user-agent` says.
pub const USER_AGENT: &str = concat!("snaphook/", env!("CARGO_PKG_VERSION"));

/// Everything that one attempt needs.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// What is sent.
    pub event: EventView<'a>,
    /// W3C Trace Context of the emitter, passed on if it is well formed.
    pub traceparent: Option<&'a str>,
    /// Where it goes.
    pub endpoint: &'a ReadyEndpoint,
    /// The operator's public URL, for the format `thin`.
    pub base_url: &'a str,
    /// Of an event that a source took: it goes on as it came.
    pub inbound: Option<PassedOn<'a>>,
}

/// What is passed on with an event that a source took.
#[derive(Clone, Copy)]
pub struct PassedOn<'a> {
    /// The headers that it came with.
    pub headers: &'a ForwardedHeaders,
    /// The provider's id of the event; empty if there is none.
    pub key: &'a str,
    /// Signs as the provider does, where the source has a secret.
    pub signer: Option<&'a Verifier>,
}

/// Its secrets are no one's to see.
impl std::fmt::Debug for PassedOn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassedOn").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What requests to one endpoint are made of: built once for each version of its settings, used
/// for every attempt until they change.
#[derive(Clone, Debug)]
pub struct ReadyEndpoint {
    url: Arc<str>,
    headers: HeaderMap,
    format: Format,
    signature: Profiles,
    timeout: Duration,
    internal: bool,
    tls: Option<Arc<TlsProfile>>,
    secrets: Vec<EndpointSecret>,
}

/// A secret that was not revoked.
#[derive(Clone, Debug)]
pub struct EndpointSecret {
    /// Its id, which tells its age.
    pub id: SecretId,
    /// The secret itself.
    pub secret: Secret,
    /// Signs until then; without end if `None`.
    pub expires_at: Option<Timestamp>,
}

/// Why no request can be made. Only the endpoint's settings can mend it, so the attempt fails with
/// the reason `invalid_request`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// A header cannot be sent. Its value is not shown: it may be a token.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// As it is stored.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// No live secret, or none of the kind that a profile needs.
    #[error("the request cannot be signed: {0}")]
    Sign(#[from] SignError),
}

impl ReadyEndpoint {
    /// Takes an endpoint's settings, complete with their private part, and its secrets in any
    /// order. `timeout` is the operator's, for endpoints that name none of their own.
    pub fn new(
        settings: &EndpointSettings,
        mut secrets: Vec<EndpointSecret>,
        timeout: Duration,
    ) -> Result<Self, PrepareError> {
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.id));
        let tls = &settings.tls;
        Ok(Self {
            url: settings.url.as_str().into(),
            headers: own_headers(settings)?,
            format: settings.format,
            signature: settings.signature.clone(),
            timeout: settings.timeout.map_or(timeout, |timeout| timeout.0),
            internal: settings.reach == Reach::Internal,
            tls: (!tls.is_empty()).then(|| Arc::new(TlsProfile::from(tls))),
            secrets,
        })
    }

    /// Where requests go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// For a whole attempt.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    fn request(&self, headers: HeaderMap, body: Bytes) -> Request {
        Request {
            method: Method::POST,
            url: Arc::clone(&self.url),
            headers,
            body,
            answer_bytes: None,
            timeout: self.timeout,
            internal: self.internal,
            tls: self.tls.clone(),
        }
    }

    /// The secrets that sign at `now`, the newest first.
    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Secret> + Clone {
        let live = move |secret: &&EndpointSecret| secret.expires_at.is_none_or(|end| now < end);
        self.secrets.iter().filter(live).map(|secret| &secret.secret)
    }
}

/// Makes the request of one attempt.
pub fn prepare(parcel: &Parcel<'_>, now: Timestamp) -> Result<Request, PrepareError> {
    let endpoint = parcel.endpoint;
    if let Some(inbound) = &parcel.inbound {
        return passed_on::prepare(parcel, inbound, now);
    }
    let rendered = render(endpoint.format, &parcel.event, parcel.base_url);
    let mut headers = endpoint.headers.clone();
    // Ours come last and replace: no stored header can take their place.
    for (name, value) in rendered.headers {
        headers.insert(HeaderName::from_static(name), sendable(name, &value)?);
    }
    headers.insert(header::CONTENT_TYPE, sendable("content-type", &rendered.content_type)?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    if let Some(traceparent) = parcel.traceparent.filter(|text| is_traceparent(text)) {
        headers.insert("traceparent", sendable("traceparent", traceparent)?);
    }
    let id = parcel.event.id.to_string();
    headers.insert("webhook-id", sendable("webhook-id", &id)?);
    headers.insert("webhook-timestamp", HeaderValue::from(now.seconds()));
    sign(&mut headers, endpoint, &id, &rendered.body, now)?;
    Ok(endpoint.request(headers, rendered.body))
}

/// Adds one header for each profile; every live secret signs in each that has room for it.
fn sign(
    headers: &mut HeaderMap,
    endpoint: &ReadyEndpoint,
    id: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<(), PrepareError> {
    let (seconds, live) = (now.seconds(), endpoint.live(now));
    let standard = Profiles::default();
    let own = endpoint.signature.own().next().map_or(&standard, |_| &endpoint.signature);
    for profile in own.own() {
        let value = match profile.scheme {
            Scheme::Standard | Scheme::Source => sign_standard(id, seconds, body, live.clone())?,
            Scheme::TV1 => {
                headers.insert("x-webhook-id", sendable("x-webhook-id", id)?);
                sign_t_v1(seconds, body, live.clone())?
            }
            Scheme::Sha256Hex => sign_sha256_hex(body, live.clone())?,
        };
        let name = profile.header();
        headers.insert(header_name(&name)?, sendable(&name, &value)?);
    }
    Ok(())
}

/// The owner's headers. They were checked when they were saved; a row that came about otherwise
/// must not smuggle anything.
fn own_headers(settings: &EndpointSettings) -> Result<HeaderMap, PrepareError> {
    let mut headers = HeaderMap::new();
    for (name, value) in settings.headers.iter() {
        if let Some(problem) = name_problem(&name.to_ascii_lowercase(), &[]) {
            return Err(PrepareError::Header { name: name.to_owned(), problem });
        }
        let mut value = sendable(name, value)?;
        value.set_sensitive(true); // not printed by `Debug`, not put into HTTP/2's shared table
        headers.insert(header_name(name)?, value);
    }
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName, PrepareError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|error| PrepareError::Header { name: name.to_owned(), problem: error.to_string() })
}

fn sendable(name: &str, value: &str) -> Result<HeaderValue, PrepareError> {
    HeaderValue::from_str(value).map_err(|_| PrepareError::Header {
        name: name.to_owned(),
        problem: "its value has a line break, a control character or one outside ASCII".to_owned(),
    })
}

/// W3C Trace Context, version 00 and what later versions may add to it. What is not in this form
/// would be ignored by receivers anyhow.
fn is_traceparent(text: &str) -> bool {
    let lower_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut parts = text.splitn(5, '-');
    let lengths = [2, 32, 16, 2];
    let known = lengths
        .into_iter()
        .all(|length| parts.next().is_some_and(|part| part.len() == length && lower_hex(part)));
    let plain = text.bytes().all(|byte| matches!(byte, b'!'..=b'~')) && text.len() <= 256;
    known && plain && !text.starts_with("ff") && (parts.next().is_none() || !text.starts_with("00"))
}

#[cfg(test)]
mod tests;
