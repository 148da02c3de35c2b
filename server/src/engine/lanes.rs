//! The owner's memory: what may go next, fairly. Pure: no I/O, no clock.
//!
//! Each endpoint has a lane: a short ring of rows that are here, and the knowledge of when the
//! next of those that stayed in the database is due. Turns go round over tenants, then over each
//! tenant's lanes, one row a turn, so that no backlog stands in another's way. Rows over a
//! ring's size are parked: they wait in the database, where they cost nothing.

mod lane;
#[cfg(test)]
mod tests;
mod turns;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

pub use self::lane::LaneSettings;
use self::{lane::Lane, turns::Turns};
use crate::{
    domain::{
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::Row,
};

/// An attempt that takes longer marks its lane as slow. Healthy receivers answer in a second.
const SLOW: Duration = Duration::from_secs(2);

/// Rows in all rings together beyond which each lane keeps one only: ids, some 200 bytes each.
const ROWS_MAX: usize = 16_384;

/// What to do with a fresh row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in its ring now.
    Taken,
    /// It was here already.
    Known,
    /// Its lane is full, held or unknown: it is to be parked.
    Park,
}

/// All lanes of the shards that are ours.
#[derive(Debug)]
pub struct Lanes {
    by_endpoint: HashMap<EndpointId, Lane>,
    known: HashSet<(EventId, EndpointId)>,
    turns: Turns,
    /// Lanes that have something parked, by when it is due.
    parked: BTreeSet<(Timestamp, EndpointId)>,
    rows: usize,
    in_flight: usize,
    slow_in_flight: usize,
    slots: usize,
}

impl Lanes {
    /// For at most `slots` requests at once, over all endpoints.
    pub fn new(slots: usize) -> Self {
        Self {
            by_endpoint: HashMap::new(),
            known: HashSet::new(),
            turns: Turns::default(),
            parked: BTreeSet::new(),
            rows: 0,
            in_flight: 0,
            slow_in_flight: 0,
            slots,
        }
    }

    /// Takes an endpoint's settings, new or changed. When it is held, its rows leave the memory:
    /// they wait in the database, the fresh ones to be found by the sweep.
    pub fn set(&mut self, endpoint: EndpointId, settings: LaneSettings) {
        let lane = self.by_endpoint.entry(endpoint).or_insert_with(|| Lane::new(settings.clone()));
        lane.cap = if settings.cap == lane.settings.cap { lane.cap } else { settings.cap };
        lane.settings = settings;
        let due = lane.parked_due;
        self.set_parked(endpoint, due);
        self.give_turn(endpoint);
    }

    /// Whether this endpoint's settings are here.
    pub fn knows(&self, endpoint: EndpointId) -> bool {
        self.by_endpoint.contains_key(&endpoint)
    }

    /// Offers a fresh row.
    pub fn offer(&mut self, row: Row, now: Timestamp) -> Offer {
        let pair = (row.event_id, row.endpoint_id);
        if self.known.contains(&pair) {
            return Offer::Known;
        }
        let crowded = self.rows >= ROWS_MAX;
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return Offer::Park };
        // What is parked and due came earlier; it goes first.
        let behind = lane.parked_due.is_some_and(|due| due <= now);
        if lane.settings.held || behind || lane.ring.len() >= lane.ring_size(crowded) {
            return Offer::Park;
        }
        lane.ring.push_back(row);
        self.rows += 1;
        self.known.insert(pair);
        self.give_turn(pair.1);
        Offer::Taken
    }

    /// Takes note that rows were parked, the soonest of them due then.
    pub fn park(&mut self, endpoint: EndpointId, due: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if lane.parked_due.is_none_or(|soonest| due < soonest) {
            self.set_parked(endpoint, Some(due));
        }
    }

    /// The lanes of which to read what is parked, and how many rows of each: those that are due
    /// and run low. What is here is read along each time, so a lane is not read for every row.
    pub fn to_read(&self, now: Timestamp, most: usize) -> Vec<(i16, EndpointId, usize)> {
        let crowded = self.rows >= ROWS_MAX;
        let due = self.parked.range(..=(now, EndpointId(i64::MAX)));
        due.filter_map(|(_, endpoint)| {
            let lane = &self.by_endpoint[endpoint];
            let room = lane.room(crowded);
            // What is here lies in the same table and is read along, and one row more tells
            // when the next is due.
            let limit = lane.ring.len() + lane.in_flight + lane.shelved + room + 1;
            let may_go = lane.runs_low(crowded) && lane.rests_until <= now;
            may_go.then_some((lane.settings.shard, *endpoint, limit))
        })
        .take(most)
        .collect()
    }

    /// Takes what a lane's read gave, the soonest first; `limit` is what was asked for.
    pub fn fill(&mut self, endpoint: EndpointId, rows: Vec<Row>, limit: usize, now: Timestamp) {
        let crowded = self.rows >= ROWS_MAX;
        let exhausted = rows.len() < limit;
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        let mut next_due = None;
        let mut last_due = now;
        for row in rows {
            let pair = (row.event_id, row.endpoint_id);
            last_due = row.due_at;
            if self.known.contains(&pair) {
                continue;
            }
            if row.due_at > now || lane.ring.len() >= lane.ring_size(crowded) {
                next_due = Some(row.due_at);
                break;
            }
            lane.ring.push_back(row);
            self.rows += 1;
            self.known.insert(pair);
        }
        let unread = (!exhausted).then_some(last_due);
        self.set_parked(endpoint, next_due.or(unread));
        self.give_turn(endpoint);
    }

    /// Takes up to `most` rows whose turn it is. Each is in flight until it is given back by
    /// [`Lanes::finish`].
    pub fn next(&mut self, now: Timestamp, most: usize) -> Vec<Row> {
        let mut taken = Vec::new();
        // Each lane that cannot go now is looked at once a call, then stays out of turn.
        let mut waiting = Vec::new();
        while taken.len() < most && self.in_flight < self.slots {
            let Some(endpoint) = self.turns.pop() else { break };
            let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { continue };
            lane.in_turn = false;
            if lane.settings.held || lane.in_flight >= lane.cap {
                continue;
            }
            // Slow receivers never take more than half the slots.
            if lane.rests_until > now || (lane.slow && self.slow_in_flight >= self.slots / 2) {
                waiting.push(endpoint);
                continue;
            }
            let Some(row) = lane.ring.pop_front() else { continue };
            lane.in_flight += 1;
            self.slow_in_flight += usize::from(lane.slow);
            self.in_flight += 1;
            self.rows -= 1;
            taken.push(row);
            self.give_turn(endpoint);
        }
        for endpoint in waiting {
            self.give_turn(endpoint);
        }
        taken
    }

    /// Gives a row back: its attempt is over. `due` when it stays in the queue.
    pub fn finish(&mut self, row: &Row, due: Option<Timestamp>, took: Duration, success: bool) {
        self.known.remove(&(row.event_id, row.endpoint_id));
        self.free(row, took, success);
        if let Some(due) = due {
            self.park(row.endpoint_id, due);
        }
    }

    /// Frees the slot of a row that must not go again from here, as nobody could record that it
    /// went. Its next owner sends it once more.
    pub fn shelve(&mut self, row: &Row) {
        if let Some(lane) =
            self.by_endpoint.get_mut(&row.endpoint_id).filter(|lane| lane.in_flight > 0)
        {
            lane.shelved += 1;
            self.free(row, Duration::ZERO, false);
        }
    }

    fn free(&mut self, row: &Row, took: Duration, success: bool) {
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return };
        if lane.in_flight == 0 {
            return; // the shard was lost and taken again in between
        }
        lane.in_flight -= 1;
        self.in_flight -= 1;
        self.slow_in_flight = self.slow_in_flight.saturating_sub(usize::from(lane.slow));
        let slow = took > SLOW;
        if slow != lane.slow {
            lane.slow = slow;
            let others = lane.in_flight;
            self.slow_in_flight = if slow {
                self.slow_in_flight + others
            } else {
                self.slow_in_flight.saturating_sub(others)
            };
        }
        if success {
            lane.cap = (lane.cap + 1).min(lane.settings.cap);
        }
        self.give_turn(row.endpoint_id);
    }

    /// Gives a row back to the front of its ring: its attempt did not take place.
    pub fn put_back(&mut self, row: Row) {
        let endpoint = row.endpoint_id;
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.in_flight = lane.in_flight.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.slow_in_flight = self.slow_in_flight.saturating_sub(usize::from(lane.slow));
        lane.ring.push_front(row);
        self.rows += 1;
        self.give_turn(endpoint);
    }

    /// The receiver asks for less: nothing goes before `until`, then half as much at once.
    pub fn slow_down(&mut self, endpoint: EndpointId, until: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.rests_until = lane.rests_until.max(until);
        lane.cap = (lane.cap / 2).max(1);
    }

    /// Somebody changed the lane or its endpoint: read it anew, and rest no longer for what the
    /// receiver said before.
    pub fn look(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.rests_until = Timestamp::default();
        self.park(endpoint, Timestamp(0));
    }

    /// Forgets a row that waits in its ring. False when it is in flight or not here.
    pub fn let_go(&mut self, event: EventId, endpoint: EndpointId) -> bool {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return false };
        let Some(place) = lane.ring.iter().position(|row| row.event_id == event) else {
            return false;
        };
        lane.ring.remove(place);
        self.rows -= 1;
        self.known.remove(&(event, endpoint));
        true
    }

    /// Forgets all rows of an endpoint that wait here, and gives them.
    pub fn clear(&mut self, endpoint: EndpointId) -> Vec<Row> {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return Vec::new() };
        let rows: Vec<Row> = lane.ring.drain(..).collect();
        self.rows -= rows.len();
        for row in &rows {
            self.known.remove(&(row.event_id, row.endpoint_id));
        }
        rows
    }

    /// Forgets a shard that is not ours any more. What is in flight finishes late.
    pub fn remove_shard(&mut self, shard: i16) {
        let ours = |lane: &Lane| lane.settings.shard == shard;
        let gone =
            self.by_endpoint.iter().filter(|(_, lane)| ours(lane)).map(|(endpoint, _)| *endpoint);
        self.remove_all(gone.collect());
    }

    /// Forgets an endpoint that is no more. False while it has requests under way.
    pub fn remove(&mut self, endpoint: EndpointId) -> bool {
        let busy = self.by_endpoint.get(&endpoint).is_some_and(|lane| lane.in_flight > 0);
        if !busy {
            self.remove_all(vec![endpoint]);
        }
        !busy
    }

    fn remove_all(&mut self, gone: Vec<EndpointId>) {
        if gone.is_empty() {
            return;
        }
        for endpoint in gone {
            self.clear(endpoint);
            self.set_parked(endpoint, None);
            if let Some(lane) = self.by_endpoint.remove(&endpoint) {
                self.in_flight -= lane.in_flight;
                self.slow_in_flight -= if lane.slow { lane.in_flight } else { 0 };
            }
        }
        let lanes = &self.by_endpoint;
        self.known.retain(|(_, endpoint)| lanes.contains_key(endpoint));
        self.turns.retain(|endpoint| lanes.contains_key(&endpoint));
    }

    /// When the next parked row is due, or a lane has rested.
    pub fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let resting =
            self.by_endpoint.values().filter(|lane| lane.in_turn && lane.rests_until > now);
        let mut soonest = resting.map(|lane| lane.rests_until).min();
        let crowded = self.rows >= ROWS_MAX;
        for (due, endpoint) in &self.parked {
            if soonest.is_some_and(|soonest| soonest <= *due) {
                break;
            }
            let lane = &self.by_endpoint[endpoint];
            if *due > now || lane.runs_low(crowded) {
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

    fn set_parked(&mut self, endpoint: EndpointId, due: Option<Timestamp>) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if let Some(before) = lane.parked_due {
            self.parked.remove(&(before, endpoint));
        }
        lane.parked_due = due;
        // What is held is not due, however long it waits.
        self.parked.extend(due.filter(|_| !lane.settings.held).map(|due| (due, endpoint)));
    }

    fn give_turn(&mut self, endpoint: EndpointId) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        let ready = !lane.settings.held && lane.in_flight < lane.cap && !lane.ring.is_empty();
        if !ready || lane.in_turn {
            return;
        }
        lane.in_turn = true;
        self.turns.push(&lane.settings.tenant, endpoint);
    }
}
