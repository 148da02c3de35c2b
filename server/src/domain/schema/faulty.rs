//! Why a schema cannot be applied: the place in it, and what to do. References are looked at
//! first, since they are what people bring along from elsewhere.

use jsonschema::{ReferencingError, ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::{
    SchemaProblem,
    cost::REFERENCES,
    words::{cut, violation},
};

/// Characters of a reference that are quoted.
const REFERENCE_CHARS_MAX: usize = 120;

/// What is wrong with a schema that the library does not take.
pub(super) fn problem(schema: &Value, error: &ValidationError<'_>) -> SchemaProblem {
    if let Kind::Referencing(error) = error.kind() {
        return reference(schema, error);
    }
    let SchemaProblem { path, problem } = violation(error);
    let keyword = path.rsplit('/').next().unwrap_or_default();
    let is_regex = matches!(error.kind(), Kind::Format { format } if format == "regex");
    let remedy = match keyword {
        _ if is_regex || keyword == "pattern" => {
            "write a regular expression without look-around and back references, and with small \
             repetitions"
        }
        "type" => {
            "write \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\" or \
             \"string\", or a list of these"
        }
        "" => "a schema is an object of keywords, or true or false",
        _ => "mend it, or leave this keyword out",
    };
    SchemaProblem { path, problem: format!("{problem}; {remedy}") }
}

fn reference(schema: &Value, error: &ReferencingError) -> SchemaProblem {
    let nowhere = |what: &str| (what.to_owned(), "refer to a place that is in this schema");
    let (named, remedy) = match error {
        ReferencingError::Unretrievable { uri, .. } => (
            uri.clone(),
            "nothing is fetched, from the network or from a file; put the schema in under $defs \
             and refer to it with \"#/$defs/…\"",
        ),
        ReferencingError::UnknownSpecification { specification } => (
            specification.clone(),
            "this is no draft of JSON Schema from 4 to 2020-12; leave $schema out, or name one",
        ),
        ReferencingError::PointerToNowhere { pointer }
        | ReferencingError::InvalidPercentEncoding { pointer, .. }
        | ReferencingError::InvalidArrayIndex { pointer, .. } => nowhere(pointer),
        ReferencingError::NoSuchAnchor { anchor } | ReferencingError::InvalidAnchor { anchor } => {
            nowhere(anchor)
        }
        other => nowhere(&other.to_string()),
    };
    let path = place_of(schema, &named).unwrap_or_default();
    let named = cut(&named, REFERENCE_CHARS_MAX);
    SchemaProblem { path, problem: format!("{named:?} cannot be followed; {remedy}") }
}

/// JSON Pointer to the reference that means `named`, which is whole where the reference may be a
/// part of it, or the other way about.
fn place_of(schema: &Value, named: &str) -> Option<String> {
    let named = named.trim_end_matches('#');
    let means = |text: &str| {
        let text = text.trim_end_matches('#').trim_start_matches("./");
        !text.is_empty() && (named.ends_with(text) || text.ends_with(named))
    };
    let mut left = vec![(String::new(), schema)];
    while let Some((path, value)) = left.pop() {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                left.extend(items.map(|(at, item)| (format!("{path}/{at}"), item)));
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let refers = REFERENCES.contains(&name.as_str()) || name == "$schema";
                    if refers && member.as_str().is_some_and(means) {
                        return Some(path);
                    }
                    left.push((path, member));
                }
            }
            _ => {}
        }
    }
    None
}
