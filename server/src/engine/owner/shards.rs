//! Taking, keeping and giving back shards.

use std::time::Duration;

use super::{ALL, LANES_EVERY, Owner};
use crate::{
    domain::time::Timestamp,
    engine::leases::fair,
    store::{Dialect, Lease, SHARDS, StoreError, Tx},
};

impl Owner {
    /// Takes, renews and gives back shards, so that all nodes that live have about as many. On
    /// SQLite the file's lock is the lease of all of them.
    pub async fn claim(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let (asked, now, settings) = (engine.world.monotonic(), engine.now(), &engine.settings);
        if engine.store.dialect() == Dialect::Sqlite {
            if self.first_claim {
                let leases: Vec<_> = (0..SHARDS).map(|id| Lease { id, epoch: 0 }).collect();
                self.unread = self.leases.grant(&leases, Duration::MAX);
                self.first_claim = false;
            }
            return self.begin().await;
        }
        let (node, lease) = (settings.node.as_str(), settings.lease);
        let until = now + lease;
        let was_unsure = std::mem::replace(&mut self.unsure, true);
        let mut tx = engine.store.begin_engine().await?;
        let nodes = tx.mark_node(node, now, lease).await?;
        let mut granted = Vec::new();
        let mut renewed = Vec::new();
        if self.first_claim {
            granted = tx.claim_own_shards(node, until).await?;
        } else {
            renewed = tx.renew_shards(node, until).await?;
            if was_unsure {
                granted = self.adopt_strays(&mut tx, &renewed, until).await?;
            }
        }
        let ours = renewed.iter().filter(|one| self.leases.epoch(one.id) == Some(one.epoch));
        let wanted = fair(nodes).saturating_sub(ours.count() + granted.len());
        if wanted > 0 {
            let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
            granted.extend(tx.claim_free_shards(node, now, until, wanted).await?);
        }
        tx.commit().await?;
        // Nothing is believed before the commit is: a lease that we only think we have is none.
        for shard in self.leases.renew(&renewed, asked + lease) {
            tracing::warn!(shard, "the lease of a shard was lost");
            self.forget(shard);
        }
        (self.first_claim, self.unsure) = (false, false);
        self.unread.extend(self.leases.grant(&granted, asked + lease));
        self.begin().await?;
        self.leave(self.leases.count().saturating_sub(fair(nodes)));
        self.release_left().await
    }

    /// Whether a shard is ours.
    pub fn owns(&self, shard: i16) -> bool {
        self.leases.epoch(shard).is_some()
    }

    /// Takes shards that are ours by their name, and that we know nothing of.
    async fn adopt_strays(
        &self,
        tx: &mut Tx,
        renewed: &[Lease],
        until: Timestamp,
    ) -> Result<Vec<Lease>, StoreError> {
        let mut adopted = Vec::new();
        for stray in renewed.iter().filter(|one| self.leases.epoch(one.id).is_none()) {
            adopted.extend(tx.adopt_shard(&self.engine.settings.node, *stray, until).await?);
        }
        Ok(adopted)
    }

    /// Begins to read the shards that are new: what waits in their lanes, then what is fresh.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if self.unread.is_empty() {
            return Ok(());
        }
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        self.unread.sort_unstable(); // so that one history makes one order, in simulations too
        let shards = self.unread.clone();
        self.read_lanes(&mut tx, &shards).await?;
        for shard in self.unread.drain(..) {
            let key = if engine.store.dialect() == Dialect::Sqlite { ALL } else { shard };
            self.scans.add(key, engine.now());
        }
        let again = engine.world.monotonic() + LANES_EVERY;
        self.lanes_at = self.lanes_at.min(again);
        Ok(())
    }

    /// Learns which lanes of these shards hold anything, and when it is due.
    pub(super) async fn read_lanes(
        &mut self,
        tx: &mut Tx,
        shards: &[i16],
    ) -> Result<(), StoreError> {
        let lanes = tx.list_lanes(shards).await?;
        self.know(tx, lanes.iter().map(|(endpoint, _)| *endpoint)).await?;
        for (endpoint, due) in lanes {
            self.lanes.park(endpoint, due);
        }
        Ok(())
    }

    /// Chooses shards to give back: evenly of the idle and the busy ones, or else a node that has
    /// all the work would give away what has none, and keep it.
    fn leave(&mut self, surplus: usize) {
        let mut shards = self.leases.shards();
        shards.retain(|shard| !self.leaving.contains(shard));
        shards.sort_by_key(|shard| (self.under_way.get(shard).copied().unwrap_or(0), *shard));
        let already = self.leaving.len();
        let more = surplus.saturating_sub(already).min(shards.len());
        for place in 0..more {
            let shard = shards[place * shards.len() / more];
            self.forget(shard);
            self.leaving.push(shard);
        }
    }

    /// Gives back the shards that are left and idle.
    pub async fn release_left(&mut self) -> Result<(), StoreError> {
        let idle = |shard: &i16| self.under_way.get(shard).copied().unwrap_or(0) == 0;
        let ready: Vec<i16> = self.leaving.iter().copied().filter(idle).collect();
        if ready.is_empty() {
            return Ok(());
        }
        self.leaving.retain(|shard| !ready.contains(shard));
        self.release(&ready).await
    }

    async fn release(&mut self, shards: &[i16]) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let mut tx = engine.store.begin_engine().await?;
        self.release_in(&mut tx, shards).await?;
        tx.commit().await?;
        self.unsure = false;
        Ok(())
    }

    async fn release_in(&mut self, tx: &mut Tx, shards: &[i16]) -> Result<(), StoreError> {
        self.unsure = true;
        for shard in shards {
            if let Some(lease) = self.leases.remove(*shard) {
                tx.release_shard(&self.engine.settings.node, lease).await?;
            }
        }
        tx.notify("shards").await
    }

    /// Begins to stop: gives back what is idle at once, for other nodes to go on with, and the
    /// rest with [`Owner::release_left`], as it gets so. Nobody counts this node any more.
    pub async fn step_down(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        if engine.store.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        self.leave(usize::MAX);
        let mut tx = engine.store.begin_engine().await?;
        tx.delete_node(&engine.settings.node).await?;
        tx.commit().await?;
        self.release_left().await
    }

    /// Gives everything back, so that another node goes on at once. What is still under way will
    /// be sent again by whoever takes its shard.
    pub async fn release_all(&mut self) -> Result<(), StoreError> {
        if self.engine.store.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let shards = self.leases.shards();
        for shard in &shards {
            self.forget(*shard);
        }
        // In one commit: whoever hears of the shards must not count us any more.
        let engine = self.engine.clone();
        let mut tx = engine.store.begin_engine().await?;
        tx.delete_node(&engine.settings.node).await?;
        self.release_in(&mut tx, &shards).await?;
        tx.commit().await
    }

    fn forget(&mut self, shard: i16) {
        self.scans.remove(shard);
        self.pages.remove(shard);
        self.lanes.remove_shard(shard);
        self.live.remove_shard(shard);
        self.leaving.retain(|leaving| *leaving != shard);
        self.unread.retain(|unread| *unread != shard);
    }
}
