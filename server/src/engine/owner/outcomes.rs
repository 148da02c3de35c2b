//! What attempts came to: the lanes take note, health is written down, endpoints are given up, and
//! what waits for those that are no more is ended.

use super::Owner;
use crate::{
    domain::{attempt::Mark, signal::Signal, time::Timestamp},
    engine::{attempt::Done, detail::Detail, lanes::Report, scans::PAGE},
    store::{Completion, Finished, HealthRecord, StoreError},
};

/// Steps of a thousand that one turn ends of what is discarded: half a second at most.
const DISCARDS_A_TURN: usize = 20;

impl Owner {
    /// Takes note of what was written.
    pub fn finish(&mut self, done: &[Done], completion: &Completion) {
        let engine = self.engine.clone();
        let now = engine.now();
        for one in done {
            let row = &one.finished.row;
            if let Some(count) = self.under_way.get_mut(&row.shard) {
                *count = count.saturating_sub(1);
            }
            // A result of an earlier lease says nothing about the lanes of this one.
            if self.leases.epoch(row.shard) != Some(one.rest.epoch) {
                continue;
            }
            let chance = engine.world.random();
            if completion.unwritten.contains(&one.finished.pair()) {
                self.lanes.shelve(row, now, chance);
                continue;
            }
            let late = completion.late.contains(&one.finished.pair());
            let due = match one.finished.mark {
                Mark::Retry if !late => Some(one.finished.due_at),
                _ if late => Some(Timestamp(0)),
                _ => None,
            };
            // What another has settled decides nothing.
            let signal = if late { Signal::Silent } else { one.rest.signal };
            let (took, reason) = (one.finished.took, one.finished.reason);
            let status = one.finished.status;
            self.lanes.finish(row, &Report { due, took, signal, reason, status, now, chance });
            if let Some(until) = one.rest.slow_until {
                self.lanes.slow_down(row.endpoint_id, until);
            }
        }
    }

    /// Writes what was learned of the health of endpoints, and gives up those that failed for too
    /// long; nothing where nothing changed. Tells whether any was given up.
    pub async fn save_health(&mut self) -> Result<bool, StoreError> {
        let changed = self.lanes.take_changed();
        let records: Vec<HealthRecord> = changed
            .into_iter()
            .filter_map(|(endpoint, health)| {
                let live = self.live.get(endpoint)?;
                let lease = self.leases.epoch(live.lane.shard)?;
                Some(HealthRecord { endpoint, seen: live.epoch, lease, health })
            })
            .collect();
        if !records.is_empty()
            && let Err(error) = self.write_health(&records).await
        {
            // Not lost: they are written with what comes next.
            self.unsaved.extend(records.iter().map(|record| record.endpoint));
            return Err(error);
        }
        let given_up = self.lanes.take_given_up();
        let any = !given_up.is_empty();
        for (endpoint, reason) in given_up {
            let days = self.engine.settings.health.disable_after;
            let last = reason.as_deref().unwrap_or("unknown");
            let why = format!(
                "no attempt succeeded for {}; the last one failed of {last}",
                crate::domain::duration::format(days)
            );
            self.engine.disable(endpoint, &why).await?;
        }
        Ok(any)
    }

    async fn write_health(&mut self, records: &[HealthRecord]) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let node = engine.settings.node.as_str();
        let mut tx = engine.store.begin_statement().await?;
        let written = tx.set_health(node, records).await?;
        tx.commit().await?;
        let refused = records.iter().map(|record| record.endpoint);
        self.unsaved.extend(refused.filter(|endpoint| !written.contains(endpoint)));
        Ok(())
    }

    /// Ends, without a request, what waits for endpoints that were deleted, or whose owner does
    /// not want it any more. The latter become active when nothing is left.
    pub async fn end_unwanted(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        for (endpoint, live) in self.live.ending() {
            if live.discarding {
                for _ in 0..DISCARDS_A_TURN {
                    if engine.discard_step(endpoint).await? {
                        break;
                    }
                }
                continue;
            }
            let mut tx = engine.store.read_engine().await?;
            let rows = tx.list_lane(live.lane.shard, endpoint, PAGE).await?;
            tx.finish();
            if rows.is_empty() {
                if self.lanes.remove(endpoint) {
                    self.live.remove(endpoint);
                }
                continue;
            }
            let now = engine.now();
            let detail = Detail { by: Some("endpoint deleted".to_owned()), ..Detail::default() };
            let detail = detail.to_json();
            let ended: Vec<Finished> =
                rows.into_iter().map(|row| Finished::canceled(row, now, detail.clone())).collect();
            engine.complete(&ended).await?;
        }
        Ok(())
    }
}
