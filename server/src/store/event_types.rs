//! Event types that the operator declared, with a JSON Schema by version. Each change counts the
//! configuration epoch up, by which nodes know to compile the schemas again.

use std::collections::BTreeMap;

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{event_type::EventType, time::Timestamp};

/// A declared event type as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTypeRow {
    /// The type.
    pub name: EventType,
    /// For people.
    pub description: String,
    /// A payload as it might be, as JSON text.
    pub example: Option<String>,
    /// Whether it is kept for its history alone.
    pub archived: bool,
    /// When it was declared.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// JSON Schemas as text by version; the empty version is for events that name none.
    pub schemas: BTreeMap<String, String>,
}

type Columns = (String, String, Option<String>, bool, Timestamp, Timestamp);

impl TryFrom<Columns> for EventTypeRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (name, description, example, archived, created_at, updated_at) = columns;
        let name = EventType::parse(&name)
            .map_err(|error| StoreError::Unreadable(format!("event type {name:?}: {error}")))?;
        let schemas = BTreeMap::new();
        Ok(Self { name, description, example, archived, created_at, updated_at, schemas })
    }
}

impl Tx {
    /// One declared type.
    pub async fn find_event_type(
        &mut self,
        name: &EventType,
    ) -> Result<Option<EventTypeRow>, StoreError> {
        let text = "SELECT name, description, example, archived, created_at, updated_at
             FROM snaphook.event_types
             WHERE name = $1";
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(name.as_str()).fetch_optional(connection).await?
        });
        let Some(columns) = found else { return Ok(None) };
        let mut row = EventTypeRow::try_from(columns)?;
        row.schemas = self.list_event_schemas(name.as_str()).await?;
        Ok(Some(row))
    }

    /// Declared types by name. Archived ones only if `archived`.
    pub async fn list_event_types(
        &mut self,
        archived: bool,
        page: Page<String>,
    ) -> Result<Paged<EventTypeRow>, StoreError> {
        let text = format!(
            "SELECT name, description, example, archived, created_at, updated_at
             FROM snaphook.event_types
             WHERE (CAST($1 AS text) IS NULL OR name {beyond} $1) AND (archived = $2 OR NOT archived)
             ORDER BY name {direction}
             LIMIT $3",
            beyond = page.beyond(Order::Ascending),
            direction = page.direction(Order::Ascending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(page.key().cloned())
                .bind(archived)
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<EventTypeRow>, _> =
            found.into_iter().map(EventTypeRow::try_from).collect();
        let mut paged = page.finish(rows?, |row| row.name.to_string());
        for row in &mut paged.rows {
            row.schemas = self.list_event_schemas(row.name.as_str()).await?;
        }
        Ok(paged)
    }

    async fn list_event_schemas(
        &mut self,
        name: &str,
    ) -> Result<BTreeMap<String, String>, StoreError> {
        let text = "SELECT version, schema
             FROM snaphook.event_schemas
             WHERE name = $1
             ORDER BY version";
        let rows: Vec<(String, String)> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(name).fetch_all(connection).await?
        });
        Ok(rows.into_iter().collect())
    }

    /// Keeps a new type with its schemas; `false` if there is one of this name.
    pub async fn add_event_type(&mut self, row: &EventTypeRow) -> Result<bool, StoreError> {
        self.lock_configuration().await?;
        let text = "INSERT INTO snaphook.event_types
                 (name, description, example, archived, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT DO NOTHING";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.name.as_str())
                .bind(row.description.as_str())
                .bind(row.example.as_deref())
                .bind(row.archived)
                .bind(row.created_at)
                .bind(row.updated_at)
                .execute(connection)
                .await?
                .rows_affected()
        });
        if done == 0 {
            return Ok(false);
        }
        self.set_event_schemas(row).await?;
        Ok(true)
    }

    /// Writes a type and its schemas back; `false` if it is gone.
    pub async fn update_event_type(&mut self, row: &EventTypeRow) -> Result<bool, StoreError> {
        self.lock_configuration().await?;
        let text = "UPDATE snaphook.event_types
             SET description = $1, example = $2, archived = $3, updated_at = $4
             WHERE name = $5";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.description.as_str())
                .bind(row.example.as_deref())
                .bind(row.archived)
                .bind(row.updated_at)
                .bind(row.name.as_str())
                .execute(connection)
                .await?
                .rows_affected()
        });
        if done == 0 {
            return Ok(false);
        }
        self.set_event_schemas(row).await?;
        Ok(true)
    }

    /// Forgets a type and its schemas; `false` if there is none.
    pub async fn delete_event_type(&mut self, name: &EventType) -> Result<bool, StoreError> {
        self.lock_configuration().await?;
        self.delete_event_schemas(name).await?;
        let text = "DELETE FROM snaphook.event_types WHERE name = $1";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(name.as_str()).execute(connection).await?.rows_affected()
        });
        self.notify("config").await?;
        Ok(done == 1)
    }

    async fn delete_event_schemas(&mut self, name: &EventType) -> Result<(), StoreError> {
        let text = "DELETE FROM snaphook.event_schemas WHERE name = $1";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(name.as_str()).execute(connection).await.map(drop)
        })?;
        Ok(())
    }

    async fn set_event_schemas(&mut self, row: &EventTypeRow) -> Result<(), StoreError> {
        self.delete_event_schemas(&row.name).await?;
        let text = "INSERT INTO snaphook.event_schemas (name, version, schema)
             VALUES ($1, $2, $3)";
        for (version, schema) in &row.schemas {
            on!(self, text, |sql, connection| {
                sqlx::query(sql)
                    .bind(row.name.as_str())
                    .bind(version.as_str())
                    .bind(schema.as_str())
                    .execute(connection)
                    .await
                    .map(drop)
            })?;
        }
        self.notify("config").await
    }
}
