//! The outside that is not the database: time, chance and the network, behind one trait, so that
//! a test can own all three.

pub mod guard;
pub mod offline;
pub mod own_addresses;
pub mod proxy;
pub mod real;
pub mod resolver;
pub mod settings;
pub mod tls;

mod answer;
mod client;
mod connect;
mod connection;
mod exchange;
mod failure;
mod happy;
mod pool;
mod shelf;
mod stream;
mod target;
mod tls_failure;
mod tls_verify;
mod trace;

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::domain::{outcome::Reason, time::Timestamp, tls_settings::TlsSettings};

/// A future on the heap: what an object-safe trait can return.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time, chance and the network.
pub trait World: Send + Sync + 'static {
    /// The wall clock. It may jump; use it for what people read and for due times.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment, which never goes back and counts through suspend: use it
    /// for leases and time-outs.
    fn monotonic(&self) -> Duration;

    /// 64 unpredictable bits.
    fn random(&self) -> u64;

    /// Sends `request` to a judged address, within its limits of time and size. Never follows
    /// redirects. What it came to, how long each part took and who answered are in [`Sent`].
    fn send(&self, request: Request) -> Boxed<'_, Sent>;

    /// Drops the kept connections to the host of `url`, for its endpoint was changed: the next
    /// request resolves, judges and connects anew. Requests on the way are not disturbed.
    fn forget(&self, _url: &str) {}
}

/// One HTTP request, ready to go.
#[derive(Clone, Debug)]
pub struct Request {
    /// `POST` for deliveries.
    pub method: Method,
    /// The endpoint's URL in its stored form: the one string that is signed, logged, connected to.
    pub url: Arc<str>,
    /// All headers but `host` and `content-length`.
    pub headers: HeaderMap,
    /// The exact bytes that were signed.
    pub body: Bytes,
    /// How much of the answer's body is kept, where it is not `delivery.response_bytes`.
    pub answer_bytes: Option<usize>,
    /// For the whole attempt, the reading of the answer's body inside.
    pub timeout: Duration,
    /// Whether the endpoint may lie inside the operator's own network.
    pub internal: bool,
    /// The endpoint's own certificates, if it has any.
    pub tls: Option<Arc<TlsProfile>>,
}

/// Certificates of one endpoint. Connections are never shared between two profiles.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TlsProfile {
    /// PEM of the authorities that may vouch for the receiver, instead of the public ones.
    pub ca: Option<String>,
    /// PEM of our client certificate (chain, leaf first) and of its private key.
    pub identity: Option<(String, String)>,
}

impl From<&TlsSettings> for TlsProfile {
    fn from(settings: &TlsSettings) -> Self {
        let identity = settings.client_cert.clone().zip(settings.client_key.clone());
        Self { ca: settings.ca.clone(), identity }
    }
}

/// Prints nothing of what it holds: one part is a private key.
impl std::fmt::Debug for TlsProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsProfile")
    }
}

/// All that is known of a request that was tried.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The answer, or why there is none.
    pub result: Result<Response, SendError>,
    /// How long each part took.
    pub timings: Timings,
    /// The address that was connected to, if it came to that.
    pub address: Option<SocketAddr>,
}

/// What a receiver answered, cut to the limits.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code of the final answer; 1xx answers are skipped.
    pub status: u16,
    /// Its headers, bounded in number and size.
    pub headers: HeaderMap,
    /// The beginning of its body, at most `delivery.response_bytes`.
    pub body: Bytes,
    /// Whether there was more than `body` holds.
    pub truncated: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct SendError {
    /// The kind, by its stable name.
    pub reason: Reason,
    /// A sentence for people: which address, which certificate, which limit. No secrets.
    pub detail: String,
}

impl SendError {
    /// An error by its reason, in words.
    pub fn new(reason: impl Into<Reason>, detail: impl Into<String>) -> Self {
        Self { reason: reason.into(), detail: detail.into() }
    }
}

/// Phases of an attempt; zero for a phase that did not take place (a reused connection has none
/// of the first three).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Asking for the host's addresses.
    pub dns: Duration,
    /// TCP, from the first address tried to the connection that won.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// From the request's first byte to the answer's status line.
    pub waiting: Duration,
    /// Reading the answer's body.
    pub reading: Duration,
    /// The whole attempt.
    pub total: Duration,
}
