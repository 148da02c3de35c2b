//! How rows come into the lanes: fresh ones as they are found, parked ones as they are read. Not
//! here: the reading, which is the owner's.

use super::{Lane, Lanes, ROWS_AMPLE, ROWS_MAX, staying::by_due};
use crate::{
    domain::{
        circuit::Circuit,
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::{Row, Stretch},
};

/// What to do with a fresh row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in its ring now.
    Taken,
    /// It was here already.
    Known,
    /// Its lane is full, held or unknown: it is to be parked.
    Park,
    /// It is in its ring now, and another, which goes later, is to be parked instead.
    Displaced(Box<Row>),
}

/// In which order a lane is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The soonest due first.
    Due,
    /// By their events.
    Event,
    /// One, to probe an open circuit with: the oldest behind this event, or else the oldest.
    Probe(EventId),
}

/// What is parked in a lane, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The lane's shard.
    pub shard: i16,
    /// And its endpoint.
    pub endpoint: EndpointId,
    /// In which order.
    pub order: Order,
    /// How many rows.
    pub limit: usize,
    /// What stays of it, to be read along where the order is that of due times.
    pub staying: Option<Stretch>,
}

impl Lanes {
    /// Offers a fresh row.
    pub fn offer(&mut self, row: &Row, now: Timestamp) -> Offer {
        let pair = (row.event_id, row.endpoint_id);
        if self.known.contains(&pair) {
            return Offer::Known;
        }
        let (crowded, ample) = (self.rows >= ROWS_MAX, self.rows < ROWS_AMPLE);
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return Offer::Park };
        if lane.settings.held {
            return Offer::Park;
        }
        let mut displaced = None;
        if let Some(probe_at) = lane.health.circuit.probe_at() {
            let waits = lane.probe.is_some() || lane.parked_due.is_some() || lane.in_flight > 0;
            if waits || probe_at > now {
                return Offer::Park;
            }
            lane.probe = Some(row.event_id);
            lane.ring.push(row.clone());
        } else if lane.settings.ordered {
            let full = lane.ring.len() >= lane.ring_size(crowded);
            let last = lane.ring.last();
            // What is parked goes after all that is here.
            let behind = last.is_none_or(|last| last < row.event_id);
            if behind && (full || lane.parked_due.is_some()) {
                return Offer::Park;
            }
            displaced = if full { lane.ring.pop_last() } else { None };
            lane.ring.insert_by_event(row.clone());
        } else {
            // What is parked and due came earlier; it goes first.
            let behind = lane.parked_due.is_some_and(|due| due <= now);
            if behind || lane.ring.len() >= lane.fresh_ring_size(crowded, ample) {
                return Offer::Park;
            }
            lane.ring.push(row.clone());
        }
        self.rows += 1;
        self.known.insert(pair);
        self.file(pair.1);
        self.give_turn(pair.1);
        match displaced {
            None => Offer::Taken,
            Some(other) => {
                self.rows -= 1;
                self.known.remove(&(other.event_id, other.endpoint_id));
                Offer::Displaced(Box::new(other))
            }
        }
    }

    /// Takes note that rows were parked, the soonest of them due then.
    pub fn park(&mut self, endpoint: EndpointId, due: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if lane.parked_due.is_none_or(|soonest| due < soonest) {
            lane.parked_due = Some(due);
            self.file(endpoint);
        }
    }

    /// The lanes of which to read what is parked: those that are due and run low. What is here is
    /// read along each time, so a lane is not read for every row.
    pub fn to_read(&self, now: Timestamp, most: usize) -> Vec<Read> {
        let crowded = self.rows >= ROWS_MAX;
        let due = self.parked.range(..=(now, EndpointId(i64::MAX)));
        due.map(|(_, endpoint)| (endpoint, &self.by_endpoint[endpoint]))
            .filter(|(_, lane)| self.may_be_read(lane, crowded) && lane.rests_until <= now)
            .take(most)
            .map(|(endpoint, lane)| {
                let order = order_of(lane);
                // One row more tells when the next is due.
                let room = if lane.is_open() { 0 } else { lane.room(crowded) } + 1;
                // What is here may be parked too, and is read along. It is in no stretch.
                let limit = lane.ring.len() + lane.in_flight + lane.shelved + room;
                let staying = lane.stretch(*endpoint, room).filter(|_| order == Order::Due);
                Read { shard: lane.settings.shard, endpoint: *endpoint, order, limit, staying }
            })
            .collect()
    }

    /// Whether a lane is to be read once its time has come.
    pub(super) fn may_be_read(&self, lane: &Lane, crowded: bool) -> bool {
        !lane.waits_for_order(&self.unread) && (lane.is_open() || lane.runs_low(crowded))
    }

    /// Takes what a lane's read gave, in the order that was asked for: of what is parked, and of
    /// what stays.
    pub fn fill(&mut self, read: &Read, parked: Vec<Row>, staying: Vec<Row>, now: Timestamp) {
        if let Order::Probe(_) = read.order {
            self.fill_probe(read.endpoint, parked);
            return;
        }
        let endpoint = read.endpoint;
        let mut stays_from = read.staying.and_then(|stretch| stretch.rest(&staying));
        let exhausted = parked.len() < read.limit && stays_from.is_none();
        let crowded = self.rows >= ROWS_MAX;
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        let mut next_due = None;
        let mut last_due = now;
        for (row, stays) in by_due(parked, staying) {
            let pair = (row.event_id, row.endpoint_id);
            last_due = row.due_at;
            if self.known.contains(&pair) {
                continue;
            }
            if next_due.is_some() || row.due_at > now || lane.ring.len() >= lane.ring_size(crowded)
            {
                next_due = next_due.or(Some(row.due_at));
                if stays {
                    stays_from = Some(row.event_id);
                    break;
                }
                continue;
            }
            if read.order == Order::Event {
                lane.ring.insert_by_event(row);
            } else {
                lane.ring.push(row);
            }
            self.rows += 1;
            self.known.insert(pair);
        }
        if read.staying.is_some() {
            lane.stays_from(stays_from);
        }
        let unread = (!exhausted).then_some(last_due);
        lane.parked_due = next_due.or(unread);
        let nothing_due = lane.parked_due.is_none_or(|due| due > now);
        let idle = lane.ring.is_empty() && lane.in_flight == 0 && nothing_due;
        if idle && lane.health.circuit.close_idle() {
            self.changed.insert(endpoint);
        }
        self.file(endpoint);
        self.give_turn(endpoint);
    }

    fn fill_probe(&mut self, endpoint: EndpointId, rows: Vec<Row>) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.wanted = None;
        let fresh = rows.into_iter().find(|row| !self.known.contains(&(row.event_id, endpoint)));
        match fresh {
            Some(row) => {
                lane.probe = Some(row.event_id);
                self.known.insert((row.event_id, endpoint));
                self.rows += 1;
                lane.ring.push(row);
            }
            None => lane.parked_due = None,
        }
        self.file(endpoint);
        self.give_turn(endpoint);
    }

    /// Somebody changed the lane or its endpoint: read it anew, and rest no longer for what the
    /// receiver said before. The `event` that somebody wants sent now goes even where the circuit
    /// is open, as its probe.
    pub fn look(&mut self, endpoint: EndpointId, event: Option<EventId>, now: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.rests_until = Timestamp::default();
        if lane.settings.ordered && !lane.is_open() {
            self.empty(endpoint); // what has come may go before what is here
        }
        self.stand_aside(endpoint);
        self.park(endpoint, Timestamp(0));
        self.give_turn(endpoint);
        if event.is_some() {
            self.probe_now(endpoint, event, now);
        }
    }

    /// Lets an open circuit be probed now, with the delivery of `event` if there is one.
    pub fn probe_now(&mut self, endpoint: EndpointId, event: Option<EventId>, now: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if lane.health.circuit.probe_now(now) {
            // An ordered lane probes with its head, whatever somebody wants.
            lane.wanted = event.filter(|_| !lane.settings.ordered).or(lane.wanted);
            lane.rests_until = Timestamp::default();
            self.stand_aside(endpoint);
            self.file(endpoint);
            self.give_turn(endpoint);
        }
    }
}

fn order_of(lane: &Lane) -> Order {
    match &lane.health.circuit {
        Circuit::Open { .. } if lane.settings.ordered => Order::Probe(EventId(0)),
        Circuit::Open { probed, .. } => {
            let wanted = lane.wanted.map(|event| EventId(event.0 - 1));
            Order::Probe(wanted.or(*probed).unwrap_or(EventId(0)))
        }
        _ if lane.settings.ordered => Order::Event,
        _ => Order::Due,
    }
}
