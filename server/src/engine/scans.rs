//! How far the fresh rows were read. Pure: no I/O, no clock.
//!
//! Ids are given before commits, so a row may appear behind the place that was read already.
//! Three scans share the work: the hot one reads what is new, with a little slack; the late one
//! goes back a few seconds, often enough to be prompt; the sweep goes back to the beginning, for
//! a transaction may stay open as long as it likes. The first two are for speed, the last is for
//! truth. Where a transaction that was open for long is seen to end, a look to the beginning for
//! what it wrote comes at once.

mod watch;

use std::{collections::BTreeMap, time::Duration};

use self::watch::Watch;
use crate::{
    domain::{
        id::{EndpointId, EventId, first_id_at},
        time::Timestamp,
    },
    store::{Cursor, Horizon, Transactions},
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
    /// Whether the scan that goes back has begun at the beginning, and takes nobody's word.
    sweeping: bool,
    /// Whether to look to the beginning for what a long transaction wrote.
    far: bool,
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
    watch: Watch,
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
        self.back && self.cursor.after == BEGINNING && self.since.is_none()
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
            far: false,
            began: None,
            before: None,
        });
    }

    /// Stops to read a shard.
    pub fn remove(&mut self, shard: i16) {
        self.shards.remove(&shard);
    }

    /// The pages to read now. The hot scan of every shard is among them if there is news, or if it
    /// has more to read. `seen` tells of transactions, where that is known.
    pub fn pages(&mut self, now: Timestamp, news: bool, seen: Option<Transactions>) -> Vec<Page> {
        let over = seen.map(|seen| seen.over);
        if self.watch.look(now, seen) {
            self.shards.values_mut().for_each(|scans| scans.far = true);
        }
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
        let scans = self.shards.values();
        let back = scans.clone().map(|scans| scans.sweep_at.min(scans.late_at)).min();
        let last = scans.map(|scans| scans.hot.0.created_at()).max();
        back.map(|back| self.watch.next_at(last).map_or(back, |look| look.min(back)))
    }
}

impl Scans {
    fn start_back(&mut self, now: Timestamp) -> Option<Place> {
        if now >= self.sweep_at {
            (self.sweep_at, self.late_at) = (now + SWEEP_EVERY, now + LATE_EVERY);
            (self.sweeping, self.far) = (true, false);
            return Some(BEGINNING);
        }
        if self.far {
            (self.sweeping, self.far) = (false, false);
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
mod tests;
