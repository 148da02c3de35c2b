//! What the verifiers look at, and what they say.

use std::{fmt, time::Duration};

/// A request as it came in: headers in their order, repeated ones repeated, and the raw body.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    headers: &'a [(&'a str, &'a [u8])],
    body: &'a [u8],
}

impl<'a> Received<'a> {
    /// Takes the headers and the body exactly as they were received.
    pub fn new(headers: &'a [(&'a str, &'a [u8])], body: &'a [u8]) -> Self {
        Self { headers, body }
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The one value of a header. Two of a kind are refused: which one counts would otherwise
    /// depend on who reads them.
    pub(crate) fn only(&self, name: &str) -> Result<&'a str, Refusal> {
        let mut values = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let (_, value) = values.next().ok_or_else(|| Refusal::malformed(name, "is missing"))?;
        if values.next().is_some() {
            return Err(Refusal::malformed(name, "is given more than once"));
        }
        std::str::from_utf8(value)
            .ok()
            .filter(|text| text.is_ascii())
            .ok_or_else(|| Refusal::malformed(name, "has characters outside ASCII"))
    }
}

/// Now, and how far from it a timestamp may be, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970-01-01 UTC.
    pub now: i64,
    /// Five minutes, as the Standard Webhooks libraries have it, unless there is a reason.
    pub tolerance: Duration,
}

impl Clock {
    /// `now` with the customary five minutes.
    pub fn at(now: i64) -> Self {
        Self { now, tolerance: Duration::from_mins(5) }
    }

    /// Judges an age. Comes after the signature: an old request that is also forged is forged.
    pub(crate) fn judge(self, timestamp: i64) -> Result<(), Refusal> {
        let off = self.now.saturating_sub(timestamp);
        if off.unsigned_abs() > self.tolerance.as_secs() {
            return Err(Refusal::Stale { seconds: off, tolerance: self.tolerance.as_secs() });
        }
        Ok(())
    }
}

/// A request that was signed with one of our secrets, in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Genuine {
    /// Which of the secrets matched, as an index.
    pub secret: usize,
}

/// The four verdicts, by the names that people and programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Genuine and in time.
    Ok,
    /// Genuine, but too old or too far ahead.
    Stale,
    /// No signature matches any secret.
    BadSignature,
    /// A needed part is missing or cannot be read.
    Malformed,
}

impl Verdict {
    /// `ok`, `stale`, `bad_signature`, `malformed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::BadSignature => "bad_signature",
            Self::Malformed => "malformed",
        }
    }
}

impl From<&Result<Genuine, Refusal>> for Verdict {
    fn from(result: &Result<Genuine, Refusal>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(Refusal::Stale { .. }) => Self::Stale,
            Err(Refusal::BadSignature { .. }) => Self::BadSignature,
            Err(Refusal::Malformed { .. }) => Self::Malformed,
        }
    }
}

/// Why a request is refused. For logs and people; a sender should learn no more than 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A needed part is missing or cannot be read.
    #[error("{part} {problem}")]
    Malformed {
        /// The header, or the part of it.
        part: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No signature matches any secret.
    #[error(
        "none of the signatures in {header} matches the secret; \
         check that it is this endpoint's secret and that the body is the raw bytes"
    )]
    BadSignature {
        /// The header.
        header: String,
    },
    /// Genuine, but too old or too far ahead.
    #[error("{}", stale(*seconds, *tolerance))]
    Stale {
        /// How old it is; below zero when it comes from the future.
        seconds: i64,
        /// How much is allowed.
        tolerance: u64,
    },
}

impl Refusal {
    pub(crate) fn malformed(part: impl fmt::Display, problem: &'static str) -> Self {
        Self::Malformed { part: part.to_string(), problem }
    }
}

fn stale(seconds: i64, tolerance: u64) -> String {
    let far = seconds.unsigned_abs();
    if seconds > 0 {
        format!("the timestamp is {far} s old; {tolerance} s are allowed")
    } else {
        format!("the timestamp is {far} s ahead; {tolerance} s are allowed, check the clock")
    }
}

/// Reads whole seconds. No sign, no fraction, no leading zero: the text is what was signed, and
/// two texts for one time would be two signatures for one request.
pub(crate) fn timestamp(part: &str, text: &str) -> Result<i64, Refusal> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let number = plain.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Refusal::malformed(part, "is no timestamp in whole seconds"))
}
