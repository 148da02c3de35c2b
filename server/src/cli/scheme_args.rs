//! Flags that `verify`, `sign`, `trigger` and `listen` share: a scheme, its secrets, a request.

use snaphook_signature::{Received, Scheme, Verifier};

use super::{exit::Failure, input};

/// Secrets, from wherever they come.
#[derive(Clone, clap::Args)]
pub struct SecretArgs {
    /// A secret as the provider shows it; may be repeated
    #[arg(
        long = "secret",
        env = "SNAPHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        allow_hyphen_values = true
    )]
    secrets: Vec<String>,
    /// A file with secrets, one a line, or with a key as PEM or JSON: others can see flags
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
}

impl SecretArgs {
    /// All of them, as they were given.
    pub fn read(&self) -> anyhow::Result<Vec<String>> {
        let mut secrets = self.secrets.clone();
        if let Some(path) = &self.secret_file {
            secrets.extend(input::secrets(path)?);
        }
        Ok(secrets)
    }
}

/// How a provider signs, and what with.
#[derive(Clone, clap::Args)]
pub struct SchemeArgs {
    /// A provider, and its variant where it has several: stripe, hubspot:v3
    #[arg(long, value_name = "NAME")]
    pub scheme: Option<String>,
    /// A scheme of your own, as TOML
    #[arg(long, value_name = "FILE", conflicts_with = "scheme")]
    pub scheme_file: Option<String>,
    /// The header of the signature, where it is another than the scheme's
    #[arg(long, value_name = "NAME")]
    pub signature_header: Option<String>,
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// The second part of a credential, where the provider has two
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub public_key: Option<String>,
}

impl SchemeArgs {
    /// The scheme, or `None` when none is named.
    pub fn scheme(&self) -> anyhow::Result<Option<Scheme>> {
        let scheme = match (&self.scheme, &self.scheme_file) {
            (Some(name), _) => {
                let known = Scheme::named(name).map_err(usage)?;
                Scheme::new(name, known.document())
            }
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
                Scheme::from_toml(path, &text)
            }
            (None, None) => return Ok(None),
        };
        let scheme = scheme.map_err(usage)?;
        Ok(Some(match &self.signature_header {
            Some(header) => scheme.with_signature_header(header).map_err(usage)?,
            None => scheme,
        }))
    }

    /// What verifies and signs; an inner error when a secret is not of the scheme's form.
    pub fn verifier(&self) -> anyhow::Result<Result<Verifier, String>> {
        let scheme = self
            .scheme()?
            .ok_or_else(|| Failure::usage("name a scheme with --scheme, or give --scheme-file"))?;
        let secrets = self.secrets.read()?;
        if secrets.is_empty() && scheme.name() != "plaid" {
            return Err(Failure::usage(
                "give the secret with --secret-file, SNAPHOOK_SECRET or --secret",
            )
            .into());
        }
        let verifier = Verifier::new(scheme, &secrets, self.public_key.as_deref());
        Ok(verifier.map_err(|error| format!("the secret cannot be used: {error}")))
    }
}

fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Failure::usage(error.to_string()).into()
}

/// A request, as it was received or as it is to be signed.
#[derive(Clone, clap::Args)]
pub struct RequestArgs {
    /// A header; may be repeated, and keeps its place
    #[arg(long = "header", value_name = "'NAME: VALUE'", value_parser = header, allow_hyphen_values = true)]
    headers: Vec<(String, String)>,
    /// The method
    #[arg(long, default_value = "POST", value_name = "METHOD")]
    method: String,
    /// The URL as the provider knows it, for schemes that sign it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file with the raw body, or - for standard input; without it the body is empty
    #[arg(long, value_name = "FILE|-")]
    body: Option<String>,
}

impl RequestArgs {
    /// Reads the body and hands the request to `work`.
    pub fn with<T>(&self, work: impl FnOnce(&Received<'_>) -> T) -> anyhow::Result<T> {
        let body = match self.body.as_deref() {
            None => Vec::new(),
            Some("-") => super::input::bytes("-")?,
            Some(path) => std::fs::read(path)
                .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?,
        };
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
        let request = Received::new(&headers, &body).with_method(&self.method);
        Ok(work(&match &self.url {
            Some(url) => request.with_url(url),
            None => request,
        }))
    }
}

/// `Name: value`, with the blanks around the value that HTTP does not count.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written 'Name: value'")?;
    if name.is_empty() || name.trim() != name {
        return Err(format!("{name:?} is no name of a header"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_split_at_its_first_colon() {
        for (text, expected) in [
            ("X-Id: a:b", Some(("X-Id", "a:b"))),
            ("x:", Some(("x", ""))),
            ("x", None),
            (": a", None),
            ("x : a", None),
        ] {
            let read = header(text).ok();
            let read = read.as_ref().map(|(name, value)| (&**name, &**value));
            assert_eq!(read, expected, "{text}");
        }
    }
}
