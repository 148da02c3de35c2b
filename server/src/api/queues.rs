//! `/v1/queues/{endpoint}`: endpoints of kind `queue`, from which consumers pull.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Caller, Manager},
    error::ApiError,
    events::EventBody,
    extract::{Body, MaybeBody, id},
};
use crate::{
    domain::{
        attempt::Mark,
        delivery::Cause,
        duration,
        event::Event,
        id::{DeliveryId, EndpointId, SourceId},
        problem::Problem,
        retry::RETRY_AFTER_MAX,
        time::Timestamp,
    },
    manage::queues::{CLAIM_MAX, LEASE_RANGE, PullRules, Said, Word},
    store::{EndpointRow, Finished, SourceRow, deliveries::HeldBy, pulls::Pull},
};

/// Deliveries that one claim gives unless it names a number.
const CLAIM_DEFAULT: usize = 10;

/// How long a consumer may keep what it claimed unless it says otherwise: a handler of webhooks
/// takes seconds.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// Deliveries of which one call may tell.
const WORDS_MAX: usize = 1_000;

/// Bytes of the words that a consumer puts into the record.
const NOTE_BYTES_MAX: usize = 1_024;

/// What a consumer wants.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClaimInput {
    /// Deliveries at most, 1 to 100; 10 if not given. An ordered endpoint gives one.
    limit: Option<usize>,
    /// How long it may keep them, 1s to 12h; 30s if not given.
    #[schema(value_type = Option<String>)]
    lease: Option<duration::Text>,
}

/// What a consumer got.
#[derive(Serialize, ToSchema)]
#[schema(as = Claim)]
pub struct ClaimBody {
    /// The soonest due first; empty when there is nothing to do.
    data: Vec<ClaimedBody>,
    /// When the lease ends. What was neither acked nor nacked by then counts as failed.
    #[schema(value_type = Option<String>, format = DateTime)]
    leased_until: Option<Timestamp>,
    /// Why there is nothing, where the endpoint holds it: `paused` or `disabled`.
    #[schema(value_type = Option<String>)]
    held_by: Option<HeldBy>,
}

/// A delivery that a consumer has.
#[derive(Serialize, ToSchema)]
#[schema(as = Claimed)]
pub struct ClaimedBody {
    #[schema(value_type = String)]
    delivery: DeliveryId,
    /// The number of this attempt, to give back with the ack or nack.
    attempt: i32,
    /// The event, with its data.
    event: EventBody,
}

/// Which deliveries were processed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckInput {
    /// Up to 1,000.
    deliveries: Vec<WordInput>,
}

/// Which deliveries could not be processed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NackInput {
    /// Up to 1,000.
    deliveries: Vec<WordInput>,
    /// Stretches the pause until they can be claimed again, up to 24h; it never shortens it.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    delay: Option<duration::Text>,
    /// Why, for the record: up to 1,024 bytes.
    #[serde(default)]
    reason: Option<String>,
}

/// A delivery and its attempt, as claim gave them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordInput {
    #[schema(value_type = String)]
    delivery: DeliveryId,
    attempt: i32,
}

/// Whose word counted.
#[derive(Serialize, ToSchema)]
pub struct WordsBody {
    /// One for each delivery, in their order.
    results: Vec<WordBody>,
}

/// Whether a word on a delivery counted.
#[derive(Serialize, ToSchema)]
pub struct WordBody {
    #[schema(value_type = String)]
    delivery: DeliveryId,
    attempt: i32,
    /// `done`, also when it was said before; `lost` when the lease had ended and the delivery is
    /// another's, or has ended: then nothing was changed.
    result: &'static str,
}

/// Claim deliveries of an endpoint of kind `queue`
///
/// They are the caller's until the lease ends. Ack each when it is processed, nack it when it
/// cannot be; what is nacked, or kept for longer, can be claimed again after the next pause of the
/// endpoint's ladder, and is dead at its end.
#[utoipa::path(
    post, path = "/v1/queues/{endpoint}/claim", tag = "queues", operation_id = "claim",
    params(("endpoint" = String, Path)), request_body = ClaimInput,
    responses((status = 200, body = ClaimBody))
)]
pub async fn claim(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(endpoint): Path<String>,
    input: Result<MaybeBody<ClaimInput>, ApiError>,
) -> Result<Json<ClaimBody>, ApiError> {
    let queue = api.find_queue(&caller, &endpoint).await?;
    let MaybeBody(input) = input?;
    let limit = input.limit.unwrap_or(CLAIM_DEFAULT);
    let lease = input.lease.map_or(LEASE_DEFAULT, |lease| lease.0);
    let mut problems = Vec::new();
    if !(1..=CLAIM_MAX).contains(&limit) {
        let problem = format!("{limit} does not fit; write 1 to {CLAIM_MAX}");
        problems.push(Problem::new("limit", problem));
    }
    let (shortest, longest) = LEASE_RANGE;
    if !(shortest..=longest).contains(&lease) {
        let lease = duration::Text(lease);
        problems.push(Problem::new("lease", format!("{lease} does not fit; write 1s to 12h")));
    }
    refuse(problems)?;
    let claim = api.manage.claim(&queue, limit, lease, api.pull_rules()).await?;
    api.count(&claim.ended);
    let sources = api.sources_of(claim.claimed.iter().map(|one| &one.event)).await?;
    let data = claim.claimed.into_iter().map(|one| {
        let inbound = one.event.inbound.as_ref();
        let source = inbound.and_then(|inbound| sources.get(&inbound.source));
        ClaimedBody {
            delivery: one.id,
            attempt: one.attempt,
            event: EventBody::whole(one.event, source),
        }
    });
    Ok(Json(ClaimBody { data: data.collect(), leased_until: claim.until, held_by: claim.held_by }))
}

/// Ack deliveries: they were processed
#[utoipa::path(
    post, path = "/v1/queues/{endpoint}/ack", tag = "queues", operation_id = "ack",
    params(("endpoint" = String, Path)), request_body = AckInput,
    responses((status = 200, body = WordsBody))
)]
pub async fn ack(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(endpoint): Path<String>,
    input: Result<Body<AckInput>, ApiError>,
) -> Result<Json<WordsBody>, ApiError> {
    let queue = api.find_queue(&caller, &endpoint).await?;
    let Body(input) = input?;
    let detail = serde_json::json!({ "by": caller.actor.name }).to_string();
    let said = Said { pull: Pull::Acked, delay: None, detail };
    api.say(&queue, input.deliveries, &said).await
}

/// Nack deliveries: they could not be processed, and are to be tried again later
#[utoipa::path(
    post, path = "/v1/queues/{endpoint}/nack", tag = "queues", operation_id = "nack",
    params(("endpoint" = String, Path)), request_body = NackInput,
    responses((status = 200, body = WordsBody))
)]
pub async fn nack(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(endpoint): Path<String>,
    input: Result<Body<NackInput>, ApiError>,
) -> Result<Json<WordsBody>, ApiError> {
    let queue = api.find_queue(&caller, &endpoint).await?;
    let Body(input) = input?;
    let mut problems = Vec::new();
    let delay = input.delay.map(|delay| delay.0);
    if delay.is_some_and(|delay| delay > RETRY_AFTER_MAX) {
        problems.push(Problem::new("delay", "it is over 24h; write up to 24h"));
    }
    let reason = input.reason.unwrap_or_default();
    if reason.len() > NOTE_BYTES_MAX {
        let problem = format!("it is {} bytes; {NOTE_BYTES_MAX} are allowed", reason.len());
        problems.push(Problem::new("reason", problem));
    }
    if reason.contains('\0') {
        problems.push(Problem::new("reason", "it contains NUL; leave it out"));
    }
    refuse(problems)?;
    let mut detail = serde_json::json!({ "by": caller.actor.name });
    if !reason.is_empty() {
        detail["error"] = reason.into();
    }
    let said = Said { pull: Pull::Nacked, delay, detail: detail.to_string() };
    api.say(&queue, input.deliveries, &said).await
}

impl Api {
    /// Before the body is looked at: who may not know of it learns nothing of what it would take.
    async fn find_queue(&self, caller: &Caller, text: &str) -> Result<EndpointRow, ApiError> {
        let id: EndpointId = id("endpoint", text)?;
        Ok(self.manage.find_queue(caller.actor.tenant.as_ref(), id).await?)
    }

    /// The sources that took these events.
    async fn sources_of(
        &self,
        events: impl Iterator<Item = &Event>,
    ) -> Result<HashMap<SourceId, SourceRow>, ApiError> {
        let mut sources = HashMap::new();
        for inbound in events.filter_map(|event| event.inbound.as_ref()) {
            if let Entry::Vacant(empty) = sources.entry(inbound.source) {
                let mut tx = self.store.read().await?;
                if let Some(row) = tx.find_source_by_id(inbound.source).await? {
                    empty.insert(row);
                }
            }
        }
        Ok(sources)
    }

    fn pull_rules(&self) -> PullRules<'_> {
        let settings = &self.settings;
        PullRules {
            schedule: &settings.schedule,
            jitter: settings.jitter,
            strict: settings.strict_event_types,
        }
    }

    async fn say(
        &self,
        queue: &EndpointRow,
        deliveries: Vec<WordInput>,
        said: &Said,
    ) -> Result<Json<WordsBody>, ApiError> {
        if deliveries.is_empty() || deliveries.len() > WORDS_MAX {
            let problem = format!("there are {}; name 1 to {WORDS_MAX}", deliveries.len());
            return Err(ApiError::invalid(vec![Problem::new("deliveries", problem)]));
        }
        let words = deliveries.into_iter();
        let words: Vec<_> =
            words.map(|word| Word { id: word.delivery, attempt: word.attempt }).collect();
        let rules = self.pull_rules();
        let (heard, finished) = self.manage.say(queue, &words, said, rules).await?;
        self.count(&finished);
        let results = words.into_iter().zip(heard).map(|(word, heard)| WordBody {
            delivery: word.id,
            attempt: word.attempt,
            result: if heard { "done" } else { "lost" },
        });
        Ok(Json(WordsBody { results: results.collect() }))
    }

    fn count(&self, ended: &[Finished]) {
        for one in ended.iter().filter(|one| matches!(one.mark, Mark::Delivered | Mark::Dead)) {
            self.metrics.delivery_ended(one.mark.name(), one.cause.map_or("", Cause::name));
        }
    }
}

fn refuse(problems: Vec<Problem>) -> Result<(), ApiError> {
    if problems.is_empty() { Ok(()) } else { Err(ApiError::invalid(problems)) }
}
