//! Reading requests: bodies and queries become values, or a refusal that names each field.
//! Unknown fields are refused too, for a mistyped setting must not pass for its default.

use std::{collections::BTreeMap, str::FromStr, sync::Arc, time::Duration};

use axum::{
    body::{Body as HttpBody, Bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{Api, auth::Caller, error::ApiError};
use crate::{
    domain::{duration, limits, problem::Problem, time::Timestamp},
    store::page::{Key, Page},
};

/// For a whole body: 10 MiB over a poor line. Whoever is slower holds memory for nothing.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// A body of JSON that must be there.
pub struct Body<T>(pub T);

/// A body of JSON that may be left out; then all its fields have their defaults.
pub struct MaybeBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<Api>) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        from_json(&read(body, limits::BODY_BYTES_MAX).await?).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Arc<Api>> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Arc<Api>) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, limits::BODY_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        require_json(&parts.headers)?;
        from_json(&bytes).map(Self)
    }
}

/// The whole body, if it is no longer than `limit_bytes`.
pub async fn read(body: HttpBody, limit_bytes: usize) -> Result<Bytes, ApiError> {
    use http_body_util::{BodyExt as _, LengthLimitError, Limited};
    let whole = Limited::new(body, limit_bytes).collect();
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::too_large("the body", limit_bytes))
        }
        Ok(Err(_)) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "body_incomplete",
            "the body broke off before its end; send the request again",
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            format!("the body took over {} s; send the request again", BODY_TIMEOUT.as_secs()),
        )),
    }
}

/// Refuses a body that does not call itself JSON.
pub fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if given.is_some_and(is_json) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!(
            "the content type is {}; send JSON with `content-type: application/json`",
            given.map_or_else(|| "missing".to_owned(), |given| format!("{given:?}"))
        ),
    ))
}

/// Whether a content type is one of JSON: `application/json`, `application/…+json`.
pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Reads JSON. A text that is none is a 400; one that does not fit is a 422 with the field.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first
        .is_some_and(|byte| matches!(byte, b'[' | b'"' | b't' | b'f' | b'n' | b'0'..=b'9' | b'-'))
    {
        // serde would take an array for an object, its members in order.
        let problem = "the body must be a JSON object, with its fields by name";
        return Err(ApiError::invalid(vec![Problem::new("body", problem)]));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let value = read.map_err(|error| {
        let path = error.path().to_string();
        json_error(&path, error.inner())
    })?;
    deserializer.end().map_err(|error| json_error("", &error))?;
    Ok(value)
}

fn json_error(path: &str, error: &serde_json::Error) -> ApiError {
    if !error.is_data() {
        let detail = format!("the body is no JSON: {error}");
        return ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", detail);
    }
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or(&text);
    // For these serde's path ends above the field itself.
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| problem.strip_prefix(start)?.split('`').next());
    let above = if path == "." { "" } else { path };
    let field = match named {
        Some(name) if above.is_empty() || above.split('.').next_back() == Some(name) => {
            if above.is_empty() { name.to_owned() } else { above.to_owned() }
        }
        Some(name) => format!("{above}.{name}"),
        None => above.to_owned(),
    };
    let problem = match problem.strip_prefix("unknown field ") {
        Some(rest) => match rest.split_once(", expected ") {
            Some((_, known)) => format!("there is no such field; known are {known}"),
            None => "there is no such field".to_owned(),
        },
        None if problem.starts_with("missing field") => "it is missing".to_owned(),
        None => problem.to_owned(),
    };
    ApiError::invalid(vec![Problem::new(field, problem)])
}

/// The parameters of a query, each at most once.
pub struct Params {
    given: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl FromRequestParts<Arc<Api>> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let mut params = Self { given: BTreeMap::new(), problems: Vec::new() };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let (name, value) = (name.into_owned(), value.into_owned());
            if value.contains('\0') {
                params.problems.push(Problem::new(&name, "it contains NUL; leave it out"));
            } else if params.given.insert(name.clone(), value).is_some() {
                params.problems.push(Problem::new(name, "it is given twice; give it once"));
            }
        }
        Ok(params)
    }
}

impl Params {
    /// A parameter as it was given, empty if it was not: for binding a cursor to it.
    pub fn peek(&self, name: &str) -> &str {
        self.given.get(name).map_or("", String::as_str)
    }

    /// Takes a parameter as text; an empty one counts as not given.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.given.remove(name).filter(|value| !value.is_empty())
    }

    /// Takes a parameter and reads it.
    pub fn read<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(Problem::new(name, error));
                None
            }
        }
    }

    /// Takes a parameter that has a form of its own, such as an id.
    pub fn parse<T: FromStr<Err: std::fmt::Display>>(&mut self, name: &str) -> Option<T> {
        self.read(name, T::from_str)
    }

    /// Takes a parameter that is one of a few names.
    pub fn choice<T: Copy>(
        &mut self,
        name: &str,
        find: impl FnOnce(&str) -> Option<T>,
        known: &[&str],
    ) -> Option<T> {
        self.read(name, |text| {
            find(text).ok_or_else(|| format!("{text:?} is unknown; use {}", known.join(", ")))
        })
    }

    /// Takes a time: RFC 3339, or an age such as `2h` or `7d`, counted back from `now`.
    pub fn time(&mut self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.read(name, |text| {
            let age = || duration::parse(text).ok().map(|age| now - age);
            Timestamp::parse(text).or_else(age).ok_or_else(|| {
                format!(
                    "{text:?} is no time; write RFC 3339, as 2026-11-30T12:00:00Z, or an age, as 2h"
                )
            })
        })
    }

    /// Takes `cursor` and `limit`. Whatever is left then is unknown; `taken` are the filters
    /// that the cursor is bound to.
    pub fn page<K: Key>(
        mut self,
        caller: &Caller,
        list: &str,
        taken: &[String],
    ) -> Result<Page<K>, ApiError> {
        let cursor = self.text("cursor");
        let limit = self.read("limit", |text| {
            let number = text.parse::<i64>().map_err(|_| format!("{text:?} is no number"))?;
            limits::page_size(Some(number))
        });
        let within = caller.actor.tenant.as_ref().map_or("", |tenant| tenant.as_str());
        let name = format!("{list}\n{within}\n{}", taken.join("\n"));
        let rows = u16::try_from(limit.unwrap_or(limits::PAGE_DEFAULT)).unwrap_or(u16::MAX);
        match Page::new(&name, cursor.as_deref(), rows) {
            Ok(page) => self.finish().map(|()| page),
            Err(error) => {
                self.problems.push(Problem::new("cursor", error));
                self.finish().and(Err(ApiError::internal()))
            }
        }
    }

    /// Refuses what is wrong, and what nobody has taken.
    pub fn finish(mut self) -> Result<(), ApiError> {
        for name in self.given.keys() {
            let shown: String = name.chars().take(64).collect();
            self.problems.push(Problem::new(shown, "there is no such parameter here"));
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ApiError::bad_query(self.problems)) }
    }
}

/// An id in a path. What is no id names nothing.
pub fn id<T: FromStr>(what: &'static str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(what, text))
}
