//! API keys. Of a key's text only the SHA-256 is kept: 256 random bits need no slow hash.

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{id::ApiKeyId, scope::Scopes, tenant::TenantId, time::Timestamp};

/// An API key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Its id, which is not its text.
    pub id: ApiKeyId,
    /// For people.
    pub name: String,
    /// `None`: the operator's.
    pub tenant: Option<TenantId>,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// It is good until then; without end when `None`.
    pub expires_at: Option<Timestamp>,
    /// When it was called back.
    pub revoked_at: Option<Timestamp>,
}

type Columns =
    (ApiKeyId, String, Option<String>, String, Timestamp, Option<Timestamp>, Option<Timestamp>);

macro_rules! columns {
    () => {
        "id, name, tenant, scopes, created_at, expires_at, revoked_at"
    };
}

impl TryFrom<Columns> for ApiKeyRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, name, tenant, scopes, created_at, expires_at, revoked_at) = columns;
        let tenant =
            tenant.map(|tenant| TenantId::parse(&tenant)).transpose().map_err(|error| {
                StoreError::Unreadable(format!("the tenant of API key {id}: {error}"))
            })?;
        let scopes = Scopes::from_text(&scopes);
        Ok(Self { id, name, tenant, scopes, created_at, expires_at, revoked_at })
    }
}

impl ApiKeyRow {
    /// Whether it is good at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| expires > now)
    }
}

impl Tx {
    /// The key whose text has this SHA-256, live or not.
    pub async fn find_api_key_by_hash(
        &mut self,
        hash: &[u8],
    ) -> Result<Option<ApiKeyRow>, StoreError> {
        let text = concat!("SELECT ", columns!(), " FROM snaphook.api_keys WHERE hash = $1");
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(hash).fetch_optional(connection).await?
        });
        found.map(ApiKeyRow::try_from).transpose()
    }

    /// A key by its id; of `tenant` alone, if one is given.
    pub async fn find_api_key(
        &mut self,
        tenant: Option<&TenantId>,
        id: ApiKeyId,
    ) -> Result<Option<ApiKeyRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.api_keys
             WHERE id = $1 AND (CAST($2 AS text) IS NULL OR tenant = $2)"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(id)
                .bind(tenant.map(TenantId::as_str))
                .fetch_optional(connection)
                .await?
        });
        found.map(ApiKeyRow::try_from).transpose()
    }

    /// All keys, or those of `tenant`, the newest first.
    pub async fn list_api_keys(
        &mut self,
        tenant: Option<&TenantId>,
        page: Page<i64>,
    ) -> Result<Paged<ApiKeyRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.api_keys
             WHERE (CAST($1 AS text) IS NULL OR tenant = $1)
                 AND (CAST($2 AS bigint) IS NULL OR id {beyond} $2)
             ORDER BY id {direction}
             LIMIT $3",
            columns = columns!(),
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
        let rows: Result<Vec<ApiKeyRow>, _> = found.into_iter().map(ApiKeyRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// Keeps a new key under the SHA-256 of its text.
    pub async fn add_api_key(&mut self, row: &ApiKeyRow, hash: &[u8]) -> Result<(), StoreError> {
        let text = "INSERT INTO snaphook.api_keys
                 (id, hash, name, tenant, scopes, created_at, expires_at, revoked_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id)
                .bind(hash)
                .bind(row.name.as_str())
                .bind(row.tenant.as_ref().map(TenantId::as_str))
                .bind(row.scopes.to_string())
                .bind(row.created_at)
                .bind(row.expires_at)
                .bind(row.revoked_at)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Revokes a key; `false` if it was revoked before.
    pub async fn revoke_api_key(
        &mut self,
        id: ApiKeyId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let text = "UPDATE snaphook.api_keys
             SET revoked_at = $1
             WHERE id = $2 AND revoked_at IS NULL";
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(now).bind(id).execute(connection).await?.rows_affected()
        });
        Ok(done == 1)
    }

    /// Revokes all keys of a tenant.
    pub async fn revoke_tenant_api_keys(
        &mut self,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let text = "UPDATE snaphook.api_keys
             SET revoked_at = $1
             WHERE tenant = $2 AND revoked_at IS NULL";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(now).bind(tenant.as_str()).execute(connection).await.map(drop)
        })?;
        Ok(())
    }
}
