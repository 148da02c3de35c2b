//! Waiting for the owner of a shard, which keeps what it works on in memory, to have seen a
//! command. What was asked for is in the tables already: a slow owner makes the answer vaguer,
//! not the deed.

use std::time::Duration;

use super::{Manage, ManageError};
use crate::domain::{id::EndpointId, tenant::TenantId};

/// Between two looks.
const STEP: Duration = Duration::from_millis(25);

/// What a caller waits for.
enum Awaited<'a> {
    /// That the owner has seen to a command.
    Command(i64),
    /// That all that an endpoint held is discarded.
    Discard(&'a TenantId, EndpointId),
}

impl Manage {
    /// Whether the owner has seen to `command` within `owner_wait`.
    pub(super) async fn await_owner(&self, command: i64) -> Result<bool, ManageError> {
        (self.wake)();
        self.wait_for(Awaited::Command(command)).await
    }

    /// Whether all that an endpoint held was discarded within `owner_wait`.
    pub(super) async fn await_discard(
        &self,
        tenant: &TenantId,
        id: EndpointId,
    ) -> Result<bool, ManageError> {
        self.wait_for(Awaited::Discard(tenant, id)).await
    }

    async fn wait_for(&self, what: Awaited<'_>) -> Result<bool, ManageError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller waits here for another node, not the pipeline; 2 s at most"
        )]
        let mut steps = tokio::time::interval(STEP);
        for _ in 0..self.owner_wait.as_millis() / STEP.as_millis() {
            steps.tick().await;
            let mut tx = self.store.read().await?;
            let done = match &what {
                Awaited::Command(command) => !tx.find_command(*command).await?,
                Awaited::Discard(tenant, id) => {
                    let row = tx.find_tenant_endpoint(tenant, *id).await?;
                    row.is_none_or(|row| !row.discarding)
                }
            };
            if done {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
