//! Secrets of endpoints, sealed. Each change stamps the endpoint with a new configuration epoch:
//! no request is signed by a secret that was revoked more than a few seconds ago.

use super::{
    Db, StoreError, Tx, json_of, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    id::{EndpointId, SecretId},
    secret_kind::SecretKind,
    tenant::TenantId,
    time::Timestamp,
};

/// A secret as it is kept.
#[derive(Clone, Debug)]
pub struct SecretRow {
    /// Its id.
    pub id: SecretId,
    /// What it signs for.
    pub endpoint: EndpointId,
    /// Whose it is.
    pub tenant: TenantId,
    /// How it signs.
    pub kind: SecretKind,
    /// Its text, sealed.
    pub sealed: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
    /// It signs until then; without end when `None`.
    pub expires_at: Option<Timestamp>,
    /// When it was called back.
    pub revoked_at: Option<Timestamp>,
}

type Columns =
    (SecretId, EndpointId, String, i16, Vec<u8>, Timestamp, Option<Timestamp>, Option<Timestamp>);

/// The columns of [`Columns`], in their order.
macro_rules! columns {
    () => {
        "id, endpoint_id, tenant, kind, sealed, created_at, expires_at, revoked_at"
    };
}

impl TryFrom<Columns> for SecretRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, endpoint, tenant, kind, sealed, created_at, expires_at, revoked_at) = columns;
        let unreadable = |what: &str, problem: &dyn std::fmt::Display| {
            StoreError::Unreadable(format!("{what} of secret {id}: {problem}"))
        };
        Ok(Self {
            id,
            endpoint,
            tenant: TenantId::parse(&tenant).map_err(|error| unreadable("the tenant", &error))?,
            kind: SecretKind::from_code(kind).ok_or_else(|| unreadable("the kind", &kind))?,
            sealed,
            created_at,
            expires_at,
            revoked_at,
        })
    }
}

impl SecretRow {
    /// Whether it signs at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| expires > now)
    }
}

impl Tx {
    /// The secrets that sign for `endpoint` at `now`, the newest first.
    pub async fn list_live_secrets(
        &mut self,
        endpoint: EndpointId,
        now: Timestamp,
    ) -> Result<Vec<SecretRow>, StoreError> {
        let found: Vec<Columns> = on!(
            self,
            concat!(
                "SELECT ",
                columns!(),
                " FROM snaphook.secrets
                 WHERE endpoint_id = $1 AND revoked_at IS NULL
                     AND (expires_at IS NULL OR expires_at > $2)
                 ORDER BY id DESC"
            ),
            |sql, connection| sqlx::query_as(sql)
                .bind(endpoint)
                .bind(now)
                .fetch_all(connection)
                .await
        )?;
        found.into_iter().map(SecretRow::try_from).collect()
    }

    /// The secrets of these endpoints that were not revoked, those that have expired too: for the
    /// engine, which looks at the clock when it signs.
    pub async fn list_secrets_of(
        &mut self,
        endpoints: &[EndpointId],
    ) -> Result<Vec<SecretRow>, StoreError> {
        self.faults.step()?;
        let found: Vec<Columns> = match &mut self.db {
            Db::Postgres(connection) => {
                let text = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM snaphook.secrets WHERE endpoint_id = ANY($1) AND revoked_at IS NULL"
                );
                sqlx::query_as(text).bind(endpoints).fetch_all(&mut **connection).await?
            }
            Db::Sqlite(connection) => {
                let text = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM snaphook_secrets
                     WHERE endpoint_id IN (SELECT value FROM json_each($1)) AND revoked_at IS NULL"
                );
                sqlx::query_as(text)
                    .bind(json_of(endpoints.iter().map(|id| id.0)))
                    .fetch_all(&mut **connection)
                    .await?
            }
        };
        found.into_iter().map(SecretRow::try_from).collect()
    }

    /// One secret of an endpoint, live or not.
    pub async fn find_secret(
        &mut self,
        tenant: &TenantId,
        endpoint: EndpointId,
        id: SecretId,
    ) -> Result<Option<SecretRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.secrets
             WHERE tenant = $1 AND endpoint_id = $2 AND id = $3"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(tenant.as_str())
                .bind(endpoint)
                .bind(id)
                .fetch_optional(connection)
                .await?
        });
        found.map(SecretRow::try_from).transpose()
    }

    /// The secrets of an endpoint, live or not, the newest first.
    pub async fn list_secrets(
        &mut self,
        tenant: &TenantId,
        endpoint: EndpointId,
        page: Page<i64>,
    ) -> Result<Paged<SecretRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.secrets
             WHERE tenant = $1 AND endpoint_id = $2
                 AND (CAST($3 AS bigint) IS NULL OR id {beyond} $3)
             ORDER BY id {direction}
             LIMIT $4",
            columns = columns!(),
            beyond = page.beyond(Order::Descending),
            direction = page.direction(Order::Descending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(tenant.as_str())
                .bind(endpoint)
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<SecretRow>, _> = found.into_iter().map(SecretRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// Keeps a new secret.
    pub async fn add_secret(&mut self, row: &SecretRow) -> Result<(), StoreError> {
        self.touch_endpoint(row.endpoint).await?;
        let text = "INSERT INTO snaphook.secrets
                 (id, endpoint_id, tenant, kind, sealed, created_at, expires_at, revoked_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id)
                .bind(row.endpoint)
                .bind(row.tenant.as_str())
                .bind(row.kind.code())
                .bind(row.sealed.as_slice())
                .bind(row.created_at)
                .bind(row.expires_at)
                .bind(row.revoked_at)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Writes the end of a secret's life: when it expires, when it was revoked.
    pub async fn update_secret(&mut self, row: &SecretRow) -> Result<(), StoreError> {
        self.touch_endpoint(row.endpoint).await?;
        let text = "UPDATE snaphook.secrets
             SET expires_at = $1, revoked_at = $2
             WHERE tenant = $3 AND endpoint_id = $4 AND id = $5";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.expires_at)
                .bind(row.revoked_at)
                .bind(row.tenant.as_str())
                .bind(row.endpoint)
                .bind(row.id)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }
}
