//! Secrets: what signatures are made and checked with.
//!
//! A [`Secret`] has been checked, so that no wrong shape waits for the first delivery to fail.
//! It prints nothing and is wiped from memory when it is dropped; its text leaves through
//! [`Secret::text`] alone. Chance is an argument: this crate has none of its own.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    digest,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use zeroize::Zeroizing;

use crate::compare::same;

const HMAC_PREFIX: &str = "whsec_";
const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";

/// Bytes of an HMAC key, as the Standard Webhooks specification asks.
pub const HMAC_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Bytes of an Ed25519 seed, and of a public key (RFC 8032, 5.1.5).
pub const ED25519_BYTES: usize = 32;

/// No secret is longer: a prefix and the base64 of 64 bytes have 94 characters.
const TEXT_BYTES_MAX: usize = 256;

/// Dashboards trim padding, so it may be missing. Nothing else is forgiven.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a secret is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `whsec_`: signs and verifies.
    Hmac,
    /// `whsk_`: an Ed25519 private key; signs, and verifies by its public half.
    Ed25519,
    /// `whpk_`: an Ed25519 public key; verifies only.
    Ed25519Public,
}

/// A checked secret of Standard Webhooks.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    key: Key,
}

#[derive(Clone)]
pub(crate) enum Key {
    /// The decoded bytes. What the hash makes of them is a kilobyte, and made in a microsecond.
    Hmac(Zeroizing<Vec<u8>>),
    Private(Arc<Ed25519KeyPair>),
    Public([u8; ED25519_BYTES]),
}

/// Why a text is no secret. No message holds any of the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It does not begin as a secret does.
    #[error(
        "it is no secret; write one that begins with whsec_ (HMAC), whsk_ (Ed25519 private key) or whpk_ (Ed25519 public key)"
    )]
    UnknownPrefix,
    /// `v1,whsec_…`, as some dashboards show it.
    #[error("the secret begins with {0:?}; leave that out and begin with {1}")]
    VersionPrefix(&'static str, &'static str),
    /// A blank or a line break, mostly from copying.
    #[error("the secret has white space in it or around it; remove it")]
    WhiteSpace,
    /// Characters of the URL alphabet.
    #[error("the secret is in the URL alphabet of base64; write + for - and / for _")]
    UrlAlphabet,
    /// Anything else that is not base64.
    #[error("what follows {0} is not base64; copy the secret again, whole")]
    NotBase64(&'static str),
    /// The right form, the wrong size.
    #[error("the secret holds {bytes} bytes after {prefix}; it must hold {expected}")]
    Length {
        /// How it begins.
        prefix: &'static str,
        /// Bytes after decoding.
        bytes: usize,
        /// What is right.
        expected: &'static str,
    },
    /// A private key whose second half is not its public key.
    #[error("the two halves of the private key do not belong together; copy the secret again")]
    Mismatch,
    /// A key for Ed25519, where one for HMAC is needed.
    #[error("the secret is a key for Ed25519; this scheme takes one for HMAC, whsec_…")]
    NotHmac,
    /// So long that it cannot be one.
    #[error("the secret has {0} characters; none has more than 256")]
    TooLong(usize),
}

impl Secret {
    /// Reads a secret: `whsec_` and the base64 of 24 to 64 bytes; `whsk_` and that of an Ed25519
    /// private key (32 bytes of seed, or 64 bytes of seed and public key); `whpk_` and that of a
    /// public key. Padding may be missing.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(SecretError::TooLong(text.len()));
        }
        if text.contains(char::is_whitespace) {
            return Err(SecretError::WhiteSpace);
        }
        let key = if let Some(rest) = text.strip_prefix(HMAC_PREFIX) {
            hmac_key(decode(rest, HMAC_PREFIX)?)?
        } else if let Some(rest) = text.strip_prefix(PRIVATE_PREFIX) {
            private_key(&decode(rest, PRIVATE_PREFIX)?)?
        } else if let Some(rest) = text.strip_prefix(PUBLIC_PREFIX) {
            public_key(&decode(rest, PUBLIC_PREFIX)?)?
        } else {
            return Err(wrong_prefix(text));
        };
        Ok(Self { text: Zeroizing::new(text.to_owned()), key })
    }

    /// As [`parse`](Self::parse), for verifying what others sent: a secret that was pasted
    /// without its prefix is taken as one for HMAC.
    pub fn parse_pasted(text: &str) -> Result<Self, SecretError> {
        match Self::parse(text) {
            Err(SecretError::UnknownPrefix) => {
                let key = hmac_key(decode(text, HMAC_PREFIX)?)?;
                Ok(Self { text: Zeroizing::new(format!("{HMAC_PREFIX}{text}")), key })
            }
            result => result,
        }
    }

    /// A new secret for HMAC. The bytes must be unpredictable and used for nothing else.
    pub fn new_hmac(random: &[u8; 32]) -> Self {
        let text = Zeroizing::new(format!("{HMAC_PREFIX}{}", BASE64_STANDARD.encode(random)));
        Self { text, key: Key::Hmac(Zeroizing::new(random.to_vec())) }
    }

    /// A new Ed25519 private key, written in the form of 64 bytes: the seed, then the public key.
    /// The seed must be unpredictable and used for nothing else.
    pub fn new_ed25519(seed: &[u8; ED25519_BYTES]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed");
        let mut both = Zeroizing::new([0; 2 * ED25519_BYTES]);
        both[..ED25519_BYTES].copy_from_slice(seed);
        both[ED25519_BYTES..].copy_from_slice(pair.public_key().as_ref());
        let text = Zeroizing::new(format!("{PRIVATE_PREFIX}{}", BASE64_STANDARD.encode(*both)));
        Self { text, key: Key::Private(Arc::new(pair)) }
    }

    /// The secret itself, as it was given. For the one who may see it, and for storing it sealed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is made for.
    pub fn kind(&self) -> Kind {
        match self.key {
            Key::Hmac(_) => Kind::Hmac,
            Key::Private(_) => Kind::Ed25519,
            Key::Public(_) => Kind::Ed25519Public,
        }
    }

    /// `whpk_…` of an Ed25519 key, which a receiver needs and anyone may see; `None` for HMAC.
    pub fn public_text(&self) -> Option<String> {
        let public = self.public_key()?;
        Some(format!("{PUBLIC_PREFIX}{}", BASE64_STANDARD.encode(public)))
    }

    /// Whether both sign alike, however each is written: base64 may lack its padding, and a private
    /// key its public half. Takes no longer for keys that are nearly the same.
    pub fn is_same_key(&self, other: &Self) -> bool {
        match (&self.key, &other.key) {
            (Key::Hmac(own), Key::Hmac(others)) => same(own, others),
            (Key::Hmac(_), _) | (_, Key::Hmac(_)) => false,
            _ => self.kind() == other.kind() && self.public_key() == other.public_key(),
        }
    }

    /// The first 8 hexadecimal digits of the SHA-256 of its text: enough to tell two secrets
    /// apart in a message, and no help in guessing either.
    pub fn fingerprint(&self) -> String {
        hex::encode(&digest::digest(&digest::SHA256, self.text.as_bytes()).as_ref()[..4])
    }

    pub(crate) fn pair(&self) -> Option<Arc<Ed25519KeyPair>> {
        match &self.key {
            Key::Private(pair) => Some(Arc::clone(pair)),
            _ => None,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn public_key(&self) -> Option<&[u8]> {
        match &self.key {
            Key::Hmac(_) => None,
            Key::Private(pair) => Some(pair.public_key().as_ref()),
            Key::Public(bytes) => Some(bytes),
        }
    }
}

/// Prints nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.kind())
    }
}

/// The bytes of a secret for HMAC as it was pasted.
pub(crate) fn pasted_hmac(text: &str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    match Secret::parse_pasted(text)?.key {
        Key::Hmac(bytes) => Ok(bytes),
        _ => Err(SecretError::NotHmac),
    }
}

fn wrong_prefix(text: &str) -> SecretError {
    for version in ["v1,", "v1a,"] {
        for prefix in [HMAC_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX] {
            if text.strip_prefix(version).is_some_and(|rest| rest.starts_with(prefix)) {
                return SecretError::VersionPrefix(version, prefix);
            }
        }
    }
    SecretError::UnknownPrefix
}

fn decode(text: &str, prefix: &'static str) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let bytes = BASE64.decode(text).map_err(|_| {
        if text.contains(['-', '_']) {
            SecretError::UrlAlphabet
        } else {
            SecretError::NotBase64(prefix)
        }
    });
    bytes.map(Zeroizing::new)
}

fn hmac_key(bytes: Zeroizing<Vec<u8>>) -> Result<Key, SecretError> {
    if !HMAC_BYTES.contains(&bytes.len()) {
        let (prefix, bytes) = (HMAC_PREFIX, bytes.len());
        return Err(SecretError::Length { prefix, bytes, expected: "24 to 64" });
    }
    Ok(Key::Hmac(bytes))
}

fn private_key(bytes: &[u8]) -> Result<Key, SecretError> {
    let pair = match bytes.len() {
        ED25519_BYTES => Ed25519KeyPair::from_seed_unchecked(bytes),
        64 => {
            let (seed, public) = bytes.split_at(ED25519_BYTES);
            Ed25519KeyPair::from_seed_and_public_key(seed, public)
        }
        bytes => {
            let expected = "32 (the seed) or 64 (seed and public key)";
            return Err(SecretError::Length { prefix: PRIVATE_PREFIX, bytes, expected });
        }
    };
    pair.map(|pair| Key::Private(Arc::new(pair))).map_err(|_| SecretError::Mismatch)
}

fn public_key(bytes: &[u8]) -> Result<Key, SecretError> {
    let key = bytes.try_into().map_err(|_| SecretError::Length {
        prefix: PUBLIC_PREFIX,
        bytes: bytes.len(),
        expected: "32",
    })?;
    Ok(Key::Public(key))
}

#[cfg(test)]
mod tests;
