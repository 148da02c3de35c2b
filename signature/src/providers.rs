//! The table of providers: `providers.toml`, read once.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use crate::{
    document::SchemeDocument,
    handshake,
    scheme::{Scheme, SchemeError},
};

static TABLE: LazyLock<BTreeMap<String, Arc<Scheme>>> = LazyLock::new(|| {
    let documents: BTreeMap<String, SchemeDocument> =
        toml::from_str(include_str!("providers.toml")).expect("a test reads the table");
    let mut handshakes =
        handshake::table(include_str!("handshakes.toml")).expect("a test reads the table");
    let schemes = documents.into_iter().map(|(name, document)| {
        let scheme = Scheme::new(&name, &document).expect("a test reads the table");
        let handshakes = handshakes.remove(&name).unwrap_or_default().into();
        (name, Arc::new(Scheme { handshakes, ..scheme }))
    });
    schemes.collect()
});

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys().map(String::as_str)
}

pub(crate) fn find(name: &str) -> Result<Arc<Scheme>, SchemeError> {
    let variants: Vec<_> = names()
        .filter(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
        .collect();
    match TABLE.get(name) {
        Some(scheme) => Ok(Arc::clone(scheme)),
        None if variants.is_empty() => Err(SchemeError::Unknown(name.to_owned())),
        None => Err(SchemeError::Variants { name: name.to_owned(), variants: variants.join(", ") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_what_it_refers_to_is_there() {
        assert!(names().count() >= 77);
        for name in names() {
            let scheme = find(name).unwrap();
            assert_eq!(scheme.name(), name);
            if let Some(other) = &scheme.otherwise {
                assert!(find(other).is_ok(), "{name}: {other}");
            }
        }
    }

    #[test]
    fn a_name_that_is_none_is_told_what_there_is() {
        let error = find("hubspot").unwrap_err().to_string();
        assert!(error.ends_with("name one of hubspot:v1, hubspot:v2, hubspot:v3"), "{error}");
        assert!(find("adyen").unwrap_err().to_string().contains("adyen:payments"));
        assert!(find("strip").unwrap_err().to_string().contains("no provider is called \"strip\""));
    }
}
