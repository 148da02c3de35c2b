//! What can be set on a source, as it is written in JSON and in the settings file; and what is
//! wrong with it. Its secrets, its state and its id are not settings and not here.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use snaphook_signature::{
    CredentialError, Handshakes, IdScope, OneOrMany, Scheme, SchemeDocument, SchemeError, Verifier,
};

use super::{
    duration, json,
    own_headers::HIDDEN,
    problem::{Problem, shorten},
    size,
};

mod answer;
mod event_type;
mod given;
mod next_steps;
mod scheme_text;
#[cfg(test)]
mod tests;
mod token;
mod validate;

pub use answer::Answer;
pub use event_type::event_type_of;
pub use given::GivenSource;
pub use next_steps::next_steps;
pub use scheme_text::SchemeText;
pub use token::{SourceToken, SourceTokenError};

coded! {
    /// Whether what a source takes goes on to its endpoints.
    SourceState {
        /// It does.
        Active = 0, "active";
        /// It is answered, kept and held.
        Paused = 1, "paused";
    }
}

/// Bytes of a body, where the source sets nothing else: GitHub, which sends the largest, stops at
/// 25 MiB.
pub const BODY_LIMIT_DEFAULT: usize = 25 * 1024 * 1024;

/// Rejected requests that are kept of one source, where it sets nothing else.
pub const KEEP_REJECTED_DEFAULT: u32 = 1_000;

/// Bytes that the rejected requests of one source take together, however few they are.
pub const REJECTED_BYTES_MAX: i64 = 10 * 1024 * 1024;

/// How long a source stays armed: time enough to press a provider's button.
pub const ARMED_FOR: Duration = Duration::from_hours(1);

/// Settings of one source. `Debug` does not show the verify token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSettings {
    /// The first part of the types of its events; unique within its tenant.
    pub name: String,
    /// How the provider signs.
    pub scheme: SchemeText,
    /// Its signature is in this header, where the scheme alone would have another.
    pub signature_header: Option<String>,
    /// How far a timestamp may be off, instead of what the scheme says.
    pub tolerance: Option<duration::Text>,
    /// The second part of a credential, where a provider has two.
    pub public_key: Option<String>,
    /// What the provider's handshake must name. Write-only.
    pub verify_token: Option<Token>,
    /// What the provider signs as its URL, instead of `base_url` and the path.
    pub public_url: Option<String>,
    /// Where the event's id is, instead of where the scheme says.
    pub id_from: Vec<String>,
    /// Whether the id is the event's own, instead of what the scheme says.
    pub id_scope: Option<IdScopeText>,
    /// Where the event's type is, instead of where the scheme says.
    pub type_from: Vec<String>,
    /// Bytes of a body.
    pub body_limit: Option<size::Text>,
    /// The status of a refusal.
    pub reject_status: u16,
    /// What a genuine request is answered with.
    pub answer: Answer,
    /// JSON Schemas by the provider's types. Where one is named here it counts, and not what is
    /// declared of the event type.
    pub schemas: Map<String, Value>,
    /// Rejected requests that are kept.
    pub keep_rejected: Option<u32>,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            scheme: SchemeText::default(),
            signature_header: None,
            tolerance: None,
            public_key: None,
            verify_token: None,
            public_url: None,
            id_from: Vec::new(),
            id_scope: None,
            type_from: Vec::new(),
            body_limit: None,
            reject_status: 401,
            answer: Answer::default(),
            schemas: Map::new(),
            keep_rejected: None,
        }
    }
}

/// A text that is not shown again. `Debug` prints nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Whether two requests with one id are one event, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdScopeText {
    /// They are.
    Event,
    /// The id names a thing; they are when type and body are the same too.
    Object,
}

/// What of the settings must not be readable in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourcePrivate {
    verify_token: Option<Token>,
}

impl SourcePrivate {
    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl SourceSettings {
    /// Takes a change: each field that is named is replaced, `null` brings back its default, and
    /// the members of `schemas` are merged one by one (RFC 7396). Gives every field that is
    /// unknown or cannot be read; then nothing should be stored.
    pub fn apply(&mut self, change: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, value) in change {
            match (name.as_str(), value) {
                ("schemas", Value::Object(change)) => merge(&mut self.schemas, change),
                ("verify_token", Value::String(text)) if text == HIDDEN => {
                    if self.verify_token.is_none() {
                        let problem = format!(
                            "{HIDDEN} keeps a stored value, and there is none; write the value"
                        );
                        problems.push(Problem::new(name, problem));
                    }
                }
                // What was written there is not shown: it is a secret.
                ("verify_token", value) if !value.is_null() && !value.is_string() => {
                    problems.push(Problem::new(name, "write it in quotes, or null to remove it"));
                }
                _ => problems.extend(self.replace(name, value).err()),
            }
        }
        problems
    }

    fn replace(&mut self, name: &str, value: &Value) -> Result<(), Problem> {
        macro_rules! replace {
            ($($field:ident)*) => {
                match name {
                    $(stringify!($field) => self.$field = read(name, value, Self::default().$field)?,)*
                    _ => return Err(Problem::new(
                        shorten(name, 64),
                        concat!("there is no such field; a source has" $(, " ", stringify!($field))*),
                    )),
                }
            };
        }
        replace!(
            name scheme signature_header tolerance public_key verify_token public_url id_from
            id_scope type_from body_limit reject_status answer schemas keep_rejected
        );
        Ok(())
    }

    /// How the provider signs.
    pub fn scheme(&self) -> Result<Arc<Scheme>, Problem> {
        let scheme = match &self.scheme {
            SchemeText::Named(name) if name.is_empty() => {
                return Err(Problem::new(
                    "scheme",
                    "it is missing; name a provider such as stripe, or describe how it signs",
                ));
            }
            SchemeText::Named(name) => Scheme::named(name),
            SchemeText::Own(document) => Scheme::new("custom", document).map(Arc::new),
        };
        let scheme = scheme.map_err(|error| scheme_problem(&error))?;
        match &self.signature_header {
            None => Ok(scheme),
            Some(header) => scheme
                .with_signature_header(header)
                .map(Arc::new)
                .map_err(|error| Problem::new("signature_header", scheme_problem(&error).problem)),
        }
    }

    /// What verifies requests with these secrets, which are checked for their form.
    pub fn verifier(&self, secrets: &[impl AsRef<str>]) -> Result<Verifier, Problem> {
        let scheme = self.scheme()?;
        let mut verifier = Verifier::new(scheme, secrets, self.public_key.as_deref())
            .map_err(|error| credential_problem(&error))?;
        if let Some(tolerance) = self.tolerance {
            verifier = verifier.with_tolerance(tolerance.0);
        }
        if !self.id_from.is_empty() {
            verifier =
                verifier.with_id_from(&self.id_from).map_err(|error| scheme_problem(&error))?;
        }
        if !self.type_from.is_empty() {
            verifier =
                verifier.with_type_from(&self.type_from).map_err(|error| scheme_problem(&error))?;
        }
        Ok(verifier)
    }

    /// What answers the provider's handshakes with these secrets; there may be none yet.
    pub fn handshakes(&self, secrets: &[impl AsRef<str>]) -> Result<Handshakes, Problem> {
        let token = self.verify_token.as_ref().map(|token| token.0.as_str());
        Handshakes::new(self.scheme()?, secrets, self.public_key.as_deref(), token)
            .map_err(|error| credential_problem(&error))
    }

    /// Whether two requests with one id are one event.
    pub fn id_scope(&self, scheme: &Scheme) -> IdScope {
        match self.id_scope {
            Some(IdScopeText::Event) => IdScope::Event,
            Some(IdScopeText::Object) => IdScope::Object,
            None => scheme.id_scope(),
        }
    }

    /// What the provider signs as its URL: `public_url`, or where the server itself can be
    /// reached.
    pub fn public_url(&self, base_url: &str, token: &SourceToken) -> String {
        self.public_url.clone().unwrap_or_else(|| url_of(base_url, token))
    }

    /// These settings without what is write-only: what the API may show. Applied again, they
    /// change nothing.
    #[must_use]
    pub fn shown(&self) -> Self {
        let verify_token = self.verify_token.as_ref().map(|_| Token(HIDDEN.to_owned()));
        Self { verify_token, ..self.clone() }
    }

    /// Takes out what must be sealed. What remains may be stored as it is.
    pub fn take_private(&mut self) -> SourcePrivate {
        SourcePrivate { verify_token: self.verify_token.take() }
    }

    /// Puts back what [`take_private`](Self::take_private) took out.
    pub fn put_private(&mut self, private: SourcePrivate) {
        self.verify_token = private.verify_token;
    }

    /// The scheme with these templates in place of its own, only to see whether they are some.
    fn checked_templates(&self, scheme: &Scheme) -> Result<(), SchemeError> {
        let own = |templates: &[String], given: &OneOrMany| match templates {
            [] => given.clone(),
            templates => OneOrMany(templates.to_vec()),
        };
        let document = scheme.document();
        let document = SchemeDocument {
            id: own(&self.id_from, &document.id),
            event_type: own(&self.type_from, &document.event_type),
            otherwise: None,
            ..document.clone()
        };
        Scheme::new(scheme.name(), &document).map(drop)
    }
}

/// Where requests of a source come in.
pub fn url_of(base_url: &str, token: &SourceToken) -> String {
    format!("{}/in/{token}", base_url.trim_end_matches('/'))
}

fn scheme_problem(error: &SchemeError) -> Problem {
    match error {
        SchemeError::Field { field: field @ ("id_from" | "type_from"), problem } => {
            Problem::new(*field, problem)
        }
        SchemeError::Field { field, problem } => Problem::new(format!("scheme.{field}"), problem),
        error => Problem::new("scheme", error),
    }
}

fn credential_problem(error: &CredentialError) -> Problem {
    match error {
        CredentialError::PublicKey { .. } => Problem::new("public_key", error),
        error => Problem::new("secrets", error),
    }
}

fn read<T: DeserializeOwned>(name: &str, value: &Value, default: T) -> Result<T, Problem> {
    match value {
        Value::Null => Ok(default),
        value => json::fit(value.clone()).map_err(|problem| problem.below(name)),
    }
}

/// JSON Merge Patch of the outermost members; a member is replaced whole.
fn merge(stored: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (name, value) in change {
        match value {
            Value::Null => drop(stored.remove(name)),
            value => drop(stored.insert(name.clone(), value.clone())),
        }
    }
}
