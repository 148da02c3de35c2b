//! How an endpoint is doing: since when it fails, what was said last, and its circuit. Pure: it
//! is told the time and what attempts came to. One record an endpoint, kept as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    circuit::{Circuit, CircuitRules, Passage},
    signal::Signal,
    time::Timestamp,
};

/// How old the record of the last success or failure may be while nothing else changes: an
/// endpoint that is well must not cost a write for each delivery.
const RECORD_EVERY: Duration = Duration::from_mins(5);

/// When an endpoint's owner is told, and when it is given up: `health.*` of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRules {
    /// Without a success for so long, it is disabled.
    pub disable_after: Duration,
    /// Steps on the way there, in their order.
    pub warn_after: Vec<Duration>,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self {
            disable_after: Duration::from_hours(5 * 24),
            warn_after: vec![Duration::from_hours(24), Duration::from_hours(72)],
        }
    }
}

coded! {
    /// How an endpoint is doing.
    HealthState {
        /// Its last attempt succeeded, or there was none.
        Healthy = 0, "healthy";
        /// Every attempt has failed since some time.
        Failing = 1, "failing";
        /// It was given up.
        Disabled = 2, "disabled";
    }
}

/// What is known of an endpoint's health. The default is that of a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// When each step of `warn_after` was reached, as far as it was.
    pub warned_at: Vec<Timestamp>,
    /// The last success, some minutes late at most.
    pub last_success_at: Option<Timestamp>,
    /// The last failure, some minutes late at most.
    pub last_failure_at: Option<Timestamp>,
    /// Why that failed, by its stable name.
    pub last_reason: Option<String>,
    /// What was answered, if anything was.
    pub last_status: Option<u16>,
    /// Its circuit.
    pub circuit: Circuit,
    /// The later of the two above, as of when this was last written.
    #[serde(skip)]
    recorded_at: Option<Timestamp>,
}

/// An attempt that is over, as health sees it.
#[derive(Clone, Copy, Debug)]
pub struct Lesson {
    /// What the circuit needs to know of it.
    pub passage: Passage,
    /// Why it failed, by its stable name.
    pub reason: Option<&'static str>,
    /// What was answered.
    pub status: Option<u16>,
}

/// What is to be done after an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// It is to be written.
    pub write: bool,
    /// The endpoint is to be disabled.
    pub disable: bool,
    /// A step of `warn_after` was reached.
    pub warn: bool,
}

impl Health {
    /// As it was kept. What cannot be read is as good as new.
    pub fn from_json(text: &str) -> Self {
        let mut health: Self = serde_json::from_str(text).unwrap_or_default();
        health.recorded_at = health.heard_at();
        health
    }

    /// As it is kept.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and times are JSON")
    }

    /// How an endpoint that is not disabled is doing.
    pub const fn state(&self) -> HealthState {
        match self.failing_since {
            Some(_) => HealthState::Failing,
            None => HealthState::Healthy,
        }
    }

    /// Learns from an attempt.
    pub fn learn(
        &mut self,
        lesson: &Lesson,
        health: &HealthRules,
        circuit: &CircuitRules,
    ) -> Change {
        let (signal, now) = (lesson.passage.signal, lesson.passage.now);
        let mut change = Change::default();
        if signal == Signal::Works {
            change.write = self.failing_since.take().is_some();
            self.warned_at.clear();
            self.last_success_at = Some(now);
        } else if signal.is_failure() {
            change.write = self.failing_since.is_none();
            let since = *self.failing_since.get_or_insert(now);
            let failing = now.since(since);
            while health.warn_after.get(self.warned_at.len()).is_some_and(|step| failing >= *step) {
                self.warned_at.push(now);
                (change.warn, change.write) = (true, true);
            }
            change.disable = failing >= health.disable_after;
            self.last_failure_at = Some(now);
            self.last_reason = lesson.reason.map(str::to_owned);
            self.last_status = lesson.status;
        }
        change.write |= self.circuit.learn(&lesson.passage, circuit);
        change.write |= change.disable;
        let heard = self.heard_at();
        change.write |= match (self.recorded_at, heard) {
            (None, Some(_)) => true,
            (Some(recorded), Some(heard)) => heard.since(recorded) >= RECORD_EVERY,
            _ => false,
        };
        if change.write {
            self.recorded_at = heard;
        }
        change
    }

    fn heard_at(&self) -> Option<Timestamp> {
        self.last_success_at.max(self.last_failure_at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::domain::{circuit::CircuitState, id::EventId};

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn hours(hours: u64) -> Timestamp {
        NOW + Duration::from_hours(hours)
    }

    fn lesson(signal: Signal, now: Timestamp) -> Lesson {
        let event = EventId(1);
        let passage = Passage { signal, event, probe: false, cap: 16, idle: false, now, chance: 0 };
        let status = signal.is_failure().then_some(500);
        Lesson { passage, reason: signal.is_failure().then_some("status"), status }
    }

    fn learn(health: &mut Health, signal: Signal, now: Timestamp) -> Change {
        health.learn(&lesson(signal, now), &HealthRules::default(), &CircuitRules::default())
    }

    #[test]
    fn the_clock_runs_from_the_first_failure_to_the_next_success() {
        use Signal::{Answers, Busy, Fails, Silent, Unclear, Works};
        let mut health = Health::default();
        for (hour, signal, since, warned, disable, why) in [
            (0, Works, None, 0, false, "well"),
            (1, Busy, Some(1), 0, false, "a 429 runs the clock"),
            (2, Fails, Some(1), 0, false, "it runs"),
            (3, Silent, Some(1), 0, false, "nothing was asked"),
            (24, Fails, Some(1), 0, false, "an hour before the first step"),
            (25, Fails, Some(1), 1, false, "a day"),
            (60, Fails, Some(1), 1, false, "each step once"),
            (61, Works, None, 0, false, "a success ends it"),
            (62, Answers, Some(62), 0, false, "a refusal is no success"),
            (63, Unclear, Some(62), 0, false, "our own defect says nothing"),
            (62 + 72, Fails, Some(62), 2, false, "two steps at once, after a silence"),
            (62 + 119, Fails, Some(62), 2, false, "an hour before the end"),
            (62 + 120, Fails, Some(62), 2, true, "five days"),
        ] {
            let change = learn(&mut health, signal, hours(hour));
            assert_eq!(health.failing_since, since.map(hours), "{why}");
            assert_eq!((health.warned_at.len(), change.disable), (warned, disable), "{why}");
        }
        assert_eq!(health.last_success_at, Some(hours(61)));
        assert_eq!((health.last_failure_at, health.last_status), (Some(hours(182)), Some(500)));
    }

    #[test]
    fn a_warning_is_given_once_at_each_step() {
        let mut health = Health::default();
        let warned = (0..=100).filter(|hour| learn(&mut health, Signal::Fails, hours(*hour)).warn);
        assert_eq!(warned.collect::<Vec<_>>(), [24, 72]);
        assert_eq!(health.warned_at, [hours(24), hours(72)]);
    }

    #[test]
    fn an_endpoint_that_is_well_is_written_every_five_minutes_at_most() {
        let mut health = Health::default();
        let second = |second| NOW + Duration::from_secs(second);
        let written = (0..=900).filter(|n| learn(&mut health, Signal::Works, second(*n)).write);
        assert_eq!(written.collect::<Vec<_>>(), [0, 300, 600, 900]);
    }

    #[test]
    fn it_is_kept_as_it_was() {
        let mut health = Health::default();
        for event in 1..=5 {
            let mut lesson = lesson(Signal::Fails, hours(24 * u64::try_from(event).unwrap()));
            lesson.passage.event = EventId(event);
            health.learn(&lesson, &HealthRules::default(), &CircuitRules::default());
        }
        assert_eq!(health.circuit.state(), CircuitState::Open);

        assert_eq!(Health::from_json(&health.to_json()), health);
        for old in ["{}", "", "{\"circuit\": 7}", "{\"later\": true}"] {
            assert_eq!(Health::from_json(old), Health::default(), "{old}");
        }
    }

    proptest! {
        /// Over any restarts: disabled at the first failure that comes after the five days, and
        /// never by anything else.
        #[test]
        fn it_is_given_up_exactly_when_it_failed_for_so_long(
            steps in vec((0..6_usize, 0..40_u64, any::<bool>()), 1..80),
        ) {
            let (mut health, mut now) = (Health::default(), NOW);
            let mut since: Option<Timestamp> = None;
            for (signal, hours, restart) in steps {
                let signals = [Signal::Works, Signal::Fails, Signal::Busy, Signal::Silent, Signal::Fails, Signal::Fails];
                let signal = signals[signal];
                now = now + Duration::from_hours(hours);
                let before = health.to_json();
                let change = learn(&mut health, signal, now);
                since = match signal {
                    Signal::Works => None,
                    signal if signal.is_failure() => since.or(Some(now)),
                    _ => since,
                };
                let failing = since.map_or(Duration::ZERO, |since| now.since(since));
                let expected = signal.is_failure() && failing >= Duration::from_hours(120);
                prop_assert_eq!(change.disable, expected);
                if restart {
                    // What was not to be written is lost, and must not matter.
                    health = Health::from_json(&if change.write { health.to_json() } else { before });
                }
                prop_assert_eq!(health.failing_since, since);
            }
        }
    }
}
