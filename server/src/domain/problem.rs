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

    /// The same, of a field that is within `outer`; `body` stands for `outer` itself.
    #[must_use]
    pub fn below(self, outer: &str) -> Self {
        let field = match self.field.as_str() {
            "body" => outer.to_owned(),
            inner if inner.starts_with('[') => format!("{outer}{inner}"),
            inner => format!("{outer}.{inner}"),
        };
        Self { field, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// A text in quotes as an error shows it: its beginning, and a mark where it goes on, for a wrong
/// text may be a whole file.
pub fn shown(text: &str) -> String {
    format!("{:?}", shorten(text, 80))
}

/// At most so many characters of a text, and a mark where it goes on.
pub fn shorten(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shown_in_part_and_says_so() {
        assert_eq!(shown("a\"b"), r#""a\"b""#);
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert!(shown(&"x".repeat(1_000_000)).len() < 100);
    }
}
