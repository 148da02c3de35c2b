//! The ladder of pauses between the attempts of a delivery.
//!
//! A rung is a place on it: rung 0 is the wait before attempt 1, rung 1 the wait before attempt
//! 2, and so on; a redelivery starts on rung 0 again. Chance is an argument, so that each rule
//! can be tested. What an answer means is in `outcome.rs`, what becomes of a delivery in
//! `delivery.rs`.

use std::{sync::Arc, time::Duration};

use super::{duration, endpoint::ScheduleText, problem::shown, time::Timestamp};

/// Attempts of one run. Beyond it a ladder is a slip of the hand, or an attack on its receiver.
pub const ATTEMPTS_MAX: usize = 50;

/// The longest single pause, as long as events are kept by default (`retention.events`).
pub const PAUSE_MAX: Duration = Duration::from_hours(30 * 24);

/// What a receiver can ask for with `Retry-After`. More, and a mistake over there would silence
/// an endpoint for days.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

const STANDARD: &[&str] = &["0s", "5s", "5m", "30m", "2h", "5h", "10h", "10h"];
const LONG: &[&str] = &["0s", "5s", "5m", "30m", "2h", "5h", "10h", "10h", "24h", "24h"];
const BRISK: &[&str] = &["0s", "30s", "5m", "30m", "2h", "8h"];

/// The pauses before each attempt, the first one included; at least one. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrySchedule(Arc<[Duration]>);

/// Why a list of pauses is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No attempt at all.
    #[error("the retry schedule is empty; [\"0s\"] means one attempt at once and no retry")]
    Empty,
    /// Over [`ATTEMPTS_MAX`].
    #[error("the retry schedule has {0} pauses; {ATTEMPTS_MAX} are allowed")]
    TooMany(usize),
    /// Over [`PAUSE_MAX`].
    #[error("the pause {} is too long; a pause is at most 30d", duration::format(*.0))]
    TooLong(Duration),
    /// No preset of that name.
    #[error("there is no retry schedule {}; the presets are standard, long and brisk", shown(.0))]
    NoPreset(String),
}

impl Default for RetrySchedule {
    /// The preset `standard`: 8 attempts over 27 h 35 min.
    fn default() -> Self {
        Self::of(STANDARD)
    }
}

impl RetrySchedule {
    /// A schedule of these pauses; the first is the wait before attempt 1.
    pub fn new(pauses: Vec<Duration>) -> Result<Self, ScheduleError> {
        if pauses.is_empty() {
            return Err(ScheduleError::Empty);
        }
        if pauses.len() > ATTEMPTS_MAX {
            return Err(ScheduleError::TooMany(pauses.len()));
        }
        if let Some(pause) = pauses.iter().find(|pause| **pause > PAUSE_MAX) {
            return Err(ScheduleError::TooLong(*pause));
        }
        Ok(Self(pauses.into()))
    }

    /// `standard` (8 attempts over about 28 h), `long` (10 over about 75 h) or `brisk` (6 over
    /// about 11 h).
    pub fn preset(name: &str) -> Result<Self, ScheduleError> {
        match name {
            "standard" => Ok(Self::of(STANDARD)),
            "long" => Ok(Self::of(LONG)),
            "brisk" => Ok(Self::of(BRISK)),
            _ => Err(ScheduleError::NoPreset(name.to_owned())),
        }
    }

    /// As written in an endpoint's settings.
    pub fn from_text(text: &ScheduleText) -> Result<Self, ScheduleError> {
        match text {
            ScheduleText::Preset(name) => Self::preset(name),
            ScheduleText::Pauses(pauses) => Self::new(pauses.iter().map(|pause| pause.0).collect()),
        }
    }

    fn of(pauses: &[&str]) -> Self {
        let read = |text: &&str| duration::parse(text).expect("a preset is written correctly");
        Self(pauses.iter().map(read).collect())
    }

    /// The pauses, one an attempt.
    pub fn pauses(&self) -> &[Duration] {
        &self.0
    }

    /// How many attempts one run has.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.0.len()).expect("a schedule has at most 50 pauses")
    }

    /// The wait before the attempt on `rung`, or `None` beyond the ladder's end. Jitter only adds
    /// to it. `retry_after` can stretch it, up to 24 h, and never shortens it; `chance` are 64
    /// random bits.
    pub fn pause_before(
        &self,
        rung: u32,
        retry_after: Option<Duration>,
        jitter: Jitter,
        chance: u64,
    ) -> Option<Duration> {
        let pause = *self.0.get(usize::try_from(rung).ok()?)?;
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let stretched = jitter.add_to(asked, chance).min(RETRY_AFTER_MAX);
        Some(jitter.add_to(pause, chance).max(stretched))
    }

    /// What is still to come of a delivery that waits on `rung` until `due`.
    pub fn forecast(&self, rung: u32, due: Timestamp, jitter: Jitter) -> Forecast {
        let later = self.0.iter().skip(usize::try_from(rung).unwrap_or(usize::MAX)).skip(1);
        let rest: Duration = later.sum();
        Forecast {
            next_attempt_at: due,
            attempts_left: self.attempts().saturating_sub(rung),
            gives_up_at: due + rest,
            gives_up_by: due + jitter.add_to(rest, u64::MAX),
        }
    }
}

/// What is still to come of a delivery if every attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// When the next attempt may start.
    pub next_attempt_at: Timestamp,
    /// Attempts until the ladder's end, the next one included.
    pub attempts_left: u32,
    /// When the last attempt starts at the earliest: no jitter, no `Retry-After`.
    pub gives_up_at: Timestamp,
    /// When it starts at the latest: all the jitter there can be, still no `Retry-After`.
    pub gives_up_by: Timestamp,
}

/// How much chance may add to a pause, as a fraction of it: `delivery.jitter`. It spreads the
/// retries of many deliveries that failed at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

/// Not a fraction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0} is no jitter; it is a fraction from 0 to 1, for example 0.2 for up to 20 % more")]
pub struct JitterError(f64);

impl Default for Jitter {
    /// Up to 20 % more.
    fn default() -> Self {
        Self(0.2)
    }
}

impl Jitter {
    /// Pauses exactly as written.
    pub const NONE: Self = Self(0.0);

    /// From a fraction, 0 to 1.
    pub fn new(fraction: f64) -> Result<Self, JitterError> {
        if (0.0..=1.0).contains(&fraction) {
            Ok(Self(fraction))
        } else {
            Err(JitterError(fraction))
        }
    }

    /// `pause` and up to that fraction of it; `chance` are 64 random bits.
    pub fn add_to(self, pause: Duration, chance: u64) -> Duration {
        let upper_half = u32::try_from(chance >> 32).unwrap_or(u32::MAX);
        let share = f64::from(upper_half) / f64::from(u32::MAX);
        pause.saturating_add(pause.mul_f64(self.0 * share))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn pauses() -> impl Strategy<Value = Vec<Duration>> {
        vec((0..=PAUSE_MAX.as_secs()).prop_map(Duration::from_secs), 1..=ATTEMPTS_MAX)
    }

    #[test]
    fn the_presets_are_as_long_as_they_say() {
        for (name, attempts, seconds) in [
            ("standard", 8, 27 * 3600 + 35 * 60 + 5),
            ("long", 10, 75 * 3600 + 35 * 60 + 5),
            ("brisk", 6, 10 * 3600 + 35 * 60 + 30),
        ] {
            let schedule = RetrySchedule::preset(name).unwrap();
            assert_eq!(schedule.attempts(), attempts, "{name}");
            assert_eq!(schedule.pauses().iter().sum::<Duration>().as_secs(), seconds, "{name}");
        }
        assert_eq!(RetrySchedule::default(), RetrySchedule::preset("standard").unwrap());
    }

    #[test]
    fn a_schedule_that_cannot_be_meant_is_refused() {
        use ScheduleError::*;
        let day = Duration::from_hours(24);
        assert_eq!(RetrySchedule::new(vec![]), Err(Empty));
        assert_eq!(RetrySchedule::new(vec![day; 51]), Err(TooMany(51)));
        assert_eq!(RetrySchedule::new(vec![day, day * 31]), Err(TooLong(day * 31)));
        assert!(RetrySchedule::new(vec![PAUSE_MAX; ATTEMPTS_MAX]).is_ok());
        let error = RetrySchedule::preset("slow").unwrap_err();
        assert!(error.to_string().contains("standard, long and brisk"));
        for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Jitter::new(fraction).is_err(), "{fraction}");
        }
    }

    #[test]
    fn retry_after_stretches_a_pause_and_never_shortens_it() {
        let schedule = RetrySchedule::default();
        let pause = |rung, seconds| {
            let asked = Some(Duration::from_secs(seconds));
            schedule.pause_before(rung, asked, Jitter::NONE, 0).map(|pause| pause.as_secs())
        };
        assert_eq!(pause(1, 0), Some(5), "asks for nothing");
        assert_eq!(pause(1, 120), Some(120), "longer than the ladder's");
        assert_eq!(pause(4, 120), Some(7_200), "shorter than the ladder's");
        assert_eq!(pause(1, u64::MAX), Some(86_400), "bounded by a day");
        assert_eq!(pause(8, 120), None, "and there is no rung beyond the last");
    }

    #[test]
    fn a_forecast_tells_what_is_left() {
        let schedule = RetrySchedule::default();
        let due = Timestamp::from_seconds(1_800_000_000);
        for (rung, left, seconds) in [(0, 8, 99_305), (4, 4, 90_000), (7, 1, 0), (8, 0, 0)] {
            let forecast = schedule.forecast(rung, due, Jitter::default());
            assert_eq!(forecast.next_attempt_at, due);
            assert_eq!(forecast.attempts_left, left, "rung {rung}");
            assert_eq!(forecast.gives_up_at.since(due).as_secs(), seconds, "rung {rung}");
            assert_eq!(forecast.gives_up_by.since(due).as_secs(), seconds * 12 / 10);
        }
    }

    proptest! {
        /// Whatever the receiver asks for and chance adds: never earlier than the schedule, never
        /// later than all the jitter, or a day where the receiver asked for it.
        #[test]
        fn a_pause_is_within_its_bounds(
            pauses in pauses(), rung in 0..60_u32, asked: Option<u64>, chance: u64,
            fraction in 0.0..=1.0,
        ) {
            let schedule = RetrySchedule::new(pauses.clone()).unwrap();
            let asked = asked.map(Duration::from_secs);
            let jitter = Jitter::new(fraction).unwrap();
            let pause = schedule.pause_before(rung, asked, jitter, chance);
            let Some(written) = pauses.get(usize::try_from(rung).unwrap()) else {
                prop_assert_eq!(pause, None);
                return Ok(());
            };
            let pause = pause.unwrap();
            let most = written.mul_f64(1.0 + fraction) + Duration::from_micros(1);
            prop_assert!(pause >= *written);
            prop_assert!(pause >= asked.unwrap_or_default().min(RETRY_AFTER_MAX));
            match asked {
                None => prop_assert!(pause <= most),
                Some(_) => prop_assert!(pause <= most.max(RETRY_AFTER_MAX)),
            }
        }

        /// A run whose attempts all fail ends between the two times that were foretold.
        #[test]
        fn a_forecast_holds(pauses in pauses(), chances in vec(any::<u64>(), ATTEMPTS_MAX)) {
            let schedule = RetrySchedule::new(pauses).unwrap();
            let jitter = Jitter::default();
            let mut due = Timestamp::from_seconds(1_800_000_000);
            let forecast = schedule.forecast(0, due, jitter);
            for rung in 1..schedule.attempts() {
                let chance = chances[usize::try_from(rung).unwrap()];
                due = due + schedule.pause_before(rung, None, jitter, chance).unwrap();
            }
            prop_assert!(forecast.gives_up_at <= due);
            prop_assert!(due <= forecast.gives_up_by + Duration::from_millis(1));
        }
    }
}
