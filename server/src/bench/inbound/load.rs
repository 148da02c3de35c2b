//! A provider: signs as Stripe does, and sends over connections that it keeps.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use snaphook_signature::{Received, Scheme, Verifier};
use tokio::task::JoinSet;

use super::super::{load::Caller, program::rest, setup};
use crate::world::real::{chance, monotonic, wall_clock};

/// Bytes of a body.
const BODY_BYTES: usize = 1_024;

/// One provider, and the door that it knows.
pub struct Provider {
    address: SocketAddr,
    path: String,
    genuine: Verifier,
    forger: Verifier,
    count: AtomicU64,
}

impl Provider {
    /// It posts to `path` at `address`.
    pub fn new(address: SocketAddr, path: String) -> anyhow::Result<Self> {
        let signer = |secret| {
            let stripe = Scheme::named("stripe").context("no such scheme")?;
            Verifier::new(stripe, &[secret], None).context("no secret")
        };
        let (genuine, forger) = (signer(setup::SOURCE_SECRET)?, signer("whsec_forged")?);
        Ok(Self { address, path, genuine, forger, count: AtomicU64::new(0) })
    }

    /// A request of the event `id`.
    fn request(&self, id: &str, genuine: bool) -> anyhow::Result<Request<Full<Bytes>>> {
        let head = format!(r#"{{"id":"{id}","type":"charge.succeeded","data":{{"text":""#);
        let filling = "x".repeat(BODY_BYTES.saturating_sub(head.len() + 3));
        let body = format!(r#"{head}{filling}"}}}}"#);
        let by = if genuine { &self.genuine } else { &self.forger };
        let signed = by.sign(&Received::new(&[], body.as_bytes()), "", wall_clock().seconds())?;
        let mut request = Request::post(&self.path)
            .header("host", self.address.to_string())
            .header("user-agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
            .header("content-type", "application/json; charset=utf-8");
        for (name, value) in &signed.headers {
            request = request.header(&**name, &**value);
        }
        Ok(request.body(Full::new(body.into()))?)
    }

    fn next_id(&self) -> String {
        format!("evt_{}", self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// Sends one request and gives how many milliseconds its answer took.
async fn send(
    caller: &mut Caller,
    provider: &Provider,
    id: &str,
    genuine: bool,
) -> anyhow::Result<f64> {
    let request = provider.request(id, genuine)?;
    let begun = monotonic();
    let (status, _) = caller.call(request).await.context("a request was not sent")?;
    let took = monotonic().saturating_sub(begun);
    let expected = if genuine { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    anyhow::ensure!(status == expected, "a request was answered {status}, not {expected}");
    Ok(took.as_secs_f64() * 1e3)
}

/// Sends requests of new events until `end`, and at least one over each connection. Gives how many.
pub async fn push_until(
    provider: &Arc<Provider>,
    clients: usize,
    end: Duration,
    genuine: bool,
) -> anyhow::Result<u64> {
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let provider = provider.clone();
        tasks.spawn(async move {
            let mut caller = Caller::connect(provider.address).await?;
            let mut many = 0;
            loop {
                send(&mut caller, &provider, &provider.next_id(), genuine).await?;
                many += 1;
                if monotonic() >= end {
                    return anyhow::Ok(many);
                }
            }
        });
    }
    let mut many = 0;
    while let Some(done) = tasks.join_next().await {
        many += done??;
    }
    Ok(many)
}

/// Sends a request of each event in `ids`. Gives the milliseconds of each.
pub async fn push(
    provider: &Arc<Provider>,
    clients: usize,
    ids: Vec<String>,
) -> anyhow::Result<Vec<f64>> {
    let ids = Arc::new(Mutex::new(ids));
    each_of(clients, || {
        let (provider, ids) = (provider.clone(), ids.clone());
        async move {
            let mut caller = Caller::connect(provider.address).await?;
            let mut millis = Vec::new();
            loop {
                let id = ids.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some(id) = id else { return Ok(millis) };
                millis.push(send(&mut caller, &provider, &id, true).await?);
            }
        }
    })
    .await
}

/// Sends requests at random moments for so long. Gives the milliseconds of each.
pub async fn calmly(
    provider: &Arc<Provider>,
    clients: usize,
    pause: Duration,
    time: Duration,
) -> anyhow::Result<Vec<f64>> {
    let end = monotonic() + time;
    each_of(clients, || {
        let provider = provider.clone();
        async move {
            let mut caller = Caller::connect(provider.address).await?;
            let mut millis = Vec::new();
            while monotonic() < end {
                // Even between nothing and twice the mean.
                let part = u32::try_from(chance() % 1_000)?;
                rest(pause * 2 * part / 1_000).await;
                millis.push(send(&mut caller, &provider, &provider.next_id(), true).await?);
            }
            Ok(millis)
        }
    })
    .await
}

/// Runs as many of these as there are clients, and gives all that they found.
async fn each_of<F>(clients: usize, client: impl Fn() -> F) -> anyhow::Result<Vec<f64>>
where
    F: Future<Output = anyhow::Result<Vec<f64>>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        tasks.spawn(client());
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_request_has_one_kibibyte_and_is_what_it_is_said_to_be() {
        let provider = Provider::new(([127, 0, 0, 1], 1).into(), "/in/x".to_owned()).unwrap();
        for (id, genuine) in [("evt_1", true), ("evt_storm_1999", true), ("evt_1", false)] {
            let request = provider.request(id, genuine).unwrap();
            let headers = request.headers().clone();
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), BODY_BYTES);
            let received = Received::new(&headers, &body);
            let verified = provider.genuine.verify(&received, wall_clock().seconds());
            assert_eq!(verified.is_ok(), genuine, "{id}");
            if let Ok(verified) = verified {
                assert_eq!(verified.event_id.as_deref(), Some(id));
            }
        }
    }
}
