//! What providers publish to verify by: the certificates of Amazon SNS and PayPal, the keys of
//! Plaid; and the page by which a subscription of SNS is confirmed.
//!
//! The request that asks for one is not verified yet, so it may not choose where we go: the crate
//! has judged that the host is the provider's own, and the guard judges its address. What was
//! fetched is kept. Of many requests that need the same, one fetches and the others wait for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use snaphook_signature::Need;
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    domain::url::EndpointUrl,
    world::{Request, Response, World},
};

/// So many are kept. SNS has one certificate a region and year, PayPal a few, Plaid a few keys a
/// client.
const KEPT_MAX: usize = 256;

/// SNS and PayPal change a certificate about once a year, and its URL with it. Plaid says of a key
/// that it has ended, so it is looked at again every day.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// A failure is remembered for so long, so that a flood of requests does not become one of ours.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// SNS waits 15 s for an answer, Plaid 10 s; the rest of that is for the database.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// As [`FETCH_TIMEOUT`], with the wait for those before.
const WAIT_MAX: Duration = Duration::from_secs(7);

/// Fetches under way at a time.
const FETCHES_MAX: usize = 8;

/// Certificates come with their chain, some ten thousand bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Fetches and keeps what providers publish. One a process.
pub struct Published {
    world: Arc<dyn World>,
    kept: Mutex<HashMap<String, Arc<Slot>>>,
    turns: Semaphore,
}

/// One thing that is published. Whoever holds its lock fetches it.
#[derive(Default)]
struct Slot {
    known: tokio::sync::Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    result: Result<Arc<str>, Unavailable>,
    /// By the world's monotonic clock.
    until: Duration,
    used: Duration,
}

/// What it takes to ask Plaid for a key.
#[derive(Clone, Copy)]
pub struct PlaidAccess<'a> {
    /// The client id; `@sandbox` behind it asks there.
    pub client: &'a str,
    /// The secret of its API.
    pub secret: &'a str,
}

/// What is needed cannot be had now. The provider shall send its request again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Published {
    /// Nothing is known yet.
    pub fn new(world: Arc<dyn World>) -> Self {
        Self { world, kept: Mutex::default(), turns: Semaphore::new(FETCHES_MAX) }
    }

    /// The text that [`Verifier::verify_with`](snaphook_signature::Verifier::verify_with) takes.
    pub async fn get(
        &self,
        need: &Need,
        plaid: Option<PlaidAccess<'_>>,
    ) -> Result<Arc<str>, Unavailable> {
        let (name, request) = match need {
            Need::Certificate(url) => (url.clone(), request(Method::GET, url)?),
            Need::Jwk(kid) => {
                let access = plaid.ok_or_else(|| {
                    Unavailable("the source has no client id and secret to ask for keys".to_owned())
                })?;
                (format!("{} {kid}", access.client), access.request(kid)?)
            }
        };
        let read = |answer: Response| match need {
            Need::Certificate(_) => certificate(&answer.body),
            Need::Jwk(kid) => jwk(&answer.body, kid),
        };
        let slot = self.slot(&name)?;
        let known = async {
            let mut known = slot.known.lock().await;
            let now = self.world.monotonic();
            if let Some(known) = known.as_mut().filter(|known| now < known.until) {
                known.used = now;
                return known.result.clone();
            }
            let result = self.fetch(request).await.and_then(read);
            let now = self.world.monotonic();
            if let Err(error) = &result {
                tracing::warn!(%error, "what a provider publishes cannot be had");
            }
            let until = now + if result.is_ok() { KEPT_FOR } else { FAILED_FOR };
            *known = Some(Known { result: result.clone(), until, used: now });
            result
        };
        timeout(WAIT_MAX, known).await.unwrap_or_else(|_| {
            Err(Unavailable(format!("it was not there within {} s", WAIT_MAX.as_secs())))
        })
    }

    /// Gets a page, for what happens by that. Its host was judged to be the provider's own.
    pub async fn visit(&self, url: &str) -> Result<(), Unavailable> {
        timeout(WAIT_MAX, self.fetch(request(Method::GET, url)?)).await.map_or_else(
            |_| Err(Unavailable("the page did not answer in time".to_owned())),
            |answered| answered.map(drop),
        )
    }

    async fn fetch(&self, request: Request) -> Result<Response, Unavailable> {
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let host = EndpointUrl::parse(&request.url).map(|url| url.host().to_owned());
        let host = host.unwrap_or_default();
        match self.world.send(request).await.result {
            Err(error) => Err(Unavailable(format!("{host}: {error}"))),
            Ok(answer) if !(200..300).contains(&answer.status) => {
                Err(Unavailable(format!("{host} answered {}", answer.status)))
            }
            Ok(answer) if answer.truncated => {
                Err(Unavailable(format!("{host} answered more than {ANSWER_BYTES_MAX} bytes")))
            }
            Ok(answer) => Ok(answer),
        }
    }

    /// The place for what has this name. Room is made by what failed, then by what was not used
    /// for longest, so that forged requests do not push out what genuine ones use.
    fn slot(&self, name: &str) -> Result<Arc<Slot>, Unavailable> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = kept.get(name) {
            return Ok(Arc::clone(slot));
        }
        if kept.len() >= KEPT_MAX {
            let idle = kept.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = idle
                .min_by_key(|(_, slot)| {
                    let known = slot.known.try_lock().ok().and_then(|known| known.clone());
                    known.filter(|known| known.result.is_ok()).map(|known| known.used)
                })
                .map(|(name, _)| name.clone());
            let oldest = oldest.ok_or_else(|| Unavailable("too many are under way".to_owned()))?;
            kept.remove(&oldest);
        }
        let slot = Arc::new(Slot::default());
        kept.insert(name.to_owned(), Arc::clone(&slot));
        Ok(slot)
    }
}

impl PlaidAccess<'_> {
    /// Plaid's `/webhook_verification_key/get`.
    fn request(self, kid: &str) -> Result<Request, Unavailable> {
        let (client, host) = match self.client.strip_suffix("@sandbox") {
            Some(client) => (client, "sandbox.plaid.com"),
            None => (self.client, "production.plaid.com"),
        };
        let url = format!("https://{host}/webhook_verification_key/get");
        let body = serde_json::json!({ "client_id": client, "secret": self.secret, "key_id": kid });
        let mut request = request(Method::POST, &url)?;
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = body.to_string().into();
        Ok(request)
    }
}

fn request(method: Method, url: &str) -> Result<Request, Unavailable> {
    let url = EndpointUrl::parse(url).ok().filter(EndpointUrl::is_https);
    let url = url.ok_or_else(|| Unavailable("its URL is no https URL".to_owned()))?;
    let mut headers = HeaderMap::new();
    let agent = concat!("snaphook/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    Ok(Request {
        method,
        url: url.as_str().into(),
        headers,
        body: Bytes::new(),
        answer_bytes: Some(ANSWER_BYTES_MAX),
        timeout: FETCH_TIMEOUT,
        internal: false,
        tls: None,
    })
}

/// What can be no certificate is not kept for a day. The crate reads it whole.
fn certificate(body: &[u8]) -> Result<Arc<str>, Unavailable> {
    let text = std::str::from_utf8(body).ok().filter(|t| t.contains("-----BEGIN CERTIFICATE-----"));
    text.map(Arc::from).ok_or_else(|| Unavailable("what came is no certificate".to_owned()))
}

/// The key out of Plaid's answer, unless it is said to have ended.
fn jwk(body: &[u8], kid: &str) -> Result<Arc<str>, Unavailable> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        key: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Key {
        kid: String,
        expired_at: Option<i64>,
    }
    let no_key = || Unavailable("what came is no key".to_owned());
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|_| no_key())?;
    let key: Key = serde_json::from_str(answer.key.get()).map_err(|_| no_key())?;
    if key.kid != kid {
        return Err(Unavailable("what came is another key".to_owned()));
    }
    if key.expired_at.is_some() {
        return Err(Unavailable("the key has ended".to_owned()));
    }
    Ok(answer.key.get().into())
}

#[cfg(test)]
mod tests;
