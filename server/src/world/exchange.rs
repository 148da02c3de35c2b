//! One request and its answer on one connection.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;

use super::{
    Request, Response, SendError, answer,
    connection::{Connection, Sender},
    failure,
    target::Target,
    tls_failure,
    trace::{Phase, Trace},
};
use crate::domain::outcome::Plain;

/// Headers that the client writes itself, or that speak of the connection (RFC 9110, section
/// 7.6.1) and would change what the body is.
const OURS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
];

/// An exchange that came to an answer.
pub(super) struct Answered {
    pub response: Response,
    /// Whether the connection can take another request.
    pub ended: bool,
}

/// An exchange that did not.
pub(super) struct Fault {
    pub error: SendError,
    /// Whether the same request may go out once more at once.
    pub again: bool,
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        Self { error, again: false }
    }
}

/// Refuses headers that are the client's own, by name.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), SendError> {
    match OURS.iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(SendError::new(
            Plain::InvalidRequest,
            format!("the header {name} belongs to the connection; remove it from the endpoint"),
        )),
    }
}

/// Sends `request` and reads the beginning of the answer.
pub(super) async fn exchange(
    connection: &mut Connection,
    reused: bool,
    target: &Target,
    request: &Request,
    keep: usize,
    trace: &Trace,
) -> Result<Answered, Fault> {
    let host = target.url.host();
    let tls_fault = connection.tls_fault.clone();
    let fault = |error: hyper::Error| match tls_fault.get() {
        Some(tls) => Fault { error: tls_failure::explain(tls, host), again: false },
        None => Fault {
            error: failure::of_exchange(&error, host),
            again: failure::may_go_again(&error, reused),
        },
    };
    trace.enter(Phase::Waiting);
    trace.reached(connection.address);
    connection.begin();
    let answered = match &mut connection.sender {
        Sender::H1(sender) => {
            sender.ready().await.map_err(fault)?;
            sender.send_request(written(target, request, Version::HTTP_11)).await
        }
        Sender::H2(sender, _) => {
            sender.ready().await.map_err(fault)?;
            sender.send_request(written(target, request, Version::HTTP_2)).await
        }
    };
    let (head, body) = answered.map_err(fault)?.into_parts();
    connection.answered();
    let status = head.status.as_u16();
    trace.answered(status);
    if status > 599 {
        let text = format!("{host} answered the status {status}; HTTP has 100 to 599");
        return Err(SendError::new(Plain::Protocol, text).into());
    }
    trace.enter(Phase::Reading);
    read(body, keep, host, status, head.headers).await
}

async fn read(
    body: Incoming,
    keep: usize,
    host: &str,
    status: u16,
    headers: HeaderMap,
) -> Result<Answered, Fault> {
    let beginning = answer::read(body, keep).await.map_err(|error| {
        let SendError { reason, detail } = failure::of_exchange(&error, host);
        let detail = format!("{detail}; the status was {status}, but the body did not end");
        Fault { error: SendError { reason, detail }, again: false }
    })?;
    let response =
        Response { status, headers, body: beginning.kept, truncated: beginning.truncated };
    Ok(Answered { response, ended: beginning.ended })
}

/// The request as it goes over the wire: the endpoint's headers, and those of the protocol. No
/// `accept-encoding`: 16 KiB of a compressed answer can be 16 MiB of text.
fn written(target: &Target, request: &Request, version: Version) -> http::Request<Full<Bytes>> {
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
    if version == Version::HTTP_11 {
        headers.insert(header::HOST, target.host_header.clone());
    }
    headers.extend(request.headers.clone());
    // RFC 9110, section 8.6: a GET without a body says nothing of its length.
    if request.method != Method::GET {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    }
    let mut written = http::Request::new(Full::new(request.body.clone()));
    *written.method_mut() = request.method.clone();
    *written.uri_mut() =
        if version == Version::HTTP_11 { target.origin_form.clone() } else { target.uri.clone() };
    *written.version_mut() = version;
    *written.headers_mut() = headers;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_refused_by_name() {
        for name in ["host", "Content-Length", "transfer-encoding", "connection", "expect"] {
            let name: HeaderName = name.parse().unwrap();
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("x"))]);
            let error = check_headers(&headers).expect_err("refused");
            assert_eq!(error.reason, Plain::InvalidRequest.into());
            assert!(error.detail.contains(name.as_str()), "{error}");
        }
        let fine = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("x"))]);
        assert!(check_headers(&fine).is_ok());
    }
}
