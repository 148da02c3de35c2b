//! A test event: an event like any other, but for one endpoint alone.

use bytes::Bytes;

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{
        endpoint_state::EndpointState,
        event::{Door, TEST_EVENT_TYPE},
        event_type::EventType,
        id::{DeliveryId, EndpointId},
        scope::Actor,
        tenant::TenantId,
    },
    store::NewEvent,
};

impl Manage {
    /// Sends a test event to one endpoint, whatever it subscribes to. Gives the delivery.
    pub async fn send_test_event(
        &self,
        actor: &Actor,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<DeliveryId, ManageError> {
        let mut tx = self.store.begin().await?;
        let found = tx.find_tenant_endpoint(tenant, id).await?;
        let endpoint = found.ok_or_else(|| ManageError::not_found("endpoint", &id))?;
        if endpoint.state != EndpointState::Active {
            return Err(ManageError::conflict(
                "endpoint_not_active",
                format!("endpoint {id} is {}; resume or enable it first", endpoint.state),
            ));
        }
        let payload = serde_json::json!({
            "message": "A test event from snaphook. If you read this, the endpoint works.",
            "endpoint": id,
        });
        let accepted = tx
            .accept(&NewEvent {
                tenant: tenant.clone(),
                event_type: EventType::parse(TEST_EVENT_TYPE).expect("it is one"),
                payload: Bytes::from(payload.to_string()),
                content_type: None,
                key: None,
                dedup: None,
                version: None,
                occurred_at: None,
                traceparent: None,
                door: Door::Http,
                checked: true,
            })
            .await?;
        let kind = endpoint.settings.kind;
        let due = self.due_now(&mut tx, kind).await?;
        tx.direct_event(accepted.event, tenant, id, kind, due).await?;
        let delivery = DeliveryId { event: accepted.event, endpoint: id };
        Deed::new(actor, "endpoint.test", &id)
            .of(tenant)
            .with("delivery", delivery.to_string())
            .write(&mut tx, &*self.world)
            .await?;
        tx.ring().await?;
        tx.commit().await?;
        (self.wake)();
        Ok(delivery)
    }
}
