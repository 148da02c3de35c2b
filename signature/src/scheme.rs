//! How a provider signs: what a written scheme comes to, and what can be asked of it.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::{digest, hmac};

use crate::{
    credential::KeyForm,
    document::SchemeDocument,
    handshake::Rule,
    json::Pointer,
    jwt::Rules,
    place::Place,
    providers,
    template::{Part, Source},
    time::Unit,
};

mod read;

/// How a provider signs. Made from one of the table by [`Scheme::named`], or from a document of
/// your own by [`Scheme::new`].
#[derive(Debug)]
pub struct Scheme {
    pub(crate) name: String,
    pub(crate) document: SchemeDocument,
    pub(crate) proof: Proof,
    pub(crate) key: KeyForm,
    pub(crate) place: Place,
    pub(crate) time: Option<Time>,
    pub(crate) signed: Vec<Part>,
    pub(crate) id: Vec<Part>,
    pub(crate) event_type: Vec<Part>,
    pub(crate) id_scope: IdScope,
    pub(crate) require: Vec<(String, Part)>,
    pub(crate) otherwise: Option<String>,
    /// Of a provider in the table; a scheme of one's own has none.
    pub(crate) handshakes: Arc<[Rule]>,
}

/// What proves the sender.
#[derive(Debug)]
pub(crate) enum Proof {
    Hmac(hmac::Algorithm, Encoding),
    Digest(&'static digest::Algorithm, Encoding),
    Ed25519(Encoding),
    Ecdsa(Encoding),
    Token,
    Basic,
    Jwt(Rules),
    Own(Own),
}

/// Ways of signing that data cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Twilio,
    Paypal,
    Sns,
    Braintree,
    Adyen,
    Contentful,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Hex,
    Base64,
    Base64Url,
}

/// Where the time is.
#[derive(Debug)]
pub(crate) struct Time {
    pub(crate) place: TimePlace,
    pub(crate) unit: Unit,
    pub(crate) tolerance: Duration,
}

#[derive(Debug)]
pub(crate) enum TimePlace {
    Header(String),
    Json(Pointer),
    /// Among the pairs of the signature's header.
    Pick(String),
}

/// Whether two requests with one id are one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdScope {
    /// The id is the event's own.
    Event,
    /// The id names a thing, and several events of that thing have it.
    Object,
}

/// Why a document is no scheme, or a name no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No provider has this name.
    #[error("no provider is called {0:?}; docs/providers.md lists those that there are")]
    Unknown(String),
    /// The provider signs in several ways.
    #[error("{name:?} signs in several ways; name one of {variants}")]
    Variants {
        /// As it was given.
        name: String,
        /// The full names.
        variants: String,
    },
    /// A field of a scheme of one's own.
    #[error("{field}: {problem}")]
    Field {
        /// Its name, as it is written in the document.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Text that is no document at all.
    #[error("the scheme cannot be read: {0}")]
    Unreadable(String),
}

impl Scheme {
    /// A provider's scheme: `stripe`, or with its variant `hubspot:v3`.
    pub fn named(name: &str) -> Result<Arc<Self>, SchemeError> {
        providers::find(name)
    }

    /// The names of all providers, in the order of the alphabet.
    pub fn names() -> impl Iterator<Item = &'static str> {
        providers::names()
    }

    /// Reads a scheme of one's own. `name` is for messages.
    pub fn new(name: &str, document: &SchemeDocument) -> Result<Self, SchemeError> {
        read::read(name, document)
    }

    /// Reads a scheme of one's own from TOML: its fields alone, or one table with a name.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, SchemeError> {
        let unreadable = |error: toml::de::Error| SchemeError::Unreadable(error.to_string());
        let table: toml::Table = toml::from_str(text).map_err(unreadable)?;
        let lone = (table.len() == 1).then(|| table.iter().next()).flatten();
        let (name, table) = match lone {
            Some((name, toml::Value::Table(inner))) => (&**name, inner.clone()),
            _ => (name, table),
        };
        let document = toml::Value::Table(table).try_into().map_err(unreadable)?;
        Self::new(name, &document)
    }

    /// The same scheme with its signature in another header.
    pub fn with_signature_header(&self, header: &str) -> Result<Self, SchemeError> {
        let mut document = self.document.clone();
        match &mut document.sig {
            Some(sig) if sig.header.is_some() => sig.header = Some(header.to_owned()),
            _ => {
                let problem =
                    format!("{} has its signature in no header that can be named", self.name);
                return Err(SchemeError::Field { field: "sig.header", problem });
            }
        }
        document.otherwise = None;
        Ok(Self { handshakes: Arc::clone(&self.handshakes), ..Self::new(&self.name, &document)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it is written.
    pub fn document(&self) -> &SchemeDocument {
        &self.document
    }

    /// The headers that prove the sender, or how their names begin. Of a token it is the secret
    /// itself that stands there: not to be shown, nor logged.
    pub fn proof_headers(&self) -> impl Iterator<Item = &str> {
        let (one, many): (&str, &[String]) = match &self.place {
            Place::Header { name, .. } => (name, &[]),
            Place::Family(start) => (start, &[]),
            Place::Slots(names) => ("", names),
            Place::Json(_) | Place::Query(_) | Place::Own => ("", &[]),
        };
        let one = Some(one).filter(|name| !name.is_empty());
        one.into_iter().chain(many.iter().map(String::as_str))
    }

    /// Whether [`proof_headers`](Self::proof_headers) hold the secret itself, as with a token, and
    /// not what was made with it.
    pub fn shows_secret(&self) -> bool {
        matches!(self.proof, Proof::Token | Proof::Basic)
    }

    /// Whether two requests with one id are one event.
    pub fn id_scope(&self) -> IdScope {
        self.id_scope
    }

    /// Whether the id is part of what is signed. Where it is not, who has seen one request can
    /// send it again under another id.
    pub fn signs_id(&self) -> bool {
        match self.proof {
            Proof::Token | Proof::Basic | Proof::Own(Own::Twilio) => false,
            _ if self.reads(&Source::Id) => true,
            _ => self.id.iter().flat_map(Part::sources).all(|source| self.covers(source)),
        }
    }

    /// Whether what stands there cannot be changed without its being seen.
    fn covers(&self, source: &Source) -> bool {
        let body = matches!(self.proof, Proof::Jwt(_) | Proof::Own(_)) || self.reads(&Source::Body);
        self.reads(source) || (body && matches!(source, Source::Json(_) | Source::Form(_)))
    }

    /// Whether the URL is part of what is signed, so that it must be known.
    pub fn signs_url(&self) -> bool {
        matches!(self.proof, Proof::Own(Own::Twilio | Own::Contentful))
            || matches!(self.place, Place::Query(_))
            || self.reads(&Source::Url)
            || self.signed.iter().flat_map(Part::sources).any(|s| matches!(s, Source::Query(_)))
    }

    pub(crate) fn reads(&self, wanted: &Source) -> bool {
        self.signed.iter().flat_map(Part::sources).any(|source| source == wanted)
    }
}
