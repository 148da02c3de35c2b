//! Endpoints that are given up, and what was held for one that is wanted again without it. Changes
//! of the configuration, made by the engine itself.

use super::{Detail, Engine};
use crate::{
    domain::{
        delivery::{Cause, State},
        endpoint_state::EndpointState,
        id::{EndpointId, id_at},
    },
    store::{Finished, StoreError, audit::AuditRow, endings::STEP},
};

/// Who did it, in the audit.
const ACTOR: &str = "snaphook";

impl Engine {
    /// After a 410 nobody is to hear of this endpoint again until its owner enables it.
    pub async fn disable_gone(&self, finished: &[Finished]) -> Result<(), StoreError> {
        let gone = finished.iter().filter(|one| one.cause == Some(Cause::Gone));
        for endpoint in gone.map(|one| one.row.endpoint_id) {
            self.disable(endpoint, "the receiver answered 410 Gone").await?;
        }
        Ok(())
    }

    /// Gives an endpoint up; nothing where that is done already.
    pub(super) async fn disable(
        &self,
        endpoint: EndpointId,
        reason: &str,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.begin_engine().await?;
        tx.lock_configuration().await?;
        let row = tx.find_endpoint(endpoint).await?;
        let Some(mut row) = row.filter(|row| row.state != EndpointState::Disabled) else {
            return tx.rollback().await;
        };
        row.state = EndpointState::Disabled;
        row.state_reason = Some(reason.to_owned());
        row.updated_at = self.now();
        tx.update_endpoint(&mut row).await?;
        let detail = [("reason".to_owned(), reason.into())];
        tx.add_audit(&AuditRow {
            id: id_at(row.updated_at, self.world.random()),
            at: row.updated_at,
            actor: ACTOR.to_owned(),
            action: "endpoint.disable".to_owned(),
            object: endpoint.to_string(),
            tenant: Some(row.tenant.clone()),
            detail: detail.into_iter().collect(),
        })
        .await?;
        tx.commit().await?;
        tracing::warn!(%endpoint, "disabled: {reason}");
        Ok(())
    }

    /// Discards up to a thousand of the deliveries that an endpoint holds. When none is left it
    /// becomes active, in the same commit; true then. How far it got is what is left.
    pub(super) async fn discard_step(&self, endpoint: EndpointId) -> Result<bool, StoreError> {
        let now = self.now();
        let mut tx = self.store.begin_engine().await?;
        tx.lock_configuration().await?;
        let row = tx.find_endpoint(endpoint).await?;
        let Some(mut row) = row.filter(|row| row.discarding && row.deleted_at.is_none()) else {
            tx.rollback().await?;
            return Ok(true);
        };
        let detail = Detail { by: Some("discarded".to_owned()), ..Detail::default() };
        let cause = Cause::Disabled;
        let ended = tx.end_waiting(endpoint, Some(cause), now, &detail.to_json()).await?;
        let last = ended < STEP.cast_unsigned();
        if last {
            (row.state, row.state_reason, row.discarding) = (EndpointState::Active, None, false);
            row.updated_at = now;
            tx.reset_health(endpoint).await?;
            tx.update_endpoint(&mut row).await?;
        }
        tx.commit().await?;
        for _ in 0..ended {
            self.metrics.delivery_ended(State::Dead.name(), cause.name());
        }
        Ok(last)
    }
}
