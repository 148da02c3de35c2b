//! What is asked of an event before it first goes to an endpoint: does the endpoint's filter want it,
//! and may it pass by what is declared of its type. A redelivery asks the second again.

use super::{
    attempt::Mark,
    declared::{self, Asked, Declared},
    delivery::Cause,
    event::{Event, TEST_EVENT_TYPE},
    filter::Filter,
};

/// How a delivery ends without an attempt, if it does, and why in words. `declared` is `None`
/// where the door has asked already, and within it what is declared, if anything is.
pub fn judge(
    event: &Event,
    filter: Option<&Filter>,
    declared: Option<Option<&Declared>>,
    strict: bool,
) -> Option<(Mark, Option<Cause>, String)> {
    // A test asks whether events arrive, not whether the endpoint wants them.
    if let Some(filter) = filter
        && event.event_type != TEST_EVENT_TYPE
        && !filter.matches_bytes(&event.payload)
    {
        return Some((Mark::Filtered, None, String::new()));
    }
    // Of what providers send nobody can declare all; a type that is declared is held to its schema.
    let strict = strict && event.inbound.is_none();
    let asked = Asked {
        event_type: &event.event_type,
        version: event.version.as_deref(),
        payload: &event.payload,
    };
    let problems = declared::problems(strict, declared?, asked);
    if problems.is_empty() {
        return None;
    }
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Some((Mark::Dead, Some(Cause::Invalid), words.join("; ")))
}
