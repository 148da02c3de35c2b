//! When a transaction ends that was open for long. What it wrote may lie far behind the place that
//! was read, where the late scan does not look.

use std::time::Duration;

use crate::{
    domain::time::Timestamp,
    store::{Horizon, Transactions},
};

/// A transaction that was open for so long may have written what the late scan does not reach:
/// half of what that goes back.
const LONG: Duration = Duration::from_secs(1);

/// How often to look far back, at most: such a look steps over every fresh row.
const EVERY: Duration = Duration::from_secs(2);

/// How often to look whether one has ended, while one is known to be open, or may be: for a while
/// after an event came. Nobody is woken by its end when its event was emitted while we were busy.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const WHILE: Duration = Duration::from_mins(2);

/// What was seen of transactions.
#[derive(Debug, Default)]
pub struct Watch {
    last: Option<Seen>,
    /// Of two moments, the earlier at least [`LONG`] ago: before which transactions had begun.
    begun: [Option<(Timestamp, Horizon)>; 2],
    /// Whether a long one has ended, and nobody has looked for what it wrote.
    ended: bool,
    looked_far: Timestamp,
}

/// At the last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Timestamp,
    transactions: Transactions,
    /// Since when the same one is the first that is not over.
    since: Timestamp,
}

impl Watch {
    /// Takes note of what is seen. True when it is time to look far back.
    pub fn look(&mut self, now: Timestamp, seen: Option<Transactions>) -> bool {
        let Some(transactions) = seen else { return false };
        let mut since = now;
        if let Some(last) = self.last.filter(|last| last.at <= now) {
            if last.transactions.over == transactions.over {
                since = last.since;
            } else if now >= last.since + LONG || self.is_old(last.transactions.over, now) {
                self.ended = true;
            }
        }
        self.last = Some(Seen { at: now, transactions, since });
        self.remember(now, transactions.begun);
        let far = self.ended && (now >= self.looked_far + EVERY || now < self.looked_far);
        if far {
            (self.ended, self.looked_far) = (false, now);
        }
        far
    }

    /// When to look again at the latest, for its own sake; `last` is when the last event was made.
    pub fn next_at(&self, last: Option<Timestamp>) -> Option<Timestamp> {
        let seen = self.last?;
        if self.ended {
            return Some(self.looked_far + EVERY);
        }
        let open = seen.transactions.over < seen.transactions.begun;
        let may_be = last.is_some_and(|last| last + WHILE > seen.at);
        (open || may_be).then_some(seen.at + LOOK_EVERY)
    }

    /// Whether a transaction had begun [`LONG`] ago.
    fn is_old(&self, transaction: Horizon, now: Timestamp) -> bool {
        let old = |(at, begun): (Timestamp, Horizon)| at + LONG <= now && transaction < begun;
        self.begun.into_iter().flatten().any(old)
    }

    fn remember(&mut self, now: Timestamp, begun: Horizon) {
        match self.begun[1] {
            Some((at, _)) if at <= now && now < at + LONG => {}
            newer => self.begun = [newer, Some((now, begun))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    /// A look at the watch.
    fn look(watch: &mut Watch, now: Timestamp, (over, begun): (i64, i64)) -> bool {
        watch.look(now, Some(Transactions { over: Horizon(over), begun: Horizon(begun) }))
    }

    #[test]
    fn the_end_of_a_long_transaction_is_seen_at_once_and_that_of_a_short_one_is_nothing() {
        // (milliseconds, the first that is not over, the first that has not begun, far, why)
        let story = [
            (0, 100, 100, false, "nothing goes on"),
            (300, 100, 101, false, "100 may be open"),
            (600, 102, 102, false, "it was open for less than a second"),
            (900, 103, 103, false, "short ones come and go"),
            (1_200, 104, 106, false, "104 is open, and 105 was over before it"),
            (1_500, 104, 120, false, "still"),
            (2_400, 110, 130, true, "104 has ended after more than a second; 110 is open"),
            (2_700, 131, 131, false, "110 has ended; but one look was just now"),
            (4_300, 131, 140, false, "two seconds later, not yet"),
            (4_400, 132, 140, true, "now for 110"),
            (8_000, 132, 150, false, "132 stays open"),
            (8_100, 151, 151, true, "and ends"),
        ];
        let mut watch = Watch::default();
        for (millis, over, begun, far, why) in story {
            let now = START + Duration::from_millis(millis);
            assert_eq!(look(&mut watch, now, (over, begun)), far, "{millis} ms: {why}");
        }
    }

    #[test]
    fn one_that_began_long_ago_is_long_though_it_is_the_first_only_now() {
        let mut watch = Watch::default();
        for (millis, over) in [(0, 1), (1_000, 1), (2_000, 1), (3_000, 1), (5_000, 2), (5_200, 2)] {
            look(&mut watch, START + Duration::from_millis(millis), (over, 10));
        }
        watch.looked_far = START;
        assert!(look(&mut watch, START + Duration::from_millis(5_300), (11, 11)), "2 is long, too");
    }

    #[test]
    fn it_looks_every_second_while_one_is_open_or_an_event_was_made_of_late() {
        let mut watch = Watch::default();
        assert_eq!(watch.next_at(None), None, "nobody tells of transactions");
        look(&mut watch, START, (5, 5));
        assert_eq!(watch.next_at(None), None, "none is open");
        assert_eq!(watch.next_at(Some(START - Duration::from_hours(1))), None, "long ago");
        let soon = Some(START + LOOK_EVERY);
        assert_eq!(watch.next_at(Some(START - Duration::from_mins(1))), soon, "of late");
        look(&mut watch, START, (5, 6));
        assert_eq!(watch.next_at(None), soon, "one is open");
    }

    #[test]
    fn a_clock_set_back_makes_it_look_rather_than_wait() {
        let mut watch = Watch::default();
        look(&mut watch, START, (5, 6));
        let earlier = START - Duration::from_hours(2);
        assert!(!look(&mut watch, earlier, (5, 6)));
        look(&mut watch, earlier + Duration::from_secs(2), (5, 8));
        assert!(look(&mut watch, earlier + Duration::from_secs(3), (9, 9)));
    }
}
