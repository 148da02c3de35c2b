//! The id of a source, which stands in its URL: 128 bits of chance, so that nobody finds a source
//! by trying.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::domain::{id::ALPHABET, problem::shown};

/// Characters of 128 bits, five bits each.
const DIGITS: usize = 26;

/// The id of a source, `src_…`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceToken(Arc<str>);

/// Why a text is no id of a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is no id of a source; it looks like src_ and {DIGITS} letters and digits", shown(.0))]
pub struct SourceTokenError(String);

impl SourceToken {
    /// Makes one of chance.
    pub fn new(random: u128) -> Self {
        let digit = |place: usize| {
            let bits = usize::try_from((random >> (5 * place)) & 31).unwrap_or(0);
            char::from(ALPHABET[bits])
        };
        let digits: String = (0..DIGITS).rev().map(digit).collect();
        Self(format!("src_{digits}").into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SourceToken {
    type Err = SourceTokenError;
    fn from_str(text: &str) -> Result<Self, SourceTokenError> {
        text.strip_prefix("src_")
            .filter(|digits| {
                digits.len() == DIGITS
                    && digits.bytes().all(|byte| ALPHABET.contains(&byte))
                    // The first of 26 times 5 bits holds the upper three of 128.
                    && digits.as_bytes()[0] < ALPHABET[8]
            })
            .map(|_| Self(text.into()))
            .ok_or_else(|| SourceTokenError(text.to_owned()))
    }
}

impl fmt::Display for SourceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SourceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceToken({})", self.0)
    }
}

impl Serialize for SourceToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SourceToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_all_of_its_chance_and_is_read_only_as_it_is_written() {
        for random in [0, 1, 31, 32, 1 << 127, u128::MAX] {
            let token = SourceToken::new(random);
            assert_eq!(token.as_str().len(), 30, "{token}");
            assert_eq!(token.as_str().parse(), Ok(token));
        }
        assert_ne!(SourceToken::new(1 << 127), SourceToken::new(0));
        assert_ne!(SourceToken::new(1), SourceToken::new(0));
        let written = SourceToken::new(u128::MAX).to_string();
        for (text, why) in [
            (written[..29].to_owned(), "too short"),
            (format!("{written}0"), "too long"),
            (written.to_uppercase(), "another case"),
            (written.replace("src_7", "src_8"), "over 128 bits"),
            (written.replace("src_", "ep_z"), "an endpoint's"),
            (format!("src_{}é", &written[6..]), "no ASCII"),
        ] {
            assert!(text.parse::<SourceToken>().is_err(), "{text}: {why}");
        }
    }
}
