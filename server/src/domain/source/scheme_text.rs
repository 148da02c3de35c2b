//! A scheme as it is written in settings: a provider's name, or a table of facts.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use snaphook_signature::SchemeDocument;

/// A scheme as written: `"stripe"`, or how a sender signs that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SchemeText {
    /// A provider's name.
    Named(String),
    /// One of the operator's own.
    Own(Box<SchemeDocument>),
}

impl Default for SchemeText {
    fn default() -> Self {
        Self::Named(String::new())
    }
}

impl SchemeText {
    /// The provider's name, or `custom`: for lists and for the label of a metric.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Own(_) => "custom",
        }
    }
}

// Written out, because serde tells of an untagged enum neither the place nor the value.
impl<'de> Deserialize<'de> for SchemeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SchemeText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a provider, for example \"stripe\", or an object that says how \
                     a sender signs",
                )
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<SchemeText, E> {
                Ok(SchemeText::Named(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SchemeText, A::Error> {
                SchemeDocument::deserialize(MapAccessDeserializer::new(map))
                    .map(|document| SchemeText::Own(Box::new(document)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
