//! Rows that stay: what the owner does about them, and SQL.

use super::Model;
use crate::{
    domain::id::EventId,
    store::{Row, Stretch},
};

impl Model {
    /// Parks all that stays of lanes that do not move.
    pub(super) fn move_stopped(&mut self) {
        while self.lanes.have_to_move() {
            for stretch in self.lanes.to_move(2, 4) {
                let rows = self.stretch(stretch);
                let full = rows.len() == usize::try_from(stretch.limit).unwrap();
                let last = rows.last().filter(|_| full);
                let rest = last.map(|last| EventId(last.event_id.0 + 1));
                for row in &rows {
                    if !self.lanes.has(row) {
                        self.park(row);
                    }
                }
                self.lanes.stays_from(stretch.endpoint, rest);
            }
        }
    }

    /// The fresh rows of a stretch.
    pub(super) fn stretch(&self, stretch: Stretch) -> Vec<Row> {
        let events = stretch.first..=stretch.last;
        let mut rows = self.rows(|parked, row| {
            !parked && row.endpoint_id == stretch.endpoint && events.contains(&row.event_id)
        });
        rows.truncate(usize::try_from(stretch.limit).unwrap());
        rows
    }
}
