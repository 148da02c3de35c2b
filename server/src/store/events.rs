//! Events, read: lists for people, the feed for programs, one with its payload.
//!
//! A feed must not lose an event that was emitted early and committed late: on PostgreSQL it is
//! in the order of transactions and shows only those that are older than every open one. SQLite
//! has one writer, so ids are in the order of commits already.

use super::{
    Dialect, StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    event::Door,
    event_type::Pattern,
    id::{EventId, first_id_at},
    source::SourceToken,
    tenant::TenantId,
    time::Timestamp,
};

/// Which events are wanted; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Of these types.
    pub event_type: Option<Pattern>,
    /// With this dedup key. Needs the tenant.
    pub key: Option<String>,
    /// That this source took.
    pub source: Option<SourceToken>,
    /// Accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Accepted before this time.
    pub until: Option<Timestamp>,
}

/// An event without its payload.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct EventSummary {
    /// Its id.
    pub id: EventId,
    /// Whose it is.
    pub tenant: String,
    /// What happened.
    #[sqlx(rename = "type")]
    pub event_type: String,
    /// The version of its schema.
    pub version: Option<String>,
    /// `None` is for the bytes to say: JSON, as a rule.
    pub content_type: Option<String>,
    /// The emitter's dedup key.
    pub key: Option<String>,
    /// When it happened, if the emitter said so.
    pub occurred_at: Option<Timestamp>,
    /// W3C Trace Context.
    pub traceparent: Option<String>,
    door: i16,
    /// The source that took it, by its id for people.
    pub source: Option<String>,
    /// Its type in the provider's spelling.
    pub source_type: Option<String>,
    /// Whether it waits, without deliveries yet, until its source is resumed.
    pub held: bool,
    /// Bytes of its payload.
    pub payload_bytes: i64,
}

impl EventSummary {
    /// Where it came in.
    pub fn door(&self) -> Option<Door> {
        Door::from_code(self.door)
    }
}

#[derive(sqlx::FromRow)]
struct FeedRow {
    tx: i64,
    #[sqlx(flatten)]
    event: EventSummary,
}

macro_rules! columns {
    () => {
        "e.id, e.tenant, e.type, e.version, e.content_type, e.key, e.occurred_at, e.traceparent, \
         e.door, (SELECT o.token FROM snaphook.sources o WHERE o.id = e.source_id) AS source, \
         e.source_type, EXISTS (SELECT 1 FROM snaphook.held_events h \
             WHERE h.source_id = e.source_id AND h.event_id = e.id) AS held, \
         CAST(octet_length(e.payload) AS bigint) AS payload_bytes"
    };
}

/// The bounds of ids that a time gives: half open.
pub(super) fn id_range(since: Option<Timestamp>, until: Option<Timestamp>) -> (i64, i64) {
    (since.map_or(0, first_id_at), until.map_or(i64::MAX, first_id_at))
}

/// The condition on `e.type` with the text in `$n`, and that text. Not LIKE: `_` is a letter here.
pub(super) fn type_condition(pattern: Option<&Pattern>, n: u8) -> (String, Option<String>) {
    match pattern.map(Pattern::as_str) {
        None | Some("*") => (String::new(), None),
        Some(text) => match text.strip_suffix('*') {
            Some(prefix) => {
                (format!(" AND substr(e.type, 1, length(${n})) = ${n}"), Some(prefix.to_owned()))
            }
            None => (format!(" AND e.type = ${n}"), Some(text.to_owned())),
        },
    }
}

impl EventFilter {
    /// Conditions with the parameters `$1` and `$2` for ids, `$3` tenant, `$4` type, `$5` key, `$6`
    /// source.
    fn conditions(&self) -> String {
        let mut text = "e.id >= $1 AND e.id < $2".to_owned();
        if self.tenant.is_some() {
            text.push_str(" AND e.tenant = $3");
        }
        text.push_str(&type_condition(self.event_type.as_ref(), 4).0);
        if self.key.is_some() {
            // The table of keys has the index; the second half is the truth.
            text.push_str(
                " AND e.id IN (SELECT k.event_id FROM snaphook.keys k
                     WHERE k.tenant = $3 AND k.key = $5) AND e.key = $5",
            );
        }
        if self.source.is_some() {
            text.push_str(
                " AND e.source_id = (SELECT o.id FROM snaphook.sources o WHERE o.token = $6)",
            );
        }
        text
    }
}

impl Tx {
    /// Events without their payloads, the newest first.
    pub async fn list_events(
        &mut self,
        filter: &EventFilter,
        page: Page<i64>,
    ) -> Result<Paged<EventSummary>, StoreError> {
        let beyond = match page.key() {
            Some(_) => format!(" AND e.id {} $7", page.beyond(Order::Descending)),
            None => String::new(),
        };
        let text = format!(
            "SELECT {columns}
             FROM snaphook.events e
             WHERE {conditions}{beyond}
             ORDER BY e.id {direction}
             LIMIT $8",
            columns = columns!(),
            conditions = filter.conditions(),
            direction = page.direction(Order::Descending),
        );
        let (low, high) = id_range(filter.since, filter.until);
        let rows = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(low)
                .bind(high)
                .bind(filter.tenant.as_ref().map(TenantId::as_str))
                .bind(type_condition(filter.event_type.as_ref(), 4).1)
                .bind(filter.key.as_deref())
                .bind(filter.source.as_ref().map(SourceToken::as_str))
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        Ok(page.finish(rows, |row: &EventSummary| row.id.0))
    }

    /// Events in the order in which they became visible, the oldest first; `next` is there even
    /// at the end, for whoever asks again later.
    pub async fn list_feed(
        &mut self,
        filter: &EventFilter,
        page: Page<(i64, i64)>,
    ) -> Result<Paged<EventSummary>, StoreError> {
        let end = self.end_of_feed().await?;
        let (tx, after, settled, order) = match self.dialect() {
            Dialect::Postgres => (
                "CAST(CAST(e.tx AS text) AS bigint)",
                "(e.tx, e.id) > (CAST(CAST($7 AS text) AS xid8), $8)",
                " AND e.tx < pg_snapshot_xmin(pg_current_snapshot())",
                "e.tx, e.id",
            ),
            Dialect::Sqlite => ("CAST(0 AS bigint)", "(0, e.id) > ($7, $8)", "", "e.id"),
        };
        let after = if page.key().is_some() { format!(" AND {after}") } else { String::new() };
        let text = format!(
            "SELECT {tx} AS tx, {columns}
             FROM snaphook.events e
             WHERE {conditions}{after}{settled}
             ORDER BY {order}
             LIMIT $9",
            columns = columns!(),
            conditions = filter.conditions(),
        );
        let (low, high) = id_range(filter.since, filter.until);
        let rows: Vec<FeedRow> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(low)
                .bind(high)
                .bind(filter.tenant.as_ref().map(TenantId::as_str))
                .bind(type_condition(filter.event_type.as_ref(), 4).1)
                .bind(filter.key.as_deref())
                .bind(filter.source.as_ref().map(SourceToken::as_str))
                .bind(page.key().map(|key| key.0))
                .bind(page.key().map(|key| key.1))
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        Ok(page.finish_feed(rows, end, |row| (row.tx, row.event.id.0)).map(|row| row.event))
    }

    /// A place in the feed behind which all lies that is still to come. Asked for before the feed
    /// is: what becomes visible between the two is shown, and not passed over. On SQLite, where
    /// a clock that is set back would draw ids from before it, it is the beginning.
    async fn end_of_feed(&mut self) -> Result<(i64, i64), StoreError> {
        let text = match self.dialect() {
            Dialect::Postgres => {
                "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) - 1,
                        CAST(9223372036854775807 AS bigint)"
            }
            Dialect::Sqlite => "SELECT CAST(0 AS bigint), CAST(0 AS bigint)",
        };
        Ok(on!(self, text, |sql, connection| sqlx::query_as(sql).fetch_one(connection).await)?)
    }

    /// One event without its payload; of `tenant` alone, if one is given.
    pub async fn find_event(
        &mut self,
        tenant: Option<&TenantId>,
        id: EventId,
    ) -> Result<Option<EventSummary>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.events e
             WHERE e.id = $1 AND (CAST($2 AS text) IS NULL OR e.tenant = $2)"
        );
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(id)
                .bind(tenant.map(TenantId::as_str))
                .fetch_optional(connection)
                .await
        })?)
    }

    /// The bytes of an event's payload, as they were given.
    pub async fn find_payload(&mut self, id: EventId) -> Result<Option<Vec<u8>>, StoreError> {
        let text = "SELECT payload FROM snaphook.events WHERE id = $1";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(id).fetch_optional(connection).await
        })?)
    }
}
