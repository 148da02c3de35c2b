//! Statements that run now and then.

use super::{Dialect, StoreError, Tx, on};
use crate::domain::time::Timestamp;

/// Rows that one step deletes: a few milliseconds, so that nobody waits for it.
const STEP: i64 = 1_000;

impl Tx {
    /// Makes partitions for the next `days` days, and tells how many. None on SQLite.
    pub async fn add_days(&mut self, days: i32) -> Result<i32, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            return Ok(0);
        }
        let made = on!(self, "SELECT snaphook.add_days($1)", |sql, connection| {
            sqlx::query_scalar(sql).bind(days).fetch_one(connection).await?
        });
        Ok(made)
    }

    /// Forgets stored answers made before `time`, at most 1,000 of them.
    pub async fn delete_idempotency_before(&mut self, time: Timestamp) -> Result<u64, StoreError> {
        let text = "DELETE FROM snaphook.idempotency WHERE (api_key_id, route, key) IN (
                 SELECT api_key_id, route, key FROM snaphook.idempotency
                 WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
        let deleted = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(time).bind(STEP).execute(connection).await?.rows_affected()
        });
        Ok(deleted)
    }

    /// Tells the doors in SQL how large a payload may be.
    pub async fn set_payload_limit(&mut self, bytes: i32) -> Result<(), StoreError> {
        let text =
            "UPDATE snaphook.install SET payload_bytes_max = $1 WHERE payload_bytes_max <> $1";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(bytes).execute(connection).await.map(drop)
        })?;
        Ok(())
    }
}
