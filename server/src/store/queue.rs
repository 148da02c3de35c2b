//! The queue, read: what is fresh, what waits in a lane, and the events that it is about. The
//! owner of a shard reads without writing, so that a claim costs nothing.

use std::collections::HashMap;

use super::{
    Db, Dialect, Row, Slot, StoreError, Tx, json_of, on,
    row::{EventRow, columns_of_row},
};
use crate::domain::{
    event::Event,
    id::{EndpointId, EventId},
    time::Timestamp,
};

/// How many shards there are: the most nodes that can share the work. Fixed at install.
pub const SHARDS: i16 = 64;

/// How far the fresh rows of a shard were read; SQLite, where one node owns all shards, has one
/// for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The shard.
    pub shard: i16,
    /// The last row that was read: the next page begins behind it.
    pub after: (EventId, EndpointId),
}

/// Transactions that were over at some moment: all that have a lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon(pub i64);

/// Fresh rows of PostgreSQL, behind each cursor. Those are left out that the rest says.
macro_rules! fresh {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns_of_row!(q),
            " FROM unnest($1::int2[], $2::int8[], $3::int8[]) c (shard, event_id, endpoint_id)
             CROSS JOIN LATERAL (
                 SELECT ",
            columns_of_row!(postgres),
            " FROM snaphook.queue
                 WHERE shard = c.shard AND state = 0
                     AND (event_id, endpoint_id) > (c.event_id, c.endpoint_id)",
            $rest,
            " ORDER BY event_id, endpoint_id LIMIT $4
             ) q"
        )
    };
}

/// What can be told of transactions at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// All before it are over.
    pub over: Horizon,
    /// All before it have begun.
    pub begun: Horizon,
}

impl Tx {
    /// A number that grows with every event that is emitted, before its transaction commits; and
    /// which transactions are over. `None` on SQLite, where a look at the fresh rows costs no more,
    /// and transactions come one after the other.
    pub async fn count_emits(&mut self) -> Result<Option<(i64, Transactions)>, StoreError> {
        self.faults.step()?;
        let Db::Postgres(connection) = &mut self.db else { return Ok(None) };
        let (count, over, begun) = sqlx::query_as(
            "SELECT last_value + is_called::integer, pg_snapshot_xmin(pg_current_snapshot())::text::int8,
                 pg_snapshot_xmax(pg_current_snapshot())::text::int8
             FROM snaphook.event_sequence",
        )
        .fetch_one(&mut **connection)
        .await?;
        Ok(Some((count, Transactions { over: Horizon(over), begun: Horizon(begun) })))
    }

    /// Fresh rows in the order of their events and endpoints, at most `limit` a cursor. With a
    /// horizon, on PostgreSQL, only those of transactions that were not over then.
    pub async fn list_fresh(
        &mut self,
        cursors: &[Cursor],
        limit: i64,
        since: Option<Horizon>,
    ) -> Result<Vec<Row>, StoreError> {
        self.faults.step()?;
        let rows = match &mut self.db {
            Db::Postgres(connection) => {
                let text = match since {
                    None => fresh!(""),
                    // A row knows the lower half of the number of its transaction. How far that
                    // lies back can be compared, whichever halves are the larger.
                    Some(_) => {
                        fresh!(" AND age(xmin) <= (SELECT age(($5::int8 & 4294967295)::text::xid))")
                    }
                };
                let mut query = sqlx::query_as(text)
                    .bind(cursors.iter().map(|cursor| cursor.shard).collect::<Vec<_>>())
                    .bind(cursors.iter().map(|cursor| cursor.after.0).collect::<Vec<_>>())
                    .bind(cursors.iter().map(|cursor| cursor.after.1).collect::<Vec<_>>())
                    .bind(limit);
                if let Some(horizon) = since {
                    query = query.bind(horizon.0);
                }
                query.fetch_all(&mut **connection).await?
            }
            Db::Sqlite(connection) => {
                let after = cursors.iter().map(|cursor| cursor.after).min();
                let (event, endpoint) = after.unwrap_or((EventId(0), EndpointId(0)));
                sqlx::query_as(concat!(
                    "SELECT ",
                    columns_of_row!(sqlite),
                    "
                     FROM snaphook_queue
                     WHERE state = 0 AND (event_id, endpoint_id) > ($1, $2)
                     ORDER BY event_id, endpoint_id LIMIT $3"
                ))
                .bind(event)
                .bind(endpoint)
                .bind(limit)
                .fetch_all(&mut **connection)
                .await?
            }
        };
        Ok(rows)
    }

    /// What waits in an endpoint's lane, the soonest first, due or not.
    pub async fn list_lane(
        &mut self,
        shard: i16,
        endpoint: EndpointId,
        limit: i64,
    ) -> Result<Vec<Row>, StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => {
                concat!(
                    "SELECT ",
                    columns_of_row!(postgres),
                    "
                 FROM snaphook.queue
                 WHERE shard = $1 AND endpoint_id = $2 AND state = 1
                 ORDER BY due_at LIMIT $3"
                )
            }
            Dialect::Sqlite => {
                concat!(
                    "SELECT ",
                    columns_of_row!(sqlite),
                    "
                 FROM snaphook.queue
                 WHERE shard = $1 AND endpoint_id = $2 AND state = 1
                 ORDER BY due_at LIMIT $3"
                )
            }
        };
        let rows = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(shard).bind(endpoint).bind(limit).fetch_all(connection).await?
        });
        Ok(rows)
    }

    /// What waits in several lanes, the soonest first in each: of each lane, named by its shard and
    /// endpoint, as many rows as it says.
    pub async fn list_lane_rows(
        &mut self,
        lanes: &[(i16, EndpointId, i64)],
    ) -> Result<Vec<Row>, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            // It has no LATERAL, and a statement costs it no journey.
            let mut rows = Vec::new();
            for (shard, endpoint, limit) in lanes {
                rows.append(&mut self.list_lane(*shard, *endpoint, *limit).await?);
            }
            return Ok(rows);
        }
        let Db::Postgres(connection) = &mut self.db else { unreachable!("asked above") };
        self.faults.step()?;
        let rows = sqlx::query_as(concat!(
            "SELECT ",
            columns_of_row!(q),
            "
             FROM unnest($1::int2[], $2::int8[], $3::int8[]) l (shard, endpoint_id, many)
             CROSS JOIN LATERAL (
                 SELECT ",
            columns_of_row!(postgres),
            "
                 FROM snaphook.queue
                 WHERE shard = l.shard AND endpoint_id = l.endpoint_id AND state = 1
                 ORDER BY due_at LIMIT l.many
             ) q"
        ))
        .bind(lanes.iter().map(|(shard, ..)| *shard).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(_, endpoint, _)| *endpoint).collect::<Vec<_>>())
        .bind(lanes.iter().map(|(.., limit)| *limit).collect::<Vec<_>>())
        .fetch_all(&mut **connection)
        .await?;
        Ok(rows)
    }

    /// As `list_lane_rows`, in the order of their events instead: of each lane, named by its shard
    /// and endpoint, the rows behind an event, as many as it says.
    pub async fn list_lane_rows_by_event(
        &mut self,
        lanes: &[(i16, EndpointId, EventId, i64)],
    ) -> Result<Vec<Row>, StoreError> {
        self.faults.step()?;
        let rows = match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query_as(
                    concat!("SELECT ", columns_of_row!(q), "
                     FROM unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) l (shard, endpoint_id, event_id, many)
                     CROSS JOIN LATERAL (
                         SELECT ", columns_of_row!(postgres), "
                         FROM snaphook.queue
                         WHERE shard = l.shard AND endpoint_id = l.endpoint_id AND state = 1
                             AND event_id > l.event_id
                         ORDER BY event_id LIMIT l.many
                     ) q"),
                )
                .bind(lanes.iter().map(|(shard, ..)| *shard).collect::<Vec<_>>())
                .bind(lanes.iter().map(|(_, endpoint, ..)| *endpoint).collect::<Vec<_>>())
                .bind(lanes.iter().map(|(_, _, event, _)| *event).collect::<Vec<_>>())
                .bind(lanes.iter().map(|(.., limit)| *limit).collect::<Vec<_>>())
                .fetch_all(&mut **connection)
                .await?
            }
            Db::Sqlite(connection) => {
                let mut rows = Vec::new();
                for (shard, endpoint, event, limit) in lanes {
                    let some: Vec<Row> = sqlx::query_as(
                        concat!("SELECT ", columns_of_row!(sqlite), "
                         FROM snaphook_queue
                         WHERE shard = $1 AND endpoint_id = $2 AND state = 1 AND event_id > $3
                         ORDER BY event_id LIMIT $4"),
                    )
                    .bind(shard)
                    .bind(endpoint)
                    .bind(event)
                    .bind(limit)
                    .fetch_all(&mut **connection)
                    .await?;
                    rows.extend(some);
                }
                rows
            }
        };
        Ok(rows)
    }

    /// The lanes of these shards that hold anything, each with its soonest due time. Jumps from
    /// one endpoint to the next, so that a lane of a million rows costs as much as one of one.
    pub async fn list_lanes(
        &mut self,
        shards: &[i16],
    ) -> Result<Vec<(EndpointId, Timestamp)>, StoreError> {
        let asked = match self.dialect() {
            Dialect::Postgres => "unnest($1::int2[]) s (shard)",
            Dialect::Sqlite => "(SELECT value AS shard FROM json_each($1)) s",
        };
        let text = format!(
            "WITH RECURSIVE lanes (shard, endpoint_id) AS (
                 SELECT s.shard, (SELECT min(q.endpoint_id) FROM snaphook.queue q
                                  WHERE q.shard = s.shard AND q.state = 1)
                 FROM {asked}
                 UNION ALL
                 SELECT lanes.shard, (SELECT min(q.endpoint_id) FROM snaphook.queue q
                                      WHERE q.shard = lanes.shard AND q.state = 1
                                          AND q.endpoint_id > lanes.endpoint_id)
                 FROM lanes WHERE lanes.endpoint_id IS NOT NULL
             )
             SELECT lanes.endpoint_id,
                    (SELECT min(q.due_at) FROM snaphook.queue q
                     WHERE q.shard = lanes.shard AND q.state = 1
                         AND q.endpoint_id = lanes.endpoint_id) AS due_at
             FROM lanes WHERE lanes.endpoint_id IS NOT NULL"
        );
        self.faults.step()?;
        let lanes = match &mut self.db {
            Db::Postgres(connection) => {
                let query = sqlx::query_as(sqlx::AssertSqlSafe(text)).bind(shards);
                query.fetch_all(&mut **connection).await?
            }
            Db::Sqlite(connection) => {
                let shards = serde_json::json!(shards).to_string();
                let query = sqlx::query_as(super::in_sqlite(sqlx::AssertSqlSafe(text)));
                query.bind(shards).fetch_all(&mut **connection).await?
            }
        };
        Ok(lanes)
    }

    /// Moves fresh rows into their endpoints' lanes, where they wait without standing in
    /// anybody's way. Gives back how many were moved.
    pub async fn park(&mut self, rows: &[Row]) -> Result<u64, StoreError> {
        self.faults.step()?;
        let slots: Vec<Slot> = rows.iter().map(|row| row.slot).collect();
        let moved = match &mut self.db {
            Db::Postgres(connection) => sqlx::query(
                // `state + 0` fits no index: a plan that is made while the queue is empty would
                // else walk all fresh rows and compare each with all of `u`.
                "UPDATE snaphook.queue q SET state = 1
                 FROM unnest($1::tid[], $2::int8[], $3::int8[]) u (slot, event_id, endpoint_id)
                 WHERE q.ctid = u.slot AND q.event_id = u.event_id AND q.endpoint_id = u.endpoint_id
                     AND q.state + 0 = 0",
            )
            .bind(slots)
            .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.endpoint_id).collect::<Vec<_>>())
            .execute(&mut **connection)
            .await?
            .rows_affected(),
            Db::Sqlite(connection) => sqlx::query(
                "UPDATE snaphook_queue SET state = 1
                 WHERE state = 0 AND slot IN (SELECT value FROM json_each($1))",
            )
            .bind(json_of(slots.iter().map(|slot| slot.0)))
            .execute(&mut **connection)
            .await?
            .rows_affected(),
        };
        self.faults.step()?;
        Ok(moved)
    }

    /// The events of these ids, payloads and all. An id that is not there has no entry.
    pub async fn list_events_by_id(
        &mut self,
        ids: &[EventId],
    ) -> Result<HashMap<EventId, Event>, StoreError> {
        self.faults.step()?;
        let rows: Vec<EventRow> = match &mut self.db {
            Db::Postgres(connection) => {
                sqlx::query_as(
                    // LATERAL, not ANY: only so does each id look into its own day's partition alone.
                    // Neither a plain join nor `=`: a plan that is made while a day is still empty
                    // would read all of it for every batch, for then all ways seem to cost the
                    // same. With LIMIT the ids stay outside, and only the primary key has the order.
                    // The bounds leave out other days once for all ids: half the time is theirs.
                    "SELECT e.id, e.tenant, e.type, e.version, e.payload, e.content_type, e.occurred_at,
                            e.traceparent, e.checked, e.key, e.door, e.source_id, e.source_type, e.source_headers
                     FROM unnest($1::int8[]) u (id)
                     CROSS JOIN LATERAL (
                         SELECT * FROM snaphook.events
                         WHERE id BETWEEN u.id AND u.id AND id BETWEEN $2 AND $3 ORDER BY id LIMIT 1
                     ) e",
                )
                .bind(ids)
                .bind(ids.iter().min())
                .bind(ids.iter().max())
                .fetch_all(&mut **connection)
                .await?
            }
            Db::Sqlite(connection) => {
                sqlx::query_as(
                    "SELECT id, tenant, type, version, payload, content_type, occurred_at, traceparent, checked,
                            key, door, source_id, source_type, source_headers
                     FROM snaphook_events WHERE id IN (SELECT value FROM json_each($1))",
                )
                .bind(json_of(ids.iter().map(|id| id.0)))
                .fetch_all(&mut **connection)
                .await?
            }
        };
        Ok(rows.into_iter().map(|row| (row.0.id, row.0)).collect())
    }
}
