//! Times as senders write them: seconds or milliseconds since 1970, or RFC 3339.
//!
//! There is no clock in here, and no calendar but what reading and writing one format takes.

/// How a sender writes a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    Rfc3339,
}

impl Unit {
    /// Milliseconds since 1970, or `None` when the text is no time of this kind.
    pub(crate) fn parse(self, text: &str) -> Option<i64> {
        match self {
            Self::Seconds => whole_number(text)?.checked_mul(1000),
            Self::Milliseconds => whole_number(text),
            Self::Rfc3339 => rfc3339(text),
        }
    }

    /// A time of so many seconds since 1970, as a sender would write it.
    pub(crate) fn write(self, seconds: i64) -> String {
        match self {
            Self::Seconds => seconds.to_string(),
            Self::Milliseconds => seconds.saturating_mul(1000).to_string(),
            Self::Rfc3339 => written(seconds),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "is no timestamp in whole seconds",
            Self::Milliseconds => "is no timestamp in whole milliseconds",
            Self::Rfc3339 => "is no time as RFC 3339 has it, 2026-11-30T12:34:56Z",
        }
    }
}

/// Plain digits: no sign, no fraction, no leading zero. Two texts for one time would be two
/// signatures for one request.
pub(crate) fn whole_number(text: &str) -> Option<i64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    plain.then(|| text.parse().ok()).flatten()
}

const MILLIS_A_DAY: i64 = 24 * 60 * 60 * 1000;

/// `2026-11-30T12:34:56.789Z`, with any number of digits after the point and any offset.
fn rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |at: usize, digits: usize| {
        let part = bytes.get(at..at + digits)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let punctuated = bytes.len() > 19
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(at, c)| bytes[*at] == *c)
        && matches!(bytes[10], b'T' | b't' | b' ');
    if !punctuated {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &bytes[19..];
    let mut millis = 0;
    if let Some((b'.', after)) = rest.split_first() {
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let third = |at: usize| after[..digits].get(at).map_or(0, |digit| i64::from(digit - b'0'));
        millis = third(0) * 100 + third(1) * 10 + third(2);
        rest = &after[digits..];
    }
    let offset = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = bytes.len() - 5;
            let (hours, minutes) = (number(at, 2)?, number(at + 3, 2)?);
            let ahead = (hours * 60 + minutes) * 60_000;
            if *sign == b'+' { ahead } else { -ahead }
        }
        _ => return None,
    };
    let clock = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    Some(days_since_1970(year, month, day) * MILLIS_A_DAY + clock - offset)
}

/// Days of the Gregorian calendar, counted in years that begin in March, so that a leap day is
/// the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn written(seconds: i64) -> String {
    let (days, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_their_senders_write_them() {
        for (unit, text, expected, why) in [
            (Unit::Seconds, "1750000000", Some(1_750_000_000_000), "plain"),
            (Unit::Seconds, "01750000000", None, "a leading zero"),
            (Unit::Seconds, "+1750000000", None, "a sign"),
            (Unit::Seconds, "1e9", None, "an exponent"),
            (Unit::Seconds, "", None, "nothing"),
            (Unit::Seconds, "9223372036854775807", None, "no such millisecond"),
            (Unit::Milliseconds, "1750000000123", Some(1_750_000_000_123), "plain"),
            (Unit::Rfc3339, "2025-06-15T15:06:40Z", Some(1_750_000_000_000), "UTC"),
            (Unit::Rfc3339, "2025-06-15T08:06:40-07:00", Some(1_750_000_000_000), "an offset"),
            (Unit::Rfc3339, "2025-06-15T15:06:40.123456789Z", Some(1_750_000_000_123), "digits"),
            (Unit::Rfc3339, "2025-06-15T15:06:40.5+00:00", Some(1_750_000_000_500), "one digit"),
            (Unit::Rfc3339, "2024-02-29T00:00:00Z", Some(1_709_164_800_000), "a leap day"),
            (Unit::Rfc3339, "2025-06-15T15:06:40", None, "no zone"),
            (Unit::Rfc3339, "2025-06-15T15:06:40.Z", None, "a point alone"),
            (Unit::Rfc3339, "2025-13-15T15:06:40Z", None, "a thirteenth month"),
            (Unit::Rfc3339, "2025-06-15T15:06:40Zjunk", None, "more behind"),
            (Unit::Rfc3339, "1750000000", None, "seconds"),
            (Unit::Rfc3339, "２０25-06-15T15:06:40Z", None, "wide digits"),
        ] {
            assert_eq!(unit.parse(text), expected, "{text:?}: {why}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 1_i64..253_402_300_799) {
            for unit in [Unit::Seconds, Unit::Milliseconds, Unit::Rfc3339] {
                prop_assert_eq!(unit.parse(&unit.write(seconds)), Some(seconds * 1000));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}|[0-9TZ:.+-]{15,32}") {
            let _ = Unit::Rfc3339.parse(&text);
        }
    }
}
