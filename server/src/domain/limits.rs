//! Limits of what comes in, each with its reason. Limits that belong to one thing stand beside
//! it: of URLs in `url.rs`, of filters in `filter.rs`, of ladders in `retry.rs`.

use super::{own_headers::is_token, problem::shown, time::Timestamp};

/// Bytes of a payload, unless `limits.payload` says otherwise: what most receivers take; larger
/// things are better fetched from a link in the event.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1024 * 1024;

/// The most that `limits.payload` can be set to. A payload is held in memory once for each
/// attempt that is under way.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Events of one batch: one transaction of a few milliseconds.
pub const BATCH_EVENTS_MAX: usize = 1_000;

/// Bytes of one batch, all of its JSON included.
pub const BATCH_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Bytes of every other request to the API: settings, not data.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Rows of a page when the caller does not say.
pub const PAGE_DEFAULT: u32 = 50;

/// Rows of a page at most: what a person can look through, and a program reads at once.
pub const PAGE_MAX: u32 = 250;

/// Bytes of a dedup key: room for a URL or two hashes. It is an index entry, which PostgreSQL
/// bounds at about 2,700 bytes.
pub const KEY_BYTES_MAX: usize = 256;

/// Bytes of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

/// Bytes of an event's `version`: a date, a number or a hash.
pub const VERSION_BYTES_MAX: usize = 64;

/// Sources of one tenant. All of them are kept in memory, so that an id that nobody has costs
/// nothing.
pub const SOURCES_MAX: i64 = 256;

/// Bytes of a content type (RFC 6838 §4.2 bounds type and subtype at 127 each).
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Why a text is no content type: `type/subtype`, with parameters or without (RFC 9110 §8.3.1).
/// It goes out as a header of requests, so it must be one that every receiver can read.
pub fn check_content_type(text: &str) -> Result<(), String> {
    let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_token);
    let essence = text.split(';').next().unwrap_or_default().trim_ascii();
    let is_named =
        essence.split_once('/').is_some_and(|(left, right)| is_token(left) && is_token(right));
    let fits = text.len() <= CONTENT_TYPE_BYTES_MAX
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    if is_named && fits {
        return Ok(());
    }
    Err(format!(
        "{} is no content type; write one such as text/plain, in ASCII, of at most {CONTENT_TYPE_BYTES_MAX} characters",
        shown(text)
    ))
}

/// Bytes of a `traceparent`: 55 in version 00 (W3C Trace Context); later ones may be longer.
pub const TRACEPARENT_BYTES_MAX: usize = 256;

/// Bytes of a JSON Schema, as compact JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Live secrets of one endpoint: two suffice for a rotation, and each adds 50 bytes to a header.
pub const SECRETS_MAX: usize = 10;

/// The number of rows of a page, from what the caller asked for. The error names the remedy.
pub fn page_size(asked: Option<i64>) -> Result<u32, String> {
    let Some(asked) = asked else { return Ok(PAGE_DEFAULT) };
    match u32::try_from(asked) {
        Ok(rows @ 1..=PAGE_MAX) => Ok(rows),
        _ => Err(format!(
            "{asked} is not from 1 to {PAGE_MAX}; for more rows, follow `next` from page to page"
        )),
    }
}

/// Checks a text that is stored as it is and compared byte by byte: a dedup key, a version. It
/// is not empty, at most `bytes_max` bytes, and without control characters, which could hide in
/// a header or a log, and of which PostgreSQL refuses NUL.
pub fn check_text(text: &str, bytes_max: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty; leave it out instead".to_owned());
    }
    if text.len() > bytes_max {
        return Err(format!("it is {} bytes; {bytes_max} are allowed", text.len()));
    }
    match text.chars().find(|char| char.is_control()) {
        Some(odd) => Err(format!("it contains the control character {odd:?}; leave it out")),
        None => Ok(()),
    }
}

/// Checks a `traceparent`: `00-<32 hex>-<16 hex>-<2 hex>` (W3C Trace Context, 3.2.2).
pub fn check_traceparent(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_hex = |part: &&str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if lengths == [2, 32, 16, 2] && parts.iter().all(is_hex) {
        return Ok(());
    }
    Err("it is not in the form of W3C Trace Context; write 00-<32 hex>-<16 hex>-<2 hex>, or \
         leave it out"
        .to_owned())
}

/// Checks when something happened: within what RFC 3339 and both databases can write.
pub fn check_time(time: Timestamp) -> Result<(), String> {
    let (first, last) = (Timestamp::FIRST, Timestamp::LAST);
    if (first..=last).contains(&time) {
        return Ok(());
    }
    Err(format!("{time} is outside of the years 1 to 9999; use a time from {first} to {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_1_to_250_rows() {
        for (asked, expected) in [
            (None, Some(50)),
            (Some(1), Some(1)),
            (Some(250), Some(250)),
            (Some(0), None),
            (Some(-1), None),
            (Some(251), None),
            (Some(i64::MAX), None),
        ] {
            assert_eq!(page_size(asked).ok(), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_content_type_has_a_type_and_a_subtype() {
        for (text, ok) in [
            ("text/plain", true),
            ("application/vnd.api+json; charset=utf-8", true),
            ("multipart/form-data; boundary=\"a b\"", true),
            ("bad type", false),
            ("text", false),
            ("/plain", false),
            ("text/", false),
            ("text/pl ain", false),
            ("text/plain; x=\u{1}", false),
            ("té/plain", false),
            ("", false),
            (&format!("text/plain; x={}", "y".repeat(CONTENT_TYPE_BYTES_MAX)), false),
        ] {
            assert_eq!(check_content_type(text).is_ok(), ok, "{text:?}");
        }
    }

    #[test]
    fn stored_texts_are_bounded_and_hide_nothing() {
        for (text, ok, why) in [
            ("order-42-paid", true, "plain"),
            ("é".repeat(128).as_str(), true, "256 bytes"),
            ("é".repeat(129).as_str(), false, "258 bytes, if only 129 characters"),
            ("", false, "empty"),
            ("a\0b", false, "NUL"),
            ("a\r\nb", false, "a line break"),
            (" ", true, "a blank is compared like any character"),
        ] {
            assert_eq!(check_text(text, KEY_BYTES_MAX).is_ok(), ok, "{why}");
        }
    }

    #[test]
    fn a_traceparent_has_one_form() {
        for (text, ok, why) in [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true, "the plain case"),
            ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false, "upper case"),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false, "a part is missing"),
            ("00-4bf92f3577b34da6a3ce929d0e0e47-36-00f067aa0ba902b7-01", false, "a part too many"),
            ("", false, "empty"),
            ("00-4bf92f3577b34da6a3ce929d0e0e473\r-00f067aa0ba902b7-01", false, "a control"),
        ] {
            assert_eq!(check_traceparent(text).is_ok(), ok, "{why}");
        }
    }
}
