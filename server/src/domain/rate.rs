//! How many requests an endpoint takes in a time, as people write it: `50/s`, `600/m`, `10000/h`.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use super::problem::shown;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// At most 100,000 a second: beyond what one endpoint can be sent, so surely a slip.
const PER_SECOND_MAX: u64 = 100_000;

/// A number of requests in a second, a minute or an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// Requests in each `per`.
    pub count: NonZeroU32,
    /// The time that `count` is counted over.
    pub per: Per,
}

/// The times that a rate may be counted over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    /// `/s`
    Second,
    /// `/m`
    Minute,
    /// `/h`
    Hour,
}

impl Per {
    /// How long it is.
    pub const fn duration(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Second => 's',
            Self::Minute => 'm',
            Self::Hour => 'h',
        }
    }
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no rate; write a number above zero and a time, for example 50/s, 600/m or 10000/h, at most 100000/s",
    shown(.0)
)]
pub struct RateError(String);

impl RateLimit {
    /// The time between two requests when they are spread evenly.
    pub fn interval(self) -> Duration {
        self.per.duration() / self.count.get()
    }
}

impl FromStr for RateLimit {
    type Err = RateError;
    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = || RateError(text.to_owned());
        let (count, per) = text.split_once('/').ok_or_else(wrong)?;
        let per = match per {
            "s" => Per::Second,
            "m" => Per::Minute,
            "h" => Per::Hour,
            _ => return Err(wrong()),
        };
        if !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong()); // the standard parser takes a sign
        }
        let count: NonZeroU32 = count.parse().map_err(|_| wrong())?;
        let most = PER_SECOND_MAX.saturating_mul(per.duration().as_secs());
        (u64::from(count.get()) <= most).then_some(Self { count, per }).ok_or_else(wrong)
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.per.letter())
    }
}

impl Serialize for RateLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RateLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        for (text, interval) in [
            ("50/s", Duration::from_millis(20)),
            ("600/m", Duration::from_millis(100)),
            ("1/h", Duration::from_hours(1)),
            ("100000/s", Duration::from_micros(10)),
        ] {
            let rate: RateLimit = text.parse().expect(text);
            assert_eq!((rate.to_string().as_str(), rate.interval()), (text, interval));
        }
        for text in ["", "50", "50/", "/s", "0/s", "+5/s", "-1/s", "1.5/s", "50/d", "100001/s"] {
            assert!(text.parse::<RateLimit>().is_err(), "{text}");
        }
    }
}
