//! The receiver: takes every request, answers 204, counts. It verifies nothing, for what it
//! spends is taken from what is measured. Under [`SLOW`] it takes its time, and does not count.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::program::rest;
use crate::world::real::monotonic;

/// What the path of an endpoint begins with that takes ten seconds.
pub const SLOW: &str = "/slow/";

/// How long it takes there.
const TAKES: Duration = Duration::from_secs(10);

/// A running receiver.
pub struct Sink {
    address: SocketAddr,
    seen: Arc<Seen>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct Seen {
    requests: AtomicU64,
    /// When each event came first, by its id, while somebody wants to know.
    arrivals: Mutex<Option<HashMap<String, Duration>>>,
}

impl Sink {
    /// Starts on a free port of this machine.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (seen, tasks) = (Arc::<Seen>::default(), TaskTracker::new());
        let stop = CancellationToken::new();
        tasks.spawn(accept(listener, seen.clone(), tasks.clone(), stop.clone()));
        Ok(Self { address, seen, tasks, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests so far, but for the slow ones.
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::Relaxed)
    }

    /// Notes from now on when each event comes.
    pub fn watch(&self) {
        *self.seen.arrivals.lock().unwrap_or_else(PoisonError::into_inner) = Some(HashMap::new());
    }

    /// When each event came since [`Sink::watch`], by the monotonic clock; notes no more.
    pub fn arrivals(&self) -> HashMap<String, Duration> {
        let taken = self.seen.arrivals.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.unwrap_or_default()
    }

    /// Closes all connections.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn accept(
    listener: TcpListener,
    seen: Arc<Seen>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    while let Some(Ok((stream, _))) = stop.run_until_cancelled(listener.accept()).await {
        // Small answers must not wait for more to send.
        let _ = stream.set_nodelay(true);
        let (seen, stop) = (seen.clone(), stop.clone());
        tasks.spawn(async move { stop.run_until_cancelled(serve(stream, seen)).await });
    }
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let service = service_fn(|request| answer(request, &seen));
    // A client that hangs up is no trouble of ours.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    seen: &Seen,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    seen.note(&request);
    let slow = request.uri().path().starts_with(SLOW);
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    if slow {
        rest(TAKES).await;
    } else {
        seen.requests.fetch_add(1, Ordering::Relaxed);
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

impl Seen {
    fn note(&self, request: &Request<Incoming>) {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(arrivals) = arrivals.as_mut() else { return };
        if let Some(id) = request.headers().get("webhook-id").and_then(|id| id.to_str().ok()) {
            arrivals.entry(id.to_owned()).or_insert_with(monotonic);
        }
    }
}
