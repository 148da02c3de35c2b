//! Secrets as providers show them, checked for their form when they are set up, so that no wrong
//! one waits for the first request to be refused. No message holds any of a secret.

use std::sync::Arc;

use aws_lc_rs::{
    digest, hmac,
    signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, Ed25519KeyPair, ParsedPublicKey},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{
    certificate::Certificate,
    scheme::{Own, Proof, Scheme},
    secret::{self, Secret, SecretError},
};

/// A secret in the form of its text. The longest, a chain of certificates, has a few thousand.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// What the text of a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Utf8,
    Hex,
    Whsec,
    Whpk,
    HexEd25519,
    SpkiBase64,
    Jwk,
    /// A key as JSON, or the secret of the API that gives keys.
    Plaid,
}

/// A checked secret of a scheme.
pub(crate) struct Credential {
    pub(crate) text: Zeroizing<String>,
    pub(crate) key: Key,
}

pub(crate) enum Key {
    Mac(Box<hmac::Key>),
    /// The text alone.
    Text,
    Ed25519 {
        public: Vec<u8>,
        pair: Option<Arc<Ed25519KeyPair>>,
    },
    P256(P256),
    Certificate(Certificate),
    /// The topic that messages must be of.
    Topic,
}

/// A public key of ECDSA, with the name that its owner gave it.
pub(crate) struct P256 {
    pub(crate) key: ParsedPublicKey,
    pub(crate) kid: Option<String>,
}

/// Why a secret, or the key that goes with it, is not one of this scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The wrong shape.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// The wrong shape, for a scheme with secrets of its own form.
    #[error("{0}")]
    Form(String),
    /// None was given, and one is needed.
    #[error("{scheme} needs a secret: {what}")]
    Missing {
        /// The scheme.
        scheme: String,
        /// What to give.
        what: &'static str,
    },
    /// The second part of the credential is needed, or is wrong.
    #[error("{scheme} needs a public key: {what}")]
    PublicKey {
        /// The scheme.
        scheme: String,
        /// What to give.
        what: &'static str,
    },
    /// More secrets than could be of use.
    #[error("{0} secrets are too many; give those that are live, at most 16")]
    TooMany(usize),
}

fn form<T>(problem: impl Into<String>) -> Result<T, CredentialError> {
    Err(CredentialError::Form(problem.into()))
}

impl Credential {
    /// Reads a secret as the scheme's provider shows it.
    pub(crate) fn parse(scheme: &Scheme, text: &str) -> Result<Self, CredentialError> {
        if text.is_empty() {
            return form("the secret is empty; with an empty key anyone could sign");
        }
        if text.len() > TEXT_BYTES_MAX {
            return form(format!("the secret has {} bytes; none has more than 16384", text.len()));
        }
        let key = match &scheme.proof {
            Proof::Own(own) => own_key(*own, text)?,
            Proof::Hmac(algorithm, _) => Key::Mac(Box::new(mac_key(*algorithm, scheme.key, text)?)),
            Proof::Jwt(_) if scheme.key == KeyForm::Plaid && !text.starts_with('{') => {
                plain(text)?;
                Key::Text
            }
            Proof::Jwt(_) if matches!(scheme.key, KeyForm::Jwk | KeyForm::Plaid) => {
                Key::P256(jwk(text)?)
            }
            Proof::Jwt(_) => Key::Mac(Box::new(mac_key(hmac::HMAC_SHA256, scheme.key, text)?)),
            Proof::Ed25519(_) => ed25519(scheme.key, text)?,
            Proof::Ecdsa(_) => Key::P256(spki(text)?),
            Proof::Basic if !text.contains(':') => {
                return form("the secret is a name and a password with a colon between them");
            }
            Proof::Digest(..) | Proof::Token | Proof::Basic => {
                plain(text)?;
                Key::Text
            }
        };
        Ok(Self { text: Zeroizing::new(text.to_owned()), key })
    }
}

/// A text that is used as it stands: nothing that came along when it was copied.
fn plain(text: &str) -> Result<(), CredentialError> {
    if text.trim() != text || text.contains(['\n', '\r', '\0']) {
        return form("the secret has white space around it or a line break in it; remove it");
    }
    for version in ["v1,", "v1a,"] {
        if text.strip_prefix(version).is_some_and(|rest| rest.starts_with("wh")) {
            return form(format!("the secret begins with {version:?}; leave that out"));
        }
    }
    Ok(())
}

fn mac_key(
    algorithm: hmac::Algorithm,
    form: KeyForm,
    text: &str,
) -> Result<hmac::Key, CredentialError> {
    Ok(match form {
        KeyForm::Whsec => hmac::Key::new(algorithm, &secret::pasted_hmac(text)?),
        KeyForm::Hex => hmac::Key::new(algorithm, &hex_bytes(text)?),
        _ => {
            plain(text)?;
            hmac::Key::new(algorithm, text.as_bytes())
        }
    })
}

fn hex_bytes(text: &str) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    match hex::decode(text) {
        Ok(bytes) => Ok(Zeroizing::new(bytes)),
        Err(hex::FromHexError::OddLength) => form(format!(
            "the secret has {} hexadecimal digits, an odd number; copy it again, whole",
            text.len()
        )),
        Err(_) => form("the secret must be hexadecimal digits, 0-9 and a-f, and nothing else"),
    }
}

fn ed25519(key: KeyForm, text: &str) -> Result<Key, CredentialError> {
    if key == KeyForm::Whpk || text.starts_with("whsk_") || text.starts_with("whpk_") {
        let secret = Secret::parse(text)?;
        let Some(public) = secret.public_key() else {
            return form(
                "the secret is one for HMAC; this scheme takes whpk_, an Ed25519 public key",
            );
        };
        return Ok(Key::Ed25519 { public: public.to_vec(), pair: secret.pair() });
    }
    let public = hex_bytes(text)?;
    if public.len() != secret::ED25519_BYTES {
        return form(format!(
            "the public key has {} hexadecimal digits; it must have 64",
            text.len()
        ));
    }
    Ok(Key::Ed25519 { public: public.to_vec(), pair: None })
}

/// What a P-256 public key begins with as `SubjectPublicKeyInfo` (RFC 5480, 2): the curve's name.
/// The point follows.
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

fn spki(text: &str) -> Result<P256, CredentialError> {
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let text: String = lines.collect::<String>().split_whitespace().collect();
    let Ok(bytes) = BASE64_STANDARD.decode(text) else {
        return form("the verification key is not base64; copy it again, whole");
    };
    let key = bytes
        .strip_prefix(&P256_SPKI)
        .and_then(|point| ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).ok());
    match key {
        Some(key) => Ok(P256 { key, kid: None }),
        None => {
            form("the verification key is no public key of ECDSA with P-256; copy it again, whole")
        }
    }
}

/// Reads a public key as JSON Web Keys have it (RFC 7517).
pub(crate) fn jwk(text: &str) -> Result<P256, CredentialError> {
    #[derive(Deserialize)]
    struct Jwk {
        kty: String,
        crv: String,
        kid: Option<String>,
        x: String,
        y: String,
    }
    let Ok(jwk) = serde_json::from_str::<Jwk>(text) else {
        return form(
            "the key is no JSON Web Key; it looks like {\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":…,\"y\":…}",
        );
    };
    let coordinate =
        |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|b| b.len() == 32);
    let key = match (&*jwk.kty, &*jwk.crv, coordinate(&jwk.x), coordinate(&jwk.y)) {
        ("EC", "P-256", Some(x), Some(y)) => {
            ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, [&[4], &*x, &*y].concat()).ok()
        }
        _ => None,
    };
    match key {
        Some(key) => Ok(P256 { key, kid: jwk.kid }),
        None => form("the JSON Web Key is no public key of EC with P-256"),
    }
}

fn own_key(own: Own, text: &str) -> Result<Key, CredentialError> {
    if own == Own::Sns && !text.starts_with("-----BEGIN") {
        plain(text)?;
        if !text.starts_with("arn:") {
            return form("give the topic's ARN, arn:aws:sns:…, or the certificate as PEM");
        }
        return Ok(Key::Topic);
    }
    Ok(match own {
        Own::Sns => Key::Certificate(Certificate::parse(text)?),
        Own::Adyen => mac(hmac::HMAC_SHA256, &hex_bytes(text)?),
        Own::Braintree => {
            plain(text)?;
            let key = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
            mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_ref())
        }
        Own::Contentful => {
            plain(text)?;
            mac(hmac::HMAC_SHA256, text.as_bytes())
        }
        Own::Twilio | Own::Paypal => {
            plain(text)?;
            Key::Text
        }
    })
}

fn mac(algorithm: hmac::Algorithm, key: &[u8]) -> Key {
    Key::Mac(Box::new(hmac::Key::new(algorithm, key)))
}
