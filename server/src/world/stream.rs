//! The bytes of one connection, with or without TLS, and its place among all connections.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};
use tokio_rustls::client::TlsStream;

/// One connection to a receiver.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that holds its place until it is closed.
pub(super) struct Placed {
    pub stream: Stream,
    /// What TLS said at the end, which HTTP/2 would keep as a text only.
    pub tls_fault: TlsFault,
    pub _place: OwnedSemaphorePermit,
}

/// Filled at most once. In TLS 1.3 the receiver looks at our certificate only after our side of
/// the handshake is done, and its refusal comes in place of the answer.
pub(super) type TlsFault = Arc<OnceLock<rustls::Error>>;

/// Hands a call on to the stream inside.
macro_rules! inside {
    ($placed:expr, |$stream:ident| $call:expr) => {
        match &mut $placed.get_mut().stream {
            Stream::Plain(plain) => {
                let $stream = Pin::new(plain);
                $call
            }
            Stream::Tls(tls) => {
                let $stream = Pin::new(tls.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Placed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tls_fault = self.tls_fault.clone();
        match inside!(self, |stream| stream.poll_read(cx, buf)) {
            // TLS reports an end without its farewell, which many servers leave out. HTTP knows by
            // itself whether a message is whole; so it is an end like any other.
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                if let Some(fault) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
                    let _ = tls_fault.set(rustls::Error::clone(fault));
                }
                Poll::Ready(Err(error))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        inside!(self, |stream| stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, |stream| stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inside!(self, |stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
