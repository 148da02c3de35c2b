//! The owner's memory: what may go next, fairly. Pure: no I/O, no clock.
//!
//! Each endpoint has a lane: a short ring of rows that are here, and the knowledge of when the
//! next of those that stayed in the database is due. Turns go round over tenants, then over each
//! tenant's lanes, one row a turn, so that no backlog stands in another's way. Rows over a
//! ring's size wait in the database: parked, where they cost nothing, or where they are.
//!
//! Here: whose turn it is. How rows come in is `intake`, what attempts tell is `results`.

mod forget;
mod intake;
mod lane;
mod results;
mod ring;
mod staying;
#[cfg(test)]
mod tests;
mod turns;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

pub use self::{
    intake::{Offer, Order, Read},
    lane::LaneSettings,
    results::Report,
};
use self::{
    lane::{Lane, Stand},
    turns::Rounds,
};
use crate::{
    domain::{
        circuit::CircuitRules,
        health::{Health, HealthRules},
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::Row,
};

/// An attempt that takes longer marks its lane as slow. Healthy receivers answer in a second.
const SLOW: Duration = Duration::from_secs(2);

/// Rows in all rings together beyond which each lane keeps one only: ids, some 160 bytes each.
const ROWS_MAX: usize = 131_072;

/// Rows in all rings together up to which a lane takes more fresh ones than it needs: the rest is
/// for lanes that have none here yet.
const ROWS_AMPLE: usize = ROWS_MAX / 4 * 3;

/// A clock that goes back by more was set; less is what keeps it in step with the database's.
const SET_BACK: Duration = Duration::from_secs(1);

/// All lanes of the shards that are ours.
#[derive(Debug, Default)]
pub struct Lanes {
    by_endpoint: HashMap<EndpointId, Lane>,
    known: HashSet<(EventId, EndpointId)>,
    rounds: Rounds,
    /// Lanes that have rows here and wait, by when they may go on.
    waiting: BTreeSet<(Timestamp, EndpointId)>,
    /// Lanes that have something parked, by when it is to be read.
    parked: BTreeSet<(Timestamp, EndpointId)>,
    /// Lanes that do not move, and of which fresh rows stay: these are to be parked.
    stopped: BTreeSet<EndpointId>,
    /// Shards of which it is not certain that all fresh rows were seen: nothing ordered goes.
    unread: HashSet<i16>,
    /// Rows that left the memory and may be fresh in the database: to be parked there.
    left: Vec<Row>,
    /// Endpoints whose health is to be written.
    changed: BTreeSet<EndpointId>,
    /// Endpoints that failed for too long.
    given_up: Vec<EndpointId>,
    rows: usize,
    in_flight: usize,
    slow_in_flight: usize,
    slots: usize,
    /// Rows beyond the slots that may be in flight, as their requests are over.
    settling: usize,
    health: HealthRules,
    circuit: CircuitRules,
    last_look: Timestamp,
    tickets: u64,
}

impl Lanes {
    /// For at most `slots` requests at once, over all endpoints.
    pub fn new(slots: usize, health: HealthRules, circuit: CircuitRules) -> Self {
        Self { slots, health, circuit, ..Self::default() }
    }

    /// Lets so many rows more be in flight, whose requests are over and whose outcomes are not on
    /// record yet. Whoever takes rows then sees to it that no more than the slots are being sent.
    pub fn set_settling(&mut self, settling: usize) {
        self.settling = settling;
    }

    /// Takes an endpoint's settings, new or changed. When it is held, its rows are to leave the
    /// memory, by [`Lanes::clear`]: they wait in the database.
    pub fn set(&mut self, endpoint: EndpointId, settings: LaneSettings) {
        let lane = self.by_endpoint.entry(endpoint).or_insert_with(|| Lane::new(settings.clone()));
        lane.cap = if settings.cap == lane.settings.cap { lane.cap } else { settings.cap };
        let reorder = settings.ordered != lane.settings.ordered;
        lane.settings = settings;
        if reorder {
            self.empty(endpoint);
        }
        self.stand_aside(endpoint);
        self.file(endpoint);
        self.give_turn(endpoint);
    }

    /// Takes what is on record of an endpoint's health: it is new here, or begins anew.
    pub fn set_health(&mut self, endpoint: EndpointId, health: Health) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.health = health;
        self.changed.remove(&endpoint);
        if self.by_endpoint[&endpoint].is_open() {
            self.empty(endpoint);
        }
        self.file(endpoint);
        self.give_turn(endpoint);
    }

    /// Whether this endpoint's settings are here.
    pub fn knows(&self, endpoint: EndpointId) -> bool {
        self.by_endpoint.contains_key(&endpoint)
    }

    /// Says of which shards it is not certain that all fresh rows were seen. A lane that keeps an
    /// order must not begin with what was parked while an earlier row is still to be found.
    pub fn set_unread(&mut self, shards: impl Iterator<Item = i16>) {
        self.unread.clear();
        self.unread.extend(shards);
    }

    /// Takes up to `most` rows whose turn it is. Each is in flight until it is given back by
    /// [`Lanes::finish`].
    pub fn next(&mut self, now: Timestamp, most: usize) -> Vec<Row> {
        self.wake(now);
        let mut taken = Vec::new();
        // Each lane that cannot go now is looked at once a call.
        let mut stopped = Vec::new();
        while taken.len() < most && self.in_flight < self.slots + self.settling {
            // Slow receivers never take more than half the slots.
            let room_for_slow = self.slow_in_flight < (self.slots / 2).max(1);
            let Some((endpoint, ticket)) = self.rounds.pop(room_for_slow) else { break };
            let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { continue };
            if lane.stand != Stand::InTurn(ticket) {
                continue;
            }
            lane.stand = Stand::Nowhere;
            if !lane.is_ready() {
                continue;
            }
            let goes_at = lane.goes_at(now);
            if goes_at > now {
                lane.stand = Stand::Until(goes_at);
                self.waiting.insert((goes_at, endpoint));
                continue;
            }
            let unread = lane.waits_for_order(&self.unread);
            if unread || (lane.slow && !room_for_slow) {
                stopped.push(endpoint);
                continue;
            }
            let Some(row) = lane.ring.pop() else { continue };
            if let Some(rate) = lane.settings.rate {
                lane.pace.take(rate, now);
            }
            lane.in_flight += 1;
            self.slow_in_flight += usize::from(lane.slow);
            self.in_flight += 1;
            self.rows -= 1;
            taken.push(row);
            self.file(endpoint);
            self.give_turn(endpoint);
        }
        for endpoint in stopped {
            self.give_turn(endpoint);
        }
        taken
    }

    /// Whether a row that was taken is the probe of an open circuit.
    pub fn is_probe(&self, row: &Row) -> bool {
        let lane = self.by_endpoint.get(&row.endpoint_id);
        lane.is_some_and(|lane| lane.probe == Some(row.event_id))
    }

    /// When the next parked row is to be read, or a lane may go on.
    pub fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let mut soonest = self.waiting.first().map(|(until, _)| *until);
        let crowded = self.rows >= ROWS_MAX;
        for (due, endpoint) in &self.parked {
            if soonest.is_some_and(|soonest| soonest <= *due) {
                break;
            }
            let lane = &self.by_endpoint[endpoint];
            if *due > now || self.may_be_read(lane, crowded) {
                let at = (*due).max(lane.rests_until);
                soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
            }
        }
        soonest
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Rows that wait in rings.
    pub fn waiting(&self) -> usize {
        self.rows
    }

    /// Rows that left the memory since the last call, to be parked.
    pub fn take_left(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.left)
    }

    /// The health of endpoints in which something changed since the last call.
    pub fn take_changed(&mut self) -> Vec<(EndpointId, Health)> {
        let changed = std::mem::take(&mut self.changed);
        let health = |endpoint| Some((endpoint, self.by_endpoint.get(&endpoint)?.health.clone()));
        changed.into_iter().filter_map(health).collect()
    }

    /// Says that an endpoint's health could not be written yet.
    pub fn change_again(&mut self, endpoint: EndpointId) {
        self.changed.insert(endpoint);
    }

    /// Endpoints that failed for too long, since the last call, each with its last reason.
    pub fn take_given_up(&mut self) -> Vec<(EndpointId, Option<String>)> {
        let given_up = std::mem::take(&mut self.given_up);
        let reason = |endpoint| {
            Some((endpoint, self.by_endpoint.get(&endpoint)?.health.last_reason.clone()))
        };
        given_up.into_iter().filter_map(reason).collect()
    }

    /// Gives their turns to lanes that have waited long enough.
    fn wake(&mut self, now: Timestamp) {
        if now + SET_BACK < self.last_look {
            self.turn_back(self.last_look.since(now));
        }
        self.last_look = now;
        while let Some((until, endpoint)) =
            self.waiting.first().copied().filter(|(until, _)| *until <= now)
        {
            self.waiting.remove(&(until, endpoint));
            if let Some(lane) = self.by_endpoint.get_mut(&endpoint) {
                lane.stand = Stand::Nowhere;
            }
            self.give_turn(endpoint);
        }
    }

    /// The clock was set back: whoever waits must not wait for longer because of it.
    fn turn_back(&mut self, by: Duration) {
        let endpoints: Vec<EndpointId> = self.by_endpoint.keys().copied().collect();
        for endpoint in endpoints {
            let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { continue };
            lane.rests_until = lane.rests_until - by;
            lane.health.circuit.turn_back(by);
            self.stand_aside(endpoint);
            self.file(endpoint);
            self.give_turn(endpoint);
        }
    }

    /// Files a lane anew among those that are to be read.
    fn file(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        let at = lane.reads_at();
        if let Some(before) = lane.filed.filter(|before| Some(*before) != at) {
            self.parked.remove(&(before, endpoint));
        }
        lane.filed = at;
        if lane.staying.is_some() && !lane.moves() {
            self.stopped.insert(endpoint);
        } else {
            self.stopped.remove(&endpoint);
        }
        self.parked.extend(at.map(|at| (at, endpoint)));
    }

    /// Lets a lane that waits for a time look again whether it must.
    fn stand_aside(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if let Stand::Until(until) = lane.stand {
            self.waiting.remove(&(until, endpoint));
            lane.stand = Stand::Nowhere;
        }
    }

    fn give_turn(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if lane.is_ready() && lane.stand == Stand::Nowhere {
            self.tickets += 1;
            lane.stand = Stand::InTurn(self.tickets);
            self.rounds.push(lane.slow, &lane.settings.tenant, (endpoint, self.tickets));
        }
    }
}
