//! Which shards are ours, until when. Time here is the monotonic clock, counted from before the
//! database was asked, so that we always let go before anybody else may take.

use std::{collections::HashMap, time::Duration};

use crate::store::{Lease, SHARDS};

#[derive(Clone, Copy, Debug)]
struct Held {
    epoch: i64,
    until: Duration,
}

/// The leases of this node.
#[derive(Debug, Default)]
pub struct Leases {
    held: HashMap<i16, Held>,
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

    /// How many shards more, or fewer, this node should have among `nodes`.
    pub fn wanted(&self, nodes: i64) -> i64 {
        let fair =
            u64::try_from(SHARDS).unwrap_or(0).div_ceil(nodes.max(1).cast_unsigned()).cast_signed();
        fair - i64::try_from(self.held.len()).unwrap_or(i64::MAX)
    }
}
