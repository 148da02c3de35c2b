//! Which shards are ours, until when. Time here is the monotonic clock, counted from before the
//! database was asked, so that we always let go before anybody else may take.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::store::{Lease, SHARDS};

#[derive(Clone, Copy, Debug)]
struct Held {
    epoch: i64,
    until: Duration,
}

/// How many shards each of so many nodes should have.
pub fn fair(nodes: i64) -> usize {
    let nodes = usize::try_from(nodes.max(1)).unwrap_or(usize::MAX);
    usize::try_from(SHARDS).unwrap_or(0).div_ceil(nodes)
}

/// The leases of this node.
#[derive(Debug, Default)]
pub struct Leases {
    held: BTreeMap<i16, Held>,
}

impl Leases {
    /// Takes what the database granted. Gives the shards that are new.
    pub fn grant(&mut self, leases: &[Lease], until: Duration) -> Vec<i16> {
        let mut new = Vec::new();
        for lease in leases {
            let held = Held { epoch: lease.epoch, until };
            if self.held.insert(lease.id, held).is_none() {
                new.push(lease.id);
            }
        }
        new
    }

    /// Takes what the database renewed. Gives the shards that were lost: not renewed, or under
    /// another epoch, which is another process of our name.
    pub fn renew(&mut self, leases: &[Lease], until: Duration) -> Vec<i16> {
        let renewed: HashMap<i16, i64> =
            leases.iter().map(|lease| (lease.id, lease.epoch)).collect();
        let mut lost = Vec::new();
        self.held.retain(|shard, held| {
            let ours = renewed.get(shard) == Some(&held.epoch);
            held.until = if ours { until } else { held.until };
            lost.extend((!ours).then_some(*shard));
            ours
        });
        lost
    }

    /// Lets go of a shard.
    pub fn remove(&mut self, shard: i16) -> Option<Lease> {
        self.held.remove(&shard).map(|held| Lease { id: shard, epoch: held.epoch })
    }

    /// The lease's epoch, if the shard is ours for at least `time` from `now` on.
    pub fn epoch_for(&self, shard: i16, now: Duration, time: Duration) -> Option<i64> {
        self.held.get(&shard).filter(|held| held.until > now + time).map(|held| held.epoch)
    }

    /// The lease's epoch, if it has one.
    pub fn epoch(&self, shard: i16) -> Option<i64> {
        self.held.get(&shard).map(|held| held.epoch)
    }

    /// All shards that are ours.
    pub fn shards(&self) -> Vec<i16> {
        self.held.keys().copied().collect()
    }

    /// Those that are ours still, as far as the monotonic clock can tell.
    pub fn live_shards(&self, now: Duration) -> Vec<i16> {
        self.held.iter().filter(|(_, held)| held.until > now).map(|(shard, _)| *shard).collect()
    }

    /// How many are ours.
    pub fn count(&self) -> usize {
        self.held.len()
    }
}
