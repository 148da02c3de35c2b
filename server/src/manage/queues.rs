//! What consumers do to an endpoint that is pulled: claim deliveries for a time, and say what came
//! of them. A claim is an attempt: one that its consumer gives back, or keeps beyond its lease, has
//! failed, and the delivery goes up the ladder as one to a URL would.

use std::{collections::BTreeSet, time::Duration};

use super::{Manage, ManageError};
use crate::{
    domain::{
        attempt::Mark,
        delivery::Cause,
        endpoint_kind::EndpointKind,
        endpoint_state::EndpointState,
        event::Event,
        filter::Filter,
        first_check,
        id::{DeliveryId, EndpointId, EventId},
        retry::{Jitter, RetrySchedule},
        tenant::TenantId,
        time::Timestamp,
    },
    store::{
        EndpointRow, Finished, Row, Tx,
        deliveries::HeldBy,
        pulls::{Pull, Pulled},
    },
};

/// Deliveries that one claim gives at most.
pub const CLAIM_MAX: usize = 100;

/// Bytes of payloads beyond which a claim gives no further delivery: answers stay bearable, for
/// one payload alone may have 25 MiB.
const CLAIM_BYTES_MAX: i64 = 16 << 20;

/// How long a consumer may keep what it claimed: a second is little enough to try out, and half a
/// day is what other queues allow.
pub const LEASE_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(12));

/// Looks that one claim takes past what has just ended: a lease, or an event that is not wanted.
const LOOKS_MAX: usize = 10;

/// The operator's settings, as far as pulling needs them.
#[derive(Clone, Copy, Debug)]
pub struct PullRules<'a> {
    /// The ladder of endpoints that have none of their own.
    pub schedule: &'a RetrySchedule,
    /// The part of a pause that chance may add.
    pub jitter: Jitter,
    /// Whether events of undeclared types are refused.
    pub strict: bool,
}

/// A delivery that a consumer has now.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Which.
    pub id: DeliveryId,
    /// The number of this attempt: with the id it says whose word counts.
    pub attempt: i32,
    /// The event.
    pub event: Event,
}

/// What a claim came to.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// What the consumer has now.
    pub claimed: Vec<Claimed>,
    /// Until when.
    pub until: Option<Timestamp>,
    /// Why there is nothing, where the endpoint holds it.
    pub held_by: Option<HeldBy>,
    /// What ended on the way: unwanted, invalid, or after the last of its leases.
    pub ended: Vec<Finished>,
}

/// What a consumer says of a delivery that it claimed.
#[derive(Clone, Debug)]
pub struct Word {
    /// Which delivery.
    pub id: DeliveryId,
    /// The number of the attempt that it was claimed for.
    pub attempt: i32,
}

/// What was said of several deliveries.
#[derive(Clone, Debug)]
pub struct Said {
    /// Whether it counts that they were acked, or else nacked.
    pub pull: Pull,
    /// A pause that is asked for, before they may be claimed again.
    pub delay: Option<Duration>,
    /// What stands in the record.
    pub detail: String,
}

impl Manage {
    /// An endpoint that is pulled; of `tenant` alone, if one is given.
    pub async fn find_queue(
        &self,
        tenant: Option<&TenantId>,
        id: EndpointId,
    ) -> Result<EndpointRow, ManageError> {
        let found = self.store.read().await?.find_endpoint(id).await?;
        let seen = |row: &EndpointRow| {
            row.deleted_at.is_none() && tenant.is_none_or(|tenant| *tenant == row.tenant)
        };
        let row = found.filter(seen).ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        if row.settings.kind == EndpointKind::Queue {
            return Ok(row);
        }
        let detail = format!(
            "endpoint {id} is of kind http: deliveries are posted to its URL; create one of kind \
             queue to pull them"
        );
        Err(ManageError::conflict("endpoint_not_queue", detail))
    }

    /// Gives a consumer up to `limit` deliveries of an endpoint for as long as `lease`.
    pub async fn claim(
        &self,
        endpoint: &EndpointRow,
        limit: usize,
        lease: Duration,
        rules: PullRules<'_>,
    ) -> Result<Claim, ManageError> {
        let held_by = match endpoint.state {
            EndpointState::Active => None,
            EndpointState::Paused => Some(HeldBy::Paused),
            EndpointState::Disabled => Some(HeldBy::Disabled),
        };
        let mut tx = self.store.read().await?;
        let now = tx.clock().await?;
        if held_by.is_some() || !tx.has_pulled(endpoint.id, now).await? {
            return Ok(Claim { held_by, ..Claim::default() });
        }
        drop(tx);
        let mut tx = self.store.begin().await?;
        let mut taking = Taking::new(self, endpoint, rules, (now, now + lease));
        for _ in 0..LOOKS_MAX {
            let wanted = limit - taking.claim.claimed.len();
            let found = taking.list(&mut tx, wanted).await?;
            let more = found.len() == wanted;
            let ended = taking.take(&mut tx, found).await?;
            if !more || ended == 0 || taking.claim.claimed.len() == limit {
                break;
            }
        }
        let claim = taking.claim;
        tx.commit().await?;
        log_dead(&claim.ended);
        Ok(claim)
    }

    /// Takes a consumer's word on deliveries that it claimed. Gives for each whether it counts, as
    /// it does if it was said before; and what ended by it.
    pub async fn say(
        &self,
        endpoint: &EndpointRow,
        words: &[Word],
        said: &Said,
        rules: PullRules<'_>,
    ) -> Result<(Vec<bool>, Vec<Finished>), ManageError> {
        let mut tx = self.store.begin().await?;
        let now = tx.clock().await?;
        let ladder = Ladder::of(self, endpoint, rules, now);
        // In one order, so that two who say much at once do not lock each other out.
        let wanted: BTreeSet<DeliveryId> = words.iter().map(|word| word.id).collect();
        let (mut heard, mut finished) = (BTreeSet::new(), Vec::new());
        for id in wanted.into_iter().filter(|id| id.endpoint == endpoint.id) {
            let has = |word: &&Word| word.id == id;
            match tx.find_pulled(id).await?.filter(|pulled| pulled.claimed_at.is_some()) {
                Some(pulled)
                    if words.iter().filter(has).any(|word| pulled.is_for(word.attempt)) =>
                {
                    heard.insert((id, pulled.row.attempt + 1));
                    finished.push(ladder.end(pulled, said.pull, said.delay, said.detail.clone()));
                }
                _ => {
                    // Said again, by who did not hear our answer?
                    let before = tx.list_attempts(id).await?.into_iter();
                    let so = before.filter(|one| said.pull.was(one.mark, one.reason.as_deref()));
                    heard.extend(so.map(|one| (id, one.number)));
                }
            }
        }
        tx.complete(&finished, now).await?;
        tx.commit().await?;
        log_dead(&finished);
        Ok((words.iter().map(|word| heard.contains(&(word.id, word.attempt))).collect(), finished))
    }
}

/// By what an attempt of a consumer is settled.
struct Ladder<'a> {
    manage: &'a Manage,
    schedule: RetrySchedule,
    jitter: Jitter,
    now: Timestamp,
}

impl<'a> Ladder<'a> {
    fn of(
        manage: &'a Manage,
        endpoint: &EndpointRow,
        rules: PullRules<'_>,
        now: Timestamp,
    ) -> Self {
        let own = endpoint.settings.retry_schedule.as_ref();
        let own = own.and_then(|text| RetrySchedule::from_text(text).ok());
        let schedule = own.unwrap_or_else(|| rules.schedule.clone());
        Self { manage, schedule, jitter: rules.jitter, now }
    }

    fn end(&self, pulled: Pulled, pull: Pull, delay: Option<Duration>, detail: String) -> Finished {
        let chance = self.manage.world.random();
        pulled.end(pull, delay, (&self.schedule, self.jitter), (self.now, chance), detail)
    }
}

/// A claim on its way.
struct Taking<'a> {
    ladder: Ladder<'a>,
    endpoint: &'a EndpointRow,
    filter: Option<Filter>,
    strict: bool,
    until: Timestamp,
    bytes: i64,
    claim: Claim,
}

impl<'a> Taking<'a> {
    fn new(
        manage: &'a Manage,
        endpoint: &'a EndpointRow,
        rules: PullRules<'_>,
        (now, until): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            ladder: Ladder::of(manage, endpoint, rules, now),
            endpoint,
            filter: Filter::parse_setting(&endpoint.settings.filter).ok().flatten(),
            strict: rules.strict,
            until,
            bytes: 0,
            claim: Claim { until: Some(until), ..Claim::default() },
        }
    }

    /// What is due. Of an endpoint that keeps an order that is its oldest delivery alone, and
    /// nothing while a consumer has it or it waits to be tried again.
    async fn list(&self, tx: &mut Tx, wanted: usize) -> Result<Vec<Pulled>, ManageError> {
        let now = self.ladder.now;
        if !self.endpoint.settings.ordered {
            let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
            return Ok(tx.list_pulled(self.endpoint.id, now, limit).await?);
        }
        if !self.claim.claimed.is_empty() {
            return Ok(Vec::new());
        }
        let first = tx.find_pulled_first(self.endpoint.id).await?;
        Ok(first.into_iter().filter(|pulled| pulled.row.due_at <= now).collect())
    }

    /// Gives out what there is room for, and ends what is to end. Tells how many ended.
    async fn take(&mut self, tx: &mut Tx, found: Vec<Pulled>) -> Result<usize, ManageError> {
        let now = self.ladder.now;
        let mut ended = Vec::new();
        let mut free = Vec::new();
        for pulled in found {
            if pulled.claimed_at.is_some() {
                ended.push(self.ladder.end(pulled, Pull::LeaseEnded, None, "{}".to_owned()));
            } else if self.bytes == 0 || self.bytes + pulled.payload_bytes <= CLAIM_BYTES_MAX {
                self.bytes += pulled.payload_bytes.max(1);
                free.push(pulled.row);
            }
        }
        let ids: Vec<EventId> = free.iter().map(|row| row.event_id).collect();
        let mut events = tx.list_events_by_id(&ids).await?;
        let epoch = tx.config_epoch().await?;
        for row in free {
            let Some(event) = events.remove(&row.event_id) else {
                ended.push(without_request(row, Mark::Dead, Some(Cause::Expired), "", now));
                continue;
            };
            if let Some((mark, cause, why)) = self.judge(tx, epoch, &row, &event).await? {
                ended.push(without_request(row, mark, cause, &why, now));
                continue;
            }
            tx.set_claimed(&row, now, self.until).await?;
            let id = DeliveryId { event: row.event_id, endpoint: row.endpoint_id };
            self.claim.claimed.push(Claimed { id, attempt: row.attempt + 1, event });
        }
        tx.complete(&ended, now).await?;
        let many = ended.len();
        self.claim.ended.append(&mut ended);
        Ok(many)
    }

    /// How a delivery ends before anybody gets it, if it does. A new run is asked for by a person,
    /// who has seen what the filter does not want; but the event must fit its schema.
    async fn judge(
        &self,
        tx: &mut Tx,
        epoch: i64,
        row: &Row,
        event: &Event,
    ) -> Result<Option<(Mark, Option<Cause>, String)>, ManageError> {
        if row.rung > 0 {
            return Ok(None);
        }
        let filter = self.filter.as_ref().filter(|_| row.run == 0);
        if event.checked {
            return Ok(first_check::judge(event, filter, None, self.strict));
        }
        let declared = self.ladder.manage.store.declared_of(tx, epoch, event).await?;
        Ok(first_check::judge(event, filter, Some(declared.as_deref()), self.strict))
    }
}

fn without_request(
    row: Row,
    mark: Mark,
    cause: Option<Cause>,
    why: &str,
    now: Timestamp,
) -> Finished {
    let detail = match why {
        "" => serde_json::json!({}),
        why => serde_json::json!({ "error": why }),
    };
    let reason = cause.map(Cause::name);
    Finished { mark, cause, reason, ..Finished::canceled(row, now, detail.to_string()) }
}

/// Dead letters are worth a line always, as those of other endpoints are.
fn log_dead(ended: &[Finished]) {
    for one in ended {
        let delivery = DeliveryId { event: one.row.event_id, endpoint: one.row.endpoint_id };
        if let (Mark::Dead, Some(cause)) = (one.mark, one.cause) {
            let (attempt, cause) = (one.row.attempt + 1, cause.name());
            tracing::info!(%delivery, attempt, cause, reason = one.reason, "a dead letter");
        }
    }
}
