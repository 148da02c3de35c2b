//! Whether anything was emitted since somebody looked. One number tells, where a look at the fresh
//! rows asks every shard; a node that is busy sending looks every few milliseconds.

use std::time::Duration;

/// How long after a change of the number its commit is looked for every time. Also how long the
/// fresh rows are not looked at, at most, whatever the number says: a commit may come much later.
const RECENT: Duration = Duration::from_millis(50);

/// What was last heard.
#[derive(Debug, Default)]
pub struct News {
    count: Option<i64>,
    changed: Duration,
    looked: Duration,
    told: bool,
}

impl News {
    /// Somebody said that there is something.
    pub fn told(&mut self) {
        self.told = true;
    }

    /// Whether to look, given how much was emitted so far; `None` where nobody counts. Then it
    /// counts as having looked.
    pub fn are_there(&mut self, count: Option<i64>, now: Duration) -> bool {
        if count != self.count || count.is_none() {
            (self.count, self.changed) = (count, now);
        }
        let since = |at: Duration| now.saturating_sub(at);
        let look = self.told || since(self.changed) < RECENT || since(self.looked) >= RECENT;
        if look {
            (self.looked, self.told) = (now, false);
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_emitted_is_looked_for_a_while_and_all_else_every_so_often() {
        let ms = Duration::from_millis;
        let mut news = News::default();
        for (at, count, told, expected, why) in [
            (1_000, Some(7), false, true, "the first number is new"),
            (1_040, Some(7), false, true, "its commit may be on the way"),
            (1_050, Some(7), false, false, "it has come, most likely"),
            (1_054, Some(7), true, true, "somebody says so"),
            (1_058, Some(7), false, false, "once"),
            (1_103, Some(7), false, false, "not yet"),
            (1_104, Some(7), false, true, "a commit may take its time"),
            (1_108, Some(7), false, false, "that was it"),
            (1_112, Some(8), false, true, "another number"),
            (1_161, Some(8), false, true, "for a while"),
            (1_162, Some(8), false, false, "and no longer"),
            (1_163, Some(5), false, true, "a sequence was set back"),
            (1_164, None, false, true, "nobody counts"),
            (1_264, None, false, true, "nobody ever does"),
        ] {
            if told {
                news.told();
            }
            assert_eq!(news.are_there(count, ms(at)), expected, "at {at}: {why}");
        }
    }
}
