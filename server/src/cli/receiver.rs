//! A receiver for development: takes requests, verifies them as a customer would, tells what came.
//!
//! It is what `snaphook listen` runs, and what `snaphook dev` delivers its sample event to. It is
//! also an example of receiving: verify the raw bytes, then answer fast.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, http::Request, response::IntoResponse};
use http::{HeaderMap, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use serde::Serialize;
use snaphook_signature::{Clock, Received, Secret, Verdict, Verified, Verifier, verify_standard};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::{local::Local, wait::wait};
use crate::domain::time::Timestamp;

/// The largest body that is taken: the largest payload there can be, and its envelope.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Gives the secrets of the moment: they may be rotated while we listen.
pub type Secrets = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<Secret>> + Send>> + Send + Sync>;

/// What requests are judged by.
pub enum Judge {
    /// Nothing is verified.
    Nothing,
    /// Standard Webhooks, as an endpoint gets them.
    Standard(Secrets),
    /// The scheme of a provider.
    Scheme {
        /// The scheme and its secrets.
        verifier: Arc<Verifier>,
        /// The URL that the provider knows.
        url: Option<String>,
    },
}

/// How requests are judged and answered.
pub struct Rules {
    /// What requests are judged by.
    pub judge: Judge,
    /// What is genuine is handed on to it, and answered as it does.
    pub forward_to: Option<Local>,
    /// Else the answer to what is genuine.
    pub status: StatusCode,
    /// So many requests are answered 503 first.
    pub fail_first: u64,
    /// Before each answer.
    pub delay: Duration,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

/// One request, judged and answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// When it came.
    pub at: Timestamp,
    /// `ok`, `stale`, `bad_signature`, `malformed`, or `unverified` when there is no secret.
    pub verdict: &'static str,
    /// Why it is not `ok`.
    pub reason: Option<String>,
    /// `webhook-id`.
    pub event_id: Option<String>,
    /// `type` of the body, where it is JSON and has one.
    pub event_type: Option<String>,
    /// Of the body.
    pub bytes: usize,
    /// What it was answered.
    pub status: u16,
}

impl Seen {
    /// Whether a customer would have taken it for ours.
    pub fn is_genuine(&self) -> bool {
        self.verdict == Verdict::Ok.name() || self.verdict == UNVERIFIED
    }
}

const UNVERIFIED: &str = "unverified";

struct Shared {
    rules: Rules,
    requests: AtomicU64,
    seen: mpsc::UnboundedSender<Seen>,
}

/// Takes requests until `stop`, and tells of each once it is judged. Requests under way are
/// answered before it returns.
pub async fn serve(
    listener: TcpListener,
    rules: Rules,
    seen: mpsc::UnboundedSender<Seen>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let shared = Arc::new(Shared { rules, requests: AtomicU64::new(0), seen });
    let router = Router::new().fallback(receive).with_state(shared);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    request: Request<Body>,
) -> axum::response::Response {
    let Rules { judge, forward_to, status, fail_first, delay, clock } = &shared.rules;
    let at = clock();
    let before = shared.requests.fetch_add(1, Ordering::Relaxed);
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let body = body.to_bytes();

    let Judged { verdict, mut reason, event_id, event_type } = judge.of(&parts, &body, at).await;
    let bytes = body.len();
    wait(*delay).await;
    let genuine = matches!(verdict, "ok" | UNVERIFIED);
    let answer = match (genuine, forward_to) {
        // What is not ours is refused, whatever else we were told to answer.
        (false, _) => StatusCode::UNAUTHORIZED.into_response(),
        (true, _) if before < *fail_first => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        (true, None) => status.into_response(),
        (true, Some(local)) => match local.pass_on(parts, body).await {
            Ok((status, headers, body)) => (status, headers, Body::from(body)).into_response(),
            Err(problem) => {
                reason = Some(problem);
                StatusCode::BAD_GATEWAY.into_response()
            }
        },
    };
    let seen =
        Seen { at, verdict, reason, event_id, event_type, bytes, status: answer.status().as_u16() };
    // Nobody listens any more when the command is ending; the sender still gets its answer.
    drop(shared.seen.send(seen));
    answer
}

/// What is said of a request.
struct Judged {
    verdict: &'static str,
    reason: Option<String>,
    event_id: Option<String>,
    event_type: Option<String>,
}

impl Judge {
    async fn of(&self, parts: &Parts, body: &[u8], now: Timestamp) -> Judged {
        let secrets = match self {
            Self::Nothing => Vec::new(),
            Self::Standard(secrets) => secrets().await,
            Self::Scheme { verifier, url } => {
                return by_scheme(verifier, url.as_deref(), parts, body, now);
            }
        };
        let (verdict, reason) = by_standard(&parts.headers, body, &secrets, now);
        let event_id = text(&parts.headers, &format!("{}-id", prefix(&parts.headers)));
        Judged { verdict, reason, event_id, event_type: event_type(&parts.headers, body) }
    }
}

fn by_scheme(
    verifier: &Verifier,
    url: Option<&str>,
    parts: &Parts,
    body: &[u8],
    now: Timestamp,
) -> Judged {
    let headers = pairs(&parts.headers);
    let mut request = Received::new(&headers, body).with_method(parts.method.as_str());
    if let Some(url) = url {
        request = request.with_url(url);
    }
    let result = verifier.verify(&request, now.seconds());
    let verdict = Verdict::from(&result).name();
    match result {
        Ok(Verified { event_id, event_type, .. }) => {
            Judged { verdict, reason: None, event_id, event_type }
        }
        Err(refusal) => {
            let reason = Some(refusal.to_string());
            Judged { verdict, reason, event_id: None, event_type: None }
        }
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

/// How the names of our own headers begin. What a source took keeps its provider's headers, and
/// ours stand beside them under other names.
fn prefix(headers: &HeaderMap) -> &'static str {
    if headers.contains_key("snaphook-signature") { "snaphook" } else { "webhook" }
}

/// The verdict by its name, and the reason unless it is `ok`.
fn by_standard(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[Secret],
    now: Timestamp,
) -> (&'static str, Option<String>) {
    if secrets.is_empty() {
        return (UNVERIFIED, Some("no secret was given".to_owned()));
    }
    let prefix = prefix(headers);
    let headers = pairs(headers);
    let clock = Clock::at(now.seconds());
    let result = verify_standard(&Received::new(&headers, body), prefix, secrets, clock);
    (Verdict::from(&result).name(), result.err().map(|refusal| refusal.to_string()))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn event_type(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Typed {
        r#type: String,
    }
    let in_body = serde_json::from_slice::<Typed>(body).ok().map(|typed| typed.r#type);
    in_body.or_else(|| text(headers, "ce-type"))
}

#[cfg(test)]
mod tests {
    use snaphook_signature::sign_standard;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn secret(byte: u8) -> Secret {
        Secret::new_hmac(&[byte; 32])
    }

    fn headers(timestamp: i64, body: &[u8], by: &Secret) -> HeaderMap {
        headers_of("webhook", timestamp, body, by)
    }

    fn headers_of(prefix: &str, timestamp: i64, body: &[u8], by: &Secret) -> HeaderMap {
        let signature = sign_standard("evt_1", timestamp, body, [by]).unwrap();
        let timestamp = timestamp.to_string();
        let pairs =
            [("id", "evt_1"), ("timestamp", timestamp.as_str()), ("signature", signature.as_str())];
        let named =
            |(name, value): &(&str, &str)| (format!("{prefix}-{name}"), (*value).to_owned());
        let pairs = pairs.iter().map(named);
        pairs.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_request_is_judged_as_a_customer_would() {
        let seconds = NOW.seconds();
        let signed = |timestamp| headers(timestamp, b"{}", &secret(1));
        let passed_on = |by| {
            let mut headers = headers_of("snaphook", seconds, b"{}", &secret(by));
            // A provider of Standard Webhooks has signed it as well, with a secret of its own.
            headers.extend(self::headers(seconds, b"{}", &secret(9)));
            headers
        };
        for (headers, body, secrets, expected) in [
            (signed(seconds), "{}", vec![secret(1)], "ok"),
            (signed(seconds), "{}", vec![secret(2), secret(1)], "ok"),
            (signed(seconds), "{ }", vec![secret(1)], "bad_signature"),
            (signed(seconds), "{}", vec![secret(2)], "bad_signature"),
            (signed(seconds - 301), "{}", vec![secret(1)], "stale"),
            (passed_on(1), "{}", vec![secret(1)], "ok"),
            (passed_on(2), "{}", vec![secret(1)], "bad_signature"),
            (HeaderMap::new(), "{}", vec![secret(1)], "malformed"),
            (signed(seconds), "{}", vec![], "unverified"),
        ] {
            let (verdict, reason) = by_standard(&headers, body.as_bytes(), &secrets, NOW);
            assert_eq!(verdict, expected);
            assert_eq!(reason.is_none(), expected == "ok", "{reason:?}");
        }
    }

    #[test]
    fn the_type_is_found_where_the_format_puts_it() {
        let none = HeaderMap::new();
        let binary = HeaderMap::from_iter([("ce-type".parse().unwrap(), "b".parse().unwrap())]);
        assert_eq!(event_type(&none, br#"{"type":"a","data":{}}"#).as_deref(), Some("a"));
        assert_eq!(event_type(&binary, b"{}").as_deref(), Some("b"));
        assert_eq!(event_type(&none, b"\xff"), None);
    }
}
