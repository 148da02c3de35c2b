//! How far the fresh rows were read. Pure: no I/O, no clock.
//!
//! Ids are given before commits, so a row may appear behind the place that was read already.
//! Three scans share the work: the hot one reads what is new, with a little slack; the late one
//! goes back a few seconds, often enough to be prompt; the sweep goes back to the beginning, for
//! a transaction may stay open as long as it likes. The first two are for speed, the last is for
//! truth.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    domain::{
        id::{EndpointId, EventId, first_id_at},
        time::Timestamp,
    },
    store::{Cursor, Horizon},
};

/// Rows of one page of one shard.
pub const PAGE: i64 = 200;

/// How far back the hot scan looks: commits of concurrent emits pass each other by milliseconds.
const HOT_SLACK: Duration = Duration::from_millis(10);

/// How far back the late scan looks: business transactions that take longer are the sweep's.
const LATE_SLACK: Duration = Duration::from_secs(2);

/// How often the late scan runs while events come in.
const LATE_EVERY: Duration = Duration::from_millis(200);

/// How old an event is at least that only the sweep will read again: the late scan goes on while
/// the last event that was read is no older than twice its slack.
pub const LATE_REACH: Duration = Duration::from_secs(6);

/// How often everything is read from the beginning.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Fresh rows are read in this order.
pub type Place = (EventId, EndpointId);

/// Before every row.
pub const BEGINNING: Place = (EventId(0), EndpointId(0));

/// The three scans of one shard, or of all shards at once.
#[derive(Clone, Copy, Debug)]
struct Scans {
    /// The furthest place that was ever read.
    hot: Place,
    /// Where a scan that goes back is now; `None` when there is none.
    back: Option<Place>,
    late_at: Timestamp,
    sweep_at: Timestamp,
    /// Whether the hot scan has more to read at once.
    more: bool,
    seen: Seen,
    /// Whether the scan that goes back has begun at the beginning.
    sweeping: bool,
    /// Which transactions were over when it began,
    began: Option<Horizon>,
    /// and when the one before it began. What those wrote, that one or the hot scan has read.
    before: Option<Horizon>,
}

/// How much of what can be seen of a shard was read at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The hot scan is on its way from the beginning.
    Part,
    /// All of it.
    Whole,
    /// Something that was read may be lost: until a sweep has gone through.
    Doubted,
}

/// The scans of all shards that are ours.
#[derive(Debug, Default)]
pub struct AllScans {
    shards: BTreeMap<i16, Scans>,
}

/// One page to read: where, and by which scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The shard and the place.
    pub cursor: Cursor,
    /// Whose transactions were over then, that row was read.
    pub since: Option<Horizon>,
    back: bool,
}

impl Page {
    /// Whether it belongs to a scan that goes back.
    pub fn goes_back(&self) -> bool {
        self.back
    }

    /// Whether it is the first of a sweep.
    pub fn begins_sweep(&self) -> bool {
        self.back && self.cursor.after == BEGINNING
    }
}

impl AllScans {
    /// Begins to read a shard from the beginning. No effect on one that is read already.
    pub fn add(&mut self, shard: i16, now: Timestamp) {
        self.shards.entry(shard).or_insert(Scans {
            hot: BEGINNING,
            back: None,
            late_at: now + LATE_EVERY,
            sweep_at: now + SWEEP_EVERY,
            more: true,
            seen: Seen::Part,
            sweeping: false,
            began: None,
            before: None,
        });
    }

    /// Stops to read a shard.
    pub fn remove(&mut self, shard: i16) {
        self.shards.remove(&shard);
    }

    /// The pages to read now. The hot scan of every shard is among them if there is news, or if it
    /// has more to read. `over` tells which transactions are over, where that is known.
    pub fn pages(&mut self, now: Timestamp, news: bool, over: Option<Horizon>) -> Vec<Page> {
        let mut pages = Vec::with_capacity(self.shards.len());
        for (shard, scans) in &mut self.shards {
            if scans.back.is_none() {
                scans.back = scans.start_back(now);
                scans.began = over;
            }
            // A sweep takes nobody's word.
            let read = scans.before.filter(|_| !scans.sweeping);
            let page = |after, back| {
                let since = read.filter(|_| back);
                Page { cursor: Cursor { shard: *shard, after }, since, back }
            };
            // After a while nothing passes by milliseconds any more.
            let ahead = scans.more || scans.is_quiet(now);
            let slack = if ahead { scans.hot } else { before(scans.hot, HOT_SLACK) };
            if news || scans.more {
                pages.push(page(slack, false));
            }
            pages.extend(scans.back.map(|place| page(place, true)));
        }
        pages
    }

    /// Takes note of what a page held: how many rows, and the place of the last.
    pub fn read(&mut self, page: &Page, held: Option<(usize, Place)>) {
        let Some(scans) = self.shards.get_mut(&page.cursor.shard) else { return };
        let last = held.map(|(_, last)| last);
        let full = held.is_some_and(|(many, _)| i64::try_from(many).unwrap_or(i64::MAX) >= PAGE);
        if page.back {
            // It ends where the hot scan has been: all behind that is the hot scan's own.
            scans.back = last.filter(|place| full && *place < scans.hot);
            if scans.back.is_none() {
                scans.before = scans.began;
            }
            if scans.sweeping && scans.back.is_none() && scans.seen == Seen::Doubted {
                scans.seen = if scans.more { Seen::Part } else { Seen::Whole };
            }
        } else {
            scans.hot = scans.hot.max(last.unwrap_or(scans.hot));
            scans.more = full;
            if scans.seen == Seen::Part && !full {
                scans.seen = Seen::Whole;
            }
        }
    }

    /// Whether a page was full, so that there is more to read at once.
    pub fn have_more(&self) -> bool {
        self.shards.values().any(|scans| scans.more || scans.back.is_some())
    }

    /// Reads everything from the beginning as soon as may be: something read may be lost.
    pub fn sweep(&mut self) {
        for scans in self.shards.values_mut() {
            scans.sweep_at = Timestamp::default();
            (scans.seen, scans.sweeping, scans.back) = (Seen::Doubted, false, None);
            scans.before = None;
        }
    }

    /// The shards of which rows may be there that were never read, though they can be seen.
    pub fn unread(&self) -> impl Iterator<Item = i16> {
        self.shards.iter().filter(|(_, scans)| scans.seen != Seen::Whole).map(|(shard, _)| *shard)
    }

    /// When the next scan that goes back is to begin.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.shards.values().map(|scans| scans.sweep_at.min(scans.late_at)).min()
    }
}

impl Scans {
    fn start_back(&mut self, now: Timestamp) -> Option<Place> {
        if now >= self.sweep_at {
            (self.sweep_at, self.late_at) = (now + SWEEP_EVERY, now + LATE_EVERY);
            self.sweeping = true;
            return Some(BEGINNING);
        }
        // A clock that was set back must not silence the scans until it has caught up.
        if self.sweep_at > now + SWEEP_EVERY {
            self.sweep_at = now;
        }
        let quiet = self.is_quiet(now);
        if now < self.late_at && self.late_at <= now + LATE_EVERY || quiet {
            if quiet {
                self.late_at = self.sweep_at;
            }
            return None;
        }
        self.late_at = now + LATE_EVERY;
        self.sweeping = false;
        Some(before(self.hot, LATE_SLACK))
    }

    /// Nothing came in for a while: nothing can be late but what the sweep finds.
    fn is_quiet(&self, now: Timestamp) -> bool {
        self.hot.0.created_at() + 2 * LATE_SLACK < now
    }
}

fn before(place: Place, slack: Duration) -> Place {
    if place == BEGINNING {
        return BEGINNING;
    }
    (EventId(first_id_at(place.0.created_at() - slack)), EndpointId(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Row, Slot};

    const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn row(at: Timestamp, endpoint: i64) -> Row {
        Row {
            slot: Slot::default(),
            event_id: EventId(first_id_at(at) + 1),
            endpoint_id: EndpointId(endpoint),
            tenant: "acme".to_owned(),
            shard: 3,
            run: 0,
            attempt: 0,
            rung: 0,
            due_at: at,
        }
    }

    /// Reads once, as the owner does, and gives what was seen of `table`.
    fn read_once(scans: &mut AllScans, table: &[Row], now: Timestamp) -> Vec<EventId> {
        let mut seen = Vec::new();
        for page in scans.pages(now, true, None) {
            let place = |row: &Row| (row.event_id, row.endpoint_id);
            let mut rows: Vec<Row> =
                table.iter().filter(|row| place(row) > page.cursor.after).cloned().collect();
            rows.sort_by_key(place);
            rows.truncate(usize::try_from(PAGE).unwrap());
            scans.read(&page, rows.last().map(|row| (rows.len(), place(row))));
            seen.extend(rows.iter().map(|row| row.event_id));
        }
        seen
    }

    #[test]
    fn a_row_behind_the_hot_scan_is_found_by_the_scan_that_reaches_so_far() {
        for (age, wait, why) in [
            (Duration::from_millis(5), Duration::ZERO, "the hot scan's slack"),
            (Duration::from_secs(1), LATE_EVERY, "the late scan"),
            (Duration::from_hours(3), SWEEP_EVERY, "the sweep, however long it was open"),
        ] {
            let mut scans = AllScans::default();
            scans.add(3, START);
            let mut table = vec![row(START, 1)];
            read_once(&mut scans, &table, START);
            read_once(&mut scans, &table, START);

            let late = row(START - age, 1);
            table.push(late.clone());
            let seen = read_once(&mut scans, &table, START + wait);

            assert!(seen.contains(&late.event_id), "{why}");
        }
    }

    #[test]
    fn an_event_of_more_endpoints_than_a_page_is_read_whole() {
        let table: Vec<Row> = (0..PAGE * 3).map(|endpoint| row(START, endpoint + 1)).collect();
        let mut scans = AllScans::default();
        scans.add(3, START);

        let mut rows = 0;
        while scans.have_more() {
            rows += read_once(&mut scans, &table, START).len();
        }

        assert!(rows >= table.len(), "{rows} of {}", table.len());
    }

    #[test]
    fn a_shard_is_whole_once_it_was_read_to_the_end_and_again_after_a_doubt() {
        let table: Vec<Row> = (0..PAGE * 2).map(|endpoint| row(START, endpoint + 1)).collect();
        let mut scans = AllScans::default();
        scans.add(3, START);
        let whole = |scans: &AllScans| scans.unread().count() == 0;
        let mut pages = Vec::new();
        for _ in 0..3 {
            pages.push(whole(&scans));
            read_once(&mut scans, &table, START);
        }
        assert_eq!(
            (pages, whole(&scans)),
            (vec![false; 3], true),
            "two full pages, and an empty one"
        );

        scans.sweep();
        let mut reads = 0;
        while !whole(&scans) {
            reads += 1;
            read_once(&mut scans, &table, START);
        }
        assert_eq!(reads, 2, "from the beginning up to where the hot scan has been");
        read_once(&mut scans, &table, START + LATE_EVERY);
        assert!(whole(&scans), "a look back takes nothing away");
    }

    #[test]
    fn what_is_older_than_the_reach_of_the_late_scan_is_read_again_by_the_sweep_alone() {
        for behind in 0..8 {
            let (mut scans, now) = (AllScans::default(), START + Duration::from_mins(1));
            let tick = Duration::from_millis(1);
            let newest = row(now - Duration::from_secs(behind), 1);
            let old = row(now - LATE_REACH - tick, 1);
            let before_newest = row(newest.due_at - tick, 1);
            let table = [before_newest.clone(), newest, old.clone()];
            scans.add(3, now);
            read_once(&mut scans, &table, now); // to the end
            let mut again = Vec::new();
            for step in 0..290 {
                let now = now + step * Duration::from_millis(100);
                again.extend(read_once(&mut scans, &table, now));
            }
            assert!(!again.contains(&old.event_id), "{behind} s behind");
            assert_eq!(again.contains(&before_newest.event_id), behind <= 4, "{behind} s behind");
        }
    }

    #[test]
    fn a_look_back_leaves_out_what_the_one_before_it_has_read_and_a_sweep_nothing() {
        let mut scans = AllScans::default();
        scans.add(3, START);
        let mut back = |after: Duration, over: i64, doubt: bool| {
            if doubt {
                scans.sweep();
            }
            // Events go on, or there would be nothing to look back for.
            let now = START + after;
            let last = (EventId(first_id_at(now)), EndpointId(1));
            let mut found = None;
            for page in scans.pages(now, true, Some(Horizon(over))) {
                scans.read(&page, (!page.goes_back()).then_some((1, last)));
                found = page.goes_back().then_some(page.since).or(found);
            }
            found.map(|since| since.map(|horizon| horizon.0))
        };
        for (millis, over, doubt, expected, why) in [
            (0, 10, false, None, "nothing is late yet"),
            (200, 20, false, Some(None), "the first has none before it"),
            (300, 30, false, None, "not yet"),
            (400, 40, false, Some(Some(20)), "as of when the last began"),
            (600, 50, false, Some(Some(40)), "and so on"),
            (30_000, 60, false, Some(None), "a sweep takes all"),
            (30_200, 70, false, Some(Some(60)), "what the sweep has read"),
            (30_201, 80, true, Some(None), "a doubt: all of it"),
            (30_401, 90, false, Some(Some(80)), "since the sweep that followed it"),
        ] {
            assert_eq!(back(Duration::from_millis(millis), over, doubt), expected, "{why}");
        }
    }

    #[test]
    fn a_clock_set_back_does_not_silence_the_sweep() {
        let mut scans = AllScans::default();
        scans.add(3, START);
        read_once(&mut scans, &[], START);
        let earlier = START - Duration::from_hours(2);
        let late = row(earlier - Duration::from_mins(1), 1);

        read_once(&mut scans, &[], earlier);
        let seen = read_once(&mut scans, std::slice::from_ref(&late), earlier + SWEEP_EVERY);

        assert_eq!(seen.first(), Some(&late.event_id));
    }
}
