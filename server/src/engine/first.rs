//! What is asked once, before attempt 1: does the endpoint's filter want the event, and does the
//! event keep to its schema. SQL cannot ask either, and HTTP has asked the second already.

use std::sync::Arc;

use super::attempt::Job;
use crate::domain::{attempt::Mark, delivery::Cause, event::TEST_EVENT_TYPE};

/// What is known of an event's schema.
#[derive(Clone, Debug)]
pub enum Check<S> {
    /// Nothing to check: no schema, or checked at the door.
    None,
    /// It must keep to this.
    Schema(S),
    /// Its type is not declared, and the operator wants that all are.
    Undeclared,
}

/// How a delivery ends without a request, if it does, and why in words.
pub fn judge(job: &Job) -> Option<(Mark, Option<Cause>, String)> {
    if job.row.attempt > 0 {
        return None;
    }
    let event = job.event.as_ref()?;
    // A test asks whether requests arrive, not whether the endpoint wants them.
    if let Some(filter) = &job.endpoint.filter
        && event.event_type != TEST_EVENT_TYPE
        && !filter.matches_bytes(&event.payload)
    {
        return Some((Mark::Filtered, None, String::new()));
    }
    let invalid = |problem| Some((Mark::Dead, Some(Cause::Invalid), problem));
    match &job.check {
        Check::None => None,
        Check::Undeclared => invalid(format!(
            "the event type {} is not declared; declare it, or set event_types.strict to false",
            event.event_type
        )),
        Check::Schema(schema) => {
            let problems = Arc::as_ref(schema).check(&event.payload);
            if problems.is_empty() {
                return None;
            }
            let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
            invalid(words.join("; "))
        }
    }
}
