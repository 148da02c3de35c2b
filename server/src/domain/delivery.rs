//! What becomes of a delivery: its states, the causes of its death, and the one function that
//! decides after an attempt. It knows neither clock nor database.

use super::{
    outcome::Outcome,
    retry::{Jitter, RetrySchedule},
    time::Timestamp,
};

coded! {
    /// Where a delivery stands.
    State {
        /// Due now or later; also while its request is under way.
        Pending = 0, "pending";
        /// Waits until its endpoint is resumed, enabled or ready.
        Held = 1, "held";
        /// The receiver has it.
        Delivered = 2, "delivered";
        /// Ended without success; a [`Cause`] says why.
        Dead = 3, "dead";
        /// Called off, or its endpoint was deleted.
        Canceled = 4, "canceled";
    }
}

impl State {
    /// Whether nothing more happens to it by itself.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead | Self::Canceled)
    }
}

coded! {
    /// Why a delivery is dead.
    Cause {
        /// Every attempt of the ladder failed.
        Exhausted = 1, "exhausted";
        /// The receiver answered 410.
        Gone = 2, "gone";
        /// The receiver answered with a status that the endpoint calls final.
        Refused = 3, "refused";
        /// The address guard refused the last attempt of the ladder.
        Blocked = 4, "blocked";
        /// Retention ended while its endpoint was disabled, or its owner discarded it.
        Disabled = 5, "disabled";
        /// Retention ended before its ladder.
        Expired = 6, "expired";
        /// The payload is not what the schema of its type says.
        Invalid = 7, "invalid";
    }
}

/// What happens next to a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next attempt, on the next rung, not before `due`.
    Retry {
        /// When.
        due: Timestamp,
    },
    /// It has arrived.
    Delivered,
    /// It is dead.
    Dead(Cause),
}

/// What happens after the attempt on `rung` (from 0, within the present run) came to `outcome` at
/// `now`. `chance` are 64 random bits for the jitter.
pub fn settle(
    rung: u32,
    outcome: Outcome,
    schedule: &RetrySchedule,
    jitter: Jitter,
    now: Timestamp,
    chance: u64,
) -> Next {
    let (retry_after, cause) = match outcome {
        Outcome::Delivered => return Next::Delivered,
        Outcome::Gone => return Next::Dead(Cause::Gone),
        Outcome::Refused => return Next::Dead(Cause::Refused),
        Outcome::Blocked => (None, Cause::Blocked),
        Outcome::Failed { retry_after, .. } => (retry_after, Cause::Exhausted),
    };
    match schedule.pause_before(rung.saturating_add(1), retry_after, jitter, chance) {
        Some(pause) => Next::Retry { due: now + pause },
        None => Next::Dead(cause),
    }
}

/// What happens after a probe ahead of its time, of a delivery that is due at `due`: whether it has
/// arrived or ended, or else nothing, for its ladder does not count it.
pub fn settle_probe(outcome: Outcome, due: Timestamp, now: Timestamp) -> Next {
    match outcome {
        Outcome::Delivered => Next::Delivered,
        Outcome::Gone => Next::Dead(Cause::Gone),
        Outcome::Refused => Next::Dead(Cause::Refused),
        Outcome::Blocked => Next::Retry { due },
        Outcome::Failed { retry_after, .. } => {
            Next::Retry { due: due.max(now + retry_after.unwrap_or_default()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::domain::{final_statuses::FinalStatuses, outcome::classify, retry::RETRY_AFTER_MAX};

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
    const FAILED: Outcome = Outcome::Failed { retry_after: None, slow: false };

    #[test]
    fn an_outcome_decides_what_happens_next() {
        let asked = Outcome::Failed { retry_after: Some(Duration::from_mins(1)), slow: true };
        let retry = |seconds| Next::Retry { due: NOW + Duration::from_secs(seconds) };
        for (rung, outcome, expected, why) in [
            (0, Outcome::Delivered, Next::Delivered, "at once"),
            (7, Outcome::Delivered, Next::Delivered, "on the last rung"),
            (0, Outcome::Gone, Next::Dead(Cause::Gone), "never again"),
            (0, Outcome::Refused, Next::Dead(Cause::Refused), "not this one"),
            (0, FAILED, retry(5), "the second pause of the ladder"),
            (6, FAILED, retry(36_000), "the last pause"),
            (7, FAILED, Next::Dead(Cause::Exhausted), "the ladder's end"),
            (0, asked, retry(60), "the receiver asked for more"),
            (2, asked, retry(1_800), "the ladder's own is longer"),
            (7, asked, Next::Dead(Cause::Exhausted), "asking adds no rung"),
            (0, Outcome::Blocked, retry(5), "names change their addresses"),
            (7, Outcome::Blocked, Next::Dead(Cause::Blocked), "blocked to the end"),
            (u32::MAX, FAILED, Next::Dead(Cause::Exhausted), "far beyond the end"),
        ] {
            let next = settle(rung, outcome, &RetrySchedule::default(), Jitter::NONE, NOW, 0);
            assert_eq!(next, expected, "{why}");
        }
    }

    #[test]
    fn a_probe_ahead_of_its_time_moves_no_ladder() {
        let (due, hour) = (NOW + Duration::from_mins(30), Duration::from_hours(1));
        let asked = |pause| Outcome::Failed { retry_after: Some(pause), slow: false };
        for (outcome, expected, why) in [
            (Outcome::Delivered, Next::Delivered, "it has arrived"),
            (Outcome::Gone, Next::Dead(Cause::Gone), "never again"),
            (Outcome::Refused, Next::Dead(Cause::Refused), "not this one"),
            (Outcome::Blocked, Next::Retry { due }, "as it was"),
            (FAILED, Next::Retry { due }, "as it was"),
            (asked(Duration::from_secs(9)), Next::Retry { due }, "never sooner"),
            (asked(hour), Next::Retry { due: NOW + hour }, "the receiver asked for more"),
        ] {
            assert_eq!(settle_probe(outcome, due, NOW), expected, "{why}");
        }
    }

    #[test]
    fn codes_and_names_are_unique_and_read_back() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(*state));
            assert_eq!(State::from_name(state.name()), Some(*state));
        }
        for cause in Cause::ALL {
            assert_eq!(Cause::from_code(cause.code()), Some(*cause));
            assert_eq!(Cause::from_name(cause.name()), Some(*cause));
        }
        assert_eq!(serde_json::to_string(&Cause::Gone).unwrap(), "\"gone\"");
        let error = serde_json::from_str::<State>("\"lost\"").unwrap_err().to_string();
        assert!(error.contains("`pending`"), "an unknown name is told the known ones: {error}");
    }

    proptest! {
        /// Whatever a receiver does, a delivery ends: no answer can keep it alive for ever, hurry
        /// it or park it.
        #[test]
        fn every_delivery_ends(
            answers in vec((any::<u16>(), any::<Option<u64>>(), any::<u64>()), 50),
            pauses in vec(0..1_000_000_u64, 1..=50),
        ) {
            let pauses: Vec<_> = pauses.into_iter().map(Duration::from_secs).collect();
            let schedule = RetrySchedule::new(pauses.clone()).unwrap();
            let mut now = NOW;
            for (rung, (status, asked, chance)) in (0..).zip(answers) {
                let asked = asked.map(|seconds| seconds.to_string().into_bytes());
                let finals = FinalStatuses::default();
                let outcome = classify(status, asked.as_deref(), &finals, now);
                let next = settle(rung, outcome, &schedule, Jitter::default(), now, chance);
                let Next::Retry { due } = next else { return Ok(()) };
                let pause = pauses[usize::try_from(rung).unwrap() + 1];
                prop_assert!(due >= now + pause, "never earlier than the schedule");
                prop_assert!(due <= now + (pause * 2).max(RETRY_AFTER_MAX), "never parked");
                now = due;
            }
            prop_assert!(false, "still pending after the whole ladder");
        }
    }
}
