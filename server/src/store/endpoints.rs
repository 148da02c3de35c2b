//! Endpoints as they are kept. Each change counts the installation's configuration epoch up in
//! the same transaction and stamps the row with it: a node that has seen epoch `n` reads what
//! came after it. The counter's row stays locked until the commit, so epochs become visible in
//! their order.
//!
//! Header values and private keys are sealed before they come here; this file sees bytes.

use super::{
    Db, StoreError, Tx, json_of, on,
    page::{Order, Page, Paged},
};
use crate::domain::{
    endpoint::EndpointSettings, endpoint_state::EndpointState, health::Health, id::EndpointId,
    shard::shard_of, tenant::TenantId, time::Timestamp,
};

/// An endpoint as it is kept.
#[derive(Clone, Debug)]
pub struct EndpointRow {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Where its deliveries are.
    pub shard: i16,
    /// Whether it takes deliveries.
    pub state: EndpointState,
    /// Why it does not, for people.
    pub state_reason: Option<String>,
    /// Since when. Kept by the statements here; what is set is not looked at.
    pub state_since: Timestamp,
    /// Whether what it held is being discarded; then it becomes active.
    pub discarding: bool,
    /// What its owner has set, without what is sealed. `url` is in its stored form.
    pub settings: EndpointSettings,
    /// The sealed rest of the settings, if there is any.
    pub sealed: Option<Vec<u8>>,
    /// Health and circuit, written by the shard's owner, with `health.rs` alone.
    pub health: Health,
    /// The configuration epoch of its last change.
    pub epoch: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its settings or state last changed.
    pub updated_at: Timestamp,
    /// When it was deleted; such a row is kept for the history of its deliveries.
    pub deleted_at: Option<Timestamp>,
}

type Columns = (
    EndpointId,
    String,
    i16,
    i16,
    Option<String>,
    Timestamp,
    bool,
    String,
    Option<Vec<u8>>,
    String,
    i64,
    Timestamp,
    Timestamp,
    Option<Timestamp>,
);

/// The columns of [`Columns`], in their order.
macro_rules! columns {
    () => {
        "id, tenant, shard, state, state_reason, state_since, discarding, settings, sealed, health, \
         epoch, created_at, updated_at, deleted_at"
    };
}

impl TryFrom<Columns> for EndpointRow {
    type Error = StoreError;

    fn try_from(columns: Columns) -> Result<Self, StoreError> {
        let (id, tenant, shard, state, state_reason, state_since, discarding, ..) = columns;
        let (.., settings, sealed, health, epoch, created_at, updated_at, deleted_at) = columns;
        let unreadable = |what: &str, problem: &dyn std::fmt::Display| {
            StoreError::Unreadable(format!("{what} of endpoint {id}: {problem}"))
        };
        Ok(Self {
            id,
            tenant: TenantId::parse(&tenant).map_err(|error| unreadable("the tenant", &error))?,
            shard,
            state: EndpointState::from_code(state)
                .ok_or_else(|| unreadable("the state", &state))?,
            state_reason,
            state_since,
            discarding,
            settings: serde_json::from_str(&settings)
                .map_err(|error| unreadable("the settings", &error))?,
            sealed,
            health: Health::from_json(&health),
            epoch,
            created_at,
            updated_at,
            deleted_at,
        })
    }
}

impl Tx {
    /// The epoch of the latest change to any configuration.
    pub async fn config_epoch(&mut self) -> Result<i64, StoreError> {
        Ok(on!(self, "SELECT config_epoch FROM snaphook.install", |sql, connection| {
            sqlx::query_scalar(sql).fetch_one(connection).await
        })?)
    }

    /// Counts the epoch up. Every writer of configuration does so before it reads what it will
    /// change: two of them wait for each other here, and nowhere else.
    pub async fn lock_configuration(&mut self) -> Result<i64, StoreError> {
        Ok(on!(
            self,
            "UPDATE snaphook.install
             SET config_epoch = config_epoch + 1
             RETURNING config_epoch",
            |sql, connection| sqlx::query_scalar(sql).fetch_one(connection).await
        )?)
    }

    /// An endpoint by its id alone, deleted ones too: for the engine. Doors name the tenant.
    pub async fn find_endpoint(
        &mut self,
        id: EndpointId,
    ) -> Result<Option<EndpointRow>, StoreError> {
        Ok(self.list_endpoints_by_id(&[id]).await?.pop())
    }

    /// The endpoints of these ids, deleted ones too, in no order. An id that is not there has none.
    pub async fn list_endpoints_by_id(
        &mut self,
        ids: &[EndpointId],
    ) -> Result<Vec<EndpointRow>, StoreError> {
        self.faults.step()?;
        let found: Vec<Columns> = match &mut self.db {
            Db::Postgres(connection) => {
                let text =
                    concat!("SELECT ", columns!(), " FROM snaphook.endpoints WHERE id = ANY($1)");
                sqlx::query_as(text).bind(ids).fetch_all(&mut **connection).await?
            }
            Db::Sqlite(connection) => {
                let text = concat!(
                    "SELECT ",
                    columns!(),
                    " FROM snaphook_endpoints WHERE id IN (SELECT value FROM json_each($1))"
                );
                sqlx::query_as(text)
                    .bind(json_of(ids.iter().map(|id| id.0)))
                    .fetch_all(&mut **connection)
                    .await?
            }
        };
        found.into_iter().map(EndpointRow::try_from).collect()
    }

    /// What changed after `epoch`, deleted endpoints too, in the order of the changes.
    pub async fn list_endpoints_changed_since(
        &mut self,
        epoch: i64,
    ) -> Result<Vec<EndpointRow>, StoreError> {
        let found: Vec<Columns> = on!(
            self,
            concat!(
                "SELECT ",
                columns!(),
                " FROM snaphook.endpoints WHERE epoch > $1 ORDER BY epoch, id"
            ),
            |sql, connection| sqlx::query_as(sql).bind(epoch).fetch_all(connection).await
        )?;
        found.into_iter().map(EndpointRow::try_from).collect()
    }

    /// An endpoint of `tenant` that is not deleted.
    pub async fn find_tenant_endpoint(
        &mut self,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<Option<EndpointRow>, StoreError> {
        let found: Option<Columns> = on!(
            self,
            concat!(
                "SELECT ",
                columns!(),
                " FROM snaphook.endpoints WHERE tenant = $1 AND id = $2 AND deleted_at IS NULL"
            ),
            |sql, connection| sqlx::query_as(sql)
                .bind(tenant.as_str())
                .bind(id)
                .fetch_optional(connection)
                .await
        )?;
        found.map(EndpointRow::try_from).transpose()
    }

    /// The endpoints of `tenant`, the newest first.
    pub async fn list_endpoints(
        &mut self,
        tenant: &TenantId,
        page: Page<i64>,
    ) -> Result<Paged<EndpointRow>, StoreError> {
        let text = format!(
            "SELECT {columns}
             FROM snaphook.endpoints
             WHERE tenant = $1 AND deleted_at IS NULL
                 AND (CAST($2 AS bigint) IS NULL OR id {beyond} $2)
             ORDER BY id {direction}
             LIMIT $3",
            columns = columns!(),
            beyond = page.beyond(Order::Descending),
            direction = page.direction(Order::Descending),
        );
        let found: Vec<Columns> =
            on!(self, sqlx::AssertSqlSafe(text), |sql, connection| sqlx::query_as(sql)
                .bind(tenant.as_str())
                .bind(page.key().copied())
                .bind(page.fetch())
                .fetch_all(connection)
                .await)?;
        let rows: Result<Vec<EndpointRow>, _> =
            found.into_iter().map(EndpointRow::try_from).collect();
        Ok(page.finish(rows?, |row| row.id.0))
    }

    /// How many endpoints `tenant` has.
    pub async fn count_endpoints(&mut self, tenant: &TenantId) -> Result<i64, StoreError> {
        let text = "SELECT count(*) FROM snaphook.endpoints
             WHERE tenant = $1 AND deleted_at IS NULL";
        Ok(on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(tenant.as_str()).fetch_one(connection).await
        })?)
    }

    /// Keeps a new endpoint and its subscriptions. `shard` and `epoch` of `row` are set here.
    pub async fn add_endpoint(&mut self, row: &mut EndpointRow) -> Result<(), StoreError> {
        row.epoch = self.lock_configuration().await?;
        row.shard = shard_of(row.id);
        let settings = text_of(&row.settings)?;
        on!(
            self,
            "INSERT INTO snaphook.endpoints
                 (id, tenant, shard, url, state, state_reason, settings, sealed, epoch,
                  created_at, updated_at, state_since)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $10)",
            |sql, connection| sqlx::query(sql)
                .bind(row.id)
                .bind(row.tenant.as_str())
                .bind(row.shard)
                .bind(row.settings.url.as_str())
                .bind(row.state.code())
                .bind(row.state_reason.as_deref())
                .bind(settings)
                .bind(row.sealed.as_deref())
                .bind(row.epoch)
                .bind(row.created_at)
                .bind(row.updated_at)
                .execute(connection)
                .await
                .map(drop)
        )?;
        self.set_subscriptions(row).await?;
        self.notify("config").await
    }

    /// Writes settings, state and deletion of `row` back, if nobody changed it since it was read;
    /// `false` otherwise. Its subscriptions follow, its `epoch` is set here.
    pub async fn update_endpoint(&mut self, row: &mut EndpointRow) -> Result<bool, StoreError> {
        let seen = row.epoch;
        let epoch = self.lock_configuration().await?;
        let settings = text_of(&row.settings)?;
        let changed: Option<i64> = on!(
            self,
            "UPDATE snaphook.endpoints
             SET url = $1, state = $2, state_reason = $3, settings = $4, sealed = $5,
                 updated_at = $6, deleted_at = $7, epoch = $8, discarding = $12,
                 state_since = CASE state WHEN $2 THEN state_since ELSE $6 END
             WHERE id = $9 AND tenant = $10 AND epoch = $11 AND deleted_at IS NULL
             RETURNING epoch",
            |sql, connection| sqlx::query_scalar(sql)
                .bind(row.settings.url.as_str())
                .bind(row.state.code())
                .bind(row.state_reason.as_deref())
                .bind(settings)
                .bind(row.sealed.as_deref())
                .bind(row.updated_at)
                .bind(row.deleted_at)
                .bind(epoch)
                .bind(row.id)
                .bind(row.tenant.as_str())
                .bind(seen)
                .bind(row.discarding)
                .fetch_optional(connection)
                .await
        )?;
        if changed.is_none() {
            return Ok(false);
        }
        row.epoch = epoch;
        self.set_subscriptions(row).await?;
        self.notify("config").await?;
        Ok(true)
    }

    /// Stamps an endpoint with a new epoch, because something that belongs to it changed.
    pub(super) async fn touch_endpoint(&mut self, id: EndpointId) -> Result<(), StoreError> {
        let epoch = self.lock_configuration().await?;
        on!(
            self,
            "UPDATE snaphook.endpoints
             SET epoch = $1
             WHERE id = $2",
            |sql, connection| sqlx::query(sql)
                .bind(epoch)
                .bind(id)
                .execute(connection)
                .await
                .map(drop)
        )?;
        self.notify("config").await
    }
}

fn text_of(settings: &EndpointSettings) -> Result<String, StoreError> {
    serde_json::to_string(settings)
        .map_err(|error| StoreError::Unreadable(format!("the settings: {error}")))
}
