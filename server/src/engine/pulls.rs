//! Leases of consumers that ended: a claim sees to those of its endpoint, and this to the others, so
//! that what nobody pulls any more is told as it is, and dies when its ladder ends.

use std::collections::{HashMap, hash_map::Entry};

use super::Engine;
use crate::{
    domain::{id::EndpointId, retry::RetrySchedule},
    store::{StoreError, pulls::Pull},
};

/// Leases that are ended in one transaction: a few milliseconds.
const STEP: i64 = 200;

impl Engine {
    /// Ends all leases that are over.
    pub async fn end_leases(&self) -> Result<(), StoreError> {
        loop {
            let now = self.now();
            let mut tx = self.store.begin_engine().await?;
            let over = tx.list_lease_ended(now, STEP).await?;
            let last = i64::try_from(over.len()).unwrap_or(STEP) < STEP;
            let mut schedules: HashMap<EndpointId, RetrySchedule> = HashMap::new();
            let mut ended = Vec::with_capacity(over.len());
            for pulled in over {
                let endpoint = pulled.row.endpoint_id;
                let schedule = match schedules.entry(endpoint) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(empty) => {
                        let own = tx.find_endpoint(endpoint).await?;
                        let own = own.and_then(|row| row.settings.retry_schedule);
                        let own = own.and_then(|text| RetrySchedule::from_text(&text).ok());
                        empty.insert(own.unwrap_or_else(|| self.settings.schedule.clone()))
                    }
                };
                let ladder = (&*schedule, self.settings.jitter);
                let chance = self.world.random();
                let detail = "{}".to_owned();
                ended.push(pulled.end(Pull::LeaseEnded, None, ladder, (now, chance), detail));
            }
            tx.complete(&ended, now).await?;
            tx.commit().await?;
            for one in &ended {
                self.recorded(one);
            }
            if last {
                return Ok(());
            }
        }
    }
}
