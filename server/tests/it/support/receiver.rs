//! Receivers on loopback: one that speaks HTTP well and remembers what it got, and one that plays
//! a script of bytes, for everything that a receiver should not do.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: http::Method,
    /// Path and query.
    pub path: String,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// On which connection, counted from 1.
    pub connection: usize,
}

/// An answer with a status and a text.
pub fn answer(status: u16, body: &'static str) -> Response<Bytes> {
    Response::builder().status(status).body(Bytes::from_static(body.as_bytes())).unwrap()
}

/// A receiver that speaks HTTP/1.1 and HTTP/2, until it is dropped.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    scheme: &'static str,
    requests: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    busy: Busy,
    _task: AbortOnDropHandle<()>,
}

/// By path: how many requests are under way, and how many were at most.
type Busy = Arc<Mutex<HashMap<String, (usize, usize)>>>;

impl Receiver {
    /// As `start`, and takes some time for each answer.
    pub async fn start_slow(
        takes: Duration,
        reply: impl Fn(&Received) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::serve("127.0.0.1:0", None, takes, reply).await
    }

    /// The most requests that any path had under way at once.
    pub fn most_at_once(&self) -> usize {
        self.busy.lock().unwrap().values().map(|(_, most)| *most).max().unwrap_or(0)
    }

    /// Listens on a free port of 127.0.0.1 and answers each request by `reply`.
    pub async fn start(
        reply: impl Fn(&Received) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::listen("127.0.0.1:0", None, reply).await
    }

    /// The same on `address`, with TLS if `tls` is given.
    pub async fn listen(
        address: &str,
        tls: Option<Arc<ServerConfig>>,
        reply: impl Fn(&Received) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(address, tls, Duration::ZERO, reply).await
    }

    async fn serve(
        address: &str,
        tls: Option<Arc<ServerConfig>>,
        takes: Duration,
        reply: impl Fn(&Received) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let busy = Busy::default();
        let service = Service {
            reply: Arc::new(reply),
            requests: requests.clone(),
            takes,
            busy: busy.clone(),
        };
        let task = accept(listener, connections.clone(), move |stream, number| {
            let (service, tls) = (service.clone(), tls.clone());
            async move {
                match tls {
                    None => service.serve(stream, number).await,
                    Some(tls) => {
                        // A client that gives up the handshake is part of many tests.
                        if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                            service.serve(stream, number).await;
                        }
                    }
                }
            }
        });
        Self { address, scheme, requests, connections, busy, _task: task }
    }

    /// A URL of it by its address.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// A URL of it by `host`, which the test's resolver must know.
    pub fn url_at(&self, host: &str, path: &str) -> String {
        format!("{}://{host}:{}{path}", self.scheme, self.address.port())
    }

    /// What it got so far.
    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }

    /// How many connections it accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

struct Service<R> {
    reply: Arc<R>,
    requests: Arc<Mutex<Vec<Received>>>,
    takes: Duration,
    busy: Busy,
}

impl<R> Clone for Service<R> {
    fn clone(&self) -> Self {
        Self {
            reply: self.reply.clone(),
            requests: self.requests.clone(),
            takes: self.takes,
            busy: self.busy.clone(),
        }
    }
}

impl<R: Fn(&Received) -> Response<Bytes> + Send + Sync + 'static> Service<R> {
    async fn serve<S>(&self, stream: S, connection: usize)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self.clone();
        let handler = service_fn(move |request| service.clone().handle(request, connection));
        let server = auto::Builder::new(TokioExecutor::new());
        // An error means that the client went away.
        let _ = server.serve_connection(TokioIo::new(stream), handler).await;
    }

    async fn handle(
        self,
        request: http::Request<Incoming>,
        connection: usize,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        // A client that gives up in the middle has sent no request.
        let Ok(body) = body.collect().await else { return pending().await };
        let received = Received {
            method: head.method,
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            version: head.version,
            headers: head.headers,
            body: body.to_bytes(),
            connection,
        };
        {
            let mut busy = self.busy.lock().unwrap();
            let (now, most) = busy.entry(received.path.clone()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
        let guard = Leaving { busy: &self.busy, path: &received.path };
        if !self.takes.is_zero() {
            let _ = timeout(self.takes, pending::<()>()).await;
        }
        drop(guard);
        let response = (self.reply)(&received);
        self.requests.lock().unwrap().push(received);
        Ok(response.map(Full::new))
    }
}

/// Counts a request out, also when its client went away.
struct Leaving<'a> {
    busy: &'a Busy,
    path: &'a str,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.busy.lock().unwrap().get_mut(self.path).unwrap().0 -= 1;
    }
}

/// One step of a script.
#[derive(Clone)]
pub enum Step {
    /// Read a request to the end of its body.
    Read,
    /// Read a request up to its body.
    ReadHead,
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send these bytes again and again, until the client goes away.
    Flood(Vec<u8>),
    /// The same, with a pause between.
    Drip(Vec<u8>, Duration),
    /// Read nothing more, and say nothing more, for ever.
    Stall,
    /// Say nothing more until the client closes the connection.
    Hang,
}

impl Step {
    pub fn send(text: &str) -> Self {
        Self::Send(text.as_bytes().to_vec())
    }
}

/// A receiver that plays one script on each connection and then closes it.
pub struct Scripted {
    /// Where it listens.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Scripted {
    /// Listens on a free port of 127.0.0.1.
    pub async fn start(script: impl Into<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let (script, log, count) = (script.into(), requests.clone(), open.clone());
        let task = accept(listener, connections.clone(), move |mut stream, _| {
            let (script, log, count) = (script.clone(), log.clone(), count.clone());
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                for step in script {
                    if play(&mut stream, step, &log).await.is_none() {
                        break;
                    }
                }
                count.fetch_sub(1, Ordering::SeqCst);
            }
        });
        Self { address, requests, connections, open, _task: task }
    }

    /// A URL of it by its address.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that it read, byte by byte.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        self.requests.lock().unwrap().clone()
    }

    /// How many connections it accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many of them play their script still.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// `None` when the client went away.
async fn play(stream: &mut TcpStream, step: Step, log: &Mutex<Vec<Vec<u8>>>) -> Option<()> {
    match step {
        Step::Read => {
            let request = read_request(stream).await?;
            log.lock().unwrap().push(request);
        }
        Step::ReadHead => drop(read_head(stream).await?),
        Step::Send(bytes) => stream.write_all(&bytes).await.ok()?,
        Step::Flood(bytes) => loop {
            stream.write_all(&bytes).await.ok()?;
        },
        Step::Drip(bytes, pause) => loop {
            stream.write_all(&bytes).await.ok()?;
            let _ = timeout(pause, pending::<()>()).await;
        },
        Step::Stall => pending().await,
        // Until the client goes away; what it sends is of no interest.
        Step::Hang => while stream.read_u8().await.is_ok() {},
    }
    Some(())
}

/// Head and body of one HTTP/1.1 request; the body is as long as `content-length` says.
pub async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = read_head(stream).await?;
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |digits| digits.parse().unwrap());
    let head_length = bytes.len();
    bytes.resize(head_length + length, 0);
    stream.read_exact(&mut bytes[head_length..]).await.ok()?;
    Some(bytes)
}

async fn read_head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    Some(bytes)
}

/// Accepts connections and hands each, with its number from 1, to `serve`.
pub fn accept<F>(
    listener: TcpListener,
    count: Arc<AtomicUsize>,
    serve: impl Fn(TcpStream, usize) -> F + Send + 'static,
) -> AbortOnDropHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
        let mut open = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            open.spawn(serve(stream, number));
            while open.try_join_next().is_some() {}
        }
    }))
}
