//! Which payloads an endpoint wants: conditions as JSON, with JSON Pointers (RFC 6901) as keys.
//!
//! ```json
//! {"/amount": {"gte": 1000}, "/currency": {"in": ["usd", "eur"]}, "not": {"/test": true}}
//! ```
//! All members of an object must hold; a bare value means equal. A place that the payload does
//! not have satisfies `ne`, `nin` and `"exists": false`, and nothing else. Values of different
//! kinds are unequal and in no order. Reading is in `parse`, comparing in `compare`.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use compare::{equal, order};
use parse::Reader;

mod compare;
mod parse;

/// Conditions (operators, not members) of one filter. Each is looked at for each event.
pub const CONDITIONS_MAX: usize = 100;

/// How deep `all`, `any` and `not` may be nested.
pub const DEPTH_MAX: usize = 8;

/// Values of one `in` or `nin`.
pub const LIST_MAX: usize = 200;

/// Bytes of a filter as compact JSON.
pub const FILTER_BYTES_MAX: usize = 16_384;

/// A filter, ready to be asked, which keeps the JSON that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    source: Value,
    root: Node,
}

/// Why a filter cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", if .path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct FilterError {
    /// The members that lead to it, as in `all[1]./amount.gte`; empty for the whole.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    At { pointer: String, test: Test },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Equal(Value),
    In(Vec<Value>),
    Greater(Value),
    GreaterOrEqual(Value),
    Less(Value),
    LessOrEqual(Value),
    Exists,
    StartsWith(String),
    EndsWith(String),
    Contains(Value),
}

impl Filter {
    /// Reads a filter. The error names the member and the operator.
    pub fn parse(source: &Value) -> Result<Self, FilterError> {
        let bytes = source.to_string().len();
        if bytes > FILTER_BYTES_MAX {
            let problem = format!("the filter is {bytes} bytes; {FILTER_BYTES_MAX} are allowed");
            return Err(FilterError { path: String::new(), problem });
        }
        let root = Reader::default().node(source, 0)?;
        Ok(Self { source: source.clone(), root })
    }

    /// Reads a filter as it stands in an endpoint's settings, where `null` means none.
    pub fn parse_setting(source: &Value) -> Result<Option<Self>, FilterError> {
        if source.is_null() { Ok(None) } else { Self::parse(source).map(Some) }
    }

    /// The JSON that it was read from.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Whether the endpoint wants this payload.
    pub fn matches(&self, payload: &Value) -> bool {
        self.root.matches(payload)
    }

    /// Whether the endpoint wants the payload of these bytes. One that is no JSON, or nested
    /// deeper than 128, is wanted by no filter.
    pub fn matches_bytes(&self, payload: &[u8]) -> bool {
        serde_json::from_slice(payload).is_ok_and(|payload| self.matches(&payload))
    }
}

impl Node {
    fn matches(&self, payload: &Value) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(payload)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(payload)),
            Self::Not(node) => !node.matches(payload),
            Self::At { pointer, test } => {
                payload.pointer(pointer).is_some_and(|value| test.holds(value))
            }
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Self::Equal(wanted) => equal(value, wanted),
            Self::In(wanted) => wanted.iter().any(|wanted| equal(value, wanted)),
            Self::Greater(bound) => order(value, bound).is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual(bound) => order(value, bound).is_some_and(Ordering::is_ge),
            Self::Less(bound) => order(value, bound).is_some_and(Ordering::is_lt),
            Self::LessOrEqual(bound) => order(value, bound).is_some_and(Ordering::is_le),
            Self::Exists => true,
            Self::StartsWith(part) => value.as_str().is_some_and(|text| text.starts_with(part)),
            Self::EndsWith(part) => value.as_str().is_some_and(|text| text.ends_with(part)),
            Self::Contains(part) => match (value, part) {
                (Value::Array(values), part) => values.iter().any(|value| equal(value, part)),
                (Value::String(text), Value::String(part)) => text.contains(part),
                _ => false,
            },
        }
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
