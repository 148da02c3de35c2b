//! Statuses that end a delivery at once, since the endpoint's owner says that trying again is of
//! no use. Empty by default: most receivers answer 400 or 404 while they are being deployed.

use super::{endpoint::StatusText, problem::shown};

/// Statuses that are requests for another attempt by their very meaning: 408 Request Timeout,
/// 425 Too Early, 429 Too Many Requests.
const NEVER_FINAL: [u16; 3] = [408, 425, 429];

/// What can be called final: redirects, client errors and server errors.
const CLASSES: std::ops::RangeInclusive<u16> = 300..=599;

/// The statuses that an endpoint calls final.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalStatuses {
    classes: Vec<u16>,
    codes: Vec<u16>,
}

/// Why an entry is no final status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalStatusError {
    /// One of 408, 425, 429.
    #[error("{0} asks for another attempt and is never final; leave it out")]
    AsksForRetry(u16),
    /// 1xx, 2xx and what is no status.
    #[error(
        "{} cannot be final; name a status from 300 to 599, or a class: \"3xx\", \"4xx\", \"5xx\"",
        shown(.0)
    )]
    Unknown(String),
}

impl FinalStatuses {
    /// From entries like `400` and `4xx`. A class never takes in 408, 425 and 429.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, FinalStatusError> {
        let mut parsed = Self::default();
        for entry in entries {
            parsed.add(entry)?;
        }
        Ok(parsed)
    }

    /// As written in an endpoint's settings.
    pub fn from_texts(entries: &[StatusText]) -> Result<Self, FinalStatusError> {
        let mut parsed = Self::default();
        for entry in entries {
            match entry {
                StatusText::Code(code) => parsed.add(&code.to_string())?,
                StatusText::Class(text) => parsed.add(text)?,
            }
        }
        Ok(parsed)
    }

    fn add(&mut self, entry: &str) -> Result<(), FinalStatusError> {
        let unknown = || FinalStatusError::Unknown(entry.to_owned());
        let written = |digits: &str, len| {
            digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (list, value) = match entry.strip_suffix("xx") {
            Some(class) if written(class, 1) => (&mut self.classes, class.parse::<u16>()),
            None if written(entry, 3) => (&mut self.codes, entry.parse::<u16>()),
            _ => return Err(unknown()),
        };
        let value = value.map_err(|_| unknown())?;
        let lowest = if value < 10 { value * 100 } else { value };
        if !CLASSES.contains(&lowest) {
            return Err(unknown());
        }
        if NEVER_FINAL.contains(&value) {
            return Err(FinalStatusError::AsksForRetry(value));
        }
        if !list.contains(&value) {
            list.push(value);
        }
        Ok(())
    }

    /// Whether `status` is among them.
    pub fn name(&self, status: u16) -> bool {
        !NEVER_FINAL.contains(&status)
            && (self.codes.contains(&status) || self.classes.contains(&(status / 100)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statuses_and_classes_are_read_or_refused_by_name() {
        for (entry, problem) in [
            ("400", None),
            ("4xx", None),
            ("5xx", None),
            ("3xx", None),
            ("301", None),
            ("408", Some("never final")),
            ("425", Some("never final")),
            ("429", Some("never final")),
            ("200", Some("from 300 to 599")),
            ("2xx", Some("from 300 to 599")),
            ("1xx", Some("from 300 to 599")),
            ("6xx", Some("from 300 to 599")),
            ("600", Some("from 300 to 599")),
            ("0xx", Some("from 300 to 599")),
            ("xx", Some("from 300 to 599")),
            ("40x", Some("from 300 to 599")),
            ("4XX", Some("from 300 to 599")),
            ("+40", Some("from 300 to 599")),
            ("", Some("from 300 to 599")),
        ] {
            match (FinalStatuses::parse([entry]), problem) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (parsed, _) => panic!("{entry}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn a_class_takes_in_all_but_those_that_ask_for_a_retry() {
        let finals = FinalStatuses::from_texts(&[
            StatusText::Class("4xx".to_owned()),
            StatusText::Code(501),
        ])
        .unwrap();
        for (status, expected) in [
            (400, true),
            (404, true),
            (499, true),
            (408, false),
            (425, false),
            (429, false),
            (501, true),
            (500, false),
            (302, false),
            (200, false),
            (4, false),
        ] {
            assert_eq!(finals.name(status), expected, "{status}");
        }
    }

    proptest! {
        /// Success and requests for a retry are final for nobody.
        #[test]
        fn some_statuses_are_final_for_nobody(entries in prop::collection::vec("[0-9]{3}|[0-9]xx", 0..5)) {
            let Ok(finals) = FinalStatuses::parse(entries.iter().map(String::as_str)) else {
                return Ok(());
            };
            for status in (100..300).chain(NEVER_FINAL).chain(600..1000) {
                prop_assert!(!finals.name(status), "{status}");
            }
        }
    }
}
