//! Waiting for people and receivers. The pipeline's waiting is the worker's; this is not it.

use std::time::Duration;

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a command waits by itself, beside the pipeline")]
pub async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}
