//! Commands to the owner of a shard: it keeps what it works on in memory, so whoever changes the
//! queue behind its back tells it to look again. What a command is about is in the tables
//! already when it is read; losing one costs time, never truth.

use super::{Db, Dialect, Row, StoreError, Tx, on, row::columns_of_row};
use crate::domain::{
    endpoint_kind::EndpointKind,
    id::{EndpointId, EventId},
};

coded! {
    /// What the owner is told.
    CommandKind {
        /// Read this endpoint's lane again: something in it changed.
        Look = 0, "look";
        /// Let go of one delivery: its row is gone or changed.
        LetGo = 1, "let_go";
        /// Send what waits longest now, although the endpoint rests.
        Probe = 2, "probe";
    }
}

/// A command as its reader gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// In the order they were given.
    pub id: i64,
    /// Which shard's owner.
    pub shard: i16,
    /// What to do.
    pub kind: CommandKind,
    /// To which endpoint's lane.
    pub endpoint: EndpointId,
    /// And which event in it; 0 for none in particular.
    pub event: EventId,
}

impl Tx {
    /// Tells the owner of `shard`, at the commit of this transaction. Gives the command's number.
    pub async fn add_command(
        &mut self,
        shard: i16,
        kind: CommandKind,
        endpoint: EndpointId,
        event: EventId,
    ) -> Result<i64, StoreError> {
        let text = "INSERT INTO snaphook.commands (shard, kind, endpoint_id, event_id)
             VALUES ($1, $2, $3, $4) RETURNING id";
        let id = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql)
                .bind(shard)
                .bind(kind.code())
                .bind(endpoint)
                .bind(event)
                .fetch_one(connection)
                .await?
        });
        self.notify("command").await?;
        Ok(id)
    }

    /// Tells every node at commit what kind of thing changed: `command`, `config` or `shards`.
    /// On SQLite the one node notices by itself.
    pub async fn notify(&mut self, what: &str) -> Result<(), StoreError> {
        if self.dialect() == Dialect::Postgres {
            on!(self, "SELECT pg_notify('snaphook', $1)", |sql, connection| {
                sqlx::query(sql).bind(what).execute(connection).await.map(drop)
            })?;
        }
        Ok(())
    }

    /// What the owner of these shards is told, oldest first, at most 1,000.
    pub async fn list_commands(&mut self, shards: &[i16]) -> Result<Vec<Command>, StoreError> {
        self.faults.step()?;
        let rows: Vec<(i64, i16, i16, EndpointId, EventId)> = match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query_as(
                    "SELECT id, shard, kind, endpoint_id, event_id FROM snaphook.commands
                     WHERE shard = ANY ($1) ORDER BY id LIMIT 1000",
                )
                .bind(shards)
                .fetch_all(&mut **connection)
                .await?
            }
            Db::Sqlite(connection) => {
                sqlx::query_as(
                    "SELECT id, shard, kind, endpoint_id, event_id FROM snaphook_commands
                     WHERE shard IN (SELECT value FROM json_each($1)) ORDER BY id LIMIT 1000",
                )
                .bind(serde_json::json!(shards).to_string())
                .fetch_all(&mut **connection)
                .await?
            }
        };
        let read = |(id, shard, kind, endpoint, event)| {
            let kind = CommandKind::from_code(kind)?;
            Some(Command { id, shard, kind, endpoint, event })
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// Forgets a command that was seen to.
    pub async fn delete_command(&mut self, id: i64) -> Result<(), StoreError> {
        on!(self, "DELETE FROM snaphook.commands WHERE id = $1", |sql, connection| {
            sqlx::query(sql).bind(id).execute(connection).await.map(drop)
        })?;
        Ok(())
    }

    /// Whether a command still waits for its owner.
    pub async fn find_command(&mut self, id: i64) -> Result<bool, StoreError> {
        let text = "SELECT id FROM snaphook.commands WHERE id = $1";
        let found: Option<i64> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(id).fetch_optional(connection).await?
        });
        Ok(found.is_some())
    }

    /// The row of one delivery, if it has something to do. The lock on it lasts as long as this
    /// transaction: its owner's completion waits, and then finds what this one left.
    pub async fn lock_row(
        &mut self,
        shard: i16,
        event: EventId,
        endpoint: EndpointId,
    ) -> Result<Option<Row>, StoreError> {
        // Fresh rows and laned ones have an index each; so two halves.
        for state in ["= 0", "<> 0"] {
            let (columns, lock) = match self.dialect() {
                Dialect::Postgres => (columns_of_row!(postgres), " FOR UPDATE"),
                Dialect::Sqlite => (columns_of_row!(sqlite), ""),
            };
            let text = format!(
                "SELECT {columns} FROM snaphook.queue
                 WHERE shard = $1 AND event_id = $2 AND endpoint_id = $3 AND state {state}{lock}"
            );
            let row = on!(self, sqlx::AssertSqlSafe(text.as_str()), |sql, connection| {
                sqlx::query_as(sql)
                    .bind(shard)
                    .bind(event)
                    .bind(endpoint)
                    .fetch_optional(connection)
                    .await?
            });
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }

    /// Puts a delivery into its lane with another due time: an attempt now, or a new run. Not one
    /// that a consumer has.
    pub async fn set_due(&mut self, row: &Row) -> Result<bool, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => {
                "UPDATE snaphook.queue
                 SET state = CASE state WHEN 2 THEN 2 ELSE 1 END, due_at = $2
                 WHERE ctid = $1 AND event_id = $3 AND endpoint_id = $4 AND attempt = $5
                     AND claimed_at IS NULL"
            }
            Dialect::Sqlite => {
                "UPDATE snaphook.queue
                 SET state = CASE state WHEN 2 THEN 2 ELSE 1 END, due_at = $2
                 WHERE slot = $1 AND event_id = $3 AND endpoint_id = $4 AND attempt = $5
                     AND claimed_at IS NULL"
            }
        };
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.slot)
                .bind(row.due_at)
                .bind(row.event_id)
                .bind(row.endpoint_id)
                .bind(row.attempt)
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    /// Puts a delivery that has ended back into its lane, or where it is pulled from, as a new run.
    /// False when it is in the queue already.
    pub async fn add_run(&mut self, row: &Row, kind: EndpointKind) -> Result<bool, StoreError> {
        let state = if kind == EndpointKind::Queue { kind.queue_state() } else { 1 };
        let text = "INSERT INTO snaphook.queue
                (event_id, endpoint_id, tenant, shard, state, run, attempt, rung, due_at)
             VALUES ($1, $2, $3, $4, $8, $5, $6, 0, $7)
             ON CONFLICT DO NOTHING";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.event_id)
                .bind(row.endpoint_id)
                .bind(&row.tenant)
                .bind(row.shard)
                .bind(row.run)
                .bind(row.attempt)
                .bind(row.due_at)
                .bind(state)
                .execute(connection)
                .await?
                .rows_affected()
        });
        let text = "DELETE FROM snaphook.dead_letters WHERE event_id = $1 AND endpoint_id = $2";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.event_id)
                .bind(row.endpoint_id)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(done == 1)
    }
}
