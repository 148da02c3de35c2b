//! One endpoint's lane, as a record; what happens in it is decided in `lanes`.

use std::{collections::VecDeque, sync::Arc};

use crate::{domain::time::Timestamp, store::Row};

/// What the lanes need to know of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Whose it is.
    pub tenant: Arc<str>,
    /// Its shard.
    pub shard: i16,
    /// Requests that may be under way at once.
    pub cap: usize,
    /// Paused or disabled: nothing goes until that changes.
    pub held: bool,
}

/// What waits for one endpoint, and what is under way.
#[derive(Debug)]
pub struct Lane {
    /// As the endpoint has them.
    pub settings: LaneSettings,
    /// Rows that are here, in their order.
    pub ring: VecDeque<Row>,
    /// Requests under way.
    pub in_flight: usize,
    /// Rows that are never to go again: see [`super::Lanes::shelve`].
    pub shelved: usize,
    /// The cap as of now: halved when the receiver asks for less, grown back by successes.
    pub cap: usize,
    /// Whether its last attempt was slow.
    pub slow: bool,
    /// Nothing goes before then, for the receiver said so.
    pub rests_until: Timestamp,
    /// The soonest due time of what is parked; `None` when nothing is.
    pub parked_due: Option<Timestamp>,
    /// Whether it stands in its tenant's queue of turns.
    pub in_turn: bool,
}

impl Lane {
    /// An empty one.
    pub fn new(settings: LaneSettings) -> Self {
        Self {
            cap: settings.cap,
            settings,
            ring: VecDeque::new(),
            in_flight: 0,
            shelved: 0,
            slow: false,
            rests_until: Timestamp::default(),
            parked_due: None,
            in_turn: false,
        }
    }

    /// How many rows are kept here; one where the memory is full.
    pub fn ring_size(&self, crowded: bool) -> usize {
        if crowded { 1 } else { 2 * self.settings.cap }
    }

    /// How many more rows it takes.
    pub fn room(&self, crowded: bool) -> usize {
        self.ring_size(crowded).saturating_sub(self.ring.len())
    }

    /// Whether half of its ring or more is empty.
    pub fn runs_low(&self, crowded: bool) -> bool {
        2 * self.ring.len() <= self.ring_size(crowded)
    }
}
