//! What a genuine request is answered with, where a provider needs a particular answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{
    own_headers::is_token,
    problem::{Problem, shorten},
};

/// Headers of an answer: what a provider checks is one or two.
const HEADERS_MAX: usize = 16;

/// Bytes of a header's value.
const VALUE_BYTES_MAX: usize = 1_024;

/// Bytes of an answer's body: providers look for a word, if for anything.
const BODY_BYTES_MAX: usize = 16_384;

/// Headers that the server itself sets, for they say where the answer ends.
const RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An answer, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// 200 to 299.
    pub status: u16,
    /// Names and values.
    pub headers: BTreeMap<String, String>,
    /// As it stands.
    pub body: String,
}

impl Default for Answer {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), body: String::new() }
    }
}

impl Answer {
    /// All that is wrong with it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !(200..=299).contains(&self.status) {
            let problem = format!(
                "{} is no success; the provider would send the event again, write 200 to 299",
                self.status
            );
            problems.push(Problem::new("answer.status", problem));
        }
        if self.headers.len() > HEADERS_MAX {
            let problem =
                format!("there are {}; at most {HEADERS_MAX} are allowed", self.headers.len());
            problems.push(Problem::new("answer.headers", problem));
        }
        for (name, value) in &self.headers {
            let field = format!("answer.headers.{}", shorten(name, 64));
            if let Some(problem) = header_problem(name, value) {
                problems.push(Problem::new(field, problem));
            }
        }
        if self.body.len() > BODY_BYTES_MAX {
            let bytes = self.body.len();
            let problem = format!(
                "it is {bytes} bytes; at most {BODY_BYTES_MAX} are allowed, make it shorter"
            );
            problems.push(Problem::new("answer.body", problem));
        }
        problems
    }
}

fn header_problem(name: &str, value: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("it is no header's name; use letters, digits and hyphens".to_owned());
    }
    if RESERVED.contains(&lower.as_str()) {
        return Some("the server sets it by itself; leave it out".to_owned());
    }
    if value.len() > VALUE_BYTES_MAX {
        return Some(format!("it is {} bytes; at most {VALUE_BYTES_MAX} are allowed", value.len()));
    }
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    (!plain || value.trim() != value)
        .then(|| "it must be plain ASCII on one line, with no white space around it".to_owned())
}
