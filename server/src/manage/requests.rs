//! Requests that sources kept apart: who did what with them, and what they became once more.

use super::{Deed, Manage, ManageError};
use crate::{
    domain::{request_state::RequestState, scope::Actor},
    store::{deliveries::DeliveryFilter, page::Page, requests::RequestRow},
};

impl Manage {
    /// Writes down that somebody looked at a request, or accepted it.
    pub async fn note_request(
        &self,
        actor: &Actor,
        action: &'static str,
        request: &RequestRow,
        came_to: &str,
    ) -> Result<(), ManageError> {
        let mut tx = self.store.begin().await?;
        Deed::new(actor, action, &request.id)
            .of(&request.tenant)
            .with("came_to", came_to)
            .write(&mut tx, &*self.world)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Sends the event that an accepted request became once more, to each endpoint whose delivery
    /// of it has ended. Tells how many.
    pub async fn redeliver_request(
        &self,
        actor: &Actor,
        request: &RequestRow,
    ) -> Result<u32, ManageError> {
        let (RequestState::Accepted, Some(event)) = (request.state, request.event) else {
            return Err(ManageError::conflict(
                "request_not_accepted",
                format!("request {} is no event yet; accept it first", request.id),
            ));
        };
        let filter = DeliveryFilter {
            tenant: Some(request.tenant.clone()),
            event: Some(event),
            ..DeliveryFilter::default()
        };
        let mut redelivered = 0;
        let mut cursor: Option<String> = None;
        loop {
            let page = Page::new("request", cursor.as_deref(), u16::MAX)
                .map_err(|error| ManageError::one("cursor", error))?;
            let paged = self.store.read().await?.list_deliveries(&filter, page).await?;
            for row in paged.rows {
                match self.redeliver(actor, &request.tenant, row.id).await {
                    Ok(_) => redelivered += 1,
                    Err(ManageError::Conflict { .. }) => {} // it waits already, or cannot go there
                    Err(error) => return Err(error),
                }
            }
            cursor = paged.next;
            if cursor.is_none() {
                return Ok(redelivered);
            }
        }
    }
}
