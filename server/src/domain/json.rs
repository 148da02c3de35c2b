//! JSON as callers write it: read strictly, and refused in words that name the value and what to
//! write instead.
//!
//! A member that is given twice is refused, at every depth: of two readers one would take the
//! first and the other the last. What serde says of a value that does not fit is said here in our
//! own words. Event data is not read here; it is the caller's, byte for byte.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::problem::{Problem, shorten, shown};

/// Why a text is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no JSON: what was expected, and the line and column.
    Syntax(String),
    /// A field of it is wrong.
    Field(Problem),
}

/// Reads JSON of which no member is given twice.
pub fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let Strict(value) = read.map_err(|error| refusal(&error.path().to_string(), error.inner()))?;
    deserializer.end().map_err(|error| refusal("", &error))?;
    Ok(value)
}

/// Reads what `value` should be.
pub fn fit<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| field_problem(&error.path().to_string(), error.inner()))
}

/// Why a text could not be read.
fn refusal(path: &str, error: &serde_json::Error) -> Refusal {
    if error.is_data() {
        Refusal::Field(field_problem(path, error))
    } else {
        Refusal::Syntax(syntax(error))
    }
}

/// What the parser expected and where, as `expected value at line 1 column 5`.
pub fn syntax(error: &serde_json::Error) -> String {
    match error.to_string().strip_prefix("recursion limit exceeded") {
        Some(place) => format!("it is nested more than 127 deep{place}"),
        None => error.to_string(),
    }
}

/// The field at `path`, and what is wrong with it. Of members that are missing or given twice
/// serde's path ends above them.
pub fn field_problem(path: &str, error: &serde_json::Error) -> Problem {
    let text = message(error);
    let above = if path == "." { "" } else { path };
    let below = |name: &str| match above {
        "" => shorten(name, 64),
        above => format!("{above}.{}", shorten(name, 64)),
    };
    let member = |start: &str| text.strip_prefix(start);
    if let Some(rest) = member("unknown field `") {
        let (name, known) = rest.split_once("`, ").unwrap_or((rest, ""));
        let problem = match known.strip_prefix("expected ") {
            Some(known) => format!("there is no such field; known are {}", names(known)),
            None => "there is no such field, and none is known here; leave it out".to_owned(),
        };
        let is_named = above.rsplit('.').next() == Some(name);
        return Problem::new(if is_named { above.to_owned() } else { below(name) }, problem);
    }
    if let Some(name) = member("missing field `") {
        return Problem::new(below(name.trim_end_matches('`')), "it is missing; give it");
    }
    if let Some(name) = member("duplicate field `") {
        let name = name.strip_suffix('`').unwrap_or(name);
        return Problem::new(below(name), "it is given twice; give it once");
    }
    let field = if above.is_empty() { "body" } else { above };
    Problem::new(field, words(&text))
}

/// What serde says, without the place.
fn message(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if error.line() > 0
        && let Some(place) = text.rfind(" at line ")
    {
        text.truncate(place);
    }
    text
}

/// What serde says of a value, in our words.
fn words(text: &str) -> String {
    if let Some(rest) = text.strip_prefix("unknown variant `") {
        let (given, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        return format!("{} is unknown; use {}", shown(given), names(known));
    }
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let fitting = kinds.iter().find_map(|kind| text.strip_prefix(kind)?.rsplit_once(", expected "));
    match fitting {
        Some((given, expected)) => {
            format!("{} does not fit; write {}", value_of(given), wanted(expected))
        }
        None => shorten(text, 400),
    }
}

/// The value as it was written, from serde's ``integer `5` ``, `string "x"`, `null`, `map`.
fn value_of(given: &str) -> String {
    match given {
        "map" => return "an object".to_owned(),
        "sequence" => return "a list".to_owned(),
        "unit value" => return "null".to_owned(),
        _ => {}
    }
    if let Some(text) = given.strip_prefix("string ") {
        return shorten(text, 80);
    }
    let inside = given.split_once('`').and_then(|(_, rest)| rest.strip_suffix('`'));
    shorten(inside.unwrap_or(given), 80)
}

/// What to write, from what serde expected.
fn wanted(expected: &str) -> &str {
    match expected {
        "a string" | "a borrowed string" | "string or map" | "map with a single key" => {
            "a text in quotes"
        }
        "a boolean" => "true or false",
        "a sequence" => "a list in [ ]",
        "a map" => "an object in { }",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below zero",
        "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object in { }",
        other => other,
    }
}

/// ``one of `a`, `b` `` or `` `a` or `b` `` without marks.
fn names(known: &str) -> String {
    known.trim_start_matches("one of ").replace('`', "")
}

/// Any JSON of which no member is given twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            let Strict(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> String {
        match parse(text.as_bytes()).expect_err(text) {
            Refusal::Syntax(problem) => problem,
            Refusal::Field(problem) => problem.to_string(),
        }
    }

    #[test]
    fn a_member_given_twice_is_refused_at_every_depth() {
        for (text, expected) in [
            (r#"{"a":1,"a":1}"#, "a: it is given twice; give it once"),
            (r#"{"a":{"b":1,"c":2,"b":1}}"#, "a.b: it is given twice; give it once"),
            (r#"{"a":[0,{"b":{"c":1,"c":2}}]}"#, "a[1].b.c: it is given twice; give it once"),
            (r#"{"a":{"a":1,"a":2}}"#, "a.a: it is given twice; give it once"),
            (r#"{"a":1,"\u0061":2}"#, "a: it is given twice; give it once"),
            (r#"[{"a":1,"a":2}]"#, "[0].a: it is given twice; give it once"),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        let apart = r#"[{"a":1},{"a":2},{"A":{"a":1}}]"#;
        assert_eq!(parse(apart.as_bytes()), Ok(json!([{"a": 1}, {"a": 2}, {"A": {"a": 1}}])));
    }

    #[test]
    fn what_is_no_json_is_told_where_and_what_was_expected() {
        for (text, expected) in [
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{\"a\":1\n\"b\"", "expected `,` or `}` at line 2 column 1"),
            ("{\"a\":1}}", "trailing characters at line 1 column 8"),
            ("{'a':1}", "key must be a string at line 1 column 2"),
            ("{\"a\":1e999}", "number out of range at line 1 column 10"),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        let deep = refused(&"[".repeat(10_000));
        assert_eq!(deep, "it is nested more than 127 deep at line 1 column 128");
    }

    #[test]
    fn a_value_that_does_not_fit_is_shown_with_what_to_write() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only read")]
        struct Input {
            text: String,
            count: Option<u32>,
            flag: Option<bool>,
            list: Option<Vec<String>>,
            inner: Option<Inner>,
            map: Option<std::collections::BTreeMap<String, bool>>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only read")]
        struct Inner {
            kind: crate::domain::secret_kind::SecretKind,
        }
        let long = "x".repeat(70_000);
        for (field, value, expected) in [
            ("text", json!(5), "text: 5 does not fit; write a text in quotes"),
            ("text", json!(null), "text: null does not fit; write a text in quotes"),
            ("text", json!({}), "text: an object does not fit; write a text in quotes"),
            ("count", json!("5"), "count: \"5\" does not fit; write a whole number, not"),
            ("count", json!(-1), "count: -1 does not fit; write a whole number, not"),
            ("count", json!(1.5), "count: 1.5 does not fit; write a whole number, not"),
            ("count", json!(u64::MAX), "count: 18446744073709551615 does not fit; write a whole"),
            ("count", json!(long), "count: \"xxxxxxxx"),
            ("flag", json!("yes"), "flag: \"yes\" does not fit; write true or false"),
            ("list", json!("a"), "list: \"a\" does not fit; write a list in [ ]"),
            ("list", json!(["a", 5]), "list[1]: 5 does not fit; write a text in quotes"),
            ("inner", json!({}), "inner.kind: it is missing; give it"),
            ("inner", json!(1), "inner: 1 does not fit; write an object in { }"),
            (
                "inner",
                json!({"kind": "rsa"}),
                "inner.kind: \"rsa\" is unknown; use hmac or ed25519",
            ),
            ("inner", json!({"kind": 7}), "inner.kind: 7 does not fit; write a text in quotes"),
            (
                "inner",
                json!({"kind": "hmac", "x": 1}),
                "inner.x: there is no such field; known are",
            ),
            ("map", json!({"a": 1}), "map.a: 1 does not fit; write true or false"),
            ("flags", json!(true), "flags: there is no such field; known are text, count, flag"),
        ] {
            let mut whole = json!({"text": "x"});
            whole[field] = value.clone();
            let problem = fit::<Input>(whole).expect_err(expected).to_string();
            assert!(problem.starts_with(expected), "{field} {problem}");
            assert!(problem.len() < 200, "{problem}");
        }
        assert_eq!(
            fit::<Input>(json!({})).unwrap_err().to_string(),
            "text: it is missing; give it"
        );
    }
}
