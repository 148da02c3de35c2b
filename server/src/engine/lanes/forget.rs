//! How rows and lanes leave the memory: one that was canceled, all of an endpoint that is held,
//! all of a shard that is another's now. The tables know of every row that is forgotten here.

use super::Lanes;
use crate::{
    domain::id::{EndpointId, EventId},
    store::Row,
};

impl Lanes {
    /// Forgets a row that waits in its ring. False when it is in flight or not here.
    pub fn let_go(&mut self, event: EventId, endpoint: EndpointId) -> bool {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return false };
        if lane.ring.remove(event).is_none() {
            return false;
        }
        lane.probe.take_if(|probe| *probe == event);
        self.rows -= 1;
        self.known.remove(&(event, endpoint));
        self.file(endpoint);
        true
    }

    /// Forgets all rows of an endpoint that wait here, and gives them.
    pub fn clear(&mut self, endpoint: EndpointId) -> Vec<Row> {
        let Some(lane) = self.by_endpoint.get_mut(&endpoint) else { return Vec::new() };
        let rows: Vec<Row> = lane.ring.drain().collect();
        self.rows -= rows.len();
        for row in &rows {
            lane.probe.take_if(|probe| *probe == row.event_id);
            self.known.remove(&(row.event_id, row.endpoint_id));
        }
        self.file(endpoint);
        rows
    }

    /// Lets all rows of a lane wait in the database, to be read again in their order.
    pub(super) fn empty(&mut self, endpoint: EndpointId) {
        let rows = self.clear(endpoint);
        self.left.extend(rows);
    }

    /// Forgets a shard that is not ours any more. What is in flight finishes late.
    pub fn remove_shard(&mut self, shard: i16) {
        let ours = self.by_endpoint.iter().filter(|(_, lane)| lane.settings.shard == shard);
        let gone = ours.map(|(endpoint, _)| *endpoint).collect();
        self.remove_all(gone);
    }

    /// Forgets an endpoint that is no more. False while it has requests under way, or rows that
    /// are still to be parked.
    pub fn remove(&mut self, endpoint: EndpointId) -> bool {
        let busy = self
            .by_endpoint
            .get(&endpoint)
            .is_some_and(|lane| lane.in_flight > 0 || lane.staying.is_some());
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
            self.stand_aside(endpoint);
            if let Some(lane) = self.by_endpoint.remove(&endpoint) {
                if let Some(filed) = lane.filed {
                    self.parked.remove(&(filed, endpoint));
                }
                self.in_flight -= lane.in_flight;
                self.slow_in_flight -= if lane.slow { lane.in_flight } else { 0 };
            }
            self.stopped.remove(&endpoint);
            self.changed.remove(&endpoint);
        }
        let lanes = &self.by_endpoint;
        self.known.retain(|(_, endpoint)| lanes.contains_key(endpoint));
        self.left.retain(|row| lanes.contains_key(&row.endpoint_id));
        self.rounds.retain(|endpoint| lanes.contains_key(&endpoint));
    }
}
