//! Deliveries that consumers pull. A row of the queue in state 2 is free from its due time on; one
//! that a consumer has is due again when its lease ends, and counts then as an attempt that failed.
//!
//! No shard and no lease of a node is needed: consumers may ask any node, and rows that another is
//! about to take are stepped over.

use std::time::Duration;

use sqlx::{ColumnIndex, Decode, FromRow};

use super::{Dialect, Finished, Row, StoreError, Tx, on};
use crate::domain::{
    attempt::Mark,
    delivery::{Next, settle},
    id::{DeliveryId, EndpointId, EventId},
    outcome::Outcome,
    retry::{Jitter, RetrySchedule},
    time::Timestamp,
};

/// A delivery that can be pulled, or that a consumer has. Locked as long as the transaction lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Its row.
    pub row: Row,
    /// Since when a consumer has it.
    pub claimed_at: Option<Timestamp>,
    /// Bytes of its event's payload.
    pub payload_bytes: i64,
}

/// How the attempt of a consumer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// It has processed the event.
    Acked,
    /// It could not.
    Nacked,
    /// Its lease ended before it said anything.
    LeaseEnded,
}

impl Pull {
    /// The reason's stable name; `None` when all went well.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Acked => None,
            Self::Nacked => Some("nacked"),
            Self::LeaseEnded => Some("lease_ended"),
        }
    }

    /// Whether an attempt with this mark and reason ended so.
    pub fn was(self, mark: Mark, reason: Option<&str>) -> bool {
        matches!(mark, Mark::Delivered | Mark::Retry | Mark::Dead) && self.reason() == reason
    }
}

impl Pulled {
    /// Whether a consumer has it for the attempt of this number.
    pub fn is_for(&self, attempt: i32) -> bool {
        self.claimed_at.is_some() && self.row.attempt + 1 == attempt
    }

    /// The end of the attempt that it was claimed for, by a ladder and its jitter, at a time and by
    /// chance. A consumer that gives it back may ask for a longer pause.
    pub fn end(
        self,
        pull: Pull,
        delay: Option<Duration>,
        (schedule, jitter): (&RetrySchedule, Jitter),
        (now, chance): (Timestamp, u64),
        detail: String,
    ) -> Finished {
        let outcome = match pull {
            Pull::Acked => Outcome::Delivered,
            Pull::Nacked | Pull::LeaseEnded => Outcome::Failed { retry_after: delay, slow: false },
        };
        let rung = u32::try_from(self.row.rung).unwrap_or(u32::MAX);
        let (mark, cause, due_at) = match settle(rung, outcome, schedule, jitter, now, chance) {
            Next::Retry { due } => (Mark::Retry, None, due),
            Next::Delivered => (Mark::Delivered, None, now),
            Next::Dead(cause) => (Mark::Dead, Some(cause), now),
        };
        let started_at = self.claimed_at.unwrap_or(now);
        Finished {
            mark,
            cause,
            due_at,
            sent: true,
            counted: true,
            started_at,
            took: now.since(started_at),
            reason: pull.reason(),
            ..Finished::canceled(self.row, now, detail)
        }
    }
}

impl<'r, R> FromRow<'r, R> for Pulled
where
    R: sqlx::Row,
    usize: ColumnIndex<R>,
    Row: FromRow<'r, R>,
    Option<Timestamp>: Decode<'r, R::Database>,
    i64: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            row: Row::from_row(row)?,
            claimed_at: row.try_get_unchecked(9)?,
            payload_bytes: row.try_get_unchecked(10)?,
        })
    }
}

/// What is read of a row: where it lies, then its columns.
macro_rules! select {
    ($slot:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $slot,
            " AS slot, q.event_id, q.endpoint_id, q.tenant, q.shard, q.run, q.attempt, q.rung,
                q.due_at, q.claimed_at,
                coalesce((SELECT CAST(length(e.payload) AS bigint) FROM snaphook.events e
                    WHERE e.id = q.event_id), 0) AS payload_bytes
             FROM snaphook.queue q ",
            $rest
        )
    };
}

impl Tx {
    /// Deliveries of an endpoint that are due, the soonest first: nobody has them, or the lease of
    /// who did is over.
    pub async fn list_pulled(
        &mut self,
        endpoint: EndpointId,
        now: Timestamp,
        limit: i64,
    ) -> Result<Vec<Pulled>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => select!(
                "q.ctid",
                "WHERE q.endpoint_id = $1 AND q.state = 2 AND q.due_at <= $2
                 ORDER BY q.due_at LIMIT $3 FOR UPDATE SKIP LOCKED"
            ),
            Dialect::Sqlite => select!(
                "q.slot",
                "WHERE q.endpoint_id = $1 AND q.state = 2 AND q.due_at <= $2
                 ORDER BY q.due_at LIMIT $3"
            ),
        };
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(endpoint).bind(now).bind(limit).fetch_all(connection).await?
        }))
    }

    /// Whether an endpoint has any that is due. Locks nothing.
    pub async fn has_pulled(
        &mut self,
        endpoint: EndpointId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let text = "SELECT q.event_id FROM snaphook.queue q
             WHERE q.endpoint_id = $1 AND q.state = 2 AND q.due_at <= $2
             ORDER BY q.due_at LIMIT 1";
        let found: Option<EventId> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(endpoint).bind(now).fetch_optional(connection).await?
        });
        Ok(found.is_some())
    }

    /// The oldest delivery of an endpoint that keeps an order, due or not, free or not. Who asks at
    /// the same time waits here, and then sees what this one did.
    pub async fn find_pulled_first(
        &mut self,
        endpoint: EndpointId,
    ) -> Result<Option<Pulled>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => select!(
                "q.ctid",
                "WHERE q.endpoint_id = $1 AND q.state = 2
                 ORDER BY q.event_id LIMIT 1 FOR UPDATE"
            ),
            Dialect::Sqlite => select!(
                "q.slot",
                "WHERE q.endpoint_id = $1 AND q.state = 2
                 ORDER BY q.event_id LIMIT 1"
            ),
        };
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(endpoint).fetch_optional(connection).await?
        }))
    }

    /// Deliveries that consumers had until their leases ended, of all endpoints.
    pub async fn list_lease_ended(
        &mut self,
        now: Timestamp,
        limit: i64,
    ) -> Result<Vec<Pulled>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => select!(
                "q.ctid",
                "WHERE q.claimed_at IS NOT NULL AND q.due_at <= $1
                 ORDER BY q.due_at LIMIT $2 FOR UPDATE SKIP LOCKED"
            ),
            Dialect::Sqlite => select!(
                "q.slot",
                "WHERE q.claimed_at IS NOT NULL AND q.due_at <= $1
                 ORDER BY q.due_at LIMIT $2"
            ),
        };
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(now).bind(limit).fetch_all(connection).await?
        }))
    }

    /// A delivery, if it can be pulled or a consumer has it.
    pub async fn find_pulled(
        &mut self,
        delivery: DeliveryId,
    ) -> Result<Option<Pulled>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => select!(
                "q.ctid",
                "WHERE q.event_id = $1 AND q.endpoint_id = $2 AND q.state = 2 FOR UPDATE"
            ),
            Dialect::Sqlite => {
                select!("q.slot", "WHERE q.event_id = $1 AND q.endpoint_id = $2 AND q.state = 2")
            }
        };
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(delivery.event)
                .bind(delivery.endpoint)
                .fetch_optional(connection)
                .await?
        }))
    }

    /// Gives a delivery that this transaction holds to a consumer, until `until`.
    pub async fn set_claimed(
        &mut self,
        row: &Row,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => {
                "UPDATE snaphook.queue SET claimed_at = $2, due_at = $3
                 WHERE ctid = $1 AND event_id = $4 AND endpoint_id = $5"
            }
            Dialect::Sqlite => {
                "UPDATE snaphook.queue SET claimed_at = $2, due_at = $3
                 WHERE slot = $1 AND event_id = $4 AND endpoint_id = $5"
            }
        };
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.slot)
                .bind(now)
                .bind(until)
                .bind(row.event_id)
                .bind(row.endpoint_id)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }
}
