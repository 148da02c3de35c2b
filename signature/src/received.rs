//! What the verifiers look at, and what they say.

use std::{borrow::Cow, fmt, time::Duration};

/// A header that is read is no longer. Servers take less than this for all headers together; the
/// longest that a provider sends, a token, has about one thousand bytes.
pub(crate) const HEADER_BYTES_MAX: usize = 16 << 10;

/// A request as it came in: headers in their order, repeated ones repeated, and the raw body.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    headers: &'a [(&'a str, &'a [u8])],
    body: &'a [u8],
    method: &'a str,
    url: Option<&'a str>,
}

impl<'a> Received<'a> {
    /// Takes the headers and the body exactly as they were received. The method is POST.
    pub fn new(headers: &'a [(&'a str, &'a [u8])], body: &'a [u8]) -> Self {
        Self { headers, body, method: "POST", url: None }
    }

    /// Says which method it came with. Few schemes sign it.
    #[must_use]
    pub fn with_method(self, method: &'a str) -> Self {
        Self { method, ..self }
    }

    /// Says which URL the sender sent it to: the one that was registered there, query and all, and
    /// not what a proxy made of it. Schemes that sign the URL need it.
    #[must_use]
    pub fn with_url(self, url: &'a str) -> Self {
        Self { url: Some(url), ..self }
    }

    pub(crate) fn with_body<'b>(self, body: &'b [u8]) -> Received<'b>
    where
        'a: 'b,
    {
        Received { body, ..self }
    }

    /// The raw body.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The method, POST unless said otherwise.
    pub fn method(&self) -> &'a str {
        self.method
    }

    pub(crate) fn headers(&self) -> &'a [(&'a str, &'a [u8])] {
        self.headers
    }

    pub(crate) fn url(&self) -> Result<&'a str, Refusal> {
        self.url.ok_or_else(|| Refusal::malformed(Step::Url, "the URL", "is signed, and not known"))
    }

    /// The values of a parameter of the URL, decoded.
    pub(crate) fn query(&self, name: &str) -> Option<Cow<'a, str>> {
        let query = self.url?.split_once('?')?.1;
        let query = query.split('#').next().unwrap_or(query);
        form_urlencoded::parse(query.as_bytes())
            .find(|(found, _)| found == name)
            .map(|(_, value)| value)
    }

    /// The one value of a header. Two of a kind are refused: which one counts would otherwise
    /// depend on who reads them.
    pub(crate) fn only(&self, name: &str, step: Step) -> Result<&'a str, Refusal> {
        self.optional(name, step)?.ok_or_else(|| Refusal::malformed(step, name, "is missing"))
    }

    /// As [`only`](Self::only), and `None` when there is no such header.
    pub(crate) fn optional(&self, name: &str, step: Step) -> Result<Option<&'a str>, Refusal> {
        let mut values = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refusal::malformed(step, name, "is given more than once"));
        }
        text(name, value, step).map(Some)
    }

    /// A header as text, for what is not security's: the event's id or type.
    pub(crate) fn lenient(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// A header's value, when it is plain text of a bearable length.
pub(crate) fn text<'a>(name: &str, value: &'a [u8], step: Step) -> Result<&'a str, Refusal> {
    if value.len() > HEADER_BYTES_MAX {
        return Err(Refusal::malformed(step, name, "has more than 16384 bytes"));
    }
    std::str::from_utf8(value)
        .ok()
        .filter(|text| text.is_ascii())
        .ok_or_else(|| Refusal::malformed(step, name, "has characters outside ASCII"))
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
        self.judge_millis(timestamp.saturating_mul(1000))
    }

    /// The same, of milliseconds; parts of a second are dropped.
    pub(crate) fn judge_millis(self, timestamp: i64) -> Result<(), Refusal> {
        let off = self.now.saturating_sub(timestamp.div_euclid(1000));
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

impl<T> From<&Result<T, Refusal>> for Verdict {
    fn from(result: &Result<T, Refusal>) -> Self {
        result.as_ref().map_or_else(Refusal::verdict, |_| Self::Ok)
    }
}

/// Which part of verifying failed, by the names that people and programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A header that must be there, or must have a certain value.
    Header,
    /// The event's id, where it is signed.
    Id,
    /// The time.
    Timestamp,
    /// The signature, token or password.
    Signature,
    /// The URL, where it is signed.
    Url,
    /// The body, where the proof is in it.
    Body,
    /// The certificate or key that the provider publishes.
    Key,
}

impl Step {
    /// `header`, `id`, `timestamp`, `signature`, `url`, `body`, `key`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Id => "id",
            Self::Timestamp => "timestamp",
            Self::Signature => "signature",
            Self::Url => "url",
            Self::Body => "body",
            Self::Key => "key",
        }
    }
}

/// Why a request is refused. For logs and people; a sender should learn no more than 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A needed part is missing or cannot be read.
    #[error("{part} {problem}")]
    Malformed {
        /// Where it failed.
        step: Step,
        /// The header, or the part of it.
        part: String,
        /// What is wrong with it.
        problem: Cow<'static, str>,
    },
    /// No signature matches any secret.
    #[error("{part} does not match the secret; {remedy}")]
    BadSignature {
        /// The header, or the part of the body.
        part: String,
        /// What to look at first.
        remedy: &'static str,
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

pub(crate) const RAW_BODY: &str =
    "check that it is this sender's secret and that the body is the raw bytes";
pub(crate) const RAW_BODY_AND_URL: &str = "check the secret, that the body is the raw bytes, and that the URL is the one \
     registered with the sender, to the last slash";
pub(crate) const SECRET_ALONE: &str = "check that it is this sender's secret";

impl Refusal {
    pub(crate) fn malformed(
        step: Step,
        part: impl fmt::Display,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Malformed { step, part: part.to_string(), problem: problem.into() }
    }

    pub(crate) fn bad_signature(part: impl fmt::Display, remedy: &'static str) -> Self {
        Self::BadSignature { part: part.to_string(), remedy }
    }

    /// The verdict that it stands for.
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::Malformed { .. } => Verdict::Malformed,
            Self::BadSignature { .. } => Verdict::BadSignature,
            Self::Stale { .. } => Verdict::Stale,
        }
    }

    /// Where verifying failed.
    pub const fn step(&self) -> Step {
        match self {
            Self::Malformed { step, .. } => *step,
            Self::BadSignature { .. } => Step::Signature,
            Self::Stale { .. } => Step::Timestamp,
        }
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
    crate::time::whole_number(text).ok_or_else(|| {
        Refusal::malformed(Step::Timestamp, part, "is no timestamp in whole seconds")
    })
}
