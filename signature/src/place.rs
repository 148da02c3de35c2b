//! Where a signature is in a request, and finding it there. How much of a request can be made to
//! be looked at is bounded here.

use std::borrow::Cow;

use crate::{
    json::{self, Pointer},
    received::{Received, Refusal, Step, text},
};

/// Signatures in one header. A sender has one a live secret; more is an attempt to make us work.
const SIGNATURES_MAX: usize = 32;

/// Headers of a numbered family: DocuSign has up to 100 keys, and one header for each.
const FAMILY_MAX: usize = 100;

/// Items in a list of which each carries the proof. Providers send no more than one hundred.
const ITEMS_MAX: usize = 1000;

/// Where a signature is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Header {
        name: String,
        form: HeaderForm,
        prefix: String,
        any_case: bool,
    },
    /// Headers with a common beginning, of which any may match.
    Family(String),
    /// Headers of which each belongs to the secret at its place.
    Slots(Vec<String>),
    Json(Pointer),
    Query(String),
    /// Known to a file in `own`.
    Own,
}

/// What a header's value looks like.
#[derive(Clone, Debug)]
pub(crate) enum HeaderForm {
    Whole,
    List(String),
    Pairs { between: String, pick: String },
}

/// A signature as it was given.
pub(crate) struct Candidate<'a> {
    pub(crate) text: Cow<'a, str>,
    /// The one secret that may have made it, where places belong to secrets.
    pub(crate) slot: Option<usize>,
}

/// What was found.
pub(crate) struct Found<'a> {
    pub(crate) candidates: Vec<Candidate<'a>>,
    /// The value of the pair that holds the time.
    pub(crate) time: Option<&'a str>,
    /// Every candidate must match, not one of them.
    pub(crate) every: bool,
}

impl Place {
    /// For messages.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Header { name, .. } => Cow::Borrowed(name),
            Self::Family(name) => Cow::Owned(format!("{name}1")),
            Self::Slots(names) => Cow::Owned(names.join(" or ")),
            Self::Json(pointer) => {
                Cow::Owned(format!("/{} in the body", pointer.parts().join("/")))
            }
            Self::Query(name) => Cow::Owned(format!("{name} in the URL")),
            Self::Own => Cow::Borrowed("the signature"),
        }
    }

    /// Whether there is no such header at all.
    pub(crate) fn is_absent(&self, request: &Received<'_>) -> bool {
        let Self::Header { name, .. } = self else { return false };
        !request.headers().iter().any(|(found, _)| found.eq_ignore_ascii_case(name))
    }

    /// Finds the signatures, and the time if it is the pair `time`.
    pub(crate) fn find<'a>(
        &'a self,
        request: &Received<'a>,
        time: Option<&str>,
    ) -> Result<Found<'a>, Refusal> {
        match self {
            Self::Header { name, form, prefix, any_case } => {
                let value = request.only(name, Step::Signature)?;
                if value.trim().is_empty() {
                    return Err(malformed(name, "is empty"));
                }
                let cut = |text: &'a str| without_prefix(text, prefix, *any_case);
                match form {
                    HeaderForm::Whole => {
                        let text = cut(value).ok_or_else(|| {
                            malformed(name, format!("does not begin with {prefix}"))
                        })?;
                        Ok(Found::one(Cow::Borrowed(text)))
                    }
                    HeaderForm::List(between) => list(name, value.split(&**between), cut),
                    HeaderForm::Pairs { between, pick } => {
                        pairs(name, value.split(&**between), pick, time)
                    }
                }
            }
            Self::Family(name) => family(name, request),
            Self::Slots(names) => slots(names, request),
            Self::Json(pointer) => in_body(pointer, request.body(), &self.name()),
            Self::Query(name) => {
                let value = request
                    .query(name)
                    .ok_or_else(|| Refusal::malformed(Step::Url, self.name(), "is missing"))?;
                Ok(Found::one(value))
            }
            Self::Own => Ok(Found { candidates: Vec::new(), time: None, every: false }),
        }
    }
}

impl<'a> Found<'a> {
    fn one(text: Cow<'a, str>) -> Self {
        Self { candidates: vec![Candidate { text, slot: None }], time: None, every: false }
    }
}

fn malformed(name: &str, problem: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::malformed(Step::Signature, name, problem)
}

fn without_prefix<'a>(text: &'a str, prefix: &str, any_case: bool) -> Option<&'a str> {
    if !any_case {
        return text.strip_prefix(prefix);
    }
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// Entries without the prefix are of another version, and are passed over.
fn list<'a>(
    name: &str,
    entries: impl Iterator<Item = &'a str>,
    cut: impl Fn(&'a str) -> Option<&'a str>,
) -> Result<Found<'a>, Refusal> {
    let mut candidates = Vec::new();
    for (count, entry) in entries.map(str::trim).enumerate() {
        if count == SIGNATURES_MAX {
            return Err(malformed(name, "has more than 32 signatures"));
        }
        if let Some(text) = cut(entry) {
            candidates.push(Candidate { text: Cow::Borrowed(text), slot: None });
        }
    }
    Ok(Found { candidates, time: None, every: false })
}

/// Pairs with other keys are passed over. A second time would leave open which one counts.
fn pairs<'a>(
    name: &str,
    entries: impl Iterator<Item = &'a str>,
    pick: &str,
    time_key: Option<&str>,
) -> Result<Found<'a>, Refusal> {
    let (mut candidates, mut time) = (Vec::new(), None);
    for (count, entry) in entries.enumerate() {
        if count == 2 * SIGNATURES_MAX {
            return Err(malformed(name, "has more than 64 parts"));
        }
        match entry.trim().split_once('=') {
            Some((key, text)) if key == pick => {
                if candidates.len() == SIGNATURES_MAX {
                    return Err(malformed(name, "has more than 32 signatures"));
                }
                candidates.push(Candidate { text: Cow::Borrowed(text), slot: None });
            }
            Some((key, text)) if Some(key) == time_key && time.replace(text).is_some() => {
                let part = format!("{key}= in {name}");
                return Err(Refusal::malformed(Step::Timestamp, part, "is given more than once"));
            }
            _ => {}
        }
    }
    if candidates.is_empty() {
        return Err(malformed(name, format!("has no {pick}=")));
    }
    Ok(Found { candidates, time, every: false })
}

fn family<'a>(start: &str, request: &Received<'a>) -> Result<Found<'a>, Refusal> {
    let mut names: Vec<&str> = Vec::new();
    let mut candidates = Vec::new();
    for (name, value) in request.headers() {
        if !name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)) {
            continue;
        }
        if names.len() == FAMILY_MAX {
            return Err(malformed(start, "is there more than 100 times"));
        }
        if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(malformed(name, "is given more than once"));
        }
        names.push(name);
        let text = text(name, value, Step::Signature)?;
        if text.is_empty() {
            return Err(malformed(name, "is empty"));
        }
        candidates.push(Candidate { text: Cow::Borrowed(text), slot: None });
    }
    if candidates.is_empty() {
        return Err(malformed(&format!("{start}1"), "is missing"));
    }
    Ok(Found { candidates, time: None, every: false })
}

fn slots<'a>(names: &[String], request: &Received<'a>) -> Result<Found<'a>, Refusal> {
    let mut candidates = Vec::new();
    for (slot, name) in names.iter().enumerate() {
        if let Some(value) = request.optional(name, Step::Signature)? {
            if value.is_empty() {
                return Err(malformed(name, "is empty"));
            }
            candidates.push(Candidate { text: Cow::Borrowed(value), slot: Some(slot) });
        }
    }
    if candidates.is_empty() {
        return Err(malformed(&names.join(" or "), "is missing"));
    }
    Ok(Found { candidates, time: None, every: false })
}

fn in_body<'a>(pointer: &Pointer, body: &[u8], name: &str) -> Result<Found<'a>, Refusal> {
    let wrong = |problem: &'static str| Refusal::malformed(Step::Body, name, problem);
    if !pointer.parts().iter().any(|part| part == "*") {
        let value = json::pluck(body, &[pointer]).remove(0).ok_or_else(|| wrong("is missing"))?;
        return Ok(Found::one(Cow::Owned(value)));
    }
    let values = json::pluck_each(body, pointer).ok_or_else(|| wrong("is missing"))?;
    if values.is_empty() {
        return Err(wrong("is missing"));
    }
    if values.len() > ITEMS_MAX {
        return Err(wrong("is there more than 1000 times"));
    }
    let candidate = |value: Option<String>| {
        let text = value.ok_or_else(|| wrong("is missing from an item"))?;
        Ok(Candidate { text: Cow::Owned(text), slot: None })
    };
    let candidates = values.into_iter().map(candidate).collect::<Result<_, Refusal>>()?;
    Ok(Found { candidates, time: None, every: true })
}
