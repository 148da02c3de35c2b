//! What the payload of an event type must look like: JSON Schema, drafts 4 to 2020-12.
//!
//! A schema can refer to itself and to the published meta-schemas, to nothing else: no reference
//! is ever fetched, from the network or from a file. Patterns run on an engine whose time is
//! linear in the text. Problems name the place and the rule and never quote the payload, so that
//! they may be logged, stored and shown.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::limits::SCHEMA_BYTES_MAX;

mod cost;
mod recursion;

/// Problems that are told of one payload. Whoever mends these will see the rest next.
pub const PROBLEMS_MAX: usize = 20;

/// Bytes of one pattern after its compilation, so that `(a{1000}){1000}` is refused on saving.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Characters of one message; a rule like `enum` can list thousands of values.
const MESSAGE_CHARS_MAX: usize = 300;

/// A schema, ready to be applied, which keeps the JSON that it was read from.
#[derive(Clone)]
pub struct Schema {
    source: Value,
    validator: Validator,
    /// How deep a payload may be nested, where the schema refers to itself.
    depth_max: Option<usize>,
}

/// One thing that is wrong with a payload, or with a schema.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SchemaProblem {
    /// JSON Pointer to the place, empty for the whole.
    pub path: String,
    /// Which rule it breaks.
    pub problem: String,
}

impl Schema {
    /// Reads a schema. The problem's path is a place in the schema.
    pub fn compile(source: &Value) -> Result<Self, SchemaProblem> {
        let bytes = source.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            let problem = format!("the schema is {bytes} bytes; {SCHEMA_BYTES_MAX} are allowed");
            return Err(SchemaProblem { path: String::new(), problem });
        }
        cost::check(source).map_err(|problem| SchemaProblem { path: String::new(), problem })?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let validator =
            jsonschema::options().offline().with_pattern_options(patterns).build(source).map_err(
                |error| SchemaProblem {
                    path: error.instance_path().to_string(),
                    problem: shortened(error.to_string()),
                },
            )?;
        let depth_max = recursion::depth_max(source);
        Ok(Self { source: source.clone(), validator, depth_max })
    }

    /// The JSON that it was read from.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// What is wrong with a payload: nothing, or the first [`PROBLEMS_MAX`] problems. A payload
    /// that is no JSON, or nested deeper than 128, breaks every schema.
    pub fn check(&self, payload: &[u8]) -> Vec<SchemaProblem> {
        let payload: Value = match serde_json::from_slice(payload) {
            Ok(payload) => payload,
            Err(error) => {
                let problem = format!("the payload is no JSON: {error}");
                return vec![SchemaProblem { path: String::new(), problem }];
            }
        };
        if let Some(most) = self.depth_max.filter(|most| recursion::depth_of(&payload) > *most) {
            let problem = format!(
                "it is nested deeper than {most} levels, which is the most for a schema that \
                 refers to itself in so many ways"
            );
            return vec![SchemaProblem { path: String::new(), problem }];
        }
        let problems = self.validator.iter_errors(&payload).take(PROBLEMS_MAX);
        problems
            .map(|error| SchemaProblem {
                path: error.instance_path().to_string(),
                problem: shortened(error.masked_with("the value").to_string()),
            })
            .collect()
    }
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.source)
    }
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for SchemaProblem {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, payload: &str) -> Vec<SchemaProblem> {
        Schema::compile(schema).unwrap().check(payload.as_bytes())
    }

    #[test]
    fn a_schema_that_refers_to_itself_twice_never_runs_for_long() {
        let bomb = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let schema = Schema::compile(&bomb).unwrap();
        let nested = |levels| format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels));

        assert_eq!(schema.check(nested(8).as_bytes()), []);
        let problems = schema.check(nested(60).as_bytes());

        assert!(problems[0].problem.contains("deeper than 9 levels"), "{problems:?}");
    }

    #[test]
    fn a_payload_fits_or_its_problems_name_their_places() {
        let schema = json!({
            "type": "object", "required": ["order_id"], "additionalProperties": false,
            "properties": {
                "order_id": {"type": "integer"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            },
            "$defs": {"item": {"type": "object", "properties": {"sku": {"pattern": "^[A-Z]+$"}}}},
        });
        assert_eq!(problems(&schema, r#"{"order_id": 42, "items": [{"sku": "AB"}]}"#), []);
        for (payload, path, part) in [
            (r#"{"order_id": "secret"}"#, "/order_id", "integer"),
            (r#"{"order_id": 1, "items": [{}, {"sku": "secret"}]}"#, "/items/1/sku", "[A-Z]+"),
            (r"{}", "", "order_id"),
            (r"[]", "", "object"),
            (r"{", "", "no JSON"),
            ("\u{feff}{}", "", "no JSON"),
        ] {
            let found = problems(&schema, payload);
            assert_eq!(found.len(), 1, "{payload}: {found:?}");
            assert_eq!(found[0].path, path, "{payload}");
            assert!(found[0].problem.contains(part), "{payload}: {}", found[0]);
            assert!(!found[0].to_string().contains("secret"), "no payload in it: {}", found[0]);
        }
    }

    #[test]
    fn a_schema_that_cannot_be_applied_is_refused_with_its_place() {
        for (schema, path, part) in [
            (json!({"type": "text"}), "/type", "text"),
            (json!({"properties": {"a": {"minimum": "1"}}}), "/properties/a/minimum", "number"),
            (json!({"$ref": "https://example.com/schema.json"}), "", "example.com"),
            (json!({"$ref": "file:///etc/passwd"}), "", "/etc/passwd"),
            (json!({"properties": {"a": {"$ref": "other.json"}}}), "", "other.json"),
            (json!({"$ref": "#/$defs/none"}), "", "none"),
            (json!({"pattern": "a(?=b)"}), "/pattern", "regex"),
            (json!({"pattern": "(((a{100}){100}){100}){100}"}), "/pattern", "regex"),
            (json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}), "", "allowed"),
            (json!([]), "", "object"),
        ] {
            let problem = Schema::compile(&schema).expect_err("refused");
            assert_eq!(problem.path, path, "{problem}");
            assert!(problem.problem.contains(part), "{problem}");
            assert!(problem.problem.chars().count() <= MESSAGE_CHARS_MAX + 1);
        }
    }

    #[test]
    fn older_drafts_and_meta_schemas_need_no_network() {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            let schema = json!({"$schema": draft, "properties": {"s": {"$ref": draft}}});
            assert_eq!(problems(&schema, r#"{"s": {"type": "object"}}"#), [], "{draft}");
            assert_ne!(problems(&schema, r#"{"s": {"type": 1}}"#), [], "{draft}");
        }
    }

    #[test]
    fn problems_are_bounded_in_number_and_length() {
        let schema = json!({"items": {"enum": (0..10_000).collect::<Vec<_>>()}});
        let found = problems(&schema, &json!(vec!["x"; 1_000]).to_string());
        assert_eq!(found.len(), PROBLEMS_MAX);
        assert!(found.iter().all(|p| p.problem.chars().count() <= MESSAGE_CHARS_MAX + 1));
    }

    /// Each of these has brought down some validator: cycles, doubling references, patterns that
    /// backtrack, deep nesting. The one that does not end shows as a test that does not.
    #[test]
    fn evil_schemas_and_payloads_end_soon() {
        let doubling: serde_json::Map<_, _> = (0..40)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"anyOf": [next, next]}))
            })
            .chain([("d40".to_owned(), json!({"type": "integer"}))])
            .collect();
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let too_deep = "[".repeat(1_000_000);
        let texts = format!("\"{}!\"", "a".repeat(10_000));
        let long = (0..60).fold(json!({"items": {"$ref": "#"}}), |inner, _| json!({"not": inner}));
        for (schema, payload) in [
            (json!({"$ref": "#"}), "{}"),
            (long, deep.as_str()),
            (json!({"$dynamicRef": "#"}), "{}"),
            (json!({"items": {"$ref": "#"}, "type": "array"}), &deep),
            (json!({"type": "array"}), &too_deep),
            (json!({"$defs": doubling, "$ref": "#/$defs/d0"}), "\"x\""),
            (json!({"pattern": "^(a+)+$"}), &texts),
            (json!({"uniqueItems": true}), &json!((0..20_000).collect::<Vec<_>>()).to_string()),
        ] {
            if let Ok(schema) = Schema::compile(&schema) {
                let _ = schema.check(payload.as_bytes());
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(payload: Vec<u8>) {
            let schema = Schema::compile(&json!({"type": "object"})).unwrap();
            prop_assert!(schema.check(&payload).len() <= PROBLEMS_MAX);
        }
    }
}
