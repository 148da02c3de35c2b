//! Forgetting what is past its time, in small steps beside the pipeline: no step holds a lock for
//! more than milliseconds, and between two there is room for others.

use std::time::Duration;

use super::Engine;
use crate::store::StoreError;

/// How often there is a look.
const EVERY: Duration = Duration::from_mins(1);

/// Between two steps. With 1,000 rows a step that is 10,000 rows a second, far beyond what comes in.
const PAUSE: Duration = Duration::from_millis(100);

/// Rows of a full step; fewer mean that there is no more.
const STEP: u64 = 1_000;

impl Engine {
    /// Prunes now and then until it is dropped.
    pub async fn keep_pruned(&self) {
        loop {
            if let Err(error) = self.prune().await {
                tracing::warn!("what is past its time cannot be deleted: {error}");
            }
            pause(EVERY).await;
        }
    }

    /// Forgets what sources saw before `retention.dedup`, and the requests that they kept apart
    /// before `retention.events`. Gives how much that was.
    pub async fn prune(&self) -> Result<u64, StoreError> {
        let mut all = 0;
        let before = self.now() - self.settings.keep_received;
        loop {
            let mut tx = self.store.begin_engine().await?;
            let gone = tx.delete_received_before(before).await?;
            tx.commit().await?;
            all += gone;
            if gone < STEP {
                break;
            }
            pause(PAUSE).await;
        }
        let before = self.now() - self.settings.keep_requests;
        loop {
            let mut tx = self.store.begin_engine().await?;
            let gone = tx.delete_requests_before(before).await?;
            tx.commit().await?;
            all += gone;
            if gone < STEP {
                return Ok(all);
            }
            pause(PAUSE).await;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it waits beside the pipeline, and holds nothing")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
