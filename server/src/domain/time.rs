//! Points in time. One type, so that no function can mistake milliseconds for seconds.

use std::{fmt, ops, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Microseconds since 1970-01-01 UTC, the finest grain that PostgreSQL keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// From whole seconds since 1970-01-01 UTC.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Whole seconds since 1970-01-01 UTC, rounded down: what `webhook-timestamp` carries.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Reads RFC 3339, for example `2026-11-30T12:34:56.789Z`. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(Self(time.as_microsecond()))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC, as many decimals as are not zero.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
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
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is no time; write it as RFC 3339, for example 2026-11-30T12:34:56Z"
            ))
        })
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
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(micros)), "{text}");
            assert_eq!(Timestamp(micros).to_string(), text);
        }
        assert_eq!(Timestamp::parse("yesterday"), None);
        assert_eq!(Timestamp(-1).seconds(), -1, "rounded down, not toward zero");
    }
}
