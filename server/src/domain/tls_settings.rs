//! Certificates of one endpoint: who may vouch for the receiver, and who we say we are.
//!
//! Only the shape is checked here; whether a certificate and its key can be used is for the
//! client, which reads them when they are saved.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{own_headers::HIDDEN, problem::Problem};

/// Bytes of one PEM text: a chain of a few certificates with RSA keys is about 8 KiB.
pub const PEM_BYTES_MAX: usize = 65_536;

/// PEM texts. `Debug` and the API never show the private key.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSettings {
    /// Authorities that may vouch for the receiver, instead of the public ones.
    pub ca: Option<String>,
    /// Our client certificate, leaf first.
    pub client_cert: Option<String>,
    /// The client certificate's private key. Write-only.
    pub client_key: Option<String>,
}

/// Says which parts there are.
impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = |part: &Option<String>| part.is_some();
        f.debug_struct("TlsSettings")
            .field("ca", &present(&self.ca))
            .field("client_cert", &present(&self.client_cert))
            .field("client_key", &present(&self.client_key))
            .finish()
    }
}

impl TlsSettings {
    /// Whether the endpoint has none, and shares connections with all others that have none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same with [`HIDDEN`] in place of the private key.
    #[must_use]
    pub fn hidden(&self) -> Self {
        let client_key = self.client_key.as_ref().map(|_| HIDDEN.to_owned());
        Self { client_key, ..self.clone() }
    }

    /// Takes a change: a text sets, `null` removes, [`HIDDEN`] keeps the private key.
    pub fn merge(&mut self, change: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, value) in change {
            let part = match name.as_str() {
                "ca" => &mut self.ca,
                "client_cert" => &mut self.client_cert,
                "client_key" => &mut self.client_key,
                _ => {
                    let field: String = name.chars().take(64).collect();
                    problems.push(Problem::new(
                        format!("tls.{field}"),
                        "there is no such field; tls has ca, client_cert, client_key",
                    ));
                    continue;
                }
            };
            match value {
                Value::Null => *part = None,
                Value::String(text) if text == HIDDEN && part.is_some() => {}
                Value::String(text) => *part = Some(text.clone()),
                _ => problems.push(Problem::new(
                    format!("tls.{name}"),
                    "it is a PEM text in quotes, or null to remove it",
                )),
            }
        }
        problems
    }

    /// All that is wrong with the shape.
    pub fn problems(&self) -> Vec<Problem> {
        let certificate = "-----BEGIN CERTIFICATE-----";
        let mut problems = Vec::new();
        for (field, part, label) in [
            ("tls.ca", &self.ca, certificate),
            ("tls.client_cert", &self.client_cert, certificate),
            ("tls.client_key", &self.client_key, "PRIVATE KEY-----"),
        ] {
            let Some(text) = part else { continue };
            if text.len() > PEM_BYTES_MAX {
                problems.push(Problem::new(
                    field,
                    format!("it is {} bytes; at most {PEM_BYTES_MAX} are allowed", text.len()),
                ));
            } else if !text.contains(label) {
                problems.push(Problem::new(field, format!("it is no PEM text with {label}")));
            }
        }
        match (&self.client_cert, &self.client_key) {
            (Some(_), None) => problems.push(Problem::new(
                "tls.client_key",
                "client_cert is given, so its private key is needed too",
            )),
            (None, Some(_)) => problems.push(Problem::new(
                "tls.client_cert",
                "client_key is given, so its certificate is needed too",
            )),
            _ => {}
        }
        problems
    }
}
