//! `POST /v1/events`: an event comes in. 202 means that it is on disk, with its deliveries.
//!
//! `data` is kept byte for byte as it stands in the body: it is looked into for its schema, and
//! never written anew.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::StatusCode,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Emitter},
    error::ApiError,
    extract::{self, from_json_text, require_json},
    idempotency::Once,
};
use crate::{
    domain::{
        declared::{self, Asked},
        event::Door,
        event_type::EventType,
        id::EventId,
        limits::{KEY_BYTES_MAX, VERSION_BYTES_MAX, check_text, check_time, check_traceparent},
        problem::Problem,
        tenant::TenantId,
        time::Timestamp,
    },
    store::{Accepted, NewEvent},
};

/// Bytes that the JSON around the data of one event may take.
const AROUND_BYTES_MAX: usize = 64 * 1024;

/// An event.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
pub struct EventInput {
    /// Whose it is. Need not be known. A tenant's own key may leave it out.
    tenant: Option<String>,
    /// What happened, as `order.paid`.
    #[serde(rename = "type")]
    event_type: String,
    /// The payload, kept byte for byte.
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    /// Makes two events one: the same key again is a duplicate.
    key: Option<String>,
    /// The version of its schema.
    version: Option<String>,
    /// When it happened, if that was not now.
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<Timestamp>,
    /// W3C Trace Context, passed on to receivers.
    traceparent: Option<String>,
}

/// What became of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedEvent)]
pub struct AcceptedBody {
    /// The event, or the first one of the same key.
    #[schema(value_type = String)]
    id: EventId,
    tenant: String,
    #[serde(rename = "type")]
    event_type: String,
    version: Option<String>,
    key: Option<String>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<Timestamp>,
    /// Whether the key was seen before; then nothing new was stored.
    duplicate: bool,
    /// Whether the first event of the key had another type or other data.
    differs: bool,
}

impl AcceptedBody {
    /// An event as it was given, and what became of it.
    pub fn new(event: &NewEvent, accepted: Accepted) -> Self {
        Self {
            id: accepted.event,
            tenant: event.tenant.to_string(),
            event_type: event.event_type.to_string(),
            version: event.version.clone(),
            key: event.key.clone(),
            created_at: accepted.event.created_at(),
            occurred_at: event.occurred_at,
            duplicate: accepted.duplicate,
            differs: accepted.differs,
        }
    }
}

/// What of an event is text, before it is checked.
pub struct EventTexts {
    /// The tenant, if it was named.
    pub tenant: Option<String>,
    /// The type.
    pub event_type: String,
    /// The dedup key.
    pub key: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// When it happened.
    pub occurred_at: Option<Timestamp>,
    /// The trace.
    pub traceparent: Option<String>,
}

impl EventInput {
    /// Its texts and its data, apart.
    pub fn split(self) -> (EventTexts, Bytes) {
        let Self { tenant, event_type, data, key, version, occurred_at, traceparent } = self;
        let data: Box<str> = data.into();
        let texts = EventTexts { tenant, event_type, key, version, occurred_at, traceparent };
        (texts, Bytes::from(String::from(data)))
    }
}

impl Api {
    /// Checks an event up to its schema. `dedup` stands in for a key that was not given.
    pub(super) async fn check_event(
        &self,
        caller: &Caller,
        texts: EventTexts,
        (payload, content_type): (Bytes, Option<String>),
        dedup: Option<String>,
    ) -> Result<NewEvent, ApiError> {
        let mut problems = Vec::new();
        let tenant = match texts.tenant {
            Some(name) => match TenantId::parse(&name) {
                Ok(tenant) => Some(caller.tenant(tenant.as_str())?),
                Err(error) => {
                    problems.push(Problem::new("tenant", error));
                    None
                }
            },
            None if caller.actor.is_operator() => {
                problems.push(Problem::new("tenant", "it is missing; say whose event it is"));
                None
            }
            None => caller.actor.tenant.clone(),
        };
        let event_type = EventType::parse(&texts.event_type)
            .map_err(|error| problems.push(Problem::new("type", error)));
        for (field, text, most) in
            [("key", &texts.key, KEY_BYTES_MAX), ("version", &texts.version, VERSION_BYTES_MAX)]
        {
            let wrong = text.as_deref().map(|text| check_text(text, most));
            problems.extend(wrong.and_then(Result::err).map(|why| Problem::new(field, why)));
        }
        let wrong = texts.occurred_at.map(check_time).and_then(Result::err);
        problems.extend(wrong.map(|why| Problem::new("occurred_at", why)));
        let traceparent = texts.traceparent.as_deref().map(check_traceparent);
        let wrong = traceparent.and_then(Result::err);
        problems.extend(wrong.map(|why| Problem::new("traceparent", why)));
        let (Some(tenant), Ok(event_type), true) = (tenant, event_type, problems.is_empty()) else {
            return Err(ApiError::invalid(problems));
        };
        let limit = self.settings.payload_bytes_max;
        if payload.len() > limit {
            return Err(ApiError::too_large("the payload", limit));
        }
        let (name, version) = (event_type.as_str(), texts.version.as_deref());
        let now = self.manage.world.monotonic();
        let declared = self.store.declared(now, name, version).await?;
        let asked = Asked { event_type: name, version, payload: &payload };
        let strict = self.settings.strict_event_types;
        let problems = declared::problems(strict, declared.as_deref(), asked);
        if !problems.is_empty() {
            return Err(ApiError::invalid(problems));
        }
        Ok(NewEvent {
            tenant,
            event_type,
            payload,
            content_type,
            dedup: texts.key.clone().or(dedup),
            key: texts.key,
            version: texts.version,
            occurred_at: texts.occurred_at,
            traceparent: texts.traceparent,
            door: Door::Http,
            checked: true,
        })
    }

    /// Stores a checked event, and lets the engine know.
    pub(super) async fn accept(&self, event: NewEvent) -> Result<AcceptedBody, ApiError> {
        let accepted = self.store.accept(event.clone()).await?;
        if !accepted.duplicate {
            self.metrics.event_accepted(Door::Http.name());
        }
        (self.manage.wake)();
        Ok(AcceptedBody::new(&event, accepted))
    }
}

/// Send an event
///
/// 202 means that it is on disk, with its deliveries to all endpoints that want it. The same
/// `key` again is a duplicate: the answer names the first event.
#[utoipa::path(
    post, path = "/v1/events", tag = "events", operation_id = "create_event",
    request_body = EventInput, responses((status = 202, body = AcceptedBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Emitter(caller): Emitter,
    once: Option<Extension<Once>>,
    request: Request,
) -> Result<(StatusCode, Json<AcceptedBody>), ApiError> {
    let (parts, body) = request.into_parts();
    require_json(&parts.headers)?;
    let limit = api.settings.payload_bytes_max + AROUND_BYTES_MAX;
    let input: EventInput = from_json_text(&extract::read(body, limit).await?)?;
    let (texts, data) = input.split();
    let dedup = once.map(|once| once.0.dedup(0));
    let event = api.check_event(&caller, texts, (data, None), dedup).await?;
    Ok((StatusCode::ACCEPTED, Json(api.accept(event).await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_kept_byte_for_byte() {
        for data in [
            r#"{"a": 1,   "b":[ 1 ,2]}"#,
            r#"{"dup":1,"dup":2}"#,
            "1.0",
            "12345678901234567890123456789.000",
            "null",
            r#""\u0041\ud83d\ude00é""#,
            "{\"a\":\n\t1}",
        ] {
            let body = format!(r#"{{"type":"a","data": {data} ,"key":"k"}}"#);
            let input: EventInput = from_json_text(body.as_bytes()).unwrap();
            assert_eq!(input.split().1, data.as_bytes(), "{data}");
        }
    }
}
