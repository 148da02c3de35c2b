//! What was done is written once: the attempt becomes history, the queue's row goes or gets a
//! new due time, and both in one statement or transaction for a whole batch.
//!
//! The fence is `attempt = seen`. Whoever finds it moved on came too late: its attempt is kept,
//! as `late`, and changes no state. A batch whose commit was never heard of may be completed
//! again: an attempt is known by its event, endpoint, number and start.
//!
//! The two databases do it in ways of their own: the one place where speed has its price.

mod postgres;
mod sqlite;

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;

use super::{Db, Row, StoreError, Tx};
use crate::domain::{
    attempt::Mark,
    delivery::Cause,
    id::{EndpointId, EventId},
    time::Timestamp,
};

/// A delivery whose attempt is over, or that ended without one.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The row as it was when the attempt began.
    pub row: Row,
    /// What to do with it. `Late` is for this module to decide.
    pub mark: Mark,
    /// Of what it died.
    pub cause: Option<Cause>,
    /// When it is due again, for `Mark::Retry`.
    pub due_at: Timestamp,
    /// Whether a request left. What was not sent does not count as an attempt.
    pub sent: bool,
    /// Whether the ladder counts it: a probe ahead of its time does not.
    pub counted: bool,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The receiver's status code.
    pub status: Option<u16>,
    /// The reason's stable name, if it failed.
    pub reason: Option<&'static str>,
    /// JSON: where it went, what was answered, how long each part took.
    pub detail: String,
    /// The beginning of the answer's body.
    pub response: Option<Bytes>,
}

impl Finished {
    /// An ending that somebody asked for.
    pub fn canceled(row: Row, now: Timestamp, detail: String) -> Self {
        Self {
            row,
            mark: Mark::Canceled,
            cause: None,
            due_at: now,
            sent: false,
            counted: false,
            started_at: now,
            took: Duration::ZERO,
            status: None,
            reason: None,
            detail,
            response: None,
        }
    }

    /// The delivery.
    pub fn pair(&self) -> (EventId, EndpointId) {
        (self.row.event_id, self.row.endpoint_id)
    }

    /// Whether it is to be known as a probe ahead of its time.
    fn probe(&self) -> bool {
        self.sent && !self.counted
    }

    fn rung(&self) -> i32 {
        self.row.rung.saturating_add(i32::from(self.counted))
    }
}

/// What a batch came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Those that came too late.
    pub late: HashSet<(EventId, EndpointId)>,
    /// Those that the database would not take, each alone. For the caller to fill in.
    pub unwritten: HashSet<(EventId, EndpointId)>,
}

impl Tx {
    /// Completes a batch, in the open transaction or, where there is none, each statement by itself.
    pub async fn complete(
        &mut self,
        batch: &[Finished],
        now: Timestamp,
    ) -> Result<Completion, StoreError> {
        if batch.is_empty() {
            return Ok(Completion::default());
        }
        match self.db {
            Db::Postgres(_) => self.complete_in_postgres(batch, now).await,
            Db::Sqlite(_) => self.complete_in_sqlite(batch, now).await,
        }
    }
}

/// Whether nothing is to be said of it but that it was delivered.
fn is_plain(one: &Finished) -> bool {
    one.mark == Mark::Delivered && one.sent && one.counted && one.reason.is_none()
}

fn micros(took: Duration) -> i64 {
    i64::try_from(took.as_micros()).unwrap_or(i64::MAX)
}
