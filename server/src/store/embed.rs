//! Emitting on a connection of a caller's own, in whatever transaction it has open. Only what
//! other programs may use too is used here (`snaphook.emit`, `snaphook_outbox`), for the program
//! around us may be older than the schema.

use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};

use crate::domain::{emit::Emit, id::EventId};

/// A connection, or a transaction, on which an event can be emitted: of PostgreSQL or of SQLite.
pub trait EmitConnection: sealed::EmitEach + Send {}

mod sealed {
    use super::{Emit, EventId};

    /// Out of reach for other crates, so that nothing else becomes an [`super::EmitConnection`].
    pub trait EmitEach {
        /// Emits each, in their order, and gives their ids. All of them were checked.
        fn emit_each(
            &mut self,
            events: &[Emit<'_>],
        ) -> impl Future<Output = Result<Vec<EventId>, sqlx::Error>> + Send;
    }
}

impl EmitConnection for PgConnection {}
impl EmitConnection for SqliteConnection {}
impl EmitConnection for Transaction<'_, Postgres> {}
impl EmitConnection for Transaction<'_, Sqlite> {}

impl sealed::EmitEach for Transaction<'_, Postgres> {
    async fn emit_each(&mut self, events: &[Emit<'_>]) -> Result<Vec<EventId>, sqlx::Error> {
        (**self).emit_each(events).await
    }
}

impl sealed::EmitEach for Transaction<'_, Sqlite> {
    async fn emit_each(&mut self, events: &[Emit<'_>]) -> Result<Vec<EventId>, sqlx::Error> {
        (**self).emit_each(events).await
    }
}

impl sealed::EmitEach for PgConnection {
    async fn emit_each(&mut self, events: &[Emit<'_>]) -> Result<Vec<EventId>, sqlx::Error> {
        let texts = match events {
            [] => Vec::new(),
            [event] => vec![
                sqlx::query_scalar::<_, String>("SELECT snaphook.emit($1, $2, $3, $4, $5, $6, $7)")
                    .bind(&*event.tenant)
                    .bind(&*event.event_type)
                    .bind(&*event.data)
                    .bind(event.key.as_deref())
                    .bind(event.version.as_deref())
                    .bind(event.occurred_at)
                    .bind(event.traceparent.as_deref())
                    .fetch_one(self)
                    .await?,
            ],
            events => {
                sqlx::query_scalar("SELECT snaphook.emit_many($1, $2, $3, $4, $5, $6, $7)")
                    .bind(events.iter().map(|event| &*event.tenant).collect::<Vec<_>>())
                    .bind(events.iter().map(|event| &*event.event_type).collect::<Vec<_>>())
                    .bind(events.iter().map(|event| &*event.data).collect::<Vec<_>>())
                    .bind(events.iter().map(|event| event.key.as_deref()).collect::<Vec<_>>())
                    .bind(events.iter().map(|event| event.version.as_deref()).collect::<Vec<_>>())
                    .bind(events.iter().map(|event| event.occurred_at).collect::<Vec<_>>())
                    .bind(
                        events.iter().map(|event| event.traceparent.as_deref()).collect::<Vec<_>>(),
                    )
                    .fetch_one(self)
                    .await?
            }
        };
        let read =
            |text: &String| text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)));
        texts.iter().map(read).collect()
    }
}

impl sealed::EmitEach for SqliteConnection {
    async fn emit_each(&mut self, events: &[Emit<'_>]) -> Result<Vec<EventId>, sqlx::Error> {
        let mut ids = Vec::with_capacity(events.len());
        for event in events {
            // What a trigger made cannot be returned, but it can be looked up while we return:
            // in the same statement, so that no other writer comes between.
            let insert = sqlx::query_scalar(
                "INSERT INTO snaphook_outbox
                     (tenant, type, data, key, version, occurred_at, traceparent)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)
                 RETURNING (SELECT event_id FROM snaphook_sequence)",
            );
            let id: i64 = insert
                .bind(&*event.tenant)
                .bind(&*event.event_type)
                .bind(&*event.data)
                .bind(event.key.as_deref())
                .bind(event.version.as_deref())
                .bind(event.occurred_at.map(|time| time.to_string()))
                .bind(event.traceparent.as_deref())
                .fetch_one(&mut *self)
                .await?;
            ids.push(EventId(id));
        }
        Ok(ids)
    }
}
