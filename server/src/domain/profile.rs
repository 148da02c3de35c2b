//! How an endpoint's requests are signed: the standard way, or as a platform's receivers already
//! expect it.
//!
//! Written as a name or a list: `"standard"`, `["standard", "t-v1"]`, and with a header's name of
//! one's own `{"profile": "sha256-hex", "header": "X-My-Signature"}`. Signing itself is in the
//! crate `snaphook-signature`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::{
    own_headers::name_problem,
    problem::{Problem, shorten, shown},
};

/// A way to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Standard Webhooks: `webhook-signature: v1,…` and, with an Ed25519 secret, `v1a,…`.
    Standard,
    /// `X-Webhook-Signature: t=…,v1=<hex>` over `{t}.{body}`, besides `X-Webhook-ID`.
    #[serde(rename = "t-v1")]
    TV1,
    /// `X-Hub-Signature-256: sha256=<hex>` over the body.
    #[serde(rename = "sha256-hex")]
    Sha256Hex,
    /// What a source took is signed anew as its provider does; all else by the standard.
    Source,
}

impl Scheme {
    /// All of them, for messages and documents.
    pub const ALL: [Self; 4] = [Self::Standard, Self::TV1, Self::Sha256Hex, Self::Source];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::TV1 => "t-v1",
            Self::Sha256Hex => "sha256-hex",
            Self::Source => "source",
        }
    }

    /// The header that carries the signature unless another is named.
    pub const fn default_header(self) -> &'static str {
        match self {
            Self::Standard | Self::Source => "webhook-signature",
            Self::TV1 => "x-webhook-signature",
            Self::Sha256Hex => "x-hub-signature-256",
        }
    }
}

/// A scheme, and the header that carries its signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// The way to sign.
    pub scheme: Scheme,
    /// The header's name as the owner wrote it; `None` for the scheme's own.
    pub header: Option<String>,
}

impl Profile {
    /// The header's name in lower case.
    pub fn header(&self) -> String {
        match &self.header {
            Some(name) => name.to_ascii_lowercase(),
            None => self.scheme.default_header().to_owned(),
        }
    }
}

/// Every signature that an endpoint's requests carry. By default the standard one alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profiles(pub Vec<Profile>);

impl Default for Profiles {
    fn default() -> Self {
        Self(vec![Profile { scheme: Scheme::Standard, header: None }])
    }
}

impl Profiles {
    /// The profile of that scheme, if the endpoint has it.
    pub fn get(&self, scheme: Scheme) -> Option<&Profile> {
        self.0.iter().find(|profile| profile.scheme == scheme)
    }

    /// Those that sign what no source took.
    pub fn own(&self) -> impl Iterator<Item = &Profile> {
        self.0.iter().filter(|profile| profile.scheme != Scheme::Source)
    }

    /// The lower-case names of all headers that the signatures take.
    pub fn headers(&self) -> Vec<String> {
        let mut names: Vec<_> = self.own().map(Profile::header).collect();
        if self.get(Scheme::TV1).is_some() {
            names.push("x-webhook-id".to_owned());
        }
        names
    }

    /// All that is wrong with the choice.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.0.is_empty() {
            problems.push(Problem::new(
                "signature",
                "no request goes unsigned; name at least one of standard, t-v1, sha256-hex, source",
            ));
        }
        for (index, profile) in self.0.iter().enumerate() {
            let name = profile.scheme.name();
            if self.0[..index].iter().any(|earlier| earlier.scheme == profile.scheme) {
                problems.push(Problem::new("signature", format_args!("{name} is given twice")));
                break;
            }
            if let Some(header) = &profile.header {
                problems.extend(header_problem(profile.scheme, header));
            }
        }
        let headers = self.headers();
        let twice = (1..headers.len()).find(|index| headers[..*index].contains(&headers[*index]));
        if let (Some(index), true) = (twice, problems.is_empty()) {
            let name = &headers[index];
            problems.push(Problem::new(
                "signature",
                format_args!("two signatures would use the header {name}; name another for one"),
            ));
        }
        problems
    }
}

fn header_problem(scheme: Scheme, header: &str) -> Option<Problem> {
    let problem = match scheme {
        Scheme::Standard => Some("the header of standard is always webhook-signature".to_owned()),
        Scheme::Source => Some("the headers of source are those of the provider".to_owned()),
        Scheme::TV1 | Scheme::Sha256Hex => name_problem(&header.to_ascii_lowercase(), &[]),
    };
    problem.map(|problem| Problem::new("signature.header", problem))
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let Some(header) = &self.header else {
            return self.scheme.serialize(serializer);
        };
        let mut object = serializer.serialize_struct("Profile", 2)?;
        object.serialize_field("profile", &self.scheme)?;
        object.serialize_field("header", header)?;
        object.end()
    }
}

/// One profile is written without its list.
impl Serialize for Profiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => only.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Profiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let profiles = match Value::deserialize(deserializer)? {
            Value::Array(several) => several.iter().map(read).collect::<Result<_, _>>(),
            one => read(&one).map(|profile| vec![profile]),
        };
        profiles.map(Self).map_err(D::Error::custom)
    }
}

/// Why a value is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ProfileError {
    #[error("{} is no signature profile; the profiles are standard, t-v1, sha256-hex, source", part_of(.0))]
    Unknown(Value),
    #[error("{} is no part of a signature profile; its parts are profile and header", shown(.0))]
    UnknownPart(String),
    #[error("the header of a signature profile is a name in quotes, not {}", part_of(.0))]
    Header(Value),
}

fn part_of(value: &Value) -> String {
    shorten(&value.to_string(), 80)
}

fn read(value: &Value) -> Result<Profile, ProfileError> {
    let unknown = || ProfileError::Unknown(value.clone());
    let named =
        |name: &Value| Scheme::ALL.into_iter().find(|scheme| name.as_str() == Some(scheme.name()));
    let Value::Object(parts) = value else {
        return Ok(Profile { scheme: named(value).ok_or_else(unknown)?, header: None });
    };
    if let Some(part) = parts.keys().find(|part| !matches!(part.as_str(), "profile" | "header")) {
        return Err(ProfileError::UnknownPart(part.clone()));
    }
    let scheme = parts.get("profile").and_then(named).ok_or_else(unknown)?;
    match parts.get("header") {
        None | Some(Value::Null) => Ok(Profile { scheme, header: None }),
        Some(Value::String(header)) => Ok(Profile { scheme, header: Some(header.clone()) }),
        Some(other) => Err(ProfileError::Header(other.clone())),
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (written, schemes) in [
            (json!("standard"), &[Scheme::Standard][..]),
            (json!(["standard", "t-v1"]), &[Scheme::Standard, Scheme::TV1]),
            (json!({"profile": "sha256-hex", "header": "X-My-Sig"}), &[Scheme::Sha256Hex]),
            (json!("source"), &[Scheme::Source]),
            (json!(["standard", "source"]), &[Scheme::Standard, Scheme::Source]),
            (
                json!(["t-v1", {"profile": "sha256-hex", "header": "X-My-Sig"}]),
                &[Scheme::TV1, Scheme::Sha256Hex],
            ),
        ] {
            let profiles: Profiles = serde_json::from_value(written.clone()).expect("a profile");
            assert!(profiles.0.iter().map(|profile| profile.scheme).eq(schemes.iter().copied()));
            assert_eq!(serde_json::to_value(&profiles).unwrap(), written);
            assert_eq!(profiles.problems(), []);
        }
    }

    #[test]
    fn an_error_names_the_value_and_the_choices() {
        for (written, expected) in [
            (json!("hmac"), "\"hmac\" is no signature profile"),
            (json!(5), "5 is no signature profile"),
            (json!({"header": "X"}), "the profiles are standard, t-v1, sha256-hex, source"),
            (json!({"profile": "t-v1", "name": "X"}), "\"name\" is no part"),
            (json!({"profile": "t-v1", "header": 5}), "not 5"),
        ] {
            let error = serde_json::from_value::<Profiles>(written.clone());
            let error = error.expect_err("no profile").to_string();
            assert!(error.contains(expected), "{written}: {error}");
        }
    }

    #[test]
    fn refuses_choices_that_cannot_be_sent() {
        for (written, expected) in [
            (json!([]), "no request goes unsigned"),
            (json!(["t-v1", "t-v1"]), "t-v1 is given twice"),
            (json!([{"profile": "standard", "header": "X"}]), "always webhook-signature"),
            (json!([{"profile": "source", "header": "X"}]), "those of the provider"),
            (json!([{"profile": "t-v1", "header": "Host"}]), "host cannot be set"),
            (json!([{"profile": "t-v1", "header": "a b"}]), "letters, digits and hyphens"),
            (
                json!([{"profile": "t-v1", "header": "X-Hub-Signature-256"}, "sha256-hex"]),
                "two signatures would use the header x-hub-signature-256",
            ),
        ] {
            let profiles: Profiles = serde_json::from_value(written.clone()).expect("readable");
            let problems = profiles.problems();
            assert_eq!(problems.len(), 1, "{written}: {problems:?}");
            assert!(problems[0].problem.contains(expected), "{written}: {problems:?}");
        }
    }
}
