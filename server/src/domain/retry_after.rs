//! `Retry-After` (RFC 9110 §10.2.3): a number of seconds, or a date in one of the three forms
//! that HTTP has had. Anything else is ignored; the ladder's own pause always remains.

use std::{str, time::Duration};

use super::{retry::RETRY_AFTER_MAX, time::Timestamp};

/// The pause that a receiver asks for, counted from `now`, at most [`RETRY_AFTER_MAX`]. `None`
/// where it asks for none: zero, a date that is over, and what cannot be read.
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    let pause = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds is more than the bound, too.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let since_1970 = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        (Timestamp(0) + since_1970).since(now)
    };
    Some(pause.min(RETRY_AFTER_MAX)).filter(|pause| !pause.is_zero())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-30T12:00:00Z, a Monday.
    const NOW: Timestamp = Timestamp::from_seconds(1_796_040_000);

    #[test]
    fn both_forms_are_read_and_garbage_is_ignored() {
        for (value, seconds, why) in [
            ("120", Some(120), "seconds"),
            (" 120\t", Some(120), "blanks around"),
            ("0", None, "no pause asked for"),
            ("000000000000000000000000000060", Some(60), "leading zeros"),
            ("86401", Some(86_400), "bounded by a day"),
            ("99999999999999999999999999", Some(86_400), "beyond every integer"),
            ("Mon, 30 Nov 2026 12:01:00 GMT", Some(60), "IMF-fixdate"),
            ("Monday, 30-Nov-26 12:01:00 GMT", Some(60), "RFC 850"),
            ("Mon Nov 30 12:01:00 2026", Some(60), "asctime"),
            ("Mon, 30 Nov 2026 12:00:00 GMT", None, "this very moment"),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None, "over"),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400), "far ahead"),
            ("Tue, 01 Feb 2028 00:00:00 GMT", Some(86_400), "a leap year"),
            ("Mon, 30 Feb 2026 12:01:00 GMT", None, "no such day"),
            ("Tue, 30 Nov 2026 12:01:00 GMT", None, "no Tuesday"),
            ("Thu, 31 Dec 2026 23:59:60 GMT", None, "a leap second"),
            ("Mon, 30 Nov 2026 12:01:00 +0000", None, "not in GMT"),
            ("2026-11-30T12:01:00Z", None, "not a form of HTTP"),
            ("-5", None, "negative"),
            ("+3", None, "signed"),
            ("1.5", None, "a fraction"),
            ("1e3", None, "an exponent"),
            ("120, 60", None, "two"),
            ("soon", None, "a word"),
            ("", None, "empty"),
            (" ", None, "blank"),
            ("１２", None, "digits of another script"),
        ] {
            let pause = retry_after(value.as_bytes(), NOW).map(|pause| pause.as_secs());
            assert_eq!(pause, seconds, "{value:?}: {why}");
        }
        assert_eq!(retry_after(b"\xff60", NOW), None, "no text at all");
    }

    proptest! {
        #[test]
        fn no_value_panics_or_asks_for_more_than_a_day(value: Vec<u8>, now: i64) {
            prop_assert!(retry_after(&value, Timestamp(now)) <= Some(RETRY_AFTER_MAX));
        }

        #[test]
        fn nearly_a_date_does_not_panic(value in "[A-Z][a-z]{2,8}, ?[0-9]{1,2}[ -][A-Z][a-z]{2}[ -][0-9]{2,4} [0-9:]{5,9} GMT", now: i64) {
            prop_assert!(retry_after(value.as_bytes(), Timestamp(now)) <= Some(RETRY_AFTER_MAX));
        }

        #[test]
        fn seconds_are_read_exactly(seconds in 1..=86_400_u64) {
            let pause = retry_after(seconds.to_string().as_bytes(), NOW);
            prop_assert_eq!(pause, Some(Duration::from_secs(seconds)));
        }
    }
}
