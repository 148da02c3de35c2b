//! Secrets of sources, sealed. Each change stamps the source with a new configuration epoch, so
//! that every node knows of it within a second.

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    id::{SecretId, SourceId},
    limits::SECRETS_MAX,
    tenant::TenantId,
    time::Timestamp,
};

/// A secret as it is kept.
#[derive(Clone, Debug)]
pub struct SourceSecretRow {
    /// Its id.
    pub id: SecretId,
    /// Whose requests it verifies.
    pub source: SourceId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its text, sealed.
    pub sealed: Vec<u8>,
    /// When it was added.
    pub created_at: Timestamp,
    /// It verifies until then; without end when `None`.
    pub expires_at: Option<Timestamp>,
    /// When it was called back.
    pub revoked_at: Option<Timestamp>,
}

type Columns =
    (SecretId, SourceId, String, Vec<u8>, Timestamp, Option<Timestamp>, Option<Timestamp>);

/// The columns of [`Columns`], in their order.
macro_rules! columns {
    () => {
        "id, source_id, tenant, sealed, created_at, expires_at, revoked_at"
    };
}

impl TryFrom<Columns> for SourceSecretRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, source, tenant, sealed, created_at, expires_at, revoked_at) = columns;
        let tenant = TenantId::parse(&tenant).map_err(|error| {
            StoreError::Unreadable(format!("the tenant of secret {id}: {error}"))
        })?;
        Ok(Self { id, source, tenant, sealed, created_at, expires_at, revoked_at })
    }
}

impl SourceSecretRow {
    /// Whether it verifies at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| expires > now)
    }
}

impl Tx {
    /// The secrets that were not revoked, of sources that changed after `epoch` and are not
    /// deleted; the newest of a source first. Expired ones are among them.
    pub async fn list_source_secrets_changed_since(
        &mut self,
        epoch: i64,
    ) -> Result<Vec<SourceSecretRow>, StoreError> {
        let text = "SELECT s.id, s.source_id, s.tenant, s.sealed, s.created_at, s.expires_at,
                 s.revoked_at
             FROM snaphook.source_secrets s
             JOIN snaphook.sources o ON o.id = s.source_id
             WHERE o.epoch > $1 AND o.deleted_at IS NULL AND s.revoked_at IS NULL
             ORDER BY s.source_id, s.id DESC";
        let found: Vec<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(epoch).fetch_all(connection).await?
        });
        found.into_iter().map(SourceSecretRow::try_from).collect()
    }

    /// The secrets of a source that verify at `now`, the newest first.
    pub async fn list_live_source_secrets(
        &mut self,
        source: SourceId,
        now: Timestamp,
    ) -> Result<Vec<SourceSecretRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.source_secrets
             WHERE source_id = $1 AND revoked_at IS NULL
                 AND (expires_at IS NULL OR expires_at > $2)
             ORDER BY id DESC"
        );
        let found: Vec<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(source).bind(now).fetch_all(connection).await?
        });
        found.into_iter().map(SourceSecretRow::try_from).collect()
    }

    /// One secret of a source, live or not.
    pub async fn find_source_secret(
        &mut self,
        source: SourceId,
        id: SecretId,
    ) -> Result<Option<SourceSecretRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.source_secrets
             WHERE source_id = $1 AND id = $2"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(source).bind(id).fetch_optional(connection).await?
        });
        found.map(SourceSecretRow::try_from).transpose()
    }

    /// The secrets of a source, live or not, the newest first.
    pub async fn list_source_secrets(
        &mut self,
        source: SourceId,
        page: Page<i64>,
    ) -> Result<Paged<SourceSecretRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.source_secrets
             WHERE source_id = $1 AND (CAST($2 AS bigint) IS NULL OR id {beyond} $2)
             ORDER BY id {direction}
             LIMIT $3",
            columns = columns!(),
            beyond = page.beyond(Order::Descending),
            direction = page.direction(Order::Descending),
        );
        let found: Vec<Columns> = on!(self, sqlx::AssertSqlSafe(text), |sql, connection| {
            sqlx::query_as(sql)
                .bind(source)
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await?
        });
        let rows: Result<Vec<SourceSecretRow>, _> =
            found.into_iter().map(SourceSecretRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// Keeps a new secret.
    pub async fn add_source_secret(&mut self, row: &SourceSecretRow) -> Result<(), StoreError> {
        self.touch_source(row.source).await?;
        let text = "INSERT INTO snaphook.source_secrets
                 (id, source_id, tenant, sealed, created_at, expires_at, revoked_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id)
                .bind(row.source)
                .bind(row.tenant.as_str())
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

    /// Keeps the secret that a provider gave in a handshake, if the source waits for one: it has
    /// no live one, or it is armed, which it then is no more. `false` if it does not, because
    /// another request was faster; then nothing must be committed.
    pub async fn add_awaited_source_secret(
        &mut self,
        row: &SourceSecretRow,
    ) -> Result<bool, StoreError> {
        let (source, now) = (row.source, row.created_at);
        self.add_source_secret(row).await?; // first: it takes the lock under which all below is so
        let text = "UPDATE snaphook.sources
             SET armed_until = NULL
             WHERE id = $1 AND armed_until > $2 AND deleted_at IS NULL
             RETURNING id";
        let armed: Option<SourceId> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(source).bind(now).fetch_optional(connection).await?
        });
        let live = self.list_live_source_secrets(source, now).await?.len();
        Ok(live == 1 || (armed.is_some() && live <= SECRETS_MAX))
    }

    /// Writes the end of a secret's life: when it expires, when it was revoked.
    pub async fn update_source_secret(&mut self, row: &SourceSecretRow) -> Result<(), StoreError> {
        self.touch_source(row.source).await?;
        let text = "UPDATE snaphook.source_secrets
             SET expires_at = $1, revoked_at = $2
             WHERE source_id = $3 AND id = $4";
        on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.expires_at)
                .bind(row.revoked_at)
                .bind(row.source)
                .bind(row.id)
                .execute(connection)
                .await
                .map(drop)
        })?;
        Ok(())
    }
}
