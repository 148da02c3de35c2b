//! What is wrong with an input, one line a field: `errors` of a problem document, and what the
//! command line prints.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that is wrong with one field of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The field by its path in the input: `timeout`, `headers.X-Token`, `event_types[2]`.
    pub field: String,
    /// What is wrong, the value inside unless it is a secret, and what to do.
    pub problem: String,
}

impl Problem {
    /// Puts the two together.
    pub fn new(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self { field: field.into(), problem: problem.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}
