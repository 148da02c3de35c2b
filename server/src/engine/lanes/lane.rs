//! One endpoint's lane, as a record, and the questions that can be asked of it alone; what
//! happens in it is decided in `lanes`.

use std::{collections::HashSet, sync::Arc};

use super::{ring::Ring, staying::Staying};
use crate::domain::{
    circuit::CircuitState, health::Health, id::EventId, pace::Pace, rate::RateLimit,
    time::Timestamp,
};

/// Rows of an ordered lane that are kept here. It has one request under way, so twice its cap
/// would mean to ask the database for every second one.
const ORDERED_RING: usize = 16;

/// How many times its cap a lane keeps of fresh rows while there is ample room: with the default
/// cap, those of the first seconds of a burst.
const FRESH_RING: usize = 8;

/// What the lanes need to know of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Whose it is.
    pub tenant: Arc<str>,
    /// Its shard.
    pub shard: i16,
    /// Requests that may be under way at once: one where it is ordered.
    pub cap: usize,
    /// Paused or disabled: nothing goes until that changes.
    pub held: bool,
    /// Whether its events go in their order.
    pub ordered: bool,
    /// Requests in a time.
    pub rate: Option<RateLimit>,
}

/// Where a lane stands that has rows to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stand {
    /// In no queue.
    #[default]
    Nowhere,
    /// In its tenant's round, with this ticket.
    InTurn(u64),
    /// Among those that wait for a time: it rests, or keeps its rate.
    Until(Timestamp),
}

/// What waits for one endpoint, and what is under way.
#[derive(Debug)]
pub struct Lane {
    /// As the endpoint has them.
    pub settings: LaneSettings,
    /// Rows that are here, in their order.
    pub ring: Ring,
    /// Requests under way.
    pub in_flight: usize,
    /// Rows that are never to go again: see [`super::Lanes::shelve`].
    pub shelved: usize,
    /// The cap as of now: halved when the receiver asks for less, grown back by successes.
    pub cap: usize,
    /// Whether its last attempt was slow; taken for it until the first has shown otherwise.
    pub slow: bool,
    /// Nothing goes before then, for the receiver said so.
    pub rests_until: Timestamp,
    /// Keeps the rate.
    pub pace: Pace,
    /// How the endpoint is doing, its circuit among it.
    pub health: Health,
    /// The event that goes, or is under way, as the probe of an open circuit.
    pub probe: Option<EventId>,
    /// The event that somebody wants as the next probe.
    pub wanted: Option<EventId>,
    /// The soonest due time of what waits in the database; `None` when nothing does.
    pub parked_due: Option<Timestamp>,
    /// Where fresh rows of it stay, beside what is parked.
    pub staying: Option<Staying>,
    /// Under which time it is filed among the lanes that are to be read.
    pub filed: Option<Timestamp>,
    /// Where it stands.
    pub stand: Stand,
}

impl Lane {
    /// An empty one.
    pub fn new(settings: LaneSettings) -> Self {
        Self {
            cap: settings.cap,
            settings,
            ring: Ring::default(),
            in_flight: 0,
            shelved: 0,
            slow: true,
            rests_until: Timestamp::default(),
            pace: Pace::default(),
            health: Health::default(),
            probe: None,
            wanted: None,
            parked_due: None,
            staying: None,
            filed: None,
            stand: Stand::Nowhere,
        }
    }

    /// Whether its circuit is open.
    pub fn is_open(&self) -> bool {
        self.health.circuit.state() == CircuitState::Open
    }

    /// How many requests may be under way just now.
    pub fn width(&self) -> usize {
        self.health.circuit.width(self.settings.cap).min(self.cap)
    }

    /// Whether it has a row to give, if its turn comes.
    pub fn is_ready(&self) -> bool {
        !self.settings.held && self.in_flight < self.width() && !self.ring.is_empty()
    }

    /// Whether an earlier row than those that are known may be there, and matters. Shards in
    /// `unread` may have fresh ones that nobody has seen.
    pub fn waits_for_order(&self, unread: &HashSet<i16>) -> bool {
        let hidden = self.staying.is_some() || unread.contains(&self.settings.shard);
        self.settings.ordered && hidden
    }

    /// When the next request may go.
    pub fn goes_at(&self, now: Timestamp) -> Timestamp {
        let paced = self.settings.rate.map(|rate| self.pace.ready_at(rate, now));
        self.rests_until.max(paced.unwrap_or_default())
    }

    /// When what is parked is to be read. What is held is not due, however long it waits; an open
    /// circuit takes one row at its time, when nothing is under way any more.
    pub fn reads_at(&self) -> Option<Timestamp> {
        let due = self.parked_due.filter(|_| !self.settings.held)?;
        match self.health.circuit.probe_at() {
            Some(probe_at) => (self.probe.is_none() && self.in_flight == 0).then_some(probe_at),
            None => Some(due),
        }
    }

    /// How many rows are kept here; one where the memory is full.
    pub fn ring_size(&self, crowded: bool) -> usize {
        match (crowded, self.settings.ordered) {
            (true, _) => 1,
            (_, true) => ORDERED_RING,
            _ => 2 * self.settings.cap,
        }
    }

    /// How many fresh rows it takes. They are here already, and to park one is to write it once
    /// more: as long as there is `ample` room, a burst is kept that would else go to the database
    /// and come back.
    pub fn fresh_ring_size(&self, crowded: bool, ample: bool) -> usize {
        let many = self.ring_size(crowded);
        if ample && !self.settings.ordered {
            many.max(FRESH_RING * self.settings.cap)
        } else {
            many
        }
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
