//! Taking, keeping and giving back shards.

use std::time::Duration;

use super::{ALL, Owner};
use crate::store::{Dialect, Lease, SHARDS, StoreError};

impl Owner {
    /// Takes, renews and gives back shards, so that all nodes that live have about as many. On
    /// SQLite the file's lock is the lease of all of them.
    pub async fn claim(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let (asked, now, settings) = (engine.world.monotonic(), engine.now(), &engine.settings);
        if engine.store.dialect() == Dialect::Sqlite {
            return if self.first_claim { self.own_all().await } else { Ok(()) };
        }
        let (node, lease) = (settings.node.as_str(), settings.lease);
        let until = now + lease;
        let mut tx = engine.store.begin_engine().await?;
        let nodes = tx.mark_node(node, now, lease).await?;
        let mut granted = Vec::new();
        let mut lost = Vec::new();
        if self.first_claim {
            granted.extend(tx.claim_own_shards(node, until).await?);
        } else {
            let renewed = tx.renew_shards(node, until).await?;
            lost = self.leases.renew(&renewed, asked + lease);
        }
        let held = i64::try_from(granted.len()).unwrap_or(0);
        let wanted = self.leases.wanted(nodes) - held;
        if wanted > 0 {
            granted.extend(tx.claim_free_shards(node, now, until, wanted).await?);
        }
        tx.commit().await?;
        for shard in lost {
            tracing::warn!(shard, "the lease of a shard was lost");
            self.forget(shard);
        }
        self.first_claim = false;
        let new = self.leases.grant(&granted, asked + lease);
        self.begin(&new).await?;
        let surplus = usize::try_from(-self.leases.wanted(nodes)).unwrap_or(0);
        self.leave(surplus);
        self.release_left().await
    }

    /// Whether a shard is ours.
    pub fn owns(&self, shard: i16) -> bool {
        self.leases.epoch(shard).is_some()
    }

    async fn own_all(&mut self) -> Result<(), StoreError> {
        let leases: Vec<_> = (0..SHARDS).map(|id| Lease { id, epoch: 0 }).collect();
        let new = self.leases.grant(&leases, Duration::MAX);
        self.begin(&new).await?;
        self.first_claim = false;
        Ok(())
    }

    /// Begins to read shards: what waits in their lanes, then what is fresh.
    async fn begin(&mut self, shards: &[i16]) -> Result<(), StoreError> {
        if shards.is_empty() {
            return Ok(());
        }
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        for (endpoint, due) in tx.list_lanes(shards).await? {
            self.know(&mut tx, endpoint).await?;
            self.lanes.park(endpoint, due);
        }
        for shard in shards {
            let key = if engine.store.dialect() == Dialect::Sqlite { ALL } else { *shard };
            self.scans.add(key, engine.now());
        }
        Ok(())
    }

    /// Chooses shards to give back, the idle ones first.
    fn leave(&mut self, surplus: usize) {
        let mut shards = self.leases.shards();
        shards.retain(|shard| !self.leaving.contains(shard));
        shards.sort_by_key(|shard| (self.under_way.get(shard).copied().unwrap_or(0), *shard));
        let already = self.leaving.len();
        for shard in shards.into_iter().take(surplus.saturating_sub(already)) {
            self.scans.remove(shard);
            self.lanes.remove_shard(shard);
            self.live.remove_shard(shard);
            self.leaving.push(shard);
        }
    }

    async fn release_left(&mut self) -> Result<(), StoreError> {
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
        for shard in shards {
            if let Some(lease) = self.leases.remove(*shard) {
                tx.release_shard(&engine.settings.node, lease).await?;
            }
        }
        tx.notify("shards").await?;
        tx.commit().await
    }

    /// Gives everything back, so that another node goes on at once. What is still under way will
    /// be sent again by whoever takes its shard.
    pub async fn release_all(&mut self) -> Result<(), StoreError> {
        if self.engine.store.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let shards = self.leases.shards();
        for shard in &shards {
            self.scans.remove(*shard);
            self.lanes.remove_shard(*shard);
        }
        self.release(&shards).await?;
        let mut tx = self.engine.store.begin_engine().await?;
        tx.delete_node(&self.engine.settings.node).await?;
        tx.commit().await
    }

    fn forget(&mut self, shard: i16) {
        self.scans.remove(shard);
        self.lanes.remove_shard(shard);
        self.live.remove_shard(shard);
        self.leaving.retain(|leaving| *leaving != shard);
    }
}
