//! Serving HTTP with limits: slow, silent and too many clients cost no more than their share, and
//! at the end requests under way are answered.
//!
//! What a request may do once it is read is the doors' business.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::linger;

/// How much a client may take.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once. Beyond it new ones wait in the system's queue.
    pub connections: usize,
    /// For the first bytes of a new connection: who connects has something to say.
    pub silence: Duration,
    /// For the headers of a request, from its first byte, or from the end of the one before.
    pub headers: Duration,
    /// For a whole request, its body and its answer inside. The longest that we answer on purpose
    /// is the test of an endpoint, which waits for a receiver.
    pub request: Duration,
    /// For HTTP/2: how often a silent client is asked whether it is still there.
    pub ping: Duration,
}

/// Connections at once, at least and at most: each takes some 20 KB.
const CONNECTIONS: (usize, usize) = (1_024, 4_096);

impl ConnectionLimits {
    /// For a process that may have so many files open, or any number: a quarter of them.
    pub fn for_files(files: Option<u64>) -> Self {
        let quarter =
            files.map_or(usize::MAX, |files| usize::try_from(files / 4).unwrap_or(usize::MAX));
        Self { connections: quarter.clamp(CONNECTIONS.0, CONNECTIONS.1), ..Self::default() }
    }
}

impl Default for ConnectionLimits {
    /// 1,024 connections are half of what a process may usually have open, with room for the
    /// receivers'. 75 s are what proxies keep an idle connection for (nginx: 60 to 75 s): we must
    /// not be the first to close it.
    fn default() -> Self {
        Self {
            connections: CONNECTIONS.0,
            silence: Duration::from_secs(10),
            headers: Duration::from_secs(75),
            request: Duration::from_mins(1),
            ping: Duration::from_secs(20),
        }
    }
}

/// Headers of one request and its line: what others allow too (nginx: 4 × 8 KiB).
const HEADER_BYTES_MAX: usize = 32 << 10;

/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// After a failed accept, which most often means that no file is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`; then takes no more connections, answers what is under way, and returns.
/// How long that may take is the caller's to say, by dropping the future.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let lingering = tasks.clone();
    let router = router.layer(middleware::from_fn(move |request, next| {
        within(limits.request, linger::watch(request, &lingering), next)
    }));
    let builder = Arc::new(builder(limits));
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    let mut full = false;
    while let Some(slot) = stop.run_until_cancelled(slots.clone().acquire_owned()).await {
        let room = slots.available_permits();
        if room == 0 && !full {
            full = true;
            tracing::warn!(
                "all {} connections are taken: new ones wait until one ends",
                limits.connections
            );
        } else if room >= limits.connections / 2 && room > 0 {
            full = false; // told again only after there was room for a while
        }
        let stream = match stop.run_until_cancelled(accept(&listener)).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                tracing::warn!(%error, "no connection can be accepted");
                let _ = timeout(ACCEPT_PAUSE, stop.cancelled()).await;
                continue;
            }
            None => break,
        };
        let (builder, service) = (builder.clone(), TowerToHyperService::new(router.clone()));
        let watcher = graceful.watcher();
        let stop = stop.clone();
        tasks.spawn(async move {
            let speaks = timeout(limits.silence, until_spoken(&stream));
            if !matches!(stop.run_until_cancelled(speaks).await, Some(Ok(()))) {
                return;
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            // Clients break off as they like; that is no event of ours.
            let _ = watcher.watch(connection).await;
            drop(slot);
        });
    }
    drop(listener);
    graceful.shutdown().await;
    tasks.close();
    tasks.wait().await;
}

/// Lets go of a client that takes too long to say what it wants. Nothing is half done then: what a
/// handler does is one transaction, and what was not committed is undone.
async fn within(limit: Duration, request: Request, next: Next) -> Response {
    match timeout(limit, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")]).into_response(),
    }
}

/// With what HTTP/2 begins (RFC 9113, section 3.4).
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How often to look whether more of the beginning of HTTP/2 has come.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Until it is known in which version of HTTP a client speaks, or that it says nothing more: the
/// limits of either begin only there.
async fn until_spoken(stream: &TcpStream) {
    let mut begun = [0; HTTP2.len()];
    while let Ok(many) = stream.peek(&mut begun).await {
        if many == 0 || many == HTTP2.len() || begun[..many] != HTTP2[..many] {
            return;
        }
        let _ = timeout(LOOK_AGAIN, std::future::pending::<()>()).await;
    }
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?; // answers are small and whole
    Ok(stream)
}

fn builder(limits: ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX).unwrap_or(u32::MAX));
    builder
}
