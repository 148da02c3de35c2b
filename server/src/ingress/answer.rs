//! What a provider is answered. The sender of a request that is refused learns nothing but that.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{domain::received::Finding, engine::sources::LiveSource};

/// After how many seconds a provider may try again what could not be stored. Most have a ladder of
/// their own and do not look at it.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("10");

/// What became of a request.
pub enum Outcome {
    /// It is genuine, and all that is to be done is done and on disk.
    Acknowledged(Arc<LiveSource>, Finding),
    /// The provider tried the URL, and is told what it wants to hear.
    Handshake {
        /// The status.
        status: u16,
        /// All headers that it needs.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// It looks like a handshake and may not be answered: with this status.
    HandshakeRefused(u16),
    /// Its signature, its time or a header is wrong.
    Rejected(Arc<LiveSource>),
    /// Its body is over the source's limit.
    TooLarge,
    /// Its body broke off, or is not what its head says.
    Broken,
    /// It is not on disk, or could not be verified by our own fault.
    Unavailable,
    /// No source has this id.
    Unknown,
    /// Nothing comes by this method.
    Method,
}

impl Outcome {
    /// Its name, for the metric.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acknowledged(_, Finding::New) => "accepted",
            Self::Acknowledged(_, finding) => finding.name(),
            Self::Handshake { .. } => "handshake",
            Self::Rejected(_) | Self::HandshakeRefused(_) => "rejected",
            Self::TooLarge => "too_large",
            Self::Broken => "broken",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown_source",
            Self::Method => "method_not_allowed",
        }
    }
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        let headed = |status, name: HeaderName, value: HeaderValue| {
            let mut response = empty(status);
            response.headers_mut().insert(name, value);
            response
        };
        match self {
            Self::Acknowledged(source, _) => thanks(&source),
            Self::Handshake { status, headers, body } => {
                written(status, StatusCode::OK, &headers, body)
            }
            Self::HandshakeRefused(status) => {
                written(status, StatusCode::FORBIDDEN, &[], Vec::new())
            }
            Self::Rejected(source) => empty(
                StatusCode::from_u16(source.reject_status).unwrap_or(StatusCode::UNAUTHORIZED),
            ),
            Self::TooLarge => empty(StatusCode::PAYLOAD_TOO_LARGE),
            Self::Broken => empty(StatusCode::BAD_REQUEST),
            Self::Unavailable => {
                headed(StatusCode::SERVICE_UNAVAILABLE, header::RETRY_AFTER, RETRY_AFTER)
            }
            Self::Unknown => empty(StatusCode::NOT_FOUND),
            Self::Method => headed(
                StatusCode::METHOD_NOT_ALLOWED,
                header::ALLOW,
                HeaderValue::from_static("POST"),
            ),
        }
    }
}

/// What the source says that a genuine request is answered with.
fn thanks(source: &LiveSource) -> Response {
    let answer = &source.answer;
    let headers: Vec<_> = answer.headers.clone().into_iter().collect();
    written(answer.status, StatusCode::OK, &headers, answer.body.clone())
}

fn written(
    status: u16,
    otherwise: StatusCode,
    headers: &[(String, String)],
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(otherwise);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
