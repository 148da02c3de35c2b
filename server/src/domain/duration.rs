//! Durations as people write them: `30s`, `5m`, `28h`.
//!
//! One whole number and one unit, so that a value has few spellings and none is rounded. What is
//! not here: sums such as `1h30m` and fractions such as `1.5h`; the error says what to write.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const NANOS_PER_DAY: u128 = 86_400 * NANOS_PER_SECOND;

/// Units from the coarsest to the finest, in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", NANOS_PER_DAY),
    ("h", 3_600 * NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("s", NANOS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The longest duration that can be written: a hundred years of 365 days. Beyond it a slip of
/// the hand is likelier than a plan, and sums with a time stay far from overflow.
pub const DURATION_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No digits, or something other than digits before the unit.
    #[error("{0:?} is no duration; write a whole number and a unit, for example 30s, 5m or 28h")]
    NoNumber(String),
    /// A number alone.
    #[error("{0:?} has no unit; write {0}s for seconds (units are ms, s, m, h, d)")]
    NoUnit(String),
    /// A unit that is not known.
    #[error("{text:?} has the unit {unit:?}; the units are ms, s, m, h, d")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What stands where the unit should.
        unit: String,
    },
    /// A fraction or a sum of units.
    #[error(
        "{0:?} is not one whole number and one unit; use a smaller unit: 90m, not 1.5h or 1h30m"
    )]
    NotWhole(String),
    /// More than [`DURATION_MAX`].
    #[error("{0:?} is too long; a duration is at most 36500d")]
    TooLong(String),
}

/// Reads one whole number and one unit (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`); nothing is trimmed.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use snaphook::domain::duration;
/// assert_eq!(duration::parse("28h"), Ok(Duration::from_secs(28 * 3600)));
/// assert!(duration::parse("30").unwrap_err().to_string().contains("write 30s"));
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let shown = || shorten(text);
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::NoNumber(shown()));
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit(shown()));
    }
    let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(if unit.contains(|c: char| c.is_ascii_digit()) {
            DurationError::NotWhole(shown())
        } else {
            DurationError::UnknownUnit { text: shown(), unit: shorten(unit) }
        });
    };
    let total = number.parse::<u128>().ok().and_then(|number| number.checked_mul(*nanos));
    match total {
        Some(total) if total <= DURATION_MAX.as_nanos() => Ok(from_nanos(total)),
        _ => Err(DurationError::TooLong(shown())),
    }
}

/// Writes a duration with the coarsest unit that divides it, exactly: `90s`, `28h`. Days are used
/// from two on, so that `24h` stays as most people write it.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let fits = |unit: u128| {
        nanos.is_multiple_of(unit) && (unit < NANOS_PER_DAY || nanos >= 2 * NANOS_PER_DAY)
    };
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| fits(*unit)).unwrap_or(("ns", 1));
    format!("{}{name}", nanos / unit)
}

/// A duration that is read and written as text, for settings and JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub Duration);

impl FromStr for Text {
    type Err = DurationError;
    fn from_str(text: &str) -> Result<Self, DurationError> {
        parse(text).map(Self)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self.0))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes, for example \"30s\", \"5m\" or \"28h\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor).map_err(D::Error::custom)
    }
}

/// For `#[serde(with = "duration::text")]` on a field of type `Duration`.
pub mod text {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Text};

    /// Writes `30s`.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        Text(*value).serialize(serializer)
    }

    /// Reads `30s`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Text::deserialize(deserializer).map(|text| text.0)
    }
}

/// `total` is at most [`DURATION_MAX`], so that both parts fit.
fn from_nanos(total: u128) -> Duration {
    let seconds = u64::try_from(total / NANOS_PER_SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, u32::try_from(total % NANOS_PER_SECOND).unwrap_or(0))
}

/// A wrong text may be a whole file; an error shows its beginning and says that it goes on.
fn shorten(text: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, seconds, canonical) in [
            ("0s", 0, "0s"),
            ("0d", 0, "0s"),
            ("30s", 30, "30s"),
            ("5m", 300, "5m"),
            ("300s", 300, "5m"),
            ("90s", 90, "90s"),
            ("28h", 100_800, "28h"),
            ("24h", 86_400, "24h"),
            ("1d", 86_400, "24h"),
            ("5d", 432_000, "5d"),
            ("030s", 30, "30s"),
            ("36500d", 3_153_600_000, "36500d"),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(format(Duration::from_secs(seconds)), canonical, "{text}");
        }
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn an_error_names_the_remedy() {
        for (text, remedy) in [
            ("", "whole number and a unit"),
            ("s", "whole number and a unit"),
            ("-5s", "whole number and a unit"),
            (" 5s", "whole number and a unit"),
            ("٣s", "whole number and a unit"),
            ("30", "write 30s"),
            ("30 s", "unit"),
            ("30sec", "the units are ms, s, m, h, d"),
            ("30S", "the units are"),
            ("1.5h", "90m, not 1.5h"),
            ("1h30m", "90m, not"),
            ("36501d", "at most 36500d"),
            ("99999999999999999999999999999999999999999999s", "at most 36500d"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
        let long = parse(&"9".repeat(1_000_000)).expect_err("no unit").to_string();
        assert!(long.len() < 300, "{} bytes", long.len());
    }

    #[test]
    fn a_number_in_json_is_refused_with_an_example() {
        let error = serde_json::from_str::<Text>("30").expect_err("a number").to_string();
        assert!(error.contains("\"30s\""), "{error}");
    }

    proptest! {
        #[test]
        fn every_duration_survives_being_written(
            seconds in 0..=DURATION_MAX.as_secs() - 1, nanos in 0..1_000_000_000_u32
        ) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }
    }
}
