//! What the API says when it says no: a problem document (RFC 9457) with a stable code. A new
//! code is a new promise to callers.
//!
//! A document is written for the caller. What went wrong on our side goes to the log, under the
//! request's id, and not to the wire.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::request_id;
use crate::{
    domain::problem::Problem,
    manage::ManageError,
    store::{StoreError, seal::SealError},
};

/// Seconds after which a caller may try again when the database was busy or away.
const RETRY_AFTER_SECONDS: u16 = 2;

/// A refusal, ready to be answered.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<Problem>,
    retry_after: Option<u16>,
}

/// A problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// Always `about:blank`: `code` says which problem it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong and what to do, for people.
    detail: String,
    /// Which problem it is, for programs; it never changes.
    code: &'static str,
    /// One entry for each field that is wrong.
    errors: Vec<FieldProblem>,
    /// Under which the server's log has more.
    request_id: Option<String>,
}

/// What is wrong with one field.
#[derive(Serialize, ToSchema)]
pub struct FieldProblem {
    /// The field by its path: `timeout`, `headers.X-Token`, `event_types[2]`.
    field: String,
    /// What is wrong with it, and what to do.
    problem: String,
}

impl ApiError {
    /// Any refusal.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// No key, or none that is good.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// A key that may not.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// Nothing there, or nothing that the caller may know of.
    pub fn not_found(what: &str, name: &str) -> Self {
        let name: String = name.chars().take(200).collect();
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} {name:?}"))
    }

    /// Fields of the body that are wrong.
    pub fn invalid(errors: Vec<Problem>) -> Self {
        Self::fields(StatusCode::UNPROCESSABLE_ENTITY, "invalid_input", errors)
    }

    /// Parameters of the query that are wrong.
    pub fn bad_query(errors: Vec<Problem>) -> Self {
        Self::fields(StatusCode::BAD_REQUEST, "invalid_query", errors)
    }

    fn fields(status: StatusCode, code: &'static str, errors: Vec<Problem>) -> Self {
        let detail = match errors.as_slice() {
            [one] => one.to_string(),
            many => format!("{} fields are wrong; each is named in errors", many.len()),
        };
        Self { errors, ..Self::new(status, code, detail) }
    }

    /// A body or payload over its limit. It was not read to its end, and nothing is kept of it.
    pub fn too_large(what: &str, limit_bytes: usize) -> Self {
        let detail = format!(
            "{what} is over {limit_bytes} bytes; send less, with a link to the rest, \
             or ask the operator to raise the limit"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// A defect of ours.
    pub fn internal() -> Self {
        let detail = "something went wrong on our side; the server's log has it under request_id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As the document says it.
    pub fn document(self) -> ProblemDocument {
        let field =
            |problem: Problem| FieldProblem { field: problem.field, problem: problem.problem };
        ProblemDocument {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Problem"),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code,
            errors: self.errors.into_iter().map(field).collect(),
            request_id: request_id::current(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let body = serde_json::to_vec(&self.document()).expect("texts and numbers are JSON");
        let content = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, content, body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(why) => {
                let (field, problem) = why.split_once(": ").unwrap_or(("", &why));
                let field = field.split(' ').next().unwrap_or_default();
                Self::invalid(vec![Problem::new(field, problem)])
            }
            passing if passing.is_passing() => {
                tracing::warn!("the database said no for now: {}", chain(&passing));
                let detail = "the database does not take it just now, and nothing was done; \
                              send the same request again in a moment";
                Self {
                    retry_after: Some(RETRY_AFTER_SECONDS),
                    ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
                }
            }
            defect => {
                tracing::error!("{}", chain(&defect));
                Self::internal()
            }
        }
    }
}

impl From<SealError> for ApiError {
    fn from(error: SealError) -> Self {
        tracing::error!("{error}");
        Self::internal()
    }
}

impl From<ManageError> for ApiError {
    fn from(error: ManageError) -> Self {
        match error {
            ManageError::NotFound { what, name } => Self::not_found(what, &name),
            ManageError::Invalid(problems) => Self::invalid(problems),
            ManageError::Conflict { code, detail } => Self::new(StatusCode::CONFLICT, code, detail),
            ManageError::Forbidden(detail) => Self::forbidden("not_allowed", detail),
            ManageError::Store(error) => error.into(),
            ManageError::Seal(error) => error.into(),
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
