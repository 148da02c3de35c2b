//! Pages by key: a page begins after a row, not after a count of rows, so that it costs the same
//! however deep it is and shifts when rows are added.
//!
//! A cursor is opaque, and bound to the list and filters that it came from: used with others it
//! would silently skip rows.

use aws_lc_rs::digest;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};

/// Rows of a page when the caller does not say.
pub const LIMIT_DEFAULT: u16 = 50;

/// Rows of a page at most: a page of deliveries stays below about 250 KiB.
pub const LIMIT_MAX: u16 = 250;

/// The form of a cursor; counted up when it changes, so that an old one is refused.
const VERSION: u8 = 1;

/// Bytes of the filter's digest in a cursor. It guards against mistakes, not against attacks:
/// every page is read with the caller's own tenant.
const DIGEST_BYTES: usize = 8;

/// Why a cursor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Not one of ours, or of another version.
    #[error("it is no cursor of this server; pass `next` or `previous` of a page as it was given")]
    Unreadable,
    /// Of another list, or of other filters.
    #[error("it belongs to another list or other filters; leave it out to begin anew")]
    Foreign,
}

/// What rows are ordered by: unique, and kept in the cursor.
pub trait Key: Sized {
    /// As bytes.
    fn write(&self, bytes: &mut Vec<u8>);
    /// From exactly these bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
}

impl Key for i64 {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_be_bytes());
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl Key for (i64, i64) {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_at_checked(8)?;
        Some((i64::read(first)?, i64::read(second)?))
    }
}

impl Key for String {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.as_bytes());
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok().filter(|text| !text.contains('\0'))
    }
}

/// Which way from the key a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Onward,
    Back,
}

/// Which rows of a list are wanted.
#[derive(Clone, Debug)]
pub struct Page<K> {
    limit: u16,
    from: Option<(Way, K)>,
    digest: [u8; DIGEST_BYTES],
}

/// A page of rows in the list's order, and the cursors of its neighbors.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<String>,
    /// Where it comes from; `None` at its beginning.
    pub previous: Option<String>,
}

impl<K: Key> Page<K> {
    /// The page after `cursor`, or the first. `list` names the list and all its filters; `limit`
    /// is brought into `1..=LIMIT_MAX`.
    pub fn new(list: &str, cursor: Option<&str>, limit: u16) -> Result<Self, CursorError> {
        let digest = digest_of(list);
        let from = cursor.map(|cursor| read(cursor, digest)).transpose()?;
        Ok(Self { limit: limit.clamp(1, LIMIT_MAX), from, digest })
    }

    /// The first rows of a list, for callers inside the program.
    pub fn first(limit: u16) -> Self {
        Self { limit: limit.clamp(1, LIMIT_MAX), from: None, digest: [0; DIGEST_BYTES] }
    }

    /// Where to start, for binding; `None` on the first page.
    pub(super) fn key(&self) -> Option<&K> {
        self.from.as_ref().map(|(_, key)| key)
    }

    /// Rows to ask for: one more than wanted, which tells whether there are more.
    pub(super) fn fetch(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The comparison that follows the key in a list ordered as `order`.
    pub(super) fn beyond(&self, order: Order) -> &'static str {
        if self.descends(order) { "<" } else { ">" }
    }

    /// The direction to read in.
    pub(super) fn direction(&self, order: Order) -> &'static str {
        if self.descends(order) { "DESC" } else { "ASC" }
    }

    fn descends(&self, order: Order) -> bool {
        let back = matches!(self.from, Some((Way::Back, _)));
        (order == Order::Descending) != back
    }

    /// The page from the rows that were read.
    pub(super) fn finish<T>(self, mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Paged<T> {
        let more = rows.len() > usize::from(self.limit);
        rows.truncate(usize::from(self.limit));
        let (after, before) = match self.from {
            None => (more, false),
            Some((Way::Onward, _)) => (more, true),
            Some((Way::Back, _)) => {
                rows.reverse();
                (true, more)
            }
        };
        let cursor = |row: Option<&T>, way| row.map(|row| write(self.digest, way, &key(row)));
        let next = if after { cursor(rows.last(), Way::Onward) } else { None };
        let previous = if before { cursor(rows.first(), Way::Back) } else { None };
        Paged { rows, next, previous }
    }

    /// The page of a feed: it only goes onward, and its end is a place to ask again from. `end` lies
    /// before every row that is still to come: whoever has read so far need not look there again.
    pub(super) fn finish_feed<T>(self, mut rows: Vec<T>, end: K, key: impl Fn(&T) -> K) -> Paged<T>
    where
        K: Ord,
    {
        let more = rows.len() > usize::from(self.limit);
        rows.truncate(usize::from(self.limit));
        let last = rows.last().map(key).or(self.from.map(|(_, key)| key));
        let next = if more { last } else { last.max(Some(end)) };
        let next = next.map(|key| write(self.digest, Way::Onward, &key));
        Paged { rows, next, previous: None }
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Names.
    Ascending,
    /// What happened: the newest first.
    Descending,
}

impl<T> Paged<T> {
    /// The same page of other things.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Paged<U> {
        let Self { rows, next, previous } = self;
        Paged { rows: rows.into_iter().map(change).collect(), next, previous }
    }
}

fn digest_of(list: &str) -> [u8; DIGEST_BYTES] {
    let whole = digest::digest(&digest::SHA256, list.as_bytes());
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&whole.as_ref()[..DIGEST_BYTES]);
    digest
}

fn write<K: Key>(digest: [u8; DIGEST_BYTES], way: Way, key: &K) -> String {
    let mut bytes = vec![VERSION, u8::from(way == Way::Back)];
    bytes.extend(digest);
    key.write(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn read<K: Key>(cursor: &str, digest: [u8; DIGEST_BYTES]) -> Result<(Way, K), CursorError> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).map_err(|_| CursorError::Unreadable)?;
    let (way, rest) = match bytes.as_slice() {
        [VERSION, 0, rest @ ..] => (Way::Onward, rest),
        [VERSION, 1, rest @ ..] => (Way::Back, rest),
        _ => return Err(CursorError::Unreadable),
    };
    let (found, key) = rest.split_at_checked(DIGEST_BYTES).ok_or(CursorError::Unreadable)?;
    if found != digest {
        return Err(CursorError::Foreign);
    }
    Ok((way, K::read(key).ok_or(CursorError::Unreadable)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a page of `0..total` as a list in descending order.
    fn page(total: i64, cursor: Option<&str>, limit: u16) -> Paged<i64> {
        let page = Page::<i64>::new("numbers", cursor, limit).unwrap();
        let mut rows: Vec<i64> = (0..total).collect();
        if page.direction(Order::Descending) == "DESC" {
            rows.reverse();
        }
        if let Some(key) = page.key() {
            let below = page.beyond(Order::Descending) == "<";
            rows.retain(|row| if below { row < key } else { row > key });
        }
        rows.truncate(usize::try_from(page.fetch()).unwrap());
        page.finish(rows, |row| *row)
    }

    #[test]
    fn a_cursor_of_another_list_or_another_make_is_refused() {
        let cursor = page(10, None, 3).next.unwrap();
        for (list, cursor, expected) in [
            ("others", cursor.as_str(), CursorError::Foreign),
            ("numbers", "", CursorError::Unreadable),
            ("numbers", "MTIz", CursorError::Unreadable),
            ("numbers", "%%%", CursorError::Unreadable),
            ("numbers", &cursor[..cursor.len() - 2], CursorError::Unreadable),
        ] {
            assert_eq!(Page::<i64>::new(list, Some(cursor), 3).unwrap_err(), expected, "{cursor}");
        }
    }

    #[test]
    fn the_limit_is_brought_into_range() {
        assert_eq!(page(1_000, None, 0).rows.len(), 1);
        assert_eq!(page(1_000, None, u16::MAX).rows.len(), usize::from(LIMIT_MAX));
    }

    proptest! {
        /// Onward to the end shows every row once; back from there shows them all again.
        #[test]
        fn pages_show_each_row_once_both_ways(total in 0_i64..40, limit in 1_u16..9) {
            let mut seen = Vec::new();
            let mut last = page(total, None, limit);
            prop_assert!(last.previous.is_none());
            loop {
                seen.extend(last.rows.clone());
                let Some(next) = last.next.clone() else { break };
                last = page(total, Some(&next), limit);
            }
            prop_assert_eq!(&seen, &(0..total).rev().collect::<Vec<_>>());

            let mut back = last.rows.clone();
            while let Some(previous) = last.previous.clone() {
                last = page(total, Some(&previous), limit);
                back.splice(0..0, last.rows.clone());
            }
            prop_assert_eq!(back, seen);
        }

        #[test]
        fn no_text_is_a_cursor_by_chance(text in ".{0,60}") {
            prop_assert!(Page::<(i64, i64)>::new("numbers", Some(&text), 3).is_err());
        }
    }
}
