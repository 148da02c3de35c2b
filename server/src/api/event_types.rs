//! `/v1/event-types`: what the operator declares, with a JSON Schema by version. Tenants read it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{OperatorManager, Reader},
    error::ApiError,
    extract::{Body, MaybeBody, Params},
    listing::Listing,
};
use crate::{
    domain::{event_type::EventType, problem::Problem, time::Timestamp},
    manage::event_types::EventTypeChange,
    store::event_types::EventTypeRow,
};

/// A declared event type.
#[derive(Serialize, ToSchema)]
#[schema(as = EventType)]
pub struct EventTypeBody {
    /// The type.
    name: String,
    /// For people.
    description: String,
    /// JSON Schemas of the data by version; `""` is for events that name none.
    #[schema(value_type = Object)]
    schemas: BTreeMap<String, Value>,
    /// Data as it might be.
    example: Option<Value>,
    /// Whether it is out of use.
    archived: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<EventTypeRow> for EventTypeBody {
    fn from(row: EventTypeRow) -> Self {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Self {
            name: row.name.to_string(),
            description: row.description,
            schemas: row.schemas.iter().map(|(name, text)| (name.clone(), json(text))).collect(),
            example: row.example.as_deref().map(json),
            archived: row.archived,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// What can be set on an event type.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventTypeInput {
    /// For people.
    description: Option<String>,
    /// JSON Schemas of the data by version; `""` is for events that name none, null removes one.
    #[schema(value_type = Option<Object>)]
    schemas: Option<BTreeMap<String, Value>>,
    /// Data as it might be; null removes it.
    #[serde(deserialize_with = "super::tenants::given")]
    #[schema(value_type = Option<Value>)]
    #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
    example: Option<Option<Value>>,
    /// Whether it is out of use.
    archived: Option<bool>,
}

/// A new event type.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEventTypeInput {
    /// The type, as `order.paid`.
    name: String,
    /// For people.
    description: Option<String>,
    /// JSON Schemas of the data by version.
    #[schema(value_type = Option<Object>)]
    schemas: Option<BTreeMap<String, Value>>,
    /// Data as it might be.
    example: Option<Value>,
    /// Whether it is out of use.
    archived: Option<bool>,
}

impl From<EventTypeInput> for EventTypeChange {
    fn from(input: EventTypeInput) -> Self {
        Self {
            description: input.description,
            example: input.example.map(Option::unwrap_or_default),
            archived: input.archived,
            schemas: input.schemas,
        }
    }
}

fn name_in_path(name: &str) -> Result<EventType, ApiError> {
    EventType::parse(name).map_err(|_| ApiError::not_found("event type", name))
}

fn parsed(name: &str) -> Result<EventType, ApiError> {
    EventType::parse(name).map_err(|error| ApiError::invalid(vec![Problem::new("name", error)]))
}

/// List the event types by name
#[utoipa::path(
    get, path = "/v1/event-types", tag = "event types", operation_id = "list_event_types",
    params(("archived" = Option<bool>, Query, description = "With those out of use")),
    responses((status = 200, body = Listing<EventTypeBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    mut params: Params,
) -> Result<Json<Listing<EventTypeBody>>, ApiError> {
    let archived = params.flag("archived");
    let page = params.page(&caller, "event-types", &[archived.to_string()])?;
    let paged = api.store.read().await?.list_event_types(archived, page).await?;
    Ok(Listing::of(paged, EventTypeBody::from))
}

/// Declare an event type
#[utoipa::path(
    post, path = "/v1/event-types", tag = "event types", operation_id = "create_event_type",
    request_body = NewEventTypeInput, responses((status = 201, body = EventTypeBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Body(input): Body<NewEventTypeInput>,
) -> Result<(StatusCode, Json<EventTypeBody>), ApiError> {
    let NewEventTypeInput { name, description, schemas, example, archived } = input;
    let change = EventTypeChange { description, example, archived, schemas };
    let row = api.manage.create_event_type(&caller.actor, &parsed(&name)?, change).await?;
    Ok((StatusCode::CREATED, Json(row.into())))
}

/// Show an event type with its schemas
#[utoipa::path(
    get, path = "/v1/event-types/{name}", tag = "event types", operation_id = "show_event_type",
    params(("name" = String, Path)), responses((status = 200, body = EventTypeBody))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    _: Reader,
    Path(name): Path<String>,
) -> Result<Json<EventTypeBody>, ApiError> {
    let found = api.store.read().await?.find_event_type(&name_in_path(&name)?).await?;
    Ok(Json(found.ok_or_else(|| ApiError::not_found("event type", &name))?.into()))
}

/// Declare an event type, or set one to exactly this
#[utoipa::path(
    put, path = "/v1/event-types/{name}", tag = "event types", operation_id = "put_event_type",
    params(("name" = String, Path)), request_body = Option<EventTypeInput>,
    responses((status = 200, body = EventTypeBody), (status = 201, body = EventTypeBody))
)]
pub async fn put(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Path(name): Path<String>,
    MaybeBody(input): MaybeBody<EventTypeInput>,
) -> Result<(StatusCode, Json<EventTypeBody>), ApiError> {
    let name = parsed(&name)?;
    let (row, made) = api.manage.put_event_type(&caller.actor, &name, input.into()).await?;
    Ok((if made { StatusCode::CREATED } else { StatusCode::OK }, Json(row.into())))
}

/// Change what is named of an event type
#[utoipa::path(
    patch, path = "/v1/event-types/{name}", tag = "event types",
    operation_id = "update_event_type", params(("name" = String, Path)),
    request_body = EventTypeInput, responses((status = 200, body = EventTypeBody))
)]
pub async fn update(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Path(name): Path<String>,
    Body(input): Body<EventTypeInput>,
) -> Result<Json<EventTypeBody>, ApiError> {
    let name = name_in_path(&name)?;
    Ok(Json(api.manage.update_event_type(&caller.actor, &name, input.into()).await?.into()))
}

/// Take back the declaration of an event type; its events stay
#[utoipa::path(
    delete, path = "/v1/event-types/{name}", tag = "event types",
    operation_id = "delete_event_type", params(("name" = String, Path)),
    responses((status = 204))
)]
pub async fn delete(
    State(api): State<Arc<Api>>,
    OperatorManager(caller): OperatorManager,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    api.manage.delete_event_type(&caller.actor, &name_in_path(&name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
