//! The headers that an endpoint's owner adds to each request, and which ones may not be added.
//!
//! They are checked when they are saved, with the same rule that the client uses, so that no
//! stored header can fail, split or smuggle a request later. Values are often tokens: `Debug`
//! shows names only, and reading them back gives [`HIDDEN`].

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::Problem;

/// What stands in place of a write-only value. Sent back unchanged, it keeps the stored value.
pub const HIDDEN: &str = "(hidden)";

/// Headers of one endpoint: far more than any receiver needs, few enough to check by eye.
pub const HEADERS_MAX: usize = 64;

/// Bytes of one name.
pub const NAME_BYTES_MAX: usize = 128;

/// Bytes of one value: a long signed token fits.
pub const VALUE_BYTES_MAX: usize = 4_096;

/// Bytes of all names and values together. Common servers refuse a request whose headers are
/// over 16 KiB (Node.js) or 32 KiB (nginx); this leaves room for ours.
pub const TOTAL_BYTES_MAX: usize = 8_192;

/// Names that are never the owner's, and whose they are.
const RESERVED: &[(&str, &str)] = &[
    ("accept-encoding", "answers are not decompressed, so none is asked for"),
    ("connection", "it belongs to the connection"),
    ("content-encoding", "the body is sent as it is"),
    ("content-length", "it is computed from the body"),
    ("content-type", "it follows from the endpoint's format"),
    ("expect", "the body is sent at once"),
    ("host", "it follows from the endpoint's url"),
    ("http2-settings", "it belongs to the connection"),
    ("keep-alive", "it belongs to the connection"),
    ("proxy-authenticate", "it belongs to the connection"),
    ("proxy-authorization", "it belongs to the connection"),
    ("proxy-connection", "it belongs to the connection"),
    ("te", "it belongs to the connection"),
    ("traceparent", "it is taken from the event"),
    ("trailer", "it belongs to the connection"),
    ("transfer-encoding", "it belongs to the connection"),
    ("upgrade", "it belongs to the connection"),
    ("user-agent", "it tells receivers who is sending"),
];

/// Beginnings of names that are ours.
const RESERVED_PREFIXES: &[&str] = &["webhook-", "snaphook-"];

/// Name → value. Names keep their spelling; two that differ only in case are refused.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnHeaders(BTreeMap<String, String>);

/// Names only: values may be tokens.
impl fmt::Debug for OwnHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, String)> for OwnHeaders {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl OwnHeaders {
    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same names, each with [`HIDDEN`] as its value: what may be shown.
    #[must_use]
    pub fn hidden(&self) -> Self {
        self.0.keys().map(|name| (name.clone(), HIDDEN.to_owned())).collect()
    }

    /// Merges a change into these headers: a text sets, `null` removes, [`HIDDEN`] keeps, a name
    /// that is absent stays as it is (JSON Merge Patch, RFC 7396).
    pub fn merge(&mut self, change: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut given = std::collections::BTreeMap::new();
        for (name, value) in change {
            if let Some(first) = given.insert(name.to_ascii_lowercase(), name) {
                problems.push(Problem::new(
                    field(name),
                    format_args!(
                        "it is given twice, as {first} too; case makes no difference, give it once"
                    ),
                ));
                continue;
            }
            let stored = self.0.keys().find(|stored| stored.eq_ignore_ascii_case(name)).cloned();
            match value {
                Value::String(text) if text == HIDDEN && stored.is_some() => {}
                Value::String(text) if text != HIDDEN => {
                    stored.map(|stored| self.0.remove(&stored));
                    self.0.insert(name.clone(), text.clone());
                }
                Value::Null => drop(stored.map(|stored| self.0.remove(&stored))),
                Value::String(_) => problems.push(Problem::new(
                    field(name),
                    format_args!(
                        "{HIDDEN} keeps a stored value, and there is none; write the value"
                    ),
                )),
                _ => problems.push(Problem::new(
                    field(name),
                    "write the value as a text in quotes, or null to remove the header",
                )),
            }
        }
        problems
    }

    /// All that is wrong with these headers. `taken` are the lower-case names that this
    /// endpoint's signatures and format use themselves.
    pub fn problems(&self, taken: &[&str]) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.0.len() > HEADERS_MAX {
            let count = self.0.len();
            problems.push(Problem::new(
                "headers",
                format_args!("there are {count} headers; at most {HEADERS_MAX} are allowed"),
            ));
        }
        let total: usize = self.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > TOTAL_BYTES_MAX {
            problems.push(Problem::new(
                "headers",
                format_args!("they are {total} bytes; at most {TOTAL_BYTES_MAX} are allowed, names and values together"),
            ));
        }
        let mut seen = std::collections::BTreeSet::new();
        for (name, value) in self.iter().take(HEADERS_MAX) {
            let lower = name.to_ascii_lowercase();
            let problem = name_problem(&lower, taken)
                .or_else(|| value_problem(value).map(str::to_owned))
                .or_else(|| seen.contains(&lower).then(|| "it is given twice".to_owned()));
            problems.extend(problem.map(|problem| Problem::new(field(name), problem)));
            seen.insert(lower);
        }
        problems
    }
}

/// Why `name`, in lower case, may not be an own header.
pub fn name_problem(name: &str, taken: &[&str]) -> Option<String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Some(format!(
            "a header's name has 1 to {NAME_BYTES_MAX} characters; write another"
        ));
    }
    if !name.bytes().all(is_token) {
        return Some(
            "a header's name has letters, digits and hyphens only; write another".to_owned(),
        );
    }
    if let Some((_, why)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
        return Some(format!("{name} cannot be set: {why}; leave it out"));
    }
    if let Some(prefix) = RESERVED_PREFIXES.iter().find(|prefix| name.starts_with(**prefix)) {
        return Some(format!("names that begin with {prefix} are ours; choose another"));
    }
    taken.contains(&name).then(|| {
        format!("{name} is set by this endpoint's own signature or format; choose another")
    })
}

/// Why a value cannot be sent. It is not shown: it may be a token.
fn value_problem(value: &str) -> Option<&'static str> {
    if value.len() > VALUE_BYTES_MAX {
        return Some("the value is over 4096 bytes; write a shorter one");
    }
    if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Some("the value has a line break, which would begin another header; remove it");
    }
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return Some(
            "the value has a control character or one outside ASCII; \
             write it percent-encoded or in base64",
        );
    }
    let trimmed = value.trim_matches([' ', '\t']);
    (trimmed.len() != value.len())
        .then_some("the value begins or ends with a blank, which receivers drop; remove it")
}

/// `tchar` of RFC 9110, 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A wrong name may be of any length and hold anything.
fn field(name: &str) -> String {
    let shown: String = name.chars().take(64).flat_map(char::escape_default).collect();
    format!("headers.{shown}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(name: &str, value: &str) -> OwnHeaders {
        [(name.to_owned(), value.to_owned())].into_iter().collect()
    }

    #[test]
    fn refuses_what_would_break_a_request() {
        for (name, value, expected) in [
            ("X-Token", "ok\r\nX-Injected: 1", "line break"),
            ("X-Token", "ok\nX-Injected: 1", "line break"),
            ("X-Token", "ok\rX-Injected: 1", "line break"),
            ("X-Token", "a\0b", "control character"),
            ("X-Token", "ä", "outside ASCII"),
            ("X-Token", " padded", "begins or ends with a blank"),
            ("X-Tok en", "v", "letters, digits and hyphens"),
            ("X-Token:", "v", "letters, digits and hyphens"),
            (":path", "/", "letters, digits and hyphens"),
            ("", "v", "1 to 128 characters"),
            ("HOST", "evil.example", "host cannot be set"),
            ("Content-Length", "0", "content-length cannot be set"),
            ("Transfer-Encoding", "chunked", "transfer-encoding cannot be set"),
            ("Connection", "close", "connection cannot be set"),
            ("User-Agent", "me", "user-agent cannot be set"),
            ("Webhook-Id", "evt_1", "webhook- are ours"),
            ("webhook-anything", "1", "webhook- are ours"),
            ("Snaphook-Id", "1", "snaphook- are ours"),
            ("X-Hub-Signature-256", "1", "own signature or format"),
        ] {
            let problems = one(name, value).problems(&["x-hub-signature-256"]);
            assert_eq!(problems.len(), 1, "{name}: {value:?}");
            assert!(problems[0].problem.contains(expected), "{name}: {}", problems[0]);
        }
        for (name, value) in [
            ("X-Token", "%0d%0a"),
            ("Authorization", "Bearer a.b.c"),
            ("x-empty", ""),
            ("X-Hub-Signature", "not the one that is taken"),
        ] {
            assert_eq!(one(name, value).problems(&["x-hub-signature-256"]), [], "{name}");
        }
    }

    #[test]
    fn has_bounds() {
        let many: OwnHeaders = (0..65).map(|n| (format!("x-{n}"), String::new())).collect();
        assert!(many.problems(&[])[0].problem.contains("there are 65 headers"));
        let long = one("x-long", &"v".repeat(4097)).problems(&[]);
        assert!(long[0].problem.contains("4096"), "{long:?}");
        let total: OwnHeaders = (0..3).map(|n| (format!("x-{n}"), "v".repeat(4000))).collect();
        assert!(total.problems(&[])[0].problem.contains("8192"));
    }

    #[test]
    fn names_that_differ_in_case_are_one_header() {
        let twice: OwnHeaders =
            ["X-A", "x-a"].into_iter().map(|name| (name.to_owned(), "v".to_owned())).collect();
        assert!(twice.problems(&[])[0].problem.contains("twice"));

        let change = serde_json::json!({"X-A": "1", "x-a": "2"});
        let problems = OwnHeaders::default().merge(change.as_object().unwrap());
        assert!(problems[0].problem.contains("twice, as X-A too"), "{problems:?}");
    }

    #[test]
    fn what_is_shown_can_be_sent_back_and_changes_nothing() {
        let mut headers = one("X-Token", "s3cret");
        let Value::Object(shown) = serde_json::to_value(headers.hidden()).unwrap() else {
            panic!("an object");
        };

        assert_eq!(headers.merge(&shown), []);

        assert_eq!(headers, one("X-Token", "s3cret"));
        assert!(!format!("{headers:?}{shown:?}").contains("s3cret"));
    }

    #[test]
    fn a_change_sets_removes_and_leaves_the_rest() {
        let mut headers: OwnHeaders = [("X-A", "1"), ("X-B", "2"), ("X-C", "3")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let change = json!({"x-a": "new", "X-B": null, "X-D": HIDDEN, "X-E": 5});

        let problems = headers.merge(change.as_object().unwrap());

        let now: Vec<_> = headers.iter().collect();
        assert_eq!(now, [("X-C", "3"), ("x-a", "new")]);
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["headers.X-D", "headers.X-E"]);
    }

    proptest! {
        #[test]
        fn no_header_panics_and_none_that_passes_has_a_line_break(
            name in "\\PC{0,20}|[a-zA-Z-]{1,20}", value in any::<String>()
        ) {
            if one(&name, &value).problems(&[]).is_empty() {
                prop_assert!(!value.contains(['\r', '\n', '\0']));
                prop_assert!(name.is_ascii() && !name.is_empty());
            }
        }
    }
}
