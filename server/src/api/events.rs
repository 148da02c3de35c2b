//! `GET /v1/events`: what came in. As a list for people the newest is first; as a feed for
//! programs (`order=feed`) nothing is ever skipped, and `next` is always there to ask again with.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderName, header},
    response::IntoResponse,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Reader},
    deliveries::DeliveryBody,
    error::ApiError,
    event_headers::{HeaderBody, shown},
    extract::{Params, id},
    listing::Listing,
};
use crate::{
    domain::{
        event::{Door, Event},
        event_type::Pattern,
        format::{content_type_of, is_json},
        id::EventId,
        problem::Problem,
        source::SourceToken,
        time::Timestamp,
    },
    store::{
        SourceRow,
        deliveries::DeliveryFilter,
        events::{EventFilter, EventSummary},
    },
};

/// An event, without its data in lists.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventBody {
    #[schema(value_type = String)]
    id: EventId,
    tenant: String,
    /// What happened.
    #[serde(rename = "type")]
    event_type: String,
    version: Option<String>,
    /// The emitter's dedup key.
    key: Option<String>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it happened, if the emitter said so.
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<Timestamp>,
    /// Of its payload. Null in lists where it is for the bytes to say, as of most events.
    content_type: Option<String>,
    /// Of its payload.
    bytes: i64,
    traceparent: Option<String>,
    /// Where it came in: `sql`, `http`, `source` or `notice`.
    #[schema(value_type = Option<String>)]
    door: Option<Door>,
    /// The source that took it.
    source: Option<String>,
    /// Its type in the provider's spelling; `key` is then the provider's id of it.
    source_type: Option<String>,
    /// Whether its source is paused: its deliveries begin when that is resumed.
    held: bool,
    /// The headers that are passed on with it, where a source took it; in lists they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<HeaderBody>>,
    /// Its payload, if that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    data: Option<Box<RawValue>>,
    /// Its payload, if that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

impl From<EventSummary> for EventBody {
    fn from(event: EventSummary) -> Self {
        Self {
            id: event.id,
            created_at: event.id.created_at(),
            door: event.door(),
            source: event.source,
            source_type: event.source_type,
            held: event.held,
            headers: None,
            tenant: event.tenant,
            event_type: event.event_type,
            version: event.version,
            key: event.key,
            occurred_at: event.occurred_at,
            content_type: event.content_type,
            bytes: event.payload_bytes,
            traceparent: event.traceparent,
            data: None,
            data_base64: None,
        }
    }
}

impl EventBody {
    /// An event with its data, and what is known of the source that took it.
    pub(super) fn whole(event: Event, source: Option<&SourceRow>) -> Self {
        let inbound = event.inbound;
        let mut body = Self {
            id: event.id,
            created_at: event.id.created_at(),
            door: Door::from_code(event.door),
            source: source.map(|source| source.token.to_string()),
            headers: inbound.as_ref().zip(source).map(|(inbound, source)| shown(inbound, source)),
            source_type: inbound.and_then(|inbound| inbound.source_type),
            held: false,
            tenant: event.tenant,
            event_type: event.event_type,
            version: event.version,
            key: event.key,
            occurred_at: event.occurred_at,
            content_type: event.content_type,
            bytes: i64::try_from(event.payload.len()).unwrap_or(i64::MAX),
            traceparent: event.traceparent,
            data: None,
            data_base64: None,
        };
        body.put(event.payload.into());
        body
    }

    /// Adds the payload: as it is where it is JSON, else in base64.
    fn put(&mut self, payload: Vec<u8>) {
        let given = self.content_type.as_deref();
        let (json, content_type) = (is_json(given, &payload), content_type_of(given, &payload));
        self.content_type = Some(content_type.to_owned());
        if json {
            let text = String::from_utf8(payload).ok();
            self.data = text.and_then(|text| RawValue::from_string(text).ok());
        } else {
            self.data_base64 = Some(BASE64_STANDARD.encode(payload));
        }
    }
}

/// List events
///
/// The newest first. With `order=feed` in the order in which they became visible, the oldest
/// first: no event is ever skipped, however late its transaction committed, and `next` is always
/// given, to ask again with.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "list_events",
    params(
        ("tenant" = Option<String>, Query),
        ("type" = Option<String>, Query, description = "Exact, or as `order.*`"),
        ("source" = Option<String>, Query, description = "That this source took"),
        ("key" = Option<String>, Query, description = "The dedup key, for as long as retention.dedup keeps it; needs the tenant"),
        ("since" = Option<String>, Query, description = "Accepted from then on: RFC 3339, or an age as 2h"),
        ("until" = Option<String>, Query, description = "Accepted before then"),
        ("order" = Option<String>, Query, description = "`newest` or `feed`"),
    ),
    responses((status = 200, body = Listing<EventBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    mut params: Params,
) -> Result<Json<Listing<EventBody>>, ApiError> {
    let now = api.manage.world.now();
    let taken: Vec<String> = ["tenant", "type", "source", "key", "since", "until", "order"]
        .map(|name| params.peek(name).to_owned())
        .into();
    let filter = EventFilter {
        tenant: caller.within(params.text("tenant").as_deref())?,
        event_type: params.parse::<Pattern>("type"),
        source: params.parse::<SourceToken>("source"),
        key: params.text("key"),
        since: params.time("since", now),
        until: params.time("until", now),
    };
    let is_feed = |name: &str| ["newest", "feed"].iter().position(|known| *known == name);
    let feed = params.choice("order", is_feed, &["newest", "feed"]) == Some(1);
    if filter.key.is_some() && filter.tenant.is_none() {
        let problem = Problem::new("key", "a key belongs to a tenant; give tenant too");
        return Err(ApiError::bad_query(vec![problem]));
    }
    let mut tx = api.store.read().await?;
    let paged = if feed {
        tx.list_feed(&filter, params.page(&caller, "feed", &taken)?).await?
    } else {
        tx.list_events(&filter, params.page(&caller, "events", &taken)?).await?
    };
    Ok(Listing::of(paged, EventBody::from))
}

impl Api {
    pub(super) async fn find_event(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<EventSummary, ApiError> {
        let id: EventId = id("event", text)?;
        let tenant = caller.actor.tenant.as_ref();
        let found = self.store.read().await?.find_event(tenant, id).await?;
        found.ok_or_else(|| ApiError::not_found("event", text))
    }

    async fn find_payload(&self, event: &EventSummary) -> Result<Vec<u8>, ApiError> {
        let found = self.store.read().await?.find_payload(event.id).await?;
        found.ok_or_else(|| ApiError::not_found("event", &event.id.to_string()))
    }
}

/// Show an event with its data
#[utoipa::path(
    get, path = "/v1/events/{event}", tag = "events", operation_id = "show_event",
    params(("event" = String, Path)), responses((status = 200, body = EventBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(event): Path<String>,
) -> Result<Json<EventBody>, ApiError> {
    let summary = api.find_event(&caller, &event).await?;
    let mut tx = api.store.read().await?;
    let found = tx.list_events_by_id(&[summary.id]).await?.remove(&summary.id);
    let whole = found.ok_or_else(|| ApiError::not_found("event", &event))?;
    let source = match whole.inbound.as_ref() {
        Some(inbound) => tx.find_source_by_id(inbound.source).await?,
        None => None,
    };
    Ok(Json(EventBody { held: summary.held, ..EventBody::whole(whole, source.as_ref()) }))
}

/// The bytes of an event's payload, as they were given
#[utoipa::path(
    get, path = "/v1/events/{event}/payload", tag = "events", operation_id = "show_payload",
    params(("event" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "*/*"))
)]
pub async fn payload(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(event): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let event = api.find_event(&caller, &event).await?;
    let payload = api.find_payload(&event).await?;
    let content_type = content_type_of(event.content_type.as_deref(), &payload).to_owned();
    // Anybody's bytes from our own address: a browser must not take them for a page of ours.
    let headers: [(HeaderName, String); 3] = [
        (header::CONTENT_TYPE, content_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
    ];
    Ok((headers, payload))
}

/// List an event's deliveries
#[utoipa::path(
    get, path = "/v1/events/{event}/deliveries", tag = "events",
    operation_id = "list_event_deliveries", params(("event" = String, Path)),
    responses((status = 200, body = Listing<DeliveryBody>))
)]
pub async fn list_deliveries(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(event): Path<String>,
    params: Params,
) -> Result<Json<Listing<DeliveryBody>>, ApiError> {
    let event = api.find_event(&caller, &event).await?;
    let page = params.page(&caller, "event-deliveries", &[event.id.to_string()])?;
    let filter = DeliveryFilter {
        tenant: caller.actor.tenant.clone(),
        event: Some(event.id),
        ..DeliveryFilter::default()
    };
    let paged = api.store.read().await?.list_deliveries(&filter, page).await?;
    Ok(Listing::of(paged, DeliveryBody::from))
}
