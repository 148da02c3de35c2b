//! Names for what goes wrong on a connection: errors of the system, of TLS and of HTTP.

use std::{error::Error as StdError, io};

use rustix::io::Errno;

use super::{SendError, tls_failure};
use crate::domain::outcome::Plain;

/// Why a TCP connection did not come about.
pub(super) fn of_dial(error: &io::Error) -> Plain {
    match Errno::from_io_error(error) {
        // Out of files or memory: nothing that the receiver could mend.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Plain::Internal,
        _ => match error.kind() {
            io::ErrorKind::ConnectionRefused => Plain::ConnectRefused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Plain::ConnectUnreachable,
            _ => Plain::ConnectFailed,
        },
    }
}

/// Why the handshake of TLS with `host` failed.
pub(super) fn of_handshake(error: &io::Error, host: &str) -> SendError {
    match cause::<rustls::Error>(error) {
        Some(tls) => tls_failure::explain(tls, host),
        None => SendError::new(
            Plain::TlsHandshake,
            format!("TLS with {host}: the connection ended during the handshake ({error})"),
        ),
    }
}

/// Why there is no whole answer from `host`.
pub(super) fn of_exchange(error: &hyper::Error, host: &str) -> SendError {
    // A request that a connection could not take holds the connection's own error.
    let inner = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    let error = inner.unwrap_or(error);
    let h2 = cause::<h2::Error>(error);
    // h2 refuses a header list over our limit as its own protocol error, and only that on a
    // stream alone.
    let over_h2_limit = h2.is_some_and(|h2| {
        h2.is_reset() && h2.is_library() && h2.reason() == Some(h2::Reason::PROTOCOL_ERROR)
    });
    // A body in chunks that are none.
    let is_malformed = cause::<io::Error>(error).is_some_and(|io| {
        matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
    });
    let reason = if error.is_parse_too_large() || over_h2_limit {
        Plain::HeadersTooLarge
    } else if error.is_parse() || is_malformed || h2.is_some_and(|h2| h2.get_io().is_none()) {
        Plain::Protocol
    } else if error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || error.is_timeout()
        || cause::<io::Error>(error).is_some()
    {
        Plain::ClosedEarly
    } else {
        Plain::Protocol
    };
    SendError::new(reason, format!("{host}: {}", told(error)))
}

/// Whether the same request may go out once more at once: the connection was an old one that the
/// receiver was just closing, or the receiver says that it did not look at the request.
pub(super) fn may_go_again(error: &hyper::Error, reused: bool) -> bool {
    let unseen = cause::<h2::Error>(error).is_some_and(|h2| {
        h2.is_remote() && (h2.is_go_away() || h2.reason() == Some(h2::Reason::REFUSED_STREAM))
    });
    let closing = error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || cause::<io::Error>(error).is_some_and(|io| {
            matches!(
                io.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::UnexpectedEof
            )
        });
    unseen || (reused && closing)
}

/// The first error of type `E` in the chain. An `io::Error` hides what it holds from the chain.
fn cause<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The whole chain in one line; each error says only its own part.
fn told(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}
