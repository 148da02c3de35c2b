//! Pausing, resuming, enabling and probing endpoints. What waits keeps its place: nothing is dated
//! anew. Each tells the row as it is then, and whether the owner of its shard has heard.

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{
        circuit::CircuitState,
        endpoint_state::EndpointState,
        health::Health,
        id::{EndpointId, EventId},
        scope::Actor,
        tenant::TenantId,
    },
    store::{CommandKind, EndpointRow, Tx},
};

/// An endpoint after a change, and whether the owner of its shard has heard of it.
type Told = Result<(EndpointRow, bool), ManageError>;

/// What becomes of what a disabled endpoint held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Held {
    /// It goes out.
    #[default]
    Send,
    /// It ends without a request, as dead of `disabled`.
    Discard,
}

impl Manage {
    /// Holds all deliveries to an endpoint; new events still make some.
    pub async fn pause_endpoint(&self, actor: &Actor, tenant: &TenantId, id: EndpointId) -> Told {
        let (tx, row) = self.begin_with_endpoint(tenant, id).await?;
        refuse_disabled(&row)?;
        if row.state == EndpointState::Paused {
            return unchanged(tx, row).await;
        }
        self.set_state(tx, row, EndpointState::Paused, actor, "endpoint.pause").await
    }

    /// Lets a paused endpoint's deliveries go.
    pub async fn resume_endpoint(&self, actor: &Actor, tenant: &TenantId, id: EndpointId) -> Told {
        let (tx, row) = self.begin_with_endpoint(tenant, id).await?;
        refuse_disabled(&row)?;
        if row.state == EndpointState::Active {
            return unchanged(tx, row).await;
        }
        self.set_state(tx, row, EndpointState::Active, actor, "endpoint.resume").await
    }

    /// Makes a disabled endpoint active again, and what it held goes out; or, first, is discarded
    /// by the owner of its shard, step by step: until that is done it stays disabled. It does not
    /// resume what its owner paused.
    pub async fn enable_endpoint(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
        held: Held,
    ) -> Told {
        let (mut tx, mut row) = self.begin_with_endpoint(tenant, id).await?;
        if row.state != EndpointState::Disabled {
            return unchanged(tx, row).await;
        }
        row.discarding = held == Held::Discard;
        if row.discarding {
            return self
                .set_state(tx, row, EndpointState::Disabled, actor, "endpoint.enable")
                .await;
        }
        tx.reset_health(id).await?;
        row.health = Health::default();
        self.set_state(tx, row, EndpointState::Active, actor, "endpoint.enable").await
    }

    /// Lets an open circuit be probed now, with what waits longest.
    pub async fn probe_endpoint(&self, actor: &Actor, tenant: &TenantId, id: EndpointId) -> Told {
        let mut tx = self.store.begin().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        let row = found.ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        if row.state != EndpointState::Active {
            let detail = format!("endpoint {id} is {}; resume or enable it first", row.state);
            return Err(ManageError::conflict("endpoint_not_active", detail));
        }
        let circuit = row.health.circuit.state();
        if circuit != CircuitState::Open {
            let name = circuit.name().replace('_', "-");
            let detail = format!(
                "the circuit of endpoint {id} is {name}: requests flow, so nothing is probed"
            );
            return Err(ManageError::conflict("circuit_not_open", detail));
        }
        Deed::new(actor, "endpoint.probe", &id).of(tenant).write(&mut tx, &*self.world).await?;
        let command = tx.add_command(row.shard, CommandKind::Probe, id, EventId(0)).await?;
        tx.commit().await?;
        let heard = self.await_owner(command).await?;
        Ok((row, heard))
    }

    async fn begin_with_endpoint(
        &self,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<(Tx, EndpointRow), ManageError> {
        let mut tx = self.store.begin().await?;
        tx.lock_configuration().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        Ok((tx, found.ok_or_else(|| ManageError::not_found("endpoint", &id))?))
    }

    async fn set_state(
        &self,
        mut tx: Tx,
        mut row: EndpointRow,
        state: EndpointState,
        actor: &Actor,
        action: &'static str,
    ) -> Told {
        let (id, discarding) = (row.id, row.discarding);
        if !discarding {
            row.state_reason = None;
        }
        (row.state, row.updated_at) = (state, self.now());
        tx.update_endpoint(&mut row).await?;
        let mut deed = Deed::new(actor, action, &id).of(&row.tenant);
        if discarding {
            deed = deed.with("held", "discard");
        }
        deed.write(&mut tx, &*self.world).await?;
        let command = tx.add_command(row.shard, CommandKind::Look, id, EventId(0)).await?;
        tx.commit().await?;
        let mut heard = self.await_owner(command).await?;
        if discarding && heard {
            heard = self.await_discard(&row.tenant, id).await?;
        }
        // As it is kept now: since when, and whether all was discarded.
        let kept = self.store.read().await?.find_tenant_endpoint(&row.tenant, id).await?;
        Ok((kept.unwrap_or(row), heard))
    }
}

async fn unchanged(tx: Tx, row: EndpointRow) -> Told {
    tx.rollback().await?;
    Ok((row, true))
}

fn refuse_disabled(row: &EndpointRow) -> Result<(), ManageError> {
    if row.state != EndpointState::Disabled {
        return Ok(());
    }
    let detail = format!("endpoint {} is disabled; enable it first", row.id);
    Err(ManageError::conflict("endpoint_disabled", detail))
}
