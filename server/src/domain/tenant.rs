//! The name by which the operator's own program knows its customer. What else is kept of a
//! tenant is in the store; an event may name a tenant of which nothing is known.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Characters of a tenant's id: room for two UUIDs with a prefix.
pub const TENANT_CHARS_MAX: usize = 128;

/// A tenant's id: 1 to 128 letters, digits, `_` and `-` of ASCII; case matters. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

/// Why a text is no tenant's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantIdError {
    /// Nothing there.
    #[error("the tenant's id is empty; use the id by which your own program knows the customer")]
    Empty,
    /// Over [`TENANT_CHARS_MAX`].
    #[error("the tenant's id has {0} characters; {TENANT_CHARS_MAX} are allowed")]
    TooLong(usize),
    /// Outside of the alphabet.
    #[error("the tenant's id contains {0:?}; use letters, digits, _ and - only")]
    Character(char),
}

impl TenantId {
    /// Reads an id; nothing is trimmed or folded.
    pub fn parse(text: &str) -> Result<Self, TenantIdError> {
        if text.is_empty() {
            return Err(TenantIdError::Empty);
        }
        let allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        if let Some(odd) = text.chars().find(|char| !allowed(*char)) {
            return Err(TenantIdError::Character(odd));
        }
        if text.len() > TENANT_CHARS_MAX {
            return Err(TenantIdError::TooLong(text.len()));
        }
        Ok(Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({})", self.0)
    }
}

impl AsRef<str> for TenantId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantId {
    type Err = TenantIdError;
    fn from_str(text: &str) -> Result<Self, TenantIdError> {
        Self::parse(text)
    }
}

impl Serialize for TenantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_letters_digits_underscore_and_hyphen() {
        for (text, expected, why) in [
            ("acme", Ok(()), "plain"),
            ("-_9Z", Ok(()), "every kind of character, in any place"),
            ("", Err(TenantIdError::Empty), "empty"),
            ("a b", Err(TenantIdError::Character(' ')), "a blank"),
            ("a.b", Err(TenantIdError::Character('.')), "a dot"),
            ("acmé", Err(TenantIdError::Character('é')), "no ASCII"),
            ("a\0", Err(TenantIdError::Character('\0')), "no text in PostgreSQL"),
        ] {
            assert_eq!(TenantId::parse(text).map(|_| ()), expected, "{why}");
        }
        assert!(TenantId::parse(&"a".repeat(TENANT_CHARS_MAX)).is_ok());
        assert_eq!(
            TenantId::parse(&"a".repeat(TENANT_CHARS_MAX + 1)),
            Err(TenantIdError::TooLong(129))
        );
    }

    proptest! {
        #[test]
        fn what_is_read_is_kept_as_it_was(text in "[A-Za-z0-9_-]{1,128}") {
            prop_assert_eq!(TenantId::parse(&text).unwrap().to_string(), text);
        }
    }
}
