//! What must be done now and then, by whichever node gets to it.

use std::{collections::BTreeMap, time::Duration};

use super::Engine;
use crate::{
    domain::{event::Door, time::Timestamp},
    store::StoreError,
};

/// Days of partitions that are made ahead: a node may be down for a week.
const DAYS_AHEAD: i32 = 7;

/// Events younger than this are counted by the next sample: they may not be committed yet.
const LATE: Duration = Duration::from_secs(5);

/// How long stored answers to an `Idempotency-Key` are kept: the contract's 24 h.
const IDEMPOTENCY: Duration = Duration::from_hours(24);

/// Held events that are sent on their way in one transaction, and transactions of one call: a
/// few hundred milliseconds at most, in which nothing else is done.
const RELEASE_STEP: i32 = 1_000;
const RELEASE_STEPS: usize = 8;

impl Engine {
    /// Sends on their way what was held for sources that are not paused any more, a part of it.
    pub async fn release_held(&self) -> Result<(), StoreError> {
        for _ in 0..RELEASE_STEPS {
            // Nearly always there is nothing to write, and nobody's turn to write is to be awaited.
            if !self.store.read_engine().await?.has_held().await? {
                return Ok(());
            }
            let mut tx = self.store.begin_engine().await?;
            let released = tx.release_held(RELEASE_STEP).await?;
            tx.commit().await?;
            if released < i64::from(RELEASE_STEP) {
                break;
            }
        }
        Ok(())
    }

    /// Makes the days to come, forgets what is past its time. In small steps, no long lock.
    pub async fn keep_up(&self) -> Result<(), StoreError> {
        let mut tx = self.store.begin_engine().await?;
        let made = tx.add_days(DAYS_AHEAD).await?;
        tx.commit().await?;
        if made > 0 {
            tracing::info!(made, "made partitions for the days to come");
        }
        let mut tx = self.store.begin_engine().await?;
        tx.delete_idempotency_before(self.now() - IDEMPOTENCY).await?;
        tx.commit().await
    }

    /// Samples the figures that only the database knows. What came in by SQL since the last
    /// sample is counted here too, for no process of ours saw it come. Gives the time up to which
    /// that was counted, for the next call.
    pub async fn sample(&self, since: Option<Timestamp>) -> Result<Timestamp, StoreError> {
        let now = self.now();
        let mut tx = self.store.read().await?;
        let queue = tx.count_queue(now).await?;
        let oldest = queue.oldest_due.map_or(Duration::ZERO, |oldest| now.since(oldest));
        self.metrics.set_due(queue.due.cast_unsigned(), oldest);
        self.metrics.set_oldest_transaction(tx.oldest_transaction().await?);
        self.metrics.set_held(tx.count_held().await?.cast_unsigned());
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for (health, circuit, endpoints) in tx.count_endpoint_health().await? {
            *counts.entry((health.name(), circuit.name())).or_default() +=
                endpoints.cast_unsigned();
        }
        let counts: Vec<_> =
            counts.into_iter().map(|((health, circuit), n)| (health, circuit, n)).collect();
        self.metrics.set_endpoints(&counts);
        let until = now - LATE;
        if let Some(since) = since.filter(|since| *since < until) {
            let came = tx.count_events(Door::Sql, since, until).await?;
            self.metrics.events_accepted_many(Door::Sql.name(), came.cast_unsigned());
        }
        Ok(until)
    }
}
