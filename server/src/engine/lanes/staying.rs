//! Fresh rows that have no room in memory and stay where they are. To park a row is to write it
//! once more; of a backlog that its receiver keeps up with, nearly every row would be. A lane
//! knows of a stretch of events among which such rows are, and is read from there too.
//!
//! They stay while the lane moves. When it does not any more, they are to be moved into the lane
//! in the database: there alone probes, the order of an ordered endpoint, and the ending of what
//! waits for a deleted one look for them.

use super::{Lanes, lane::Lane};
use crate::{
    domain::{
        circuit::CircuitState,
        id::{EndpointId, EventId},
    },
    store::{Row, Stretch},
};

/// Pages of others' rows that a stretch may span in one piece: to read it is to step over them.
const GAP_MAX: u64 = 8;

/// Rows that are parked, in the order in which they are due, and rows that stay, in the order of
/// their events, which were due when they were made. With each, whether it is one of the latter.
pub(super) fn by_due(parked: Vec<Row>, staying: Vec<Row>) -> Vec<(Row, bool)> {
    let mut all = Vec::with_capacity(parked.len() + staying.len());
    let mut staying = staying.into_iter().map(|row| (row, true)).peekable();
    for row in parked {
        while let Some(one) = staying.next_if(|(one, _)| one.event_id.created_at() <= row.due_at) {
            all.push(one);
        }
        all.push((row, false));
    }
    all.extend(staying);
    all
}

/// The stretch of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staying {
    /// From the first event to the last.
    pub events: (EventId, EventId),
    /// The page of its shard that held the last.
    page: u64,
}

impl Lane {
    /// Whether it is on the move, so that what stays for it will be read before long.
    pub fn moves(&self) -> bool {
        let closed = self.health.circuit.state() == CircuitState::Closed;
        closed && !self.settings.held && !self.settings.ordered
    }

    /// Takes note of where what stays of it begins now; `None` when nothing is left.
    pub(super) fn stays_from(&mut self, first: Option<EventId>) {
        self.staying = self.staying.and_then(|staying| {
            let events = (first?, staying.events.1);
            (events.0 <= events.1).then_some(Staying { events, ..staying })
        });
    }

    /// What stays of it, as the store wants to know it.
    pub(super) fn stretch(&self, endpoint: EndpointId, limit: usize) -> Option<Stretch> {
        let (first, last) = self.staying?.events;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Some(Stretch { shard: self.settings.shard, endpoint, first, last, limit })
    }
}

impl Lanes {
    /// Lets a row stay that a page of its shard held, of the rows that nobody has read before.
    /// False when it is to be parked.
    pub fn stay(&mut self, row: &Row, page: u64) -> bool {
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return false };
        if !lane.moves() {
            return false;
        }
        let event = row.event_id;
        let staying = lane.staying.get_or_insert(Staying { events: (event, event), page });
        if page.saturating_sub(staying.page) > GAP_MAX {
            return false;
        }
        let (first, last) = staying.events;
        *staying = Staying { events: (first.min(event), last.max(event)), page };
        self.park(row.endpoint_id, row.due_at);
        true
    }

    /// Whether a row is among those that stay already; its lane will come to it.
    pub fn stays(&mut self, row: &Row) -> bool {
        let Some(lane) = self.by_endpoint.get(&row.endpoint_id) else { return false };
        let among = |staying: Staying| {
            let (first, last) = staying.events;
            (first..=last).contains(&row.event_id)
        };
        let stays = lane.moves() && lane.staying.is_some_and(among);
        if stays {
            self.park(row.endpoint_id, row.due_at);
        }
        stays
    }

    /// Takes note of where what stays of a lane begins now; `None` when nothing is left of it.
    pub fn stays_from(&mut self, endpoint: EndpointId, first: Option<EventId>) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.stays_from(first);
        self.file(endpoint);
    }

    /// Of lanes that do not move, what stays and is to be moved: of so many lanes, in stretches of
    /// `rows` in all.
    pub fn to_move(&self, lanes: usize, rows: usize) -> Vec<Stretch> {
        let each = rows / self.stopped.len().clamp(1, lanes);
        let stopped = self.stopped.iter().take(lanes);
        stopped.filter_map(|endpoint| self.by_endpoint[endpoint].stretch(*endpoint, each)).collect()
    }

    /// Whether there is anything to move.
    pub fn have_to_move(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Whether a row is here, or under way from here.
    pub fn has(&self, row: &Row) -> bool {
        self.known.contains(&(row.event_id, row.endpoint_id))
    }
}
