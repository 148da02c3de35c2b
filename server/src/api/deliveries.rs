//! `/v1/deliveries`: events on their way to endpoints, and what people do to one of them. Dead
//! letters are `?state=dead`.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Manager, Reader},
    error::ApiError,
    extract::{NoBody, Params, id},
    listing::Listing,
};
use crate::{
    api::attempts::AttemptBody,
    domain::{
        delivery::Cause,
        event_type::Pattern,
        id::{DeliveryId, EndpointId, EventId},
        retry::{Forecast, RetrySchedule},
        tenant::TenantId,
        time::Timestamp,
    },
    store::deliveries::{DeliveryFilter, DeliveryRow, HeldBy, Standing},
};

/// A delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryBody {
    #[schema(value_type = String)]
    id: DeliveryId,
    tenant: String,
    #[schema(value_type = String)]
    event: EventId,
    /// The event's type.
    #[serde(rename = "type")]
    event_type: String,
    #[schema(value_type = String)]
    endpoint: EndpointId,
    /// `pending`, `held`, `delivered`, `dead`, `canceled`, or `filtered` where the endpoint's
    /// filter did not want it.
    #[schema(value_type = String)]
    state: Standing,
    /// What holds it, while it is held: `paused`, `disabled`, or `circuit` where its endpoint rests
    /// because the last requests all failed.
    #[schema(value_type = Option<String>)]
    held_by: Option<HeldBy>,
    /// Of what it died.
    #[schema(value_type = Option<String>)]
    cause: Option<Cause>,
    /// Attempts so far. Probes ahead of its time are not counted.
    attempts: i64,
    /// When its event was accepted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the next attempt may begin, while it waits.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// When its last attempt or its ending began.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
}

impl From<DeliveryRow> for DeliveryBody {
    fn from(row: DeliveryRow) -> Self {
        Self {
            id: row.id,
            tenant: row.tenant,
            event: row.id.event,
            event_type: row.event_type,
            endpoint: row.id.endpoint,
            state: row.standing,
            held_by: row.held_by,
            cause: row.cause,
            attempts: row.attempts,
            created_at: row.id.event.created_at(),
            next_attempt_at: row.due_at.filter(|_| row.standing == Standing::Pending),
            ended_at: row.ended_at,
        }
    }
}

/// A delivery with its attempts and what is to come.
#[derive(Serialize, ToSchema)]
pub struct DeliveryDetail {
    #[schema(value_type = String)]
    id: DeliveryId,
    tenant: String,
    #[schema(value_type = String)]
    event: EventId,
    #[serde(rename = "type")]
    event_type: String,
    #[schema(value_type = String)]
    endpoint: EndpointId,
    #[schema(value_type = String)]
    state: Standing,
    #[schema(value_type = Option<String>)]
    held_by: Option<HeldBy>,
    #[schema(value_type = Option<String>)]
    cause: Option<Cause>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// When the next attempt may begin, while it waits.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// Attempts until the end of its ladder, while it waits.
    attempts_left: Option<u32>,
    /// When its last attempt begins if all of them fail: at the earliest, while it waits.
    #[schema(value_type = Option<String>, format = DateTime)]
    gives_up_at: Option<Timestamp>,
    /// The first 500 attempts and endings, in their order.
    attempts: Vec<AttemptBody>,
}

/// List deliveries, those of the newest events first
#[utoipa::path(
    get, path = "/v1/deliveries", tag = "deliveries", operation_id = "list_deliveries",
    params(
        ("tenant" = Option<String>, Query),
        ("endpoint" = Option<String>, Query),
        ("event" = Option<String>, Query),
        ("type" = Option<String>, Query, description = "Exact, or as `order.*`"),
        ("state" = Option<String>, Query, description = "`dead` are the dead letters"),
        ("cause" = Option<String>, Query, description = "Of what they died"),
        ("since" = Option<String>, Query, description = "Of events from then on: RFC 3339, or an age as 2h"),
        ("until" = Option<String>, Query, description = "Of events before then"),
    ),
    responses((status = 200, body = Listing<DeliveryBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    mut params: Params,
) -> Result<Json<Listing<DeliveryBody>>, ApiError> {
    let now = api.manage.world.now();
    let names = ["tenant", "endpoint", "event", "type", "state", "cause", "since", "until"];
    let taken: Vec<String> = names.map(|name| params.peek(name).to_owned()).into();
    let states: Vec<&str> = Standing::ALL.iter().map(|known| known.name()).collect();
    let causes: Vec<&str> = Cause::ALL.iter().map(|known| known.name()).collect();
    let filter = DeliveryFilter {
        tenant: caller.within(params.text("tenant").as_deref())?,
        endpoint: params.parse::<EndpointId>("endpoint"),
        event: params.parse::<EventId>("event"),
        event_type: params.parse::<Pattern>("type"),
        standing: params.choice("state", Standing::from_name, &states),
        cause: params.choice("cause", Cause::from_name, &causes),
        since: params.time("since", now),
        until: params.time("until", now),
    };
    let page = params.page(&caller, "deliveries", &taken)?;
    let paged = api.store.read().await?.list_deliveries(&filter, page).await?;
    Ok(Listing::of(paged, DeliveryBody::from))
}

/// Show a delivery with its attempts and what is to come
#[utoipa::path(
    get, path = "/v1/deliveries/{delivery}", tag = "deliveries", operation_id = "show_delivery",
    params(("delivery" = String, Path)), responses((status = 200, body = DeliveryDetail))
)]
pub async fn show(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(delivery): Path<String>,
) -> Result<Json<DeliveryDetail>, ApiError> {
    let row = api.find_delivery(&caller, &delivery).await?;
    Ok(Json(api.detail(row).await?))
}

impl Api {
    async fn find_delivery(&self, caller: &Caller, text: &str) -> Result<DeliveryRow, ApiError> {
        let id: DeliveryId = id("delivery", text)?;
        let tenant = caller.actor.tenant.as_ref();
        let found = self.store.read().await?.find_delivery(tenant, id).await?;
        found.ok_or_else(|| ApiError::not_found("delivery", text))
    }

    async fn detail(&self, row: DeliveryRow) -> Result<DeliveryDetail, ApiError> {
        let mut tx = self.store.read().await?;
        let attempts = tx.list_attempts(row.id).await?;
        // What is held waits for a person or a receiver: nobody can say until when.
        let forecast = match row.due_at.filter(|_| row.standing == Standing::Pending) {
            Some(due) => Some(self.forecast(&mut tx, &row, due).await?),
            None => None,
        };
        Ok(DeliveryDetail {
            id: row.id,
            tenant: row.tenant,
            event: row.id.event,
            event_type: row.event_type,
            endpoint: row.id.endpoint,
            state: row.standing,
            held_by: row.held_by,
            cause: row.cause,
            created_at: row.id.event.created_at(),
            ended_at: row.ended_at,
            next_attempt_at: forecast.map(|forecast| forecast.next_attempt_at),
            attempts_left: forecast.map(|forecast| forecast.attempts_left),
            gives_up_at: forecast.map(|forecast| forecast.gives_up_at),
            attempts: attempts.into_iter().map(AttemptBody::from).collect(),
        })
    }

    async fn forecast(
        &self,
        tx: &mut crate::store::Tx,
        row: &DeliveryRow,
        due: Timestamp,
    ) -> Result<Forecast, ApiError> {
        let endpoint = tx.find_endpoint(row.id.endpoint).await?;
        let own = endpoint.and_then(|endpoint| endpoint.settings.retry_schedule);
        let schedule = own.and_then(|text| RetrySchedule::from_text(&text).ok());
        let schedule = schedule.as_ref().unwrap_or(&self.settings.schedule);
        let rung = u32::try_from(row.rung).unwrap_or_default();
        Ok(schedule.forecast(rung, due, self.settings.jitter))
    }

    /// What a command on one delivery answers: 200 when the owner of its shard has heard, else
    /// 202, accepted.
    async fn told(
        &self,
        caller: &Caller,
        delivery: &str,
        heard: bool,
    ) -> Result<(StatusCode, Json<DeliveryDetail>), ApiError> {
        let row = self.find_delivery(caller, delivery).await?;
        let status = if heard { StatusCode::OK } else { StatusCode::ACCEPTED };
        Ok((status, Json(self.detail(row).await?)))
    }

    /// The delivery of a path and its tenant.
    async fn target(
        &self,
        caller: &Caller,
        delivery: &str,
    ) -> Result<(TenantId, DeliveryId), ApiError> {
        let row = self.find_delivery(caller, delivery).await?;
        let tenant = TenantId::parse(&row.tenant);
        Ok((tenant.map_err(|_| ApiError::internal())?, row.id))
    }
}

/// Redeliver: a new run of a delivery that has ended, with a fresh ladder; its history stays
#[utoipa::path(
    post, path = "/v1/deliveries/{delivery}/redeliver", tag = "deliveries",
    operation_id = "redeliver", params(("delivery" = String, Path)),
    responses((status = 200, body = DeliveryDetail), (status = 202, body = DeliveryDetail))
)]
pub async fn redeliver(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(delivery): Path<String>,
    _: NoBody,
) -> Result<(StatusCode, Json<DeliveryDetail>), ApiError> {
    let (tenant, id) = api.target(&caller, &delivery).await?;
    let heard = api.manage.redeliver(&caller.actor, &tenant, id).await?;
    api.told(&caller, &delivery, heard).await
}

/// Try now: the next attempt of a waiting delivery begins at once
#[utoipa::path(
    post, path = "/v1/deliveries/{delivery}/try-now", tag = "deliveries",
    operation_id = "try_now", params(("delivery" = String, Path)),
    responses((status = 200, body = DeliveryDetail), (status = 202, body = DeliveryDetail))
)]
pub async fn try_now(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(delivery): Path<String>,
    _: NoBody,
) -> Result<(StatusCode, Json<DeliveryDetail>), ApiError> {
    let (tenant, id) = api.target(&caller, &delivery).await?;
    let heard = api.manage.try_now(&caller.actor, &tenant, id).await?;
    api.told(&caller, &delivery, heard).await
}

/// Cancel a waiting delivery
///
/// A request that is on its way cannot be called back; what comes of it is kept as late.
#[utoipa::path(
    post, path = "/v1/deliveries/{delivery}/cancel", tag = "deliveries",
    operation_id = "cancel_delivery", params(("delivery" = String, Path)),
    responses((status = 200, body = DeliveryDetail), (status = 202, body = DeliveryDetail))
)]
pub async fn cancel(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(delivery): Path<String>,
    _: NoBody,
) -> Result<(StatusCode, Json<DeliveryDetail>), ApiError> {
    let (tenant, id) = api.target(&caller, &delivery).await?;
    let heard = api.manage.cancel(&caller.actor, &tenant, id).await?;
    api.told(&caller, &delivery, heard).await
}
