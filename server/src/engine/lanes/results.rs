//! What attempts tell the lanes: slots become free, caps shrink and grow, and the endpoint's
//! health and circuit learn.

use std::time::Duration;

use super::{Lanes, SLOW, lane::Stand};
use crate::{
    domain::{circuit::Passage, health::Lesson, id::EndpointId, signal::Signal, time::Timestamp},
    store::Row,
};

/// What became of a row that was in flight.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// When it is due again, if it stays in the queue.
    pub due: Option<Timestamp>,
    /// How long its attempt took.
    pub took: Duration,
    /// What the attempt says of its endpoint.
    pub signal: Signal,
    /// Why it failed, by its stable name.
    pub reason: Option<&'static str>,
    /// What was answered.
    pub status: Option<u16>,
    /// When it was over.
    pub now: Timestamp,
    /// 64 random bits.
    pub chance: u64,
}

impl Lanes {
    /// Takes a row back: its attempt is over.
    pub fn finish(&mut self, row: &Row, report: &Report) {
        self.known.remove(&(row.event_id, row.endpoint_id));
        let asked = report.signal != Signal::Silent;
        let ours = self.free(row, asked.then_some(report.took));
        if let Some(due) = report.due {
            self.park(row.endpoint_id, due);
        }
        if !ours {
            return;
        }
        self.learn(row, report);
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return };
        if report.signal == Signal::Works {
            lane.cap = (lane.cap + 1).min(lane.settings.cap);
        }
        if lane.settings.ordered && report.due.is_some() {
            self.empty(row.endpoint_id); // nothing may overtake it
        }
        self.give_turn(row.endpoint_id);
    }

    fn learn(&mut self, row: &Row, report: &Report) {
        let endpoint = row.endpoint_id;
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        let probe = lane.probe.take_if(|event| *event == row.event_id).is_some();
        let nothing_due = lane.parked_due.is_none_or(|due| due > report.now);
        let passage = Passage {
            signal: report.signal,
            event: row.event_id,
            probe,
            cap: lane.settings.cap,
            idle: lane.ring.is_empty() && lane.in_flight == 0 && nothing_due,
            now: report.now,
            chance: report.chance,
        };
        let lesson = Lesson { passage, reason: report.reason, status: report.status };
        let was_open = lane.is_open();
        let change = lane.health.learn(&lesson, &self.health, &self.circuit);
        let opens = !was_open && lane.is_open();
        if change.write {
            self.changed.insert(endpoint);
        }
        if change.disable {
            self.given_up.push(endpoint);
        }
        if change.warn {
            tracing::warn!(%endpoint, "fails for long, and will be disabled if it goes on");
        }
        if opens {
            self.empty(endpoint);
        }
        self.file(endpoint);
    }

    /// Frees the slot of a row that must not go again from here, as nobody could record that it
    /// went. Its next owner sends it once more.
    pub fn shelve(&mut self, row: &Row, now: Timestamp, chance: u64) {
        if !self.free(row, None) {
            return;
        }
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return };
        lane.shelved += 1;
        let (due, took) = (None, Duration::ZERO);
        let (signal, reason, status) = (Signal::Unclear, None, None);
        self.learn(row, &Report { due, took, signal, reason, status, now, chance });
        self.give_turn(row.endpoint_id);
    }

    /// Frees a slot. False when the shard was lost and taken again in between: then the slot is
    /// free already.
    fn free(&mut self, row: &Row, took: Option<Duration>) -> bool {
        let Some(lane) = self.by_endpoint.get_mut(&row.endpoint_id) else { return false };
        if lane.in_flight == 0 {
            return false;
        }
        lane.in_flight -= 1;
        self.in_flight -= 1;
        self.slow_in_flight = self.slow_in_flight.saturating_sub(usize::from(lane.slow));
        let slow = took.map_or(lane.slow, |took| took > SLOW);
        if slow != lane.slow {
            lane.slow = slow;
            if let Stand::InTurn(_) = lane.stand {
                lane.stand = Stand::Nowhere; // its place is in the other round
            }
            let others = lane.in_flight;
            self.slow_in_flight = if slow {
                self.slow_in_flight + others
            } else {
                self.slow_in_flight.saturating_sub(others)
            };
        }
        self.file(row.endpoint_id);
        self.give_turn(row.endpoint_id);
        true
    }

    /// Gives a row back to the front of its ring, or to its lane in the database: its attempt did
    /// not take place.
    pub fn put_back(&mut self, row: Row) {
        let endpoint = row.endpoint_id;
        if !self.free(&row, None) {
            return;
        }
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        if let Some(rate) = lane.settings.rate {
            lane.pace.give_back(rate);
        }
        // The circuit has opened meanwhile, or an earlier event came and was parked.
        let stays = !lane.settings.ordered && (!lane.is_open() || lane.probe == Some(row.event_id));
        if stays {
            lane.ring.push_front(row);
            self.rows += 1;
        } else {
            lane.probe.take_if(|event| *event == row.event_id);
            self.known.remove(&(row.event_id, endpoint));
            self.empty(endpoint); // or what is behind it would go before it
            self.park(endpoint, row.due_at);
            self.left.push(row);
            self.file(endpoint);
        }
        self.give_turn(endpoint);
    }

    /// The receiver asks for less: nothing goes before `until`, then half as much at once.
    pub fn slow_down(&mut self, endpoint: EndpointId, until: Timestamp) {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return };
        lane.rests_until = lane.rests_until.max(until);
        lane.cap = (lane.cap / 2).max(1);
    }
}
