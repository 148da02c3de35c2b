//! One open connection that speaks HTTP, and the task that moves its bytes.

use std::{
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    select,
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    SendError, answer,
    connect::Link,
    failure,
    shelf::Seatable,
    stream::{Placed, TlsFault},
};

/// For saying goodbye (TLS, HTTP/2) on a connection that is closed in peace.
const FAREWELL: Duration = Duration::from_secs(1);

/// Most requests at once on one HTTP/2 connection, also if the receiver allows more: the lower
/// bound that RFC 9113 section 6.5.2 recommends to servers.
const STREAMS_MAX: usize = 100;

/// What an HTTP/2 receiver may send on one stream before we read it: two answers that are kept.
const H2_STREAM_WINDOW: u32 = 32 * 1024;

/// The same for all streams of a connection together.
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// While requests are open: when to ask an HTTP/2 receiver for a sign of life, and how long to
/// wait for it.
const H2_PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(5));

/// Hands requests to the connection.
pub(super) enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>, Arc<Room>),
}

/// How many requests at once an HTTP/2 receiver takes, as last heard. What it says comes before
/// its first answer; until then the library sends one request and holds the others back.
pub(super) struct Room {
    requests: AtomicUsize,
    is_told: AtomicBool,
}

/// An open connection. Dropped in the middle of a request it is cut off, else closed in peace.
pub(super) struct Connection {
    pub sender: Sender,
    pub address: Option<SocketAddr>,
    pub tls_fault: TlsFault,
    opened: Instant,
    driver: Arc<Driver>,
}

struct Driver {
    leave: CancellationToken,
    busy: Arc<AtomicBool>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.leave.cancel();
    }
}

impl Connection {
    /// Begins to speak HTTP on `link`. Its tasks belong to `tasks` and end at the latest when
    /// `stop` is canceled.
    pub(super) async fn open(
        link: Link,
        place: OwnedSemaphorePermit,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        host: &str,
    ) -> Result<Self, SendError> {
        let failed = |error: hyper::Error| failure::of_exchange(&error, host);
        let tls_fault = TlsFault::default();
        let placed = Placed { stream: link.stream, tls_fault: tls_fault.clone(), _place: place };
        let io = TokioIo::new(placed);
        let crew = Crew {
            tasks: tasks.clone(),
            leave: stop.child_token(),
            busy: Arc::new(AtomicBool::new(false)),
        };
        let sender = if link.is_h2 {
            let (interval, wait) = H2_PING;
            let (sender, driver) = http2::Builder::new(crew.clone())
                .timer(TokioTimer::new())
                .max_header_list_size(answer::H2_HEAD_BYTES_MAX)
                .initial_stream_window_size(H2_STREAM_WINDOW)
                .initial_connection_window_size(H2_CONNECTION_WINDOW)
                .initial_max_send_streams(1)
                .keep_alive_interval(interval)
                .keep_alive_timeout(wait)
                .handshake(io)
                .await
                .map_err(failed)?;
            let room = Arc::new(Room {
                requests: AtomicUsize::new(STREAMS_MAX),
                is_told: AtomicBool::new(false),
            });
            crew.execute(H2Driver { driver, room: room.clone() });
            Sender::H2(sender, room)
        } else {
            let (sender, driver) = http1::Builder::new()
                .max_headers(answer::HEADERS_MAX)
                .max_buf_size(answer::HEAD_BYTES_MAX)
                .handshake(io)
                .await
                .map_err(failed)?;
            crew.execute(driver);
            Sender::H1(sender)
        };
        let driver = Arc::new(Driver { leave: crew.leave, busy: crew.busy });
        let (address, opened) = (link.address, Instant::now());
        Ok(Self { sender, address, tls_fault, opened, driver })
    }

    /// A request is under way: if it is given up, nothing that still comes is of use. On HTTP/2
    /// other requests go on, and each gives up its own stream.
    pub(super) fn begin(&self) {
        let alone = matches!(self.sender, Sender::H1(_));
        self.driver.busy.store(alone, Ordering::Relaxed);
    }

    /// The answer has begun.
    pub(super) fn answered(&self) {
        if let Sender::H2(_, room) = &self.sender {
            room.is_told.store(true, Ordering::Relaxed);
        }
    }

    /// The answer was read to its end.
    pub(super) fn end(&self) {
        self.driver.busy.store(false, Ordering::Relaxed);
    }
}

impl Seatable for Connection {
    fn is_open(&self) -> bool {
        match &self.sender {
            Sender::H1(sender) => !sender.is_closed(),
            Sender::H2(sender, _) => !sender.is_closed(),
        }
    }

    fn opened(&self) -> Instant {
        self.opened
    }

    fn room(&self) -> usize {
        match &self.sender {
            Sender::H1(_) => 1,
            // A receiver may say 0 for a while; its first request then waits.
            Sender::H2(_, room) => room.requests.load(Ordering::Relaxed).clamp(1, STREAMS_MAX),
        }
    }

    fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::H1(_) => None,
            Sender::H2(sender, room) => Some(Self {
                sender: Sender::H2(sender.clone(), room.clone()),
                address: self.address,
                tls_fault: self.tls_fault.clone(),
                opened: self.opened,
                driver: self.driver.clone(),
            }),
        }
    }
}

/// Hands requests on to an HTTP/2 connection, and notes how many it takes at once.
struct H2Driver {
    driver: http2::Connection<TokioIo<Placed>, Full<Bytes>, Crew>,
    room: Arc<Room>,
}

impl Future for H2Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ended = Pin::new(&mut self.driver).poll(cx);
        if self.room.is_told.load(Ordering::Relaxed) {
            let requests = self.driver.current_max_send_streams();
            self.room.requests.store(requests, Ordering::Relaxed);
        }
        ended.map(drop)
    }
}

/// Runs the tasks of one connection.
#[derive(Clone)]
struct Crew {
    tasks: TaskTracker,
    leave: CancellationToken,
    busy: Arc<AtomicBool>,
}

impl<F> Executor<F> for Crew
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, work: F) {
        let (leave, busy) = (self.leave.clone(), self.busy.clone());
        self.tasks.spawn(async move {
            let mut work = pin!(work);
            select! {
                // Errors of a connection reach the request that waits on it.
                _ = &mut work => {}
                () = leave.cancelled() => {
                    if !busy.load(Ordering::Relaxed) {
                        let _ = timeout(FAREWELL, work).await;
                    }
                }
            }
        });
    }
}
