//! What an attempt says of its endpoint, as far as health and circuit listen.

use super::outcome::{Outcome, Plain, Reason};

/// The status by which a receiver says that it is there and has enough for now.
const TOO_MANY_REQUESTS: u16 = 429;

/// What an attempt says of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It works: a 2xx.
    Works,
    /// It answered as its owner wants it to, and does not want this event: a failure, but no sign
    /// that the next one would fail.
    Answers,
    /// It fails. What the guard refuses is among it.
    Fails,
    /// It is there and asks for less: a 429.
    Busy,
    /// Nothing was learned, though a request left or should have: a defect of our own.
    Unclear,
    /// Nothing was asked of it: filtered, invalid, canceled, or settled by somebody else.
    Silent,
}

impl Signal {
    /// Of an attempt that came to `outcome`, by an answer's `status` or by a `reason` without one.
    pub fn of(outcome: Outcome, status: Option<u16>, reason: Option<Reason>) -> Self {
        match outcome {
            Outcome::Delivered => Self::Works,
            Outcome::Refused => Self::Answers,
            Outcome::Failed { .. } if status == Some(TOO_MANY_REQUESTS) => Self::Busy,
            Outcome::Failed { .. } if reason == Some(Plain::Internal.into()) => Self::Unclear,
            Outcome::Failed { .. } | Outcome::Blocked | Outcome::Gone => Self::Fails,
        }
    }

    /// Whether the failure clock takes it for a failure.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Answers | Self::Fails | Self::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::address::Verdict;

    #[test]
    fn an_outcome_says_something_of_its_endpoint() {
        let failed = |slow| Outcome::Failed { retry_after: None, slow };
        let blocked = Some(Reason::Blocked(Verdict::Private));
        for (outcome, status, reason, expected, is_failure, why) in [
            (Outcome::Delivered, Some(204), None, Signal::Works, false, "a yes"),
            (Outcome::Refused, Some(400), None, Signal::Answers, true, "a no that is wanted"),
            (Outcome::Gone, Some(410), None, Signal::Fails, true, "never again"),
            (Outcome::Blocked, None, blocked, Signal::Fails, true, "the guard counts for health"),
            (failed(false), Some(500), None, Signal::Fails, true, "a failure"),
            (failed(true), Some(503), None, Signal::Fails, true, "down, and says so"),
            (failed(true), Some(429), None, Signal::Busy, true, "the clock, not the circuit"),
            (
                failed(false),
                None,
                Some(Plain::TimeoutTotal.into()),
                Signal::Fails,
                true,
                "no answer",
            ),
            (
                failed(false),
                None,
                Some(Plain::Internal.into()),
                Signal::Unclear,
                false,
                "our fault",
            ),
        ] {
            let signal = Signal::of(outcome, status, reason);
            assert_eq!((signal, signal.is_failure()), (expected, is_failure), "{why}");
        }
    }
}
