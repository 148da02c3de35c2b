//! The rows of a lane that are in memory, in the order in which they go: as they came, or, where
//! the endpoint wants it so, in the order of their events.

use std::collections::VecDeque;

use crate::{domain::id::EventId, store::Row};

/// A short queue of rows.
#[derive(Debug, Default)]
pub struct Ring(VecDeque<Row>);

impl Ring {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The event of the one that goes last.
    pub fn last(&self) -> Option<EventId> {
        self.0.back().map(|row| row.event_id)
    }

    /// Puts a row behind all others.
    pub fn push(&mut self, row: Row) {
        self.0.push_back(row);
    }

    /// Puts a row before all others.
    pub fn push_front(&mut self, row: Row) {
        self.0.push_front(row);
    }

    /// Puts a row where its event belongs.
    pub fn insert_by_event(&mut self, row: Row) {
        let place = self.0.partition_point(|other| other.event_id < row.event_id);
        self.0.insert(place, row);
    }

    /// Takes the next.
    pub fn pop(&mut self) -> Option<Row> {
        self.0.pop_front()
    }

    /// Takes the last.
    pub fn pop_last(&mut self) -> Option<Row> {
        self.0.pop_back()
    }

    /// Takes the row of an event.
    pub fn remove(&mut self, event: EventId) -> Option<Row> {
        let place = self.0.iter().position(|row| row.event_id == event)?;
        self.0.remove(place)
    }

    /// Takes all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = Row> {
        self.0.drain(..)
    }
}
