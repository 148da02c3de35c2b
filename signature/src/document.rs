//! A scheme as it is written: in the table of providers, in a settings file, in a request to an
//! API. What the fields mean is at the top of `providers.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A scheme as it is written. [`Scheme::new`](crate::Scheme::new) reads it, and says of each field
/// what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SchemeDocument {
    /// What proves the sender: `hmac`, `digest`, `ed25519`, `ecdsa`, `token`, `basic`, `jwt`.
    pub auth: String,
    /// `sha1`, `sha256`, `sha512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What the text of a secret is; `utf8` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How the signature is written: `hex`, `base64`, `base64url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enc: Option<String>,
    /// Where the signature is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig: Option<SignatureDocument>,
    /// Headers of which each belongs to the secret at its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// When it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<TimeDocument>,
    /// What is signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sign: Vec<String>,
    /// Where the event's id is: the first that is there.
    #[serde(default, skip_serializing_if = "OneOrMany::is_empty")]
    pub id: OneOrMany,
    /// Where the event's type is: the first that is there.
    #[serde(default, rename = "type", skip_serializing_if = "OneOrMany::is_empty")]
    pub event_type: OneOrMany,
    /// `event` when left out, or `object`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_scope: Option<String>,
    /// Headers that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub require: BTreeMap<String, String>,
    /// The scheme to use when this one's signature header is absent.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
    /// Of `jwt`: `HS256` or `ES256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Of `jwt`: claims that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
    /// Of `jwt`: the claim that holds a hash of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<BodyHashDocument>,
    /// Of `jwt`: how many seconds `iat` may be off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat_tolerance: Option<u64>,
}

/// Where a signature is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureDocument {
    /// A header's name; `NAME-*` is a numbered family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A pointer into the body; one `*` walks a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A parameter of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// What stands before each signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Whether the prefix may be written in either case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_nocase: bool,
    /// What parts several signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// What parts the pairs of a `k=v` list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<String>,
    /// The key of the signatures among the pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
}

/// Where the time is, and how far it may be off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimeDocument {
    /// A header's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A pointer into the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A key among the pairs of the signature's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
    /// `s`, `ms` or `rfc3339`.
    pub unit: String,
    /// Seconds, either way.
    pub tolerance: u64,
}

/// The claim that holds a hash of the body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BodyHashDocument {
    /// Its name.
    pub claim: String,
    /// `sha1`, `sha256`, `sha512`.
    pub hash: String,
    /// `hex`, `base64`, `base64url`.
    pub enc: String,
}

/// One text or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OneOrMany(pub Vec<String>);

impl OneOrMany {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a text or a list of texts")]
        enum Either {
            One(String),
            Many(Vec<String>),
        }
        Ok(Self(match Either::deserialize(reader)? {
            Either::One(one) => vec![one],
            Either::Many(many) => many,
        }))
    }
}
