//! The rest of a request's body, after the answer.
//!
//! A body that is too large, or that nobody may send, is answered before it was read. Were the
//! connection closed then, with bytes of the client on their way, the system would reset it, and a
//! client that writes all before it reads would see a broken pipe and never our answer. So what is
//! left is read and dropped, beside the answer and within bounds.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{Version, header},
};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::{runtime::Handle, time::timeout};
use tokio_util::task::TaskTracker;

/// How much of a body is read for nothing: what the largest limits allow elsewhere, and a slip of
/// the hand sends. Whoever sends more is cut off.
pub const LINGER_BYTES_MAX: usize = 64 << 20;

/// How long it may take: 64 MiB over a good line.
pub const LINGER_TIME: Duration = Duration::from_secs(10);

/// Puts the body of a request under watch. Not where each request has a stream of its own, which
/// can end alone (HTTP/2), and not where the client waits to be asked for the body: it gets the
/// answer in place of that.
pub fn watch(request: Request, tasks: &TaskTracker) -> Request {
    let asks = request.headers().contains_key(header::EXPECT);
    if request.version() == Version::HTTP_2 || request.body().is_end_stream() {
        return request;
    }
    let tasks = tasks.clone();
    request.map(|body| Body::new(Watched { body, read: !asks, ended: false, tasks }))
}

struct Watched {
    body: Body,
    /// Whether the client sends it, asked or unasked.
    read: bool,
    ended: bool,
    tasks: TaskTracker,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.read = true;
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.ended |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let body = std::mem::take(&mut self.body);
        if !self.read || self.ended || body.is_end_stream() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(drain(body), &runtime);
        }
    }
}

async fn drain(mut body: Body) {
    let reading = async {
        let mut left = LINGER_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Whoever is slower than that is cut off; it was answered.
    let _: Result<(), _> = timeout(LINGER_TIME, reading).await;
}
