//! Who changed what: written in the transaction of the change, never changed afterwards.

use serde_json::{Map, Value};

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{tenant::TenantId, time::Timestamp};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRow {
    /// In the order of time.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who: an API key's id, or `command line`.
    pub actor: String,
    /// What was done, as `endpoint.update`.
    pub action: String,
    /// To what: an id.
    pub object: String,
    /// Whose it is, if it belongs to a tenant.
    pub tenant: Option<TenantId>,
    /// What else is worth knowing; no secrets.
    pub detail: Map<String, Value>,
}

type Columns = (i64, Timestamp, String, String, String, Option<String>, String);

impl TryFrom<Columns> for AuditRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, at, actor, action, object, tenant, detail) = columns;
        let unreadable = |problem: &dyn std::fmt::Display| {
            StoreError::Unreadable(format!("audit row {id}: {problem}"))
        };
        let tenant = tenant.map(|tenant| TenantId::parse(&tenant)).transpose();
        Ok(Self {
            id,
            at,
            actor,
            action,
            object,
            tenant: tenant.map_err(|error| unreadable(&error))?,
            detail: serde_json::from_str(&detail).map_err(|error| unreadable(&error))?,
        })
    }
}

impl Tx {
    /// Writes a change down.
    pub async fn add_audit(&mut self, row: &AuditRow) -> Result<(), StoreError> {
        let text = "INSERT INTO snaphook.audit (id, at, actor, action, object, tenant, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let detail = serde_json::to_string(&row.detail).expect("a map of JSON values is JSON");
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id)
                .bind(row.at)
                .bind(row.actor.as_str())
                .bind(row.action.as_str())
                .bind(row.object.as_str())
                .bind(row.tenant.as_ref().map(TenantId::as_str))
                .bind(detail)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// All changes, or those of `tenant`, the newest first.
    pub async fn list_audit(
        &mut self,
        tenant: Option<&TenantId>,
        page: Page<i64>,
    ) -> Result<Paged<AuditRow>, StoreError> {
        let text = format!(
            "SELECT id, at, actor, action, object, tenant, detail
             FROM snaphook.audit
             WHERE (CAST($1 AS text) IS NULL OR tenant = $1)
                 AND (CAST($2 AS bigint) IS NULL OR id {beyond} $2)
             ORDER BY id {direction}
             LIMIT $3",
            beyond = page.beyond(Order::Descending),
            direction = page.direction(Order::Descending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(tenant.map(TenantId::as_str))
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<AuditRow>, _> = found.into_iter().map(AuditRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id))
    }
}
