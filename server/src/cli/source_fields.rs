//! What can be set on a source from the command line. Each flag is the API's field of that name;
//! the server judges the values, so that there is one judge.

use serde_json::{Map, Value};

use super::{exit::Failure, input};

/// Flags of `sources create` and `sources update`.
#[derive(Debug, clap::Args)]
pub struct SourceFields {
    /// The first part of the types of its events
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A provider, and its variant where it has several: stripe, hubspot:v3
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// A scheme of your own, as TOML
    #[arg(long, value_name = "FILE", conflicts_with = "scheme")]
    scheme_file: Option<String>,
    /// The header of the signature, where it is another than the scheme's
    #[arg(long, value_name = "NAME")]
    signature_header: Option<String>,
    /// How far a timestamp may be off
    #[arg(long, value_name = "DURATION")]
    tolerance: Option<String>,
    /// The second part of a credential, where the provider has two; or @FILE
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    public_key: Option<String>,
    /// What the provider's handshake must name (Meta); or @FILE
    #[arg(long, value_name = "TOKEN")]
    verify_token: Option<String>,
    /// What the provider signs as its URL, where that is not the server's own
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Where the event's id is: header:X-Id or json:/id; several with commas, the first counts
    #[arg(long, value_name = "TEMPLATES", value_delimiter = ',')]
    id_from: Option<Vec<String>>,
    /// event, or object where the id names a thing that several events share
    #[arg(long, value_name = "SCOPE")]
    id_scope: Option<String>,
    /// Where the event's type is
    #[arg(long, value_name = "TEMPLATES", value_delimiter = ',')]
    type_from: Option<Vec<String>>,
    /// The most that a body may have, such as 1MiB
    #[arg(long, value_name = "SIZE")]
    body_limit: Option<String>,
    /// The status of a refusal: 401 or 400
    #[arg(long, value_name = "STATUS")]
    reject_status: Option<u16>,
    /// What a genuine request is answered with, JSON with status, headers, body
    #[arg(long, value_name = "JSON")]
    answer: Option<String>,
    /// JSON Schemas by the provider's types, JSON
    #[arg(long, value_name = "JSON")]
    schemas: Option<String>,
    /// How many rejected requests are kept
    #[arg(long, value_name = "N")]
    keep_rejected: Option<u32>,
}

impl SourceFields {
    /// The fields that were given, as the API takes them.
    pub fn body(self) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            body.extend(value.map(|value| (name.to_owned(), value)));
        };
        let json = |flag: &str, text: Option<String>| {
            text.map(|text| input::json(flag, &text)).transpose()
        };
        let text = |text: Option<String>| text.map(|text| text_of(&text)).transpose();
        set("name", self.name.map(Value::from));
        set("scheme", self.scheme.map(Value::from));
        set("scheme", self.scheme_file.as_deref().map(scheme_of).transpose()?);
        set("signature_header", self.signature_header.map(Value::from));
        set("tolerance", self.tolerance.map(Value::from));
        set("public_key", text(self.public_key)?);
        set("verify_token", text(self.verify_token)?);
        set("public_url", self.public_url.map(Value::from));
        set("id_from", self.id_from.map(Value::from));
        set("id_scope", self.id_scope.map(Value::from));
        set("type_from", self.type_from.map(Value::from));
        set("body_limit", self.body_limit.map(Value::from));
        set("reject_status", self.reject_status.map(Value::from));
        set("answer", json("answer", self.answer)?);
        set("schemas", json("schemas", self.schemas)?);
        set("keep_rejected", self.keep_rejected.map(Value::from));
        Ok(body)
    }
}

/// Secrets as a provider shows them.
#[derive(clap::Args)]
pub struct GivenSecrets {
    /// The secret as the provider shows it; may be repeated
    #[arg(long = "secret", value_name = "SECRET", allow_hyphen_values = true)]
    secrets: Vec<String>,
    /// A file with secrets, one a line, or with a key as PEM or JSON: others can see flags
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
}

impl GivenSecrets {
    /// All of them.
    pub fn read(self) -> anyhow::Result<Vec<String>> {
        let mut secrets = self.secrets;
        if let Some(path) = &self.secret_file {
            secrets.extend(input::secrets(path)?);
        }
        Ok(secrets)
    }

    /// The one that there is to be.
    pub fn one(self) -> anyhow::Result<Option<String>> {
        let mut secrets = self.read()?;
        if secrets.len() > 1 {
            return Err(Failure::usage("give one secret").into());
        }
        Ok(secrets.pop())
    }
}

fn text_of(text: &str) -> anyhow::Result<Value> {
    let bytes = input::bytes(text)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage("a key or token is no text"))?;
    Ok(text.trim_end().into())
}

/// A scheme in a file: its fields alone, or one table with a name.
fn scheme_of(path: &str) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
    let scheme = snaphook_signature::Scheme::from_toml(path, &text)
        .map_err(|error| Failure::usage(format!("{path}: {error}")))?;
    Ok(serde_json::to_value(scheme.document())?)
}
