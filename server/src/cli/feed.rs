//! A server's events in the order in which they became visible, read on and on. None is skipped,
//! however late its transaction committed, and another session can go on from where one stopped.
//!
//! Asked for again and again, as in `tail`: no stream to break, and none that hangs after a sleep.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    fmt,
    str::FromStr,
    time::Duration,
};

use serde_json::{Value, value::RawValue};
use url::Url;

use super::client::Client;
use crate::domain::time::Timestamp;

/// Items of a page.
const PAGE: usize = 100;

/// Items of a page that nobody looks at.
const PAGE_SKIPPED: usize = 250;

/// Items that were there before the session and that the feed shows late; more are shown.
const OLD_MAX: usize = 1_000;

/// A transaction that was open for so long when the session began is still seen to commit.
const LATE: Duration = Duration::from_mins(1);

/// A place in a feed: behind `passed` on the page that begins at `cursor`, of the feed from
/// `since` on. Written `cursor.passed@since`, without what is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    cursor: String,
    passed: Option<String>,
    since: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cursor)?;
        self.passed.iter().try_for_each(|passed| write!(f, ".{passed}"))?;
        self.since.iter().try_for_each(|since| write!(f, "@{since}"))
    }
}

/// Any text is one: the server judges its parts.
impl FromStr for Place {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (text, since) = match text.split_once('@') {
            Some((text, since)) => (text, Some(since.to_owned())),
            None => (text, None),
        };
        let (cursor, passed) = match text.split_once('.') {
            Some((cursor, passed)) => (cursor, Some(passed.to_owned())),
            None => (text, None),
        };
        Ok(Self { cursor: cursor.to_owned(), passed, since })
    }
}

/// Where a feed begins.
pub enum Start {
    /// With what comes.
    Now,
    /// With what was accepted then.
    Since(Timestamp),
    /// Where another session stopped.
    After(Place),
}

/// A feed, and how far it was read.
pub struct Feed {
    client: Client,
    url: Url,
    place: Place,
    ahead: VecDeque<Box<RawValue>>,
    /// Where the page after those ahead begins.
    beyond: String,
    /// What was there before the session. A feed shows what is committed only once nothing older
    /// can come, so that it may be behind the listing for a while.
    old: HashSet<String>,
}

impl Feed {
    /// The feed at `url`, which names the filters, from `start` on.
    pub async fn begin(client: Client, url: Url, start: Start) -> anyhow::Result<Self> {
        let mut feed = Self {
            client,
            url,
            place: Place::default(),
            ahead: VecDeque::new(),
            beyond: String::new(),
            old: HashSet::new(),
        };
        match start {
            Start::After(place) => feed.place = place,
            Start::Since(time) => feed.place.since = Some(time.to_string()),
            Start::Now => feed.skip().await?,
        }
        Ok(feed)
    }

    /// What it is read with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How far it was read.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The next item, the same until it is passed; `None` while there is none.
    pub async fn next(&mut self) -> anyhow::Result<Option<&RawValue>> {
        if self.ahead.is_empty() {
            self.turn(PAGE).await?;
        }
        Ok(self.ahead.front().map(|item| &**item))
    }

    /// The next item is done with.
    pub fn pass(&mut self) {
        self.place.passed = self.ahead.pop_front().as_deref().and_then(id);
        self.end_page();
    }

    /// Where nothing is ahead any more, the place is the next page's beginning.
    fn end_page(&mut self) {
        if self.ahead.is_empty() {
            self.place.cursor = std::mem::take(&mut self.beyond);
            self.place.passed = None;
        }
    }

    /// Reads the next page.
    async fn turn(&mut self, rows: usize) -> anyhow::Result<()> {
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("order", "feed")
            .append_pair("cursor", &self.place.cursor)
            .extend_pairs(self.place.since.iter().map(|since| ("since", since)));
        let page = self.client.page(&url, rows).await?;
        self.ahead = page.data.into();
        self.beyond = page.next.unwrap_or_default();
        self.ahead.retain(|item| id(item).is_none_or(|id| !self.old.contains(&id)));
        if let Some(passed) = &self.place.passed {
            let at = self.ahead.iter().position(|item| id(item).as_ref() == Some(passed));
            self.ahead.drain(..at.map_or(0, |at| at + 1));
        }
        self.end_page();
        Ok(())
    }

    /// Goes to the end, past all that is there.
    async fn skip(&mut self) -> anyhow::Result<()> {
        // By the server's own times: this machine's clock may be wrong.
        let newest = self.client.page(&self.url, 1).await?;
        if let Some(newest) = newest.data.first() {
            let newest: Value = serde_json::from_str(newest.get())?;
            let time = newest["created_at"].as_str().and_then(Timestamp::parse);
            self.place.since = time.map(|time| (time - LATE).to_string());
        }
        let mut lately = self.url.clone();
        lately.query_pairs_mut().extend_pairs(self.place.since.iter().map(|time| ("since", time)));
        let (found, _) = self.client.list(&lately, OLD_MAX).await?;
        loop {
            self.turn(PAGE_SKIPPED).await?;
            if self.ahead.is_empty() {
                self.old = found.iter().filter_map(|item| id(item)).collect();
                return Ok(());
            }
            self.ahead.clear();
            self.end_page();
        }
    }
}

fn id(item: &RawValue) -> Option<String> {
    let item: Value = serde_json::from_str(item.get()).ok()?;
    item["id"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let since = "2026-12-01T03:20:35.5Z";
        for (text, cursor, passed, from) in [
            ("AQ_-x", "AQ_-x", None, None),
            ("AQ.evt_1", "AQ", Some("evt_1"), None),
            ("AQ.evt_1@2026-12-01T03:20:35.5Z", "AQ", Some("evt_1"), Some(since)),
            ("AQ@2026-12-01T03:20:35.5Z", "AQ", None, Some(since)),
            ("@2026-12-01T03:20:35.5Z", "", None, Some(since)),
            ("", "", None, None),
        ] {
            let place: Place = text.parse().unwrap();
            let owned = |text: &str| text.to_owned();
            let expected =
                Place { cursor: owned(cursor), passed: passed.map(owned), since: from.map(owned) };
            assert_eq!((&place, place.to_string().as_str()), (&expected, text));
        }
    }
}
