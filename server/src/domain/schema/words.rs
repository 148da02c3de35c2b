//! What a broken rule is called: what was found, short, and what the schema wants. The library's
//! own sentences quote whole payloads and whole lists.

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::SchemaProblem;

/// Characters of a value, a name or a pattern that are quoted.
const QUOTED_CHARS_MAX: usize = 60;

/// Characters of a path: names in a payload can be as long as the payload.
const PATH_CHARS_MAX: usize = 200;

/// Entries of a list that are named.
const LISTED_MAX: usize = 8;

/// What a payload breaks, and where.
pub(super) fn violation(error: &ValidationError<'_>) -> SchemaProblem {
    SchemaProblem { path: path(error), problem: sentence(error) }
}

/// The JSON Pointer to what was found, without characters that could pass for something else.
pub(super) fn path(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    cut(&path.replace(char::is_control, "\u{fffd}"), PATH_CHARS_MAX)
}

fn sentence(error: &ValidationError<'_>) -> String {
    let found = found(error.instance());
    match error.kind() {
        Kind::Required { property } => format!("the member {} is missing", quoted(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("{} may not be there; leave out what is not in the schema", names(unexpected))
        }
        Kind::AdditionalItems { limit } => {
            format!("found {found}; it must be an array of at most {}", many(limit, "item"))
        }
        Kind::UnevaluatedItems { .. } => {
            format!("found {found}; leave out the items that the schema does not describe")
        }
        // Without `properties`, the library means the object and shows its first member.
        Kind::FalseSchema if schema_path(error).ends_with("/additionalProperties") => {
            "no members may be in it; leave them out".to_owned()
        }
        Kind::FalseSchema => format!("found {found}; nothing may be here, leave it out"),
        Kind::PropertyNames { error } => {
            format!("the name of a member is wrong: {}", sentence(error))
        }
        kind => match wanted(kind) {
            Some(wanted) => format!("found {found}; it must be {wanted}"),
            None => format!("found {found}; it breaks the rule {:?}", kind.keyword()),
        },
    }
}

fn schema_path<'a>(error: &'a ValidationError<'_>) -> &'a str {
    error.schema_path().as_str()
}

/// What a rule wants, as the end of "it must be".
fn wanted(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::Type { kind } => types(kind),
        Kind::Enum { options } => match options.as_array() {
            Some(options) => format!("one of {}", list(options.iter().map(quoted))),
            None => quoted(options),
        },
        Kind::Constant { expected_value } => quoted(expected_value),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {} long", many(limit, "character")),
        Kind::MaxLength { limit } => format!("at most {} long", many(limit, "character")),
        Kind::MinItems { limit } => format!("an array of at least {}", many(limit, "item")),
        Kind::MaxItems { limit } => format!("an array of at most {}", many(limit, "item")),
        Kind::MinProperties { limit } => format!("an object of at least {}", many(limit, "member")),
        Kind::MaxProperties { limit } => format!("an object of at most {}", many(limit, "member")),
        Kind::UniqueItems => "an array in which no item is there twice".to_owned(),
        Kind::Contains => "an array with the items that `contains` asks for".to_owned(),
        Kind::Pattern { pattern } => {
            format!("a string that matches {}", cut(pattern, QUOTED_CHARS_MAX))
        }
        Kind::Format { format } => format!("of the format {format:?}"),
        Kind::ContentEncoding { content_encoding } => format!("encoded as {content_encoding:?}"),
        Kind::ContentMediaType { content_media_type } => {
            format!("of the media type {content_media_type:?}")
        }
        Kind::Not { .. } => "anything but what the schema excludes by `not`".to_owned(),
        Kind::AnyOf { context } => alternatives("anyOf", context),
        Kind::OneOfNotValid { context } => alternatives("oneOf", context),
        Kind::OneOfMultipleValid { .. } => {
            "what one schema of `oneOf` describes, and it fits several".to_owned()
        }
        _ => return None,
    })
}

/// The schema that comes closest is the one whose complaint lies deepest.
fn alternatives(keyword: &str, context: &[Vec<ValidationError<'static>>]) -> String {
    let firsts = context.iter().filter_map(|errors| errors.first());
    let depth = |error: &&ValidationError<'_>| error.instance_path().as_str().matches('/').count();
    let plain: Vec<String> = context
        .iter()
        .filter_map(|errors| match errors.as_slice() {
            [one] => wanted(one.kind()).filter(|_| !matches!(one.kind(), Kind::AnyOf { .. })),
            _ => None,
        })
        .collect();
    if plain.len() == context.len() && !plain.is_empty() {
        return list(plain.into_iter()).replace(", ", " or ");
    }
    let closest = firsts.max_by_key(depth).map(violation);
    let closest = closest.map_or(String::new(), |one| format!(" (the closest says: {one})"));
    format!("what one of the {} schemas of `{keyword}` describes{closest}", context.len())
}

/// What stands there: small values as they are, texts cut, the rest by kind and size.
fn found(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("an array of {}", many(items.len(), "item")),
        Value::Object(members) => format!("an object of {}", many(members.len(), "member")),
        Value::String(text) if text.chars().count() > QUOTED_CHARS_MAX => {
            format!("{}, a string of {} characters", quoted(value), text.chars().count())
        }
        Value::String(_) => quoted(value),
        plain => plain.to_string(),
    }
}

fn many(count: impl std::fmt::Display, what: &str) -> String {
    match count.to_string().as_str() {
        "1" => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text, QUOTED_CHARS_MAX)),
        other => cut(&other.to_string(), QUOTED_CHARS_MAX),
    }
}

fn names(names: &[String]) -> String {
    let shown = list(names.iter().map(|name| format!("{:?}", cut(name, QUOTED_CHARS_MAX))));
    if names.len() == 1 { format!("the member {shown}") } else { format!("the members {shown}") }
}

fn types(kind: &TypeKind) -> String {
    let article = |name: &str| match name {
        "null" => "null".to_owned(),
        "array" | "integer" | "object" => format!("an {name}"),
        _ => format!("a {name}"),
    };
    match kind {
        TypeKind::Single(one) => article(&one.to_string()),
        TypeKind::Multiple(many) => {
            many.iter().map(|one| article(&one.to_string())).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn list(entries: impl ExactSizeIterator<Item = String>) -> String {
    let more = entries.len().saturating_sub(LISTED_MAX);
    let shown = entries.take(LISTED_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// The beginning of a text, with a sign that there is more.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
