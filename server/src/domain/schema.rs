//! What the payload of an event type must look like: JSON Schema, drafts 4 to 2020-12.
//!
//! A schema can refer to itself and to the published meta-schemas, to nothing else: no reference
//! is ever fetched, from the network or from a file. Patterns run on an engine whose time is
//! linear in the text. Problems name the place, what was found there and what is wanted. They
//! quote the payload, if shortly, and so are for those who may read it; they go to no log.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::limits::SCHEMA_BYTES_MAX;

mod cost;
mod faulty;
mod recursion;
mod words;

/// Problems that are told of one payload. Whoever mends these will see the rest next.
pub const PROBLEMS_MAX: usize = 10;

/// Further problems that are counted: a payload can have a million, and counting takes time.
const COUNTED_MAX: usize = 990;

/// Bytes of one pattern after its compilation, so that `(a{1000}){1000}` is refused on saving.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Characters of one message.
const MESSAGE_CHARS_MAX: usize = 1_000;

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
    /// What is there, and what the schema wants.
    pub problem: String,
}

impl Schema {
    /// Reads a schema. The problem's path is a place in the schema.
    pub fn compile(source: &Value) -> Result<Self, SchemaProblem> {
        let bytes = source.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            let problem = format!(
                "the schema is {bytes} bytes; {SCHEMA_BYTES_MAX} are allowed, so leave \
                 descriptions and examples out"
            );
            return Err(SchemaProblem { path: String::new(), problem });
        }
        cost::check(source).map_err(|problem| SchemaProblem { path: String::new(), problem })?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.build(source).map_err(|error| faulty::problem(source, &error))?;
        let depth_max = recursion::depth_max(source);
        Ok(Self { source: source.clone(), validator, depth_max })
    }

    /// The JSON that it was read from.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// What is wrong with a payload: nothing, or the first [`PROBLEMS_MAX`] problems, and how many
    /// more there are. A payload that is no JSON, or nested deeper than 128, breaks every schema.
    pub fn check(&self, payload: &[u8]) -> Vec<SchemaProblem> {
        let payload: Value = match serde_json::from_slice(payload) {
            Ok(payload) => payload,
            Err(error) => {
                let problem =
                    format!("the schema wants JSON, and this cannot be read as it: {error}");
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
        let mut errors = self.validator.iter_errors(&payload);
        let mut problems: Vec<SchemaProblem> =
            errors.by_ref().take(PROBLEMS_MAX).map(|error| words::violation(&error)).collect();
        for problem in &mut problems {
            problem.problem = words::cut(&problem.problem, MESSAGE_CHARS_MAX);
        }
        let more = errors.take(COUNTED_MAX + 1).count();
        if more > 0 {
            let more = match more {
                1..=COUNTED_MAX => format!("and {more} more problems"),
                _ => format!("and more than {COUNTED_MAX} more problems"),
            };
            problems.push(SchemaProblem { path: String::new(), problem: more });
        }
        problems
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
mod tests;
