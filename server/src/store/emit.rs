//! An event goes in: dedup, row, fan-out, all by the functions in SQL that every door shares.

use bytes::Bytes;

use super::{Db, Dialect, StoreError, Tx, group::lost, in_file::View, on};
use crate::domain::{
    event::Door, event_type::EventType, id::EventId, tenant::TenantId, time::Timestamp,
};

/// An event on its way in, every part of it already checked.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Whose it is; need not have a row.
    pub tenant: TenantId,
    /// What happened.
    pub event_type: EventType,
    /// The bytes, as given.
    pub payload: Bytes,
    /// `None` is for the bytes to say: JSON, as a rule.
    pub content_type: Option<String>,
    /// The emitter's dedup key, kept with the event.
    pub key: Option<String>,
    /// What makes two calls the same event: `key`, or what a door puts in its place.
    pub dedup: Option<String>,
    /// The version of its schema.
    pub version: Option<String>,
    /// When it happened, if that was not now.
    pub occurred_at: Option<Timestamp>,
    /// W3C Trace Context, passed on to receivers.
    pub traceparent: Option<String>,
    /// Where it came in.
    pub door: Door,
    /// Whether its schema was checked already.
    pub checked: bool,
}

/// The way in of SQLite.
static ACCEPT: View = View::new(
    "INSERT INTO snaphook_accept (n, tenant, type, payload, key, dedup, version, occurred_at,
         traceparent, content_type, door, checked)",
    12,
);

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The event, or the first one of the same dedup key.
    pub event: EventId,
    /// Whether that key was seen before; then nothing was stored.
    pub duplicate: bool,
    /// Whether the first one had another type or other data.
    pub differs: bool,
}

#[derive(sqlx::FromRow)]
struct AcceptedRow {
    id: EventId,
    duplicate: bool,
    differs: bool,
}

impl From<AcceptedRow> for Accepted {
    fn from(row: AcceptedRow) -> Self {
        Self { event: row.id, duplicate: row.duplicate, differs: row.differs }
    }
}

impl Tx {
    /// Stores one event with its deliveries, in this transaction.
    pub async fn accept(&mut self, event: &NewEvent) -> Result<Accepted, StoreError> {
        let Db::Postgres(connection) = &mut self.db else {
            return self.accept_by_view(&[event]).await?.pop().ok_or_else(lost);
        };
        self.faults.step()?;
        let text = "SELECT a.id, a.duplicate, a.differs
             FROM snaphook.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) a";
        let row: AcceptedRow = sqlx::query_as(text)
            .bind(event.tenant.as_str())
            .bind(event.event_type.as_str())
            .bind(event.payload.as_ref())
            .bind(&event.key)
            .bind(&event.dedup)
            .bind(&event.version)
            .bind(event.occurred_at)
            .bind(&event.traceparent)
            .bind(&event.content_type)
            .bind(event.door.code())
            .bind(event.checked)
            .fetch_one(&mut **connection)
            .await?;
        Ok(row.into())
    }

    /// Wakes an idle node at the commit of this transaction.
    pub async fn ring(&mut self) -> Result<(), StoreError> {
        if self.dialect() == Dialect::Postgres {
            on!(self, "SELECT snaphook.ring()", |sql, connection| {
                sqlx::query(sql).execute(connection).await.map(drop)
            })?;
        }
        Ok(())
    }

    /// Stores many events in one statement; all or none. On PostgreSQL they are of one door.
    pub(super) async fn accept_many_at_once(
        &mut self,
        events: &[&NewEvent],
    ) -> Result<Vec<Accepted>, StoreError> {
        match self.dialect() {
            Dialect::Postgres => self.accept_by_function(events).await,
            Dialect::Sqlite => self.accept_by_view(events).await,
        }
    }

    async fn accept_by_view(&mut self, events: &[&NewEvent]) -> Result<Vec<Accepted>, StoreError> {
        let found = self
            .put_rows(&ACCEPT, events, |query, event| {
                query
                    .bind(event.tenant.as_str())
                    .bind(event.event_type.as_str())
                    .bind(event.payload.as_ref())
                    .bind(event.key.as_deref())
                    .bind(event.dedup.as_deref())
                    .bind(event.version.as_deref())
                    .bind(event.occurred_at)
                    .bind(event.traceparent.as_deref())
                    .bind(event.content_type.as_deref())
                    .bind(event.door.code())
                    .bind(event.checked)
            })
            .await?;
        let accepted =
            |(_, event, finding)| Accepted { event, duplicate: finding > 0, differs: finding > 1 };
        Ok(found.into_iter().map(accepted).collect())
    }

    async fn accept_by_function(
        &mut self,
        events: &[&NewEvent],
    ) -> Result<Vec<Accepted>, StoreError> {
        let Some(first) = events.first() else { return Ok(Vec::new()) };
        let Db::Postgres(connection) = &mut self.db else {
            unreachable!("only called on PostgreSQL")
        };
        self.faults.step()?;
        let dedups: Vec<_> = events.iter().map(|event| event.dedup.as_deref()).collect();
        let keyed = dedups.iter().any(Option::is_some);
        let rows: Vec<AcceptedRow> = sqlx::query_as(
            "WITH bell AS (SELECT snaphook.ring())
             SELECT a.id, a.duplicate, a.differs
             FROM bell, snaphook.accept_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) a",
        )
        .bind(events.iter().map(|event| event.tenant.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.event_type.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.payload.as_ref()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.key.as_deref()).collect::<Vec<_>>())
        .bind(keyed.then_some(dedups))
        .bind(events.iter().map(|event| event.version.as_deref()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.occurred_at).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.traceparent.as_deref()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.content_type.as_deref()).collect::<Vec<_>>())
        .bind(first.door.code())
        .bind(first.checked)
        .fetch_all(&mut **connection)
        .await?;
        self.faults.step()?;
        Ok(rows.into_iter().map(Accepted::from).collect())
    }
}
