//! Waiting for the owner of a shard, which keeps what it works on in memory, to have seen a
//! command. What was asked for is in the tables already: a slow owner makes the answer vaguer,
//! not the deed.

use std::time::Duration;

use super::{Manage, ManageError};

/// Between two looks.
const STEP: Duration = Duration::from_millis(25);

impl Manage {
    /// Whether the owner has seen to `command` within `owner_wait`.
    pub(super) async fn await_owner(&self, command: i64) -> Result<bool, ManageError> {
        (self.wake)();
        #[expect(
            clippy::disallowed_methods,
            reason = "a caller waits here for another node, not the pipeline; 2 s at most"
        )]
        let mut steps = tokio::time::interval(STEP);
        for _ in 0..self.owner_wait.as_millis() / STEP.as_millis() {
            steps.tick().await;
            if !self.store.read().await?.find_command(command).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
