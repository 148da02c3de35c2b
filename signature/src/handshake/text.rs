//! The texts of a handshake: templates, with `{sig}` besides.

use crate::template::{Facts, Part, Source};

/// A template that may have `{sig}` in it, the signature that the answer has.
#[derive(Debug)]
pub(super) struct Text {
    /// What stands between the signatures; an empty text is `None`.
    between: Vec<Option<Part>>,
}

impl Text {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let between = text.split("{sig}").map(|piece| {
            let part = (!piece.is_empty()).then(|| Part::parse(piece)).transpose()?;
            let gives = |part: &Part| part.sources().any(|source| matches!(source, Source::Secret));
            if part.as_ref().is_some_and(gives) {
                return Err(format!("{text:?} would give the secret away"));
            }
            Ok(part)
        });
        Ok(Self { between: between.collect::<Result<_, String>>()? })
    }

    pub(super) fn has_sig(&self) -> bool {
        self.between.len() > 1
    }

    /// What it comes to, or `None` when something that it names is absent or empty.
    pub(super) fn fill(&self, facts: &Facts<'_>, sig: &str) -> Option<String> {
        let pieces = self.between.iter().map(|part| match part {
            Some(part) => part.text(facts).map(std::borrow::Cow::into_owned),
            None => Some(String::new()),
        });
        Some(pieces.collect::<Option<Vec<_>>>()?.join(sig))
    }
}
