//! What is kept of a tenant. Events and deliveries name tenants as text and need no row here.

use serde_json::{Map, Value};

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{tenant::TenantId, time::Timestamp};

/// A tenant as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantRow {
    /// The operator's own key for its customer.
    pub id: TenantId,
    /// Whom notices about it go to.
    pub owner_email: Option<String>,
    /// The operator's notes; never read by snaphook.
    pub metadata: Map<String, Value>,
    /// Limits of this tenant alone.
    pub limits: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

type Columns = (String, Option<String>, String, String, Timestamp, Timestamp);

impl TryFrom<Columns> for TenantRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, owner_email, metadata, limits, created_at, updated_at) = columns;
        let unreadable = |what: &str, problem: &dyn std::fmt::Display| {
            StoreError::Unreadable(format!("{what} of tenant {id:?}: {problem}"))
        };
        Ok(Self {
            owner_email,
            metadata: serde_json::from_str(&metadata)
                .map_err(|error| unreadable("the metadata", &error))?,
            limits: serde_json::from_str(&limits)
                .map_err(|error| unreadable("the limits", &error))?,
            created_at,
            updated_at,
            id: TenantId::parse(&id).map_err(|error| unreadable("the id", &error))?,
        })
    }
}

impl Tx {
    /// One tenant.
    pub async fn find_tenant(&mut self, id: &TenantId) -> Result<Option<TenantRow>, StoreError> {
        let text = "SELECT id, owner_email, metadata, limits, created_at, updated_at
             FROM snaphook.tenants
             WHERE id = $1";
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(id.as_str()).fetch_optional(connection).await?
        });
        found.map(TenantRow::try_from).transpose()
    }

    /// Tenants by their ids.
    pub async fn list_tenants(
        &mut self,
        page: Page<String>,
    ) -> Result<Paged<TenantRow>, StoreError> {
        let text = format!(
            "SELECT id, owner_email, metadata, limits, created_at, updated_at
             FROM snaphook.tenants
             WHERE CAST($1 AS text) IS NULL OR id {beyond} $1
             ORDER BY id {direction}
             LIMIT $2",
            beyond = page.beyond(Order::Ascending),
            direction = page.direction(Order::Ascending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(page.key().cloned())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<TenantRow>, _> = found.into_iter().map(TenantRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.to_string()))
    }

    /// Keeps a new tenant; `false` if there is one of this id.
    pub async fn add_tenant(&mut self, row: &TenantRow) -> Result<bool, StoreError> {
        let text = "INSERT INTO snaphook.tenants
                 (id, owner_email, metadata, limits, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT DO NOTHING";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id.as_str())
                .bind(row.owner_email.as_deref())
                .bind(json_of(&row.metadata))
                .bind(json_of(&row.limits))
                .bind(row.created_at)
                .bind(row.updated_at)
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    /// Writes a tenant back; `false` if it is gone.
    pub async fn update_tenant(&mut self, row: &TenantRow) -> Result<bool, StoreError> {
        let text = "UPDATE snaphook.tenants
             SET owner_email = $1, metadata = $2, limits = $3, updated_at = $4
             WHERE id = $5";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.owner_email.as_deref())
                .bind(json_of(&row.metadata))
                .bind(json_of(&row.limits))
                .bind(row.updated_at)
                .bind(row.id.as_str())
                .execute(connection)
                .await?
                .rows_affected()
        });
        Ok(done == 1)
    }

    /// Forgets a tenant's row; what belongs to it is for the caller to end. `false` if there is
    /// none.
    pub async fn delete_tenant(&mut self, id: &TenantId) -> Result<bool, StoreError> {
        let text = "DELETE FROM snaphook.tenants WHERE id = $1";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(id.as_str()).execute(connection).await?.rows_affected()
        });
        Ok(done == 1)
    }
}

fn json_of(map: &Map<String, Value>) -> String {
    serde_json::to_string(map).expect("a map of JSON values is JSON")
}
