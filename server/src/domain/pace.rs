//! Keeping a rate limit: a bucket that holds the next moment at which a request may go. Pure.
//!
//! Requests are spread evenly, one an interval, instead of a burst at the start of each second:
//! receivers count in windows of their own. Whoever comes late, by a timer that was late, gets
//! back what that cost, up to [`CATCH_UP`]; nothing is saved up beyond it.

use std::time::Duration;

use super::{rate::RateLimit, time::Timestamp};

/// How much of lost time is made good. Timers are late by a few milliseconds.
pub const CATCH_UP: Duration = Duration::from_millis(20);

/// When the next request may go. The default: at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The moment that the next one is meant for.
    next: Option<Timestamp>,
}

impl Pace {
    /// When the next request may go. A clock that was set back holds nobody up for longer than an
    /// interval.
    pub fn ready_at(&self, rate: RateLimit, now: Timestamp) -> Timestamp {
        self.next.map_or(now, |next| next.min(now + rate.interval()))
    }

    /// A request goes now.
    pub fn take(&mut self, rate: RateLimit, now: Timestamp) {
        let meant = self.ready_at(rate, now).max(now - CATCH_UP);
        self.next = Some(meant + rate.interval());
    }

    /// A request that was to go did not.
    pub fn give_back(&mut self, rate: RateLimit) {
        self.next = self.next.map(|next| next - rate.interval());
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn rate(text: &str) -> RateLimit {
        text.parse().unwrap()
    }

    /// How many go within `time` if somebody asks every `step`.
    fn sent(rate: RateLimit, time: Duration, step: Duration) -> u32 {
        let (mut pace, mut now, mut sent) = (Pace::default(), NOW, 0);
        while now.since(NOW) < time {
            while pace.ready_at(rate, now) <= now {
                pace.take(rate, now);
                sent += 1;
            }
            now = now + step;
        }
        sent
    }

    #[test]
    fn so_many_go_in_their_time_and_the_first_at_once() {
        let second = Duration::from_secs(1);
        for (text, time, step, expected, why) in [
            ("5/s", second, 1, 5, "at 0, 200, 400, 600, 800 ms"),
            ("5/s", 10 * second, 1, 50, "and no more later"),
            ("1/s", 10 * second, 1, 10, "one a second"),
            ("600/m", second, 1, 10, "spread over the minute"),
            ("60/h", 600 * second, 50, 10, "one a minute"),
            ("1000/s", second, 1, 1_000, "one a millisecond"),
            ("1000/s", second, 5, 996, "a timer that is late costs nothing"),
            ("50/s", second, 7, 50, "nor one that is not in step"),
        ] {
            let sent = sent(rate(text), time, Duration::from_millis(step));
            let most = expected
                + u32::try_from(CATCH_UP.as_micros() / rate(text).interval().as_micros()).unwrap();
            assert!((expected..=most).contains(&sent), "{text}: {sent}, {why}");
        }
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let (rate, mut pace) = (rate("10/s"), Pace::default());
        pace.take(rate, NOW);
        let later = NOW + Duration::from_hours(1);
        let mut burst = 0;
        while pace.ready_at(rate, later) <= later {
            pace.take(rate, later);
            burst += 1;
        }
        assert_eq!(burst, 1);
        pace.give_back(rate);
        assert!(pace.ready_at(rate, later) <= later, "it did not go after all");
    }

    #[test]
    fn a_clock_set_back_does_not_silence_an_endpoint() {
        let (rate, mut pace) = (rate("1/s"), Pace::default());
        pace.take(rate, NOW);
        let earlier = NOW - Duration::from_hours(2);
        assert_eq!(pace.ready_at(rate, earlier), earlier + Duration::from_secs(1));
    }

    proptest! {
        /// In no window of its time go more than the limit and what 20 ms may catch up.
        #[test]
        fn no_window_has_more_than_its_share(
            count in 1..400_u32,
            waits in vec(0..300_000_u64, 1..600),
        ) {
            let rate = rate(&format!("{count}/s"));
            let (mut pace, mut now, mut times) = (Pace::default(), NOW, Vec::new());
            for wait in waits {
                now = now + Duration::from_micros(wait);
                while pace.ready_at(rate, now) <= now {
                    pace.take(rate, now);
                    times.push(now);
                }
            }
            let catch_up = CATCH_UP.as_micros() / rate.interval().as_micros();
            let most = usize::try_from(u128::from(count) + catch_up + 1).unwrap();
            for (first, start) in times.iter().enumerate() {
                let window = times[first..].iter().take_while(|time| time.since(*start) < Duration::from_secs(1));
                prop_assert!(window.count() <= most);
            }
        }
    }
}
