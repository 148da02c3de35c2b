//! Points in time. One type, so that no function can mistake milliseconds for seconds.

use std::{fmt, ops, time::Duration};

use jiff::{SignedDuration, civil, fmt::temporal::Pieces};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::problem::shown;

/// Microseconds since 1970-01-01 UTC, the finest grain that PostgreSQL keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// 1970-01-01T00:00:00, from which [`Timestamp`] counts.
const ORIGIN: civil::DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

/// Why `text` is no time, and how to write one.
pub fn refusal(text: &str) -> String {
    format!(
        "{} is no time in the years 1 to 9999; write RFC 3339, as 2026-11-30T12:34:56Z",
        shown(text)
    )
}

impl Timestamp {
    /// 0001-01-01T00:00:00Z: nobody has events from before it.
    pub const FIRST: Self = Self::from_seconds(-62_135_596_800);

    /// 9999-12-31T23:59:59.999999Z: RFC 3339 has years of four digits.
    pub const LAST: Self = Self(253_402_300_799_999_999);

    /// From whole seconds since 1970-01-01 UTC.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Whole seconds since 1970-01-01 UTC, rounded down: what `webhook-timestamp` carries.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Reads RFC 3339, for example `2026-11-30T12:34:56.789Z`. `None` for anything else, and for
    /// times outside of [`Self::FIRST`] to [`Self::LAST`].
    pub fn parse(text: &str) -> Option<Self> {
        let pieces = Pieces::parse(text).ok()?;
        let local = pieces.date().to_datetime(pieces.time()?).duration_since(ORIGIN);
        let east = i64::from(pieces.to_numeric_offset()?.seconds());
        let micros = local.checked_sub(SignedDuration::from_secs(east))?.as_micros();
        let time = Self(i64::try_from(micros).ok()?);
        (Self::FIRST..=Self::LAST).contains(&time).then_some(time)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC, as many decimals as are not zero.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ORIGIN.checked_add(SignedDuration::from_micros(self.0)) {
            Ok(time) => write!(f, "{time}Z"),
            Err(_) => write!(f, "{} µs", self.0), // beyond the year 9999
        }
    }
}

impl ops::Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, pause: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl ops::Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, pause: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(refusal(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-30T12:34:56.789Z", 1_796_042_096_789_000),
            ("1969-12-31T23:59:59.5Z", -500_000),
            ("0001-01-01T00:00:00Z", Timestamp::FIRST.0),
            ("9999-12-31T23:59:59.999999Z", Timestamp::LAST.0),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(micros)), "{text}");
            assert_eq!(Timestamp(micros).to_string(), text);
        }
        for (text, micros, why) in [
            ("2026-11-30T12:34:56+01:00", Some(1_796_038_496_000_000), "east of Greenwich"),
            ("1969-12-31T23:59:59.9999999Z", Some(0), "cut to microseconds, toward 1970"),
            ("yesterday", None, "words"),
            ("2026-11-30", None, "a day"),
            ("2026-11-30T12:34:56", None, "no zone"),
            ("0000-12-31T23:59:59Z", None, "before the first"),
            ("9999-12-31T23:59:59-01:00", None, "after the last"),
            ("+012026-11-30T12:34:56Z", None, "a year of more digits"),
        ] {
            assert_eq!(Timestamp::parse(text).map(|time| time.0), micros, "{why}: {text}");
        }
        assert_eq!(Timestamp(-1).seconds(), -1, "rounded down, not toward zero");
    }
}
