//! Figures for the metrics, sampled: bounded, for they are asked every few seconds and must cost
//! the same however much waits.

use std::time::Duration;

use super::{Dialect, StoreError, Tx, on};
use crate::domain::{event::Door, id::first_id_at, time::Timestamp};

/// What a sample of the queue tells of what is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct QueueCounts {
    /// Deliveries that may be attempted now.
    pub due: i64,
    /// The due time of the oldest.
    pub oldest_due: Option<Timestamp>,
}

impl Tx {
    /// Deliveries that wait because their endpoint is paused, disabled or rests; counts to
    /// 100,000 and no further: that is "very many", and counting on would only cost.
    pub async fn count_held(&mut self) -> Result<i64, StoreError> {
        let text = "SELECT count(*) FROM (
                 SELECT 1
                 FROM snaphook.endpoints e
                 JOIN snaphook.queue q ON q.shard = e.shard AND q.endpoint_id = e.id
                 WHERE (e.state <> 0 OR e.circuit = 1) AND e.deleted_at IS NULL
                 LIMIT 100000
             ) held";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).fetch_one(connection).await?
        }))
    }

    /// How long the oldest transaction on this database has been open, as far as our role may see:
    /// what was deleted since then cannot be cleared away. Zero on SQLite, where a reader that
    /// stays costs nothing but the size of a file.
    pub async fn oldest_transaction(&mut self) -> Result<Duration, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            return Ok(Duration::ZERO);
        }
        let text =
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
             FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()
                 AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)";
        let seconds: f64 = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).fetch_one(connection).await?
        });
        Ok(Duration::from_secs_f64(seconds.max(0.0)))
    }

    /// How much is due, and since when the oldest is. Looks at 100,000 rows and no further.
    pub async fn count_queue(&mut self, now: Timestamp) -> Result<QueueCounts, StoreError> {
        let text = "WITH waiting AS (
                 SELECT q.due_at
                 FROM (SELECT endpoint_id, due_at FROM snaphook.queue WHERE state < 2 LIMIT 100000) q
                 JOIN snaphook.endpoints e ON e.id = q.endpoint_id
                 WHERE e.state = 0 AND e.circuit <> 1 AND e.deleted_at IS NULL
             )
             SELECT
                 (SELECT count(*) FROM waiting WHERE due_at <= $1) AS due,
                 (SELECT min(due_at) FROM waiting) AS oldest_due";
        let counts = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(now).fetch_one(connection).await?
        });
        Ok(counts)
    }

    /// How many events came in by a door from one time on and before another.
    pub async fn count_events(
        &mut self,
        door: Door,
        from: Timestamp,
        before: Timestamp,
    ) -> Result<i64, StoreError> {
        let text = "SELECT count(*) FROM snaphook.events
             WHERE id >= $1 AND id < $2 AND door = $3";
        let count = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql)
                .bind(first_id_at(from))
                .bind(first_id_at(before))
                .bind(door.code())
                .fetch_one(connection)
                .await?
        });
        Ok(count)
    }
}
