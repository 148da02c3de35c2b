//! What became of deliveries, attempt by attempt; and the endings that people bring about.

use super::{StoreError, Tx, on};
use crate::domain::{
    attempt::Mark,
    delivery::Cause,
    endpoint_kind::EndpointKind,
    id::{DeliveryId, EndpointId, EventId},
    shard::shard_of,
    tenant::TenantId,
    time::Timestamp,
};

/// Attempts of one delivery that are shown: ten runs of the longest ladder.
const SHOWN: i64 = 500;

/// An attempt, or an ending without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// From 1, over all runs.
    pub number: i32,
    /// 0, or which redelivery.
    pub run: i32,
    /// When it began.
    pub started_at: Timestamp,
    /// What it did to its delivery.
    pub mark: Mark,
    /// Of what the delivery died by it.
    pub cause: Option<Cause>,
    /// Whether a request left.
    pub sent: bool,
    /// Whether it was a probe ahead of its time, which its ladder does not count.
    pub probe: bool,
    /// The receiver's status code.
    pub status: Option<i16>,
    /// Why it failed, by its stable name.
    pub reason: Option<String>,
    /// How long it took, in microseconds.
    pub duration_us: i64,
    /// JSON: where it went, what was answered, how long each part took.
    pub detail: String,
    /// The beginning of the answer's body.
    pub response: Option<Vec<u8>>,
}

#[derive(sqlx::FromRow)]
struct Columns {
    n: i32,
    run: i32,
    started_at: Timestamp,
    outcome: i16,
    cause: Option<i16>,
    sent: bool,
    probe: bool,
    status: Option<i16>,
    reason: Option<String>,
    duration_us: i64,
    detail: String,
    response: Option<Vec<u8>>,
}

impl TryFrom<Columns> for AttemptRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let mark = Mark::from_code(columns.outcome).ok_or_else(|| {
            StoreError::Unreadable(format!("the outcome {} of an attempt", columns.outcome))
        })?;
        Ok(Self {
            number: columns.n,
            run: columns.run,
            started_at: columns.started_at,
            mark,
            cause: columns.cause.and_then(Cause::from_code),
            sent: columns.sent,
            probe: columns.probe,
            status: columns.status,
            reason: columns.reason,
            duration_us: columns.duration_us,
            detail: columns.detail,
            response: columns.response,
        })
    }
}

impl Tx {
    /// The attempts of a delivery in their order, at most 500.
    pub async fn list_attempts(
        &mut self,
        delivery: DeliveryId,
    ) -> Result<Vec<AttemptRow>, StoreError> {
        let text = "SELECT n, run, started_at, outcome, cause, sent, probe, status, reason,
                 duration_us, detail, response
             FROM snaphook.attempts
             WHERE event_id = $1 AND endpoint_id = $2
             ORDER BY n, started_at
             LIMIT $3";
        let found: Vec<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(delivery.event)
                .bind(delivery.endpoint)
                .bind(SHOWN)
                .fetch_all(connection)
                .await?
        });
        found.into_iter().map(AttemptRow::try_from).collect()
    }

    /// The number and the run of a delivery's last attempt or ending.
    pub async fn find_last_attempt(
        &mut self,
        delivery: DeliveryId,
    ) -> Result<Option<(i32, i32)>, StoreError> {
        let text = "SELECT n, run
             FROM snaphook.attempts
             WHERE event_id = $1 AND endpoint_id = $2
             ORDER BY n DESC, run DESC
             LIMIT 1";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(delivery.event)
                .bind(delivery.endpoint)
                .fetch_optional(connection)
                .await
        })?)
    }

    /// Makes an event of this very transaction one for `endpoint` alone: whoever else would get it
    /// does not.
    pub async fn direct_event(
        &mut self,
        event: EventId,
        tenant: &TenantId,
        endpoint: EndpointId,
        kind: EndpointKind,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for text in [
            "DELETE FROM snaphook.queue
             WHERE state = 0 AND shard IN (SELECT id FROM snaphook.shards) AND event_id = $1",
            "DELETE FROM snaphook.queue
             WHERE state <> 0 AND event_id = $1",
        ] {
            on!(self, text, |sql, connection| {
                sqlx::query(sql).bind(event).execute(connection).await.map(drop)
            })?;
        }
        let text =
            "INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, due_at, state)
             VALUES ($1, $2, $3, $4, $5, $6)";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(event)
                .bind(endpoint)
                .bind(tenant.as_str())
                .bind(shard_of(endpoint))
                .bind(now)
                .bind(kind.queue_state())
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }
}
