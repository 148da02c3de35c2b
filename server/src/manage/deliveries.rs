//! What people do to one delivery: redeliver it, try it now, cancel it. The owner of its shard is
//! told; the tables are right before it hears.

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{id::DeliveryId, scope::Actor, tenant::TenantId},
    store::{CommandKind, EndpointRow, Finished, Row, Slot, Tx},
};

impl Manage {
    /// Starts a new run of a delivery that has ended, with a fresh ladder. Its history stays.
    /// Tells whether the owner has taken it up.
    pub async fn redeliver(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: DeliveryId,
    ) -> Result<bool, ManageError> {
        let mut tx = self.store.begin().await?;
        let endpoint = self.endpoint_of(&mut tx, tenant, id).await?;
        let last = tx.find_last_attempt(id).await?;
        let (attempt, run) = last.ok_or_else(|| waiting(id, "redeliver"))?;
        let row = Row {
            slot: Slot::default(),
            event_id: id.event,
            endpoint_id: id.endpoint,
            tenant: tenant.to_string(),
            shard: endpoint.shard,
            run: run + 1,
            attempt,
            rung: 0,
            due_at: self.due_now(&mut tx, endpoint.settings.kind).await?,
        };
        if tx.lock_row(endpoint.shard, id.event, id.endpoint).await?.is_some()
            || !tx.add_run(&row, endpoint.settings.kind).await?
        {
            return Err(waiting(id, "redeliver"));
        }
        self.tell(tx, actor, "delivery.redeliver", &endpoint, id, CommandKind::Look).await
    }

    /// Makes a waiting delivery due at once. It uses up a rung of its ladder as it would later.
    pub async fn try_now(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: DeliveryId,
    ) -> Result<bool, ManageError> {
        let mut tx = self.store.begin().await?;
        let endpoint = self.endpoint_of(&mut tx, tenant, id).await?;
        let found = tx.lock_row(endpoint.shard, id.event, id.endpoint).await?;
        let mut row = found.ok_or_else(|| ended(id, "try-now"))?;
        row.due_at = row.due_at.min(self.due_now(&mut tx, endpoint.settings.kind).await?);
        if !tx.set_due(&row).await? {
            return Err(claimed(id));
        }
        self.tell(tx, actor, "delivery.try_now", &endpoint, id, CommandKind::Look).await
    }

    /// Calls a waiting delivery off. A request that is on its way cannot be called back; what
    /// comes of it is kept as late.
    pub async fn cancel(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: DeliveryId,
    ) -> Result<bool, ManageError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let endpoint = self.endpoint_of(&mut tx, tenant, id).await?;
        let found = tx.lock_row(endpoint.shard, id.event, id.endpoint).await?;
        let row = found.ok_or_else(|| ended(id, "cancel"))?;
        let detail = serde_json::json!({ "by": actor.name }).to_string();
        let done = tx.complete(&[Finished::canceled(row, now, detail)], now).await?;
        if !done.late.is_empty() {
            return Err(ended(id, "cancel"));
        }
        self.tell(tx, actor, "delivery.cancel", &endpoint, id, CommandKind::LetGo).await
    }

    /// The endpoint of a delivery that exists and is of `tenant`.
    async fn endpoint_of(
        &self,
        tx: &mut Tx,
        tenant: &TenantId,
        id: DeliveryId,
    ) -> Result<EndpointRow, ManageError> {
        let not_found = || ManageError::not_found("delivery", &id);
        let row = tx.find_delivery(Some(tenant), id).await?.ok_or_else(not_found)?;
        let endpoint = tx.find_endpoint(row.id.endpoint).await?.ok_or_else(not_found)?;
        if endpoint.deleted_at.is_some() {
            return Err(ManageError::conflict(
                "endpoint_deleted",
                format!("endpoint {} is deleted; nothing more goes there", endpoint.id),
            ));
        }
        Ok(endpoint)
    }

    async fn tell(
        &self,
        mut tx: Tx,
        actor: &Actor,
        action: &'static str,
        endpoint: &EndpointRow,
        id: DeliveryId,
        kind: CommandKind,
    ) -> Result<bool, ManageError> {
        Deed::new(actor, action, &id).of(&endpoint.tenant).write(&mut tx, &*self.world).await?;
        let command = tx.add_command(endpoint.shard, kind, endpoint.id, id.event).await?;
        tx.commit().await?;
        self.await_owner(command).await
    }
}

fn waiting(id: DeliveryId, verb: &str) -> ManageError {
    ManageError::conflict(
        "delivery_waiting",
        format!("delivery {id} has not ended: there is nothing to {verb}; use try-now"),
    )
}

/// The row is locked: nothing but a claim can be in the way.
fn claimed(id: DeliveryId) -> ManageError {
    ManageError::conflict(
        "delivery_claimed",
        format!("a consumer has delivery {id}; it is due again when its lease ends"),
    )
}

fn ended(id: DeliveryId, verb: &str) -> ManageError {
    ManageError::conflict(
        "delivery_ended",
        format!("delivery {id} has ended: there is nothing to {verb}; use redeliver"),
    )
}
