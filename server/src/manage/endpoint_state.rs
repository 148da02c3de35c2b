//! Pausing, resuming and enabling endpoints. What waits keeps its place: nothing is dated anew.

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{
        endpoint_state::EndpointState,
        id::{EndpointId, EventId},
        scope::Actor,
        tenant::TenantId,
    },
    store::{CommandKind, EndpointRow},
};

impl Manage {
    /// Holds all deliveries to an endpoint; new events still make some.
    pub async fn pause_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<EndpointRow, ManageError> {
        self.set_state(actor, tenant, id, EndpointState::Paused, "endpoint.pause").await
    }

    /// Lets a paused endpoint's deliveries go.
    pub async fn resume_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<EndpointRow, ManageError> {
        self.set_state(actor, tenant, id, EndpointState::Active, "endpoint.resume").await
    }

    /// Makes a disabled endpoint active again; what waited goes out, new events make deliveries.
    pub async fn enable_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<EndpointRow, ManageError> {
        self.set_state(actor, tenant, id, EndpointState::Active, "endpoint.enable").await
    }

    async fn set_state(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
        state: EndpointState,
        action: &'static str,
    ) -> Result<EndpointRow, ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        let mut row = found.ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        let enabling = action == "endpoint.enable";
        if row.state == EndpointState::Disabled && !enabling {
            let detail = format!("endpoint {id} is disabled; enable it first");
            return Err(ManageError::conflict("endpoint_disabled", detail));
        }
        // Enabling is about disabled ones alone: it does not resume what its owner paused.
        if row.state == state || (enabling && row.state != EndpointState::Disabled) {
            tx.rollback().await?;
            return Ok(row);
        }
        (row.state, row.state_reason, row.updated_at) = (state, None, self.now());
        tx.update_endpoint(&mut row).await?;
        Deed::new(actor, action, &id).of(tenant).write(&mut tx, &*self.world).await?;
        let command = tx.add_command(row.shard, CommandKind::Look, id, EventId(0)).await?;
        tx.commit().await?;
        self.await_owner(command).await?;
        Ok(row)
    }
}
