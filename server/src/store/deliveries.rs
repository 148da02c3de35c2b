//! Deliveries, read. None has a row of its own: it waits while it is in the queue, else it is
//! what the last ending among its attempts says. What is dead now is also in `dead_letters`,
//! which finds the few among many.

use super::{
    StoreError, Tx,
    events::{id_range, type_condition},
    on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    delivery::Cause,
    event_type::Pattern,
    id::{DeliveryId, EndpointId, EventId},
    shard::shard_of,
    tenant::TenantId,
    time::Timestamp,
};

coded! {
    /// Where a delivery stands, for who looks at it from outside.
    Standing {
        /// Due now or later.
        Pending = 0, "pending";
        /// Waits for its endpoint, which is paused or disabled, or rests.
        Held = 1, "held";
        /// The receiver has it.
        Delivered = 2, "delivered";
        /// Ended without success.
        Dead = 3, "dead";
        /// Called off.
        Canceled = 4, "canceled";
        /// Its endpoint's filter did not want it.
        Filtered = 5, "filtered";
    }
}

coded! {
    /// What holds a delivery back.
    HeldBy {
        /// Its endpoint's owner.
        Paused = 1, "paused";
        /// Its endpoint was given up.
        Disabled = 2, "disabled";
        /// Its endpoint rests: the last requests all failed.
        Circuit = 3, "circuit";
    }
}

impl Standing {
    /// Whether it is in the queue.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Pending | Self::Held)
    }
}

/// Which deliveries are wanted; all of them by default. Times are those of their events.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// To this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Of this event.
    pub event: Option<EventId>,
    /// Of events of these types.
    pub event_type: Option<Pattern>,
    /// That stand so.
    pub standing: Option<Standing>,
    /// That died of this.
    pub cause: Option<Cause>,
    /// Of events accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Of events accepted before this time.
    pub until: Option<Timestamp>,
}

/// A delivery as its rows tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Its event and its endpoint.
    pub id: DeliveryId,
    /// Whose it is.
    pub tenant: String,
    /// What happened.
    pub event_type: String,
    /// Where it stands.
    pub standing: Standing,
    /// What holds it back, while it is held.
    pub held_by: Option<HeldBy>,
    /// Of what it died.
    pub cause: Option<Cause>,
    /// Attempts so far, over all runs; probes ahead of their time are not among them.
    pub attempts: i64,
    /// Attempts of this run that its ladder has counted.
    pub rung: i32,
    /// When the next attempt may begin, while it waits.
    pub due_at: Option<Timestamp>,
    /// When its last attempt or its ending began.
    pub ended_at: Option<Timestamp>,
}

#[derive(sqlx::FromRow)]
struct Columns {
    event_id: EventId,
    endpoint_id: EndpointId,
    tenant: String,
    r#type: String,
    standing: i16,
    held_by: i16,
    cause: Option<i16>,
    attempts: i64,
    rung: i32,
    due_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

impl TryFrom<Columns> for DeliveryRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let id = DeliveryId { event: columns.event_id, endpoint: columns.endpoint_id };
        let standing = Standing::from_code(columns.standing).ok_or_else(|| {
            StoreError::Unreadable(format!("the state {} of delivery {id}", columns.standing))
        })?;
        Ok(Self {
            id,
            tenant: columns.tenant,
            event_type: columns.r#type,
            standing,
            held_by: HeldBy::from_code(columns.held_by),
            cause: columns.cause.and_then(Cause::from_code),
            attempts: columns.attempts,
            rung: columns.rung,
            due_at: columns.due_at,
            ended_at: columns.ended_at,
        })
    }
}

/// Rows of the queue; `state` says which of its indexes can be used.
const WAITING: &str = "SELECT t.event_id, t.endpoint_id, t.tenant, e.type,
        CAST(CASE WHEN p.state = 0 AND p.circuit <> 1 THEN 0 ELSE 1 END AS smallint) AS standing,
        CAST(CASE WHEN p.state = 0 AND p.circuit = 1 THEN 3 ELSE p.state END AS smallint) AS held_by,
        CAST(NULL AS smallint) AS cause, t.rung, t.due_at, CAST(NULL AS timestamptz) AS ended_at
     FROM snaphook.queue t
     JOIN snaphook.events e ON e.id = t.event_id
     JOIN snaphook.endpoints p ON p.id = t.endpoint_id
     WHERE ";

/// The last ending of what is not in the queue. Marks are one below standings. A pair that was
/// redelivered is never fresh, so one index of the queue is enough to see whether it waits.
const ENDED: &str = "SELECT t.event_id, t.endpoint_id, t.tenant, e.type,
        CAST(t.outcome + 1 AS smallint) AS standing, CAST(0 AS smallint) AS held_by,
        t.cause, 0 AS rung, CAST(NULL AS timestamptz) AS due_at, t.started_at AS ended_at
     FROM snaphook.attempts t
     JOIN snaphook.events e ON e.id = t.event_id
     WHERE t.outcome > 0 AND t.outcome < 5
        AND NOT EXISTS (SELECT 1 FROM snaphook.attempts l
            WHERE l.event_id = t.event_id AND l.endpoint_id = t.endpoint_id
                AND l.outcome > 0 AND l.outcome < 5 AND l.n > t.n)
        AND NOT EXISTS (SELECT 1 FROM snaphook.queue q
            WHERE q.event_id = t.event_id AND q.endpoint_id = t.endpoint_id AND q.state <> 0)
        AND ";

const DEAD: &str =
    "SELECT t.event_id, t.endpoint_id, t.tenant, e.type, CAST(3 AS smallint) AS standing,
        CAST(0 AS smallint) AS held_by, t.cause, 0 AS rung, CAST(NULL AS timestamptz) AS due_at, t.died_at AS ended_at
     FROM snaphook.dead_letters t
     JOIN snaphook.events e ON e.id = t.event_id
     WHERE ";

impl DeliveryFilter {
    /// Where to look, each with the conditions that its rows need.
    fn parts(&self) -> Vec<(&'static str, String)> {
        let dead = self.cause.is_some() || self.standing == Some(Standing::Dead);
        if dead {
            let impossible = self.standing.is_some_and(|standing| standing != Standing::Dead);
            let cause = if self.cause.is_some() { " AND t.cause = $7" } else { "" };
            return if impossible { vec![] } else { vec![(DEAD, cause.to_owned())] };
        }
        let mut parts = Vec::new();
        if self.standing.is_none_or(Standing::is_waiting) {
            let held = match self.standing {
                Some(Standing::Pending) => " AND p.state = 0 AND p.circuit <> 1",
                Some(Standing::Held) => " AND (p.state <> 0 OR p.circuit = 1)",
                _ => "",
            };
            let shard = match (self.endpoint, self.event) {
                (Some(endpoint), _) => format!(" AND t.shard = {}", shard_of(endpoint)),
                (None, Some(_)) => " AND t.shard IN (SELECT id FROM snaphook.shards)".to_owned(),
                (None, None) => String::new(),
            };
            parts.push((WAITING, format!(" AND t.state = 0{held}{shard}")));
            parts.push((WAITING, format!(" AND t.state <> 0{held}")));
        }
        match self.standing {
            None => parts.push((ENDED, String::new())),
            Some(standing) if !standing.is_waiting() => {
                parts.push((ENDED, format!(" AND t.outcome = {}", standing.code() - 1)));
            }
            Some(_) => {}
        }
        parts
    }

    /// Conditions on every kind of row: `$1` and `$2` bound the event, `$3` tenant, `$4` endpoint,
    /// `$5` event, `$6` type, `$8` and `$9` the cursor. Attempts have no index by tenant, so one is
    /// asked for of the event too.
    fn conditions(&self, page: &Page<(i64, i64)>) -> String {
        let mut text = "t.event_id >= $1 AND t.event_id < $2".to_owned();
        if self.tenant.is_some() {
            text.push_str(" AND t.tenant = $3 AND e.tenant = $3");
        }
        if self.endpoint.is_some() {
            text.push_str(" AND t.endpoint_id = $4");
        }
        if self.event.is_some() {
            text.push_str(" AND t.event_id = $5");
        }
        text.push_str(&type_condition(self.event_type.as_ref(), 6).0);
        if page.key().is_some() {
            let beyond = page.beyond(Order::Descending);
            text.extend([" AND (t.event_id, t.endpoint_id) ", beyond, " ($8, $9)"]);
        }
        text
    }

    fn statement(&self, page: &Page<(i64, i64)>) -> Option<String> {
        let direction = page.direction(Order::Descending);
        let conditions = self.conditions(page);
        let parts: Vec<String> = self
            .parts()
            .into_iter()
            .map(|(select, own)| {
                format!(
                    "SELECT * FROM ({select}{conditions}{own}
                     ORDER BY t.event_id {direction}, t.endpoint_id {direction} LIMIT $10) part"
                )
            })
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "SELECT d.event_id, d.endpoint_id, d.tenant, d.type, d.standing, d.held_by, d.cause, d.rung,
                    d.due_at, d.ended_at,
                    (SELECT count(*) FROM snaphook.attempts c
                     WHERE c.event_id = d.event_id AND c.endpoint_id = d.endpoint_id AND c.sent
                         AND NOT c.probe)
                        AS attempts
                 FROM ({}) d
                 ORDER BY d.event_id {direction}, d.endpoint_id {direction}
                 LIMIT $10",
                parts.join("\nUNION ALL\n")
            )
        })
    }
}

impl Tx {
    /// Deliveries, those of the newest events first.
    pub async fn list_deliveries(
        &mut self,
        filter: &DeliveryFilter,
        page: Page<(i64, i64)>,
    ) -> Result<Paged<DeliveryRow>, StoreError> {
        let Some(text) = filter.statement(&page) else {
            return Ok(page.finish(Vec::new(), key_of));
        };
        let (low, high) = id_range(filter.since, filter.until);
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(low)
                .bind(high)
                .bind(filter.tenant.as_ref().map(TenantId::as_str))
                .bind(filter.endpoint)
                .bind(filter.event)
                .bind(type_condition(filter.event_type.as_ref(), 6).1)
                .bind(filter.cause.map(Cause::code))
                .bind(page.key().map(|key| key.0))
                .bind(page.key().map(|key| key.1))
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<DeliveryRow>, _> =
            found.into_iter().map(DeliveryRow::try_from).collect();
        Ok(page.finish(rows?, key_of))
    }

    /// One delivery; of `tenant` alone, if one is given.
    pub async fn find_delivery(
        &mut self,
        tenant: Option<&TenantId>,
        id: DeliveryId,
    ) -> Result<Option<DeliveryRow>, StoreError> {
        let filter = DeliveryFilter {
            tenant: tenant.cloned(),
            endpoint: Some(id.endpoint),
            event: Some(id.event),
            ..DeliveryFilter::default()
        };
        Ok(self.list_deliveries(&filter, Page::first(1)).await?.rows.pop())
    }
}

fn key_of(row: &DeliveryRow) -> (i64, i64) {
    (row.id.event.0, row.id.endpoint.0)
}
