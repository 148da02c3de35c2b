//! Reading requests: bodies and queries become values, or a refusal that names each field.
//! Unknown fields are refused too, for a mistyped setting must not pass for its default.

use std::{collections::BTreeMap, str::FromStr, sync::Arc, time::Duration};

use axum::{
    body::{Body as HttpBody, Bytes},
    extract::{FromRequest, FromRequestParts, MatchedPath, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::{Api, auth::Caller, docs, error::ApiError};
use crate::{
    domain::{
        duration, json, limits,
        problem::{Problem, shorten, shown},
        time::{self, Timestamp},
    },
    store::page::{Key, Page},
};

/// For a whole body: 10 MiB over a poor line. Whoever is slower holds memory for nothing.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// A body of JSON that must be there.
pub struct Body<T>(pub T);

/// A body of JSON that may be left out; then all its fields have their defaults.
pub struct MaybeBody<T>(pub T);

/// No fields: an empty body, or `{}`, which some clients send with every POST.
pub struct NoBody;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

impl FromRequest<Arc<Api>> for NoBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        MaybeBody::<NoFields>::from_request(request, api).await.map(|_| Self)
    }
}

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
    use http_body::Body as _;
    use http_body_util::{BodyExt as _, LengthLimitError, Limited};
    // Told before a byte is read, so that a client that asks first (`Expect`) sends none.
    if body.size_hint().lower() > limit_bytes as u64 {
        return Err(ApiError::too_large("the body", limit_bytes));
    }
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

/// Refuses a body that does not call itself JSON, or that is compressed.
pub fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    refuse_encoded(headers)?;
    let given = headers.get(header::CONTENT_TYPE);
    if given.and_then(|value| value.to_str().ok()).is_some_and(is_json) {
        return Ok(());
    }
    let shown = given.map(|value| shown(&String::from_utf8_lossy(value.as_bytes())));
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!(
            "the content type is {}; send JSON with `content-type: application/json`",
            shown.as_deref().unwrap_or("missing")
        ),
    ))
}

/// Refuses a body with a content coding. None is undone here, and a payload is kept as it came.
pub fn refuse_encoded(headers: &HeaderMap) -> Result<(), ApiError> {
    let plain = |value: &&HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let Some(coding) = headers.get_all(header::CONTENT_ENCODING).iter().find(|value| !plain(value))
    else {
        return Ok(());
    };
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_content_encoding",
        format!(
            "content-encoding is {}; send the body as it is, without this header",
            shown(&String::from_utf8_lossy(coding.as_bytes()))
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
    refuse_no_object(bytes)?;
    let value = json::parse(bytes).map_err(|refusal| match refusal {
        json::Refusal::Syntax(problem) => malformed(&problem),
        json::Refusal::Field(problem) => ApiError::invalid(vec![problem]),
    })?;
    json::fit(value).map_err(|problem| ApiError::invalid(vec![problem]))
}

/// As [`from_json`], for what keeps parts of the text byte for byte. What is in such a part is not
/// looked at.
pub fn from_json_text<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    refuse_no_object(bytes)?;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let wrong = match read {
        Ok(value) => match deserializer.end() {
            Ok(()) => return Ok(value),
            Err(error) => return Err(malformed(&json::syntax(&error))),
        },
        Err(error) => error,
    };
    // serde stops at the first thing that is wrong; a text that is no JSON at all comes first.
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(bytes) {
        return Err(malformed(&json::syntax(&error)));
    }
    let problem = json::field_problem(&wrong.path().to_string(), wrong.inner());
    Err(ApiError::invalid(vec![problem]))
}

fn malformed(problem: &str) -> ApiError {
    let detail = format!("the body is no JSON: {problem}");
    ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", detail)
}

/// serde would take an array for an object, its members in order.
fn refuse_no_object(bytes: &[u8]) -> Result<(), ApiError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(malformed("it begins with a byte order mark; send UTF-8 without one"));
    }
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(malformed("it is empty; send an object, {…}")),
        Some(b'[' | b'"' | b't' | b'f' | b'n' | b'0'..=b'9' | b'-') => {
            let problem = "it must be a JSON object, with its fields by name: {…}";
            Err(ApiError::invalid(vec![Problem::new("body", problem)]))
        }
        Some(_) => Ok(()),
    }
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

    /// Takes a parameter as text. An empty one is a problem: a value that got lost must not pass
    /// for a list of everything.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let text = self.given.remove(name)?;
        if text.is_empty() {
            self.problems.push(Problem::new(name, "it is empty; leave it out, or give a value"));
            return None;
        }
        Some(text)
    }

    /// Takes a parameter that is `true` or `false`; the latter if it is not given.
    pub fn flag(&mut self, name: &str) -> bool {
        let read = |text: &str| {
            text.parse().map_err(|_| format!("{} does not fit; write true or false", shown(text)))
        };
        self.read(name, read).unwrap_or(false)
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
            find(text)
                .ok_or_else(|| format!("{} is unknown; use {}", shown(text), known.join(", ")))
        })
    }

    /// Takes a time: RFC 3339, or an age such as `2h` or `7d`, counted back from `now`.
    pub fn time(&mut self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.read(name, |text| {
            let age = || duration::parse(text).ok().map(|age| now - age);
            Timestamp::parse(text)
                .or_else(age)
                .ok_or_else(|| format!("{}, or an age, as 2h", time::refusal(text)))
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
        // An empty one is the first page, for loops that begin with none.
        let cursor = self.given.remove("cursor").filter(|cursor| !cursor.is_empty());
        let limit = self.read("limit", |text| {
            let number = text.parse::<i64>().map_err(|_| {
                format!("{} is no number; write one from 1 to {}", shown(text), limits::PAGE_MAX)
            })?;
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
        self.problems.extend(self.given.keys().map(|name| unknown_parameter(name)));
        if self.problems.is_empty() { Ok(()) } else { Err(ApiError::bad_query(self.problems)) }
    }
}

fn unknown_parameter(name: &str) -> Problem {
    Problem::new(shorten(name, 64), "there is no such parameter here; leave it out")
}

/// Refuses a query where there is nothing to ask for: a mistyped route would pass for another.
pub fn refuse_query(parts: &Parts) -> Result<(), ApiError> {
    let query = parts.uri.query().unwrap_or_default();
    let names = url::form_urlencoded::parse(query.as_bytes());
    let problems: Vec<_> = names.map(|(name, _)| unknown_parameter(&name)).take(16).collect();
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if problems.is_empty() || docs::takes_query(&parts.method, route) {
        return Ok(());
    }
    Err(ApiError::bad_query(problems))
}

/// An id in a path. What is no id names nothing.
pub fn id<T: FromStr>(what: &'static str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(what, text))
}
