//! Sources as they are kept. As with endpoints, each change counts the installation's
//! configuration epoch up in the same transaction and stamps the row with it.
//!
//! A source is named by its token, which nobody guesses; what belongs to it refers to its number.

use super::{
    StoreError, Tx, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    id::SourceId,
    source::{SourceSettings, SourceState, SourceToken},
    tenant::TenantId,
    time::Timestamp,
};

/// A source as it is kept.
#[derive(Clone, Debug)]
pub struct SourceRow {
    /// How other tables refer to it.
    pub id: SourceId,
    /// Its id for people, which stands in its URL.
    pub token: SourceToken,
    /// Whose it is.
    pub tenant: TenantId,
    /// Whether what it takes goes on.
    pub state: SourceState,
    /// Since when. Kept by the statements here; what is set is not looked at.
    pub state_since: Timestamp,
    /// Until then a handshake may set its secret anew.
    pub armed_until: Option<Timestamp>,
    /// What its owner has set, without what is sealed.
    pub settings: SourceSettings,
    /// The sealed rest of the settings, if there is any.
    pub sealed: Option<Vec<u8>>,
    /// Whether a table of the settings file made it, so that it is changed there.
    pub from_file: bool,
    /// The configuration epoch of its last change.
    pub epoch: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its settings or state last changed.
    pub updated_at: Timestamp,
    /// When it was deleted; such a row is kept for the history of its events.
    pub deleted_at: Option<Timestamp>,
}

type Columns = (
    SourceId,
    String,
    String,
    i16,
    Timestamp,
    Option<Timestamp>,
    String,
    Option<Vec<u8>>,
    bool,
    i64,
    Timestamp,
    Timestamp,
    Option<Timestamp>,
);

/// The columns of [`Columns`], in their order.
macro_rules! columns {
    () => {
        "id, token, tenant, state, state_since, armed_until, settings, sealed, from_file, epoch, \
         created_at, updated_at, deleted_at"
    };
}

impl TryFrom<Columns> for SourceRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, token, tenant, state, state_since, armed_until, settings, sealed, ..) = columns;
        let (.., from_file, epoch, created_at, updated_at, deleted_at) = columns;
        let unreadable = |what: &str, problem: &dyn std::fmt::Display| {
            StoreError::Unreadable(format!("{what} of source {token}: {problem}"))
        };
        Ok(Self {
            id,
            tenant: TenantId::parse(&tenant).map_err(|error| unreadable("the tenant", &error))?,
            state: SourceState::from_code(state).ok_or_else(|| unreadable("the state", &state))?,
            state_since,
            armed_until,
            settings: serde_json::from_str(&settings)
                .map_err(|error| unreadable("the settings", &error))?,
            sealed,
            from_file,
            epoch,
            created_at,
            updated_at,
            deleted_at,
            token: token.parse().map_err(|error| unreadable("the id", &error))?,
        })
    }
}

impl Tx {
    /// A source that is not deleted; only `tenant`'s, if one is given.
    pub async fn find_source(
        &mut self,
        tenant: Option<&TenantId>,
        token: &SourceToken,
    ) -> Result<Option<SourceRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.sources
             WHERE token = $1 AND deleted_at IS NULL
                 AND (CAST($2 AS text) IS NULL OR tenant = $2)"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql)
                .bind(token.as_str())
                .bind(tenant.map(TenantId::as_str))
                .fetch_optional(connection)
                .await?
        });
        found.map(SourceRow::try_from).transpose()
    }

    /// A source by its number, a deleted one too.
    pub async fn find_source_by_id(
        &mut self,
        id: SourceId,
    ) -> Result<Option<SourceRow>, StoreError> {
        let text = concat!("SELECT ", columns!(), " FROM snaphook.sources WHERE id = $1");
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(id).fetch_optional(connection).await?
        });
        found.map(SourceRow::try_from).transpose()
    }

    /// The source of this name, of those of `tenant` that are not deleted.
    pub async fn find_source_named(
        &mut self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<SourceRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.sources
             WHERE tenant = $1 AND name = $2 AND deleted_at IS NULL"
        );
        let found: Option<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(tenant.as_str()).bind(name).fetch_optional(connection).await?
        });
        found.map(SourceRow::try_from).transpose()
    }

    /// The ids by which people know these sources, deleted ones too.
    pub async fn list_source_tokens(
        &mut self,
        ids: &[SourceId],
    ) -> Result<Vec<(SourceId, SourceToken)>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let token: Option<String> =
                on!(self, "SELECT token FROM snaphook.sources WHERE id = $1", |sql, connection| {
                    sqlx::query_scalar(sql).bind(id).fetch_optional(connection).await?
                });
            if let Some(token) = token {
                let token = token.parse().map_err(|error| {
                    StoreError::Unreadable(format!("the id of source {}: {error}", id.0))
                })?;
                found.push((*id, token));
            }
        }
        Ok(found)
    }

    /// Sources, the newest first; only `tenant`'s, if one is given.
    pub async fn list_sources(
        &mut self,
        tenant: Option<&TenantId>,
        page: Page<i64>,
    ) -> Result<Paged<SourceRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.sources
             WHERE deleted_at IS NULL AND (CAST($1 AS text) IS NULL OR tenant = $1)
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
        let rows: Result<Vec<SourceRow>, _> = found.into_iter().map(SourceRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// What changed after `epoch`, deleted sources too, in the order of the changes. One that cannot
    /// be read, for a newer version wrote it, is no reason to do without the others.
    pub async fn list_sources_changed_since(
        &mut self,
        epoch: i64,
    ) -> Result<Vec<Result<SourceRow, StoreError>>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.sources WHERE epoch > $1 ORDER BY epoch, id"
        );
        let found: Vec<Columns> = on!(self, text, |sql, connection| {
            sqlx::query_as(sql).bind(epoch).fetch_all(connection).await?
        });
        Ok(found.into_iter().map(SourceRow::try_from).collect())
    }

    /// The sources that tables of the settings file made.
    pub async fn list_file_sources(&mut self) -> Result<Vec<SourceRow>, StoreError> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM snaphook.sources WHERE from_file AND deleted_at IS NULL ORDER BY id"
        );
        let found: Vec<Columns> =
            on!(self, text, |sql, connection| sqlx::query_as(sql).fetch_all(connection).await?);
        found.into_iter().map(SourceRow::try_from).collect()
    }

    /// How many sources `tenant` has.
    pub async fn count_sources(&mut self, tenant: &TenantId) -> Result<i64, StoreError> {
        let text = "SELECT count(*) FROM snaphook.sources
             WHERE tenant = $1 AND deleted_at IS NULL";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(tenant.as_str()).fetch_one(connection).await
        })?)
    }

    /// Keeps a new source; `false` if the tenant has one of its name. `epoch` of `row` is set here.
    pub async fn add_source(&mut self, row: &mut SourceRow) -> Result<bool, StoreError> {
        row.epoch = self.lock_configuration().await?;
        let text = "INSERT INTO snaphook.sources
                 (id, token, tenant, name, state, armed_until, settings, sealed, from_file, epoch,
                  created_at, updated_at, state_since)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $11)
             ON CONFLICT DO NOTHING";
        let settings = text_of(&row.settings)?;
        let done = on!(self, text, |sql, connection| {
            sqlx::query(sql)
                .bind(row.id)
                .bind(row.token.as_str())
                .bind(row.tenant.as_str())
                .bind(row.settings.name.as_str())
                .bind(row.state.code())
                .bind(row.armed_until)
                .bind(settings)
                .bind(row.sealed.as_deref())
                .bind(row.from_file)
                .bind(row.epoch)
                .bind(row.created_at)
                .bind(row.updated_at)
                .execute(connection)
                .await?
                .rows_affected()
        });
        self.notify("config").await?;
        Ok(done == 1)
    }

    /// Writes settings, state and deletion of `row` back, if nobody changed it since it was read;
    /// `false` otherwise. That its name is free is for the caller to know, who holds the lock of
    /// the configuration. `epoch` of `row` is set here.
    pub async fn update_source(&mut self, row: &mut SourceRow) -> Result<bool, StoreError> {
        let seen = row.epoch;
        let epoch = self.lock_configuration().await?;
        let text = "UPDATE snaphook.sources
             SET name = $1, state = $2, armed_until = $3, settings = $4, sealed = $5,
                 from_file = $6, updated_at = $7, deleted_at = $8, epoch = $9,
                 state_since = CASE state WHEN $2 THEN state_since ELSE $7 END
             WHERE id = $10 AND tenant = $11 AND epoch = $12 AND deleted_at IS NULL
             RETURNING epoch";
        let settings = text_of(&row.settings)?;
        let changed: Option<i64> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql)
                .bind(row.settings.name.as_str())
                .bind(row.state.code())
                .bind(row.armed_until)
                .bind(settings)
                .bind(row.sealed.as_deref())
                .bind(row.from_file)
                .bind(row.updated_at)
                .bind(row.deleted_at)
                .bind(epoch)
                .bind(row.id)
                .bind(row.tenant.as_str())
                .bind(seen)
                .fetch_optional(connection)
                .await?
        });
        if changed.is_none() {
            return Ok(false);
        }
        row.epoch = epoch;
        self.notify("config").await?;
        Ok(true)
    }

    /// Stamps a source with a new epoch, because something that belongs to it changed.
    pub(super) async fn touch_source(&mut self, id: SourceId) -> Result<(), StoreError> {
        let epoch = self.lock_configuration().await?;
        let text = "UPDATE snaphook.sources
             SET epoch = $1
             WHERE id = $2";
        on!(self, text, |sql, connection| {
            sqlx::query(sql).bind(epoch).bind(id).execute(connection).await.map(drop)
        })?;
        self.notify("config").await
    }
}

fn text_of(settings: &SourceSettings) -> Result<String, StoreError> {
    serde_json::to_string(settings)
        .map_err(|error| StoreError::Unreadable(format!("the settings: {error}")))
}
