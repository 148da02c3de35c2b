//! Types of events, and the patterns by which endpoints want them.
//!
//! A type is dotted parts, `order.item.added`. An emit looks up the few patterns that can match
//! its type (`patterns`), so that no list of patterns is ever walked.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Characters of a type and of a pattern.
pub const EVENT_TYPE_CHARS_MAX: usize = 256;

/// The type of an event: `[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*`, case matters. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Arc<str>);

/// Which types an endpoint wants: exactly one, all with one or more further parts (`order.*`),
/// or all (`*`). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Arc<str>);

/// Why a text is no event type, or no pattern of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventTypeError {
    /// Nothing there.
    #[error("the event type is empty; write one like order.paid")]
    Empty,
    /// Over [`EVENT_TYPE_CHARS_MAX`].
    #[error("the event type has {0} characters; {EVENT_TYPE_CHARS_MAX} are allowed")]
    TooLong(usize),
    /// A dot at either end, or two together.
    #[error("{0:?} has an empty part; parts are separated by one dot each, as in order.paid")]
    EmptyPart(String),
    /// Outside of the alphabet.
    #[error("{text:?} contains {odd:?}; use letters, digits, _ and - in parts separated by dots")]
    Character {
        /// The whole text.
        text: String,
        /// The first character that is not allowed.
        odd: char,
    },
    /// A star where none can stand.
    #[error("{0:?} is no pattern; a star stands alone (*) or for all further parts (order.*)")]
    Star(String),
}

impl EventType {
    /// Reads a type; nothing is trimmed or folded.
    pub fn parse(text: &str) -> Result<Self, EventTypeError> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Every pattern that matches this type, from the narrowest to the widest: `a.b.c`, `a.b.*`,
    /// `a.*`, `*`.
    pub fn patterns(&self) -> Vec<String> {
        let prefixes = self.0.rmatch_indices('.').map(|(dot, _)| format!("{}.*", &self.0[..dot]));
        let mut patterns = vec![self.0.to_string()];
        patterns.extend(prefixes);
        patterns.push("*".to_owned());
        patterns
    }
}

impl Pattern {
    /// Reads an exact type, `order.*` or `*`.
    pub fn parse(text: &str) -> Result<Self, EventTypeError> {
        if text.len() > EVENT_TYPE_CHARS_MAX {
            return Err(EventTypeError::TooLong(text.chars().count()));
        }
        let plain = if text == "*" { "all" } else { text.strip_suffix(".*").unwrap_or(text) };
        if plain.contains('*') {
            return Err(EventTypeError::Star(text.to_owned()));
        }
        check(plain)?;
        Ok(Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an endpoint with this pattern wants events of `event_type`.
    pub fn matches(&self, event_type: &EventType) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => event_type.0.starts_with(prefix),
            None => self.0 == event_type.0,
        }
    }
}

/// Those of `patterns` that lie within no other, each once. They match what all of them match, and
/// no type is matched by two of them: of two patterns that match the same type, one lies within
/// the other.
pub fn widest(patterns: &[String]) -> Vec<&str> {
    let within = |narrow: &str, wide: &str| {
        narrow != wide && wide.strip_suffix('*').is_some_and(|prefix| narrow.starts_with(prefix))
    };
    let alone = |narrow: &&str| !patterns.iter().any(|wide| within(narrow, wide));
    let mut widest: Vec<&str> = patterns.iter().map(String::as_str).filter(alone).collect();
    widest.sort_unstable();
    widest.dedup();
    widest
}

fn check(text: &str) -> Result<(), EventTypeError> {
    if text.is_empty() {
        return Err(EventTypeError::Empty);
    }
    let chars = text.chars().count();
    if chars > EVENT_TYPE_CHARS_MAX {
        return Err(EventTypeError::TooLong(chars));
    }
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    if let Some(odd) = text.chars().find(|char| !allowed(*char)) {
        return Err(EventTypeError::Character { text: text.to_owned(), odd });
    }
    if text.split('.').any(str::is_empty) {
        return Err(EventTypeError::EmptyPart(text.to_owned()));
    }
    Ok(())
}

macro_rules! as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = EventTypeError;
            fn from_str(text: &str) -> Result<Self, EventTypeError> {
                Self::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

as_text!(EventType);
as_text!(Pattern);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_and_patterns_are_read_or_refused_by_name() {
        let long = "a".repeat(EVENT_TYPE_CHARS_MAX);
        let longer = "a".repeat(EVENT_TYPE_CHARS_MAX + 1);
        let wide = "é".repeat(EVENT_TYPE_CHARS_MAX / 2 + 1);
        for (text, is_type, is_pattern, why) in [
            ("order", true, true, "one part"),
            ("order.paid", true, true, "two parts"),
            ("A-1._._", true, true, "every kind of character"),
            (&long, true, true, "the longest"),
            (&longer, false, false, "one more"),
            (&wide, false, false, "no ASCII, and long"),
            ("order.*", false, true, "further parts"),
            ("*", false, true, "all"),
            ("", false, false, "empty"),
            (".", false, false, "two empty parts"),
            ("order.", false, false, "an empty part at the end"),
            (".paid", false, false, "an empty part in front"),
            ("order..paid", false, false, "an empty part between"),
            (".*", false, false, "an empty part before the star"),
            ("order..*", false, false, "an empty part before the star"),
            ("order*", false, false, "a star inside of a part"),
            ("*.paid", false, false, "a star in front"),
            ("order.*.paid", false, false, "a star between"),
            ("*.*", false, false, "two stars"),
            ("**", false, false, "two stars in one part"),
            ("order paid", false, false, "a blank"),
            ("order\n", false, false, "a line break"),
            ("ordér", false, false, "no ASCII"),
        ] {
            assert_eq!(EventType::parse(text).is_ok(), is_type, "{text}: {why}");
            assert_eq!(Pattern::parse(text).is_ok(), is_pattern, "{text}: {why}");
        }
        let error = Pattern::parse("*.paid").unwrap_err();
        assert!(error.to_string().contains("order.*"), "the remedy: {error}");
    }

    #[test]
    fn a_star_stands_for_one_or_more_further_parts() {
        for (pattern, event_type, expected) in [
            ("order.*", "order.paid", true),
            ("order.*", "order.item.added", true),
            ("order.*", "order", false),
            ("order.*", "orders.paid", false),
            ("order.item.*", "order.item", false),
            ("order", "order", true),
            ("order", "order.paid", false),
            ("order", "Order", false),
            ("*", "order", true),
            ("*", "order.item.added", true),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let matches = parsed.matches(&EventType::parse(event_type).unwrap());
            assert_eq!(matches, expected, "{pattern} of {event_type}");
        }
    }

    #[test]
    fn patterns_go_from_narrow_to_wide() {
        let patterns = EventType::parse("a.b.c").unwrap().patterns();
        assert_eq!(patterns, ["a.b.c", "a.b.*", "a.*", "*"]);
        assert_eq!(EventType::parse("a").unwrap().patterns(), ["a", "*"]);
    }

    proptest! {
        /// Looking up `patterns` finds exactly the patterns that match.
        #[test]
        fn a_pattern_matches_if_and_only_if_it_is_listed(
            event_type in "[ab](\\.[ab]){0,3}", pattern in "[ab](\\.[ab]){0,3}(\\.\\*)?|\\*",
        ) {
            let event_type = EventType::parse(&event_type).unwrap();
            let listed = event_type.patterns().contains(&pattern);
            prop_assert_eq!(Pattern::parse(&pattern).unwrap().matches(&event_type), listed);
        }

        /// Exactly one of the widest matches what any matches, and none matches more.
        #[test]
        fn the_widest_patterns_match_the_same_types_once(
            event_type in "[ab](\\.[ab]){0,3}",
            patterns in prop::collection::vec("[ab](\\.[ab]){0,2}(\\.\\*)?|\\*", 0..6),
        ) {
            let listed = EventType::parse(&event_type).unwrap().patterns();
            let matches = |pattern: &str| listed.iter().any(|one| one == pattern);
            let any = patterns.iter().any(|pattern| matches(pattern));
            let many = widest(&patterns).into_iter().filter(|pattern| matches(pattern)).count();
            prop_assert_eq!(many, usize::from(any));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = (EventType::parse(&text), Pattern::parse(&text));
        }
    }
}
