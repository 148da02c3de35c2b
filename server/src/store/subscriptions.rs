//! The rows by which an emit finds who wants an event: one for each pattern of an endpoint that
//! takes deliveries. They follow the endpoint's row in the same transaction.
//!
//! A pattern within another one of the same endpoint has no row: so no event finds an endpoint
//! twice, and an emit need not look for that.

use super::{StoreError, Tx, endpoints::EndpointRow, on};
use crate::domain::{endpoint_state::EndpointState, event_type::widest, id::EndpointId};

impl Tx {
    /// Makes the rows what the endpoint's settings say; none for one that is disabled or deleted.
    pub(super) async fn set_subscriptions(
        &mut self,
        endpoint: &EndpointRow,
    ) -> Result<(), StoreError> {
        self.delete_subscriptions(endpoint.id).await?;
        if endpoint.state == EndpointState::Disabled || endpoint.deleted_at.is_some() {
            return Ok(());
        }
        for pattern in widest(&endpoint.settings.event_types) {
            on!(
                self,
                "INSERT INTO snaphook.subscriptions (tenant, pattern, endpoint_id, shard, queue_state)
                 VALUES ($1, $2, $3, $4, $5)",
                |sql, connection| sqlx::query(sql)
                    .bind(endpoint.tenant.as_str())
                    .bind(pattern)
                    .bind(endpoint.id)
                    .bind(endpoint.shard)
                    .bind(endpoint.settings.kind.queue_state())
                    .execute(connection)
                    .await
                    .map(drop)
            )?;
        }
        Ok(())
    }

    async fn delete_subscriptions(&mut self, endpoint: EndpointId) -> Result<(), StoreError> {
        on!(
            self,
            "DELETE FROM snaphook.subscriptions
             WHERE endpoint_id = $1",
            |sql, connection| sqlx::query(sql).bind(endpoint).execute(connection).await.map(drop)
        )?;
        Ok(())
    }
}
