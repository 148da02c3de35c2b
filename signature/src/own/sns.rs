//! Amazon SNS: named fields of the message, by RSA, with a certificate that the message names.
//!
//! Any customer of Amazon can have SNS sign: what makes a message yours is its topic. So the
//! secret is the topic's ARN, or a certificate to pin besides.

use serde::Deserialize;

use crate::{
    certificate::{Certificate, https},
    credential::Key,
    received::{Received, Refusal, Step},
    scheme::Encoding,
    time::Unit,
    verifier::{Fetched, Need, Proven, Verifier},
};

/// A message, as far as it is signed. A field that is there twice is an error, so that nobody can
/// sign one and be read by the other.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "MessageId")]
    id: String,
    #[serde(rename = "TopicArn")]
    topic: String,
    #[serde(rename = "Subject")]
    subject: Option<String>,
    #[serde(rename = "Message")]
    text: String,
    #[serde(rename = "Timestamp")]
    timestamp: String,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
    #[serde(rename = "Token")]
    token: Option<String>,
    #[serde(rename = "SignatureVersion")]
    version: String,
    #[serde(rename = "Signature")]
    signature: String,
    #[serde(rename = "SigningCertURL")]
    certificate_url: String,
}

fn wrong(part: &str, problem: &'static str) -> Refusal {
    Refusal::malformed(Step::Body, part, problem)
}

fn message(request: &Received<'_>) -> Result<Message, Refusal> {
    let message: Message = serde_json::from_slice(request.body())
        .map_err(|_| wrong("the body", "is no message of SNS, or lacks a field of one"))?;
    let ours = https(&message.certificate_url).is_some_and(|(host, path)| {
        // A query would make many URLs of one certificate.
        is_ours(host) && path.to_ascii_lowercase().ends_with(".pem") && !path.contains(['?', '#'])
    });
    if ours {
        Ok(message)
    } else {
        Err(Refusal::malformed(Step::Key, "SigningCertURL", "is none of SNS's"))
    }
}

/// `sns.<region>.amazonaws.com`, or `.com.cn`.
fn is_ours(host: &str) -> bool {
    let region = host.strip_prefix("sns.").and_then(|rest| {
        rest.strip_suffix(".amazonaws.com").or_else(|| rest.strip_suffix(".amazonaws.com.cn"))
    });
    region.is_some_and(|region| {
        region.len() >= 3 && region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

/// Whether nothing but SNS answers there.
pub(crate) fn is_url_of_ours(url: &str) -> bool {
    https(url).is_some_and(|(host, _)| is_ours(host))
}

/// Names in certificates: the older ones have no region.
fn is_name_of_ours(name: &str) -> bool {
    name == "sns.amazonaws.com" || is_ours(name)
}

pub(crate) fn is_unpinned(verifier: &Verifier) -> bool {
    verifier.credentials.iter().all(|credential| matches!(credential.key, Key::Topic))
}

/// A message of another topic is refused before anything is fetched for it.
pub(crate) fn need(verifier: &Verifier, request: &Received<'_>) -> Result<Need, Refusal> {
    let message = message(request)?;
    if !is_wanted(verifier, &message) {
        return Err(Refusal::bad_signature("TopicArn", ANOTHER_TOPIC));
    }
    Ok(Need::Certificate(message.certificate_url))
}

const ANOTHER_TOPIC: &str = "it is another topic's";

/// Whether it is of one of our topics, if any is named.
fn is_wanted(verifier: &Verifier, message: &Message) -> bool {
    let mut topics = verifier.credentials.iter().filter(|c| matches!(c.key, Key::Topic)).peekable();
    topics.peek().is_none() || topics.any(|topic| *topic.text == message.topic)
}

pub(crate) fn prove(
    verifier: &Verifier,
    request: &Received<'_>,
    now: i64,
    fetched: Option<&Fetched>,
) -> Result<Proven, Refusal> {
    let message = message(request)?;
    let signed = message.signed()?;
    let sha1 = match &*message.version {
        "1" => true,
        "2" => false,
        _ => return Err(wrong("SignatureVersion", "is neither 1 nor 2")),
    };
    let given = Encoding::Base64
        .read(&message.signature)
        .ok_or_else(|| wrong("Signature", "is not base64"))?;
    let sent = Unit::Rfc3339
        .parse(&message.timestamp)
        .ok_or_else(|| Refusal::malformed(Step::Timestamp, "Timestamp", Unit::Rfc3339.name()))?;
    let genuine = |certificate: &Certificate| {
        certificate.is_for(is_name_of_ours, now)
            && if sha1 {
                certificate.verify_sha1(signed.as_bytes(), &given)
            } else {
                certificate.verify_sha256(signed.as_bytes(), &given)
            }
    };
    if is_unpinned(verifier) && fetched.is_none() {
        return Err(Refusal::malformed(Step::Key, "the certificate", "was not fetched"));
    }
    let fetched = match fetched {
        Some(Fetched::Certificate(certificate)) => genuine(certificate),
        _ => false,
    };
    let wanted = is_wanted(verifier, &message);
    let matches = |key: &Key| match key {
        Key::Certificate(pinned) => genuine(pinned),
        Key::Topic => fetched,
        _ => false,
    };
    let secret = verifier.credentials.iter().position(|credential| matches(&credential.key));
    match secret {
        Some(_) if !wanted => Err(Refusal::bad_signature("TopicArn", ANOTHER_TOPIC)),
        Some(secret) => Ok(Proven { sent: Some(sent), ..Proven::by(secret) }),
        None => Err(Refusal::bad_signature("Signature", "check the certificate, and the body")),
    }
}

impl Message {
    /// Name and value of each field on lines of their own, in the order of their names.
    fn signed(&self) -> Result<String, Refusal> {
        let mut fields = vec![("Message", &*self.text), ("MessageId", &*self.id)];
        let needed = |name: &'static str, value: &'_ Option<String>| {
            value.is_some().then_some(()).ok_or_else(|| wrong(name, "is missing"))
        };
        match &*self.kind {
            "Notification" => {
                fields.extend(self.subject.as_deref().map(|subject| ("Subject", subject)));
                fields.push(("Timestamp", &self.timestamp));
            }
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => {
                needed("SubscribeURL", &self.subscribe_url)?;
                needed("Token", &self.token)?;
                fields.extend(self.subscribe_url.as_deref().map(|url| ("SubscribeURL", url)));
                fields.push(("Timestamp", &self.timestamp));
                fields.extend(self.token.as_deref().map(|token| ("Token", token)));
            }
            _ => return Err(wrong("Type", "is no type of message that SNS has")),
        }
        fields.extend([("TopicArn", &*self.topic), ("Type", &*self.kind)]);
        Ok(fields.into_iter().flat_map(|(name, value)| [name, "\n", value, "\n"]).collect())
    }
}
