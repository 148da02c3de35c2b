//! The signing half: from an id, a time, a body and secrets to the value of a header.
//!
//! The body is the very bytes that go on the wire; nothing may touch them afterwards. Which
//! headers carry the values is for the caller, who knows what the receiver expects.

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    received::Refusal,
    secret::{Key, Secret},
};

/// Why nothing was signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// No secret was given.
    #[error("there is no secret to sign with; create one for the endpoint")]
    NoSecret,
    /// A public key was given.
    #[error("a public key (whpk_) cannot sign; use the private key (whsk_) that belongs to it")]
    PublicKey,
    /// The scheme knows HMAC only.
    #[error("{0} signs with HMAC only, and no secret is of that kind; create a whsec_ secret")]
    NoHmacSecret(&'static str),
    /// What the provider gives out can verify alone.
    #[error("{0} gives out a public key, and with that nobody can sign")]
    PublicScheme(String),
    /// The proof goes into the body.
    #[error("the signature goes into the body, and the body is no JSON object to put it in")]
    NoJsonObject,
    /// Something that is signed is not there.
    #[error("{0}")]
    Request(#[from] Refusal),
}

/// The value of `webhook-signature` as Standard Webhooks has it: `v1,<base64>` for each HMAC
/// secret and `v1a,<base64>` for each Ed25519 key, in the order of `secrets`, with blanks between.
/// Give the newest secret first: some receivers look at the first entry only.
///
/// What is signed is `{id}.{timestamp}.{body}`, so `id` should have no dot in it.
pub fn sign_standard<'a>(
    id: &str,
    timestamp: i64,
    body: &[u8],
    secrets: impl IntoIterator<Item = &'a Secret>,
) -> Result<String, SignError> {
    let head = format!("{id}.{timestamp}.");
    let mut entries = Vec::new();
    for secret in secrets {
        entries.push(match secret.key() {
            Key::Hmac(key) => {
                let tag = tag(&hmac::Key::new(hmac::HMAC_SHA256, key), &[head.as_bytes(), body]);
                format!("v1,{}", BASE64_STANDARD.encode(tag))
            }
            Key::Private(pair) => {
                let signature = pair.sign(&[head.as_bytes(), body].concat());
                format!("v1a,{}", BASE64_STANDARD.encode(signature))
            }
            Key::Public(_) => return Err(SignError::PublicKey),
        });
    }
    if entries.is_empty() { Err(SignError::NoSecret) } else { Ok(entries.join(" ")) }
}

/// `t=<timestamp>,v1=<hex>`, one `v1` for each HMAC secret: HMAC-SHA256 of `{timestamp}.{body}`.
///
/// The key is the secret's *text*, prefix and all, unlike in [`sign_standard`]: that is how
/// Stripe's own libraries verify, and receivers that were written for them go on working.
/// Ed25519 keys are passed over.
pub fn sign_t_v1<'a>(
    timestamp: i64,
    body: &[u8],
    secrets: impl IntoIterator<Item = &'a Secret>,
) -> Result<String, SignError> {
    let head = format!("{timestamp}.");
    let mut value = format!("t={timestamp}");
    let bare = value.len();
    for key in secrets.into_iter().filter_map(text_key) {
        value.push_str(",v1=");
        value.push_str(&hex::encode(tag(&key, &[head.as_bytes(), body])));
    }
    if value.len() == bare { Err(SignError::NoHmacSecret("t-v1")) } else { Ok(value) }
}

/// `sha256=<hex>`: HMAC-SHA256 of the body, keyed with the secret's text, as GitHub does it.
///
/// The form has room for one signature, so the *first* HMAC secret signs; give the newest first.
/// During a rotation, receivers must therefore know the new secret before it is made live.
/// Neither id nor time is signed: prefer another scheme where there is a choice.
pub fn sign_sha256_hex<'a>(
    body: &[u8],
    secrets: impl IntoIterator<Item = &'a Secret>,
) -> Result<String, SignError> {
    let key =
        secrets.into_iter().find_map(text_key).ok_or(SignError::NoHmacSecret("sha256-hex"))?;
    Ok(format!("sha256={}", hex::encode(tag(&key, &[body]))))
}

fn text_key(secret: &Secret) -> Option<hmac::Key> {
    let is_hmac = matches!(secret.key(), Key::Hmac(_));
    is_hmac.then(|| hmac::Key::new(hmac::HMAC_SHA256, secret.text().as_bytes()))
}

/// The HMAC of the parts one after another, without joining them in memory.
pub(crate) fn tag(key: &hmac::Key, parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX").unwrap()
    }

    /// Values that were computed elsewhere: a round trip with our own verifier would prove little.
    #[test]
    fn known_answers() {
        for (body, expected, why) in [
            (
                &b"{\"a\": 1.0,  \"b\":\"x\"}"[..],
                "v1,uF/CWGM5/DW0VURRoFfkAJdA6acPFtnlq2msELhO6/g=",
                "the key is the decoded bytes, not the text",
            ),
            (b"", "v1,66IolnAb9z3gvyhTfUsqY0AzTSucUaYdzGRMNf9QxiE=", "an empty body is a body"),
        ] {
            let signed = sign_standard("msg_p001", 1_700_000_000, body, [&secret()]);
            assert_eq!(signed.as_deref(), Ok(expected), "{why}");
        }
    }

    #[test]
    fn every_secret_signs_in_its_order() {
        let (new, old) = (secret(), Secret::new_hmac(&[1; 32]));
        let pair = Secret::new_ed25519(&[2; 32]);

        let signed = sign_standard("a", 1, b"x", [&new, &old, &pair]).unwrap();

        let alone = |secret| sign_standard("a", 1, b"x", [secret]).unwrap();
        assert_eq!(signed, format!("{} {} {}", alone(&new), alone(&old), alone(&pair)));
        let both = sign_t_v1(1, b"x", [&new, &pair, &old]).unwrap();
        assert_eq!(both.matches(",v1=").count(), 2, "{both}");
        let newest = sign_sha256_hex(b"x", [&pair, &new, &old]).unwrap();
        assert_eq!(newest, sign_sha256_hex(b"x", [&new]).unwrap());
    }

    #[test]
    fn nothing_goes_unsigned() {
        let private = Secret::new_ed25519(&[2; 32]);
        let public = Secret::parse(&private.public_text().unwrap()).unwrap();
        let none: [&Secret; 0] = [];
        assert_eq!(sign_standard("a", 1, b"", none), Err(SignError::NoSecret));
        assert_eq!(sign_standard("a", 1, b"", [&public]), Err(SignError::PublicKey));
        assert_eq!(sign_t_v1(1, b"", [&private]), Err(SignError::NoHmacSecret("t-v1")));
        assert_eq!(sign_sha256_hex(b"", [&private]), Err(SignError::NoHmacSecret("sha256-hex")));
    }
}
