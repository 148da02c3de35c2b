//! Secrets at rest: sealed with AES-256-GCM under the master key, so that a copy of the database
//! alone gives nothing away.
//!
//! A sealed value is `version (1) ‖ key id (8) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. Its place in
//! the database is bound in: moved to another row or tenant, it does not open. Nonces are random,
//! which is safe for 2³² values under one key (NIST SP 800-38D, 8.3); we seal thousands.

use std::fmt;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    digest,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use zeroize::Zeroizing;

use crate::domain::{
    id::{EndpointId, SecretId, SourceId},
    tenant::TenantId,
};

const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES;
const TAG_BYTES: usize = 16;

/// Bytes of a master key: AES-256.
pub const MASTER_KEY_BYTES: usize = 32;

/// Which master key sealed a value: the first 8 bytes of the key's SHA-256. Shown in messages; it
/// gives nothing of the key away.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; KEY_ID_BYTES]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A key that seals secrets. `Debug` shows its id alone.
#[derive(Debug)]
pub struct MasterKey {
    id: KeyId,
    key: RandomizedNonceKey,
}

/// Why a text is no master key. No message holds any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyError {
    /// Neither base64 nor hexadecimal.
    #[error(
        "the master key is neither base64 nor hexadecimal; make one with `openssl rand -base64 32`"
    )]
    Unreadable,
    /// Readable, but of another size.
    #[error(
        "the master key holds {0} bytes and must hold 32; make one with `openssl rand -base64 32`"
    )]
    Length(usize),
    /// The same byte all over.
    #[error("the master key is not random; make one with `openssl rand -base64 32`")]
    NotRandom,
}

impl MasterKey {
    /// Reads 32 bytes in base64 (either alphabet, padded or not) or in hexadecimal. White space
    /// around is taken off, since files end in a line break.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let text = text.trim();
        let bare = text.trim_end_matches('=');
        let readings = [
            hex::decode(text).ok(),
            STANDARD_NO_PAD.decode(bare).ok(),
            URL_SAFE_NO_PAD.decode(bare).ok(),
        ];
        let readings: Vec<_> = readings.into_iter().flatten().map(Zeroizing::new).collect();
        let right = readings.iter().find(|bytes| bytes.len() == MASTER_KEY_BYTES);
        Self::new(right.or(readings.first()).ok_or(MasterKeyError::Unreadable)?)
    }

    fn new(bytes: &[u8]) -> Result<Self, MasterKeyError> {
        if bytes.len() != MASTER_KEY_BYTES {
            return Err(MasterKeyError::Length(bytes.len()));
        }
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(MasterKeyError::NotRandom);
        }
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest::digest(&digest::SHA256, bytes).as_ref()[..KEY_ID_BYTES]);
        let key = RandomizedNonceKey::new(&AES_256_GCM, bytes)
            .map_err(|_| MasterKeyError::Length(bytes.len()))?;
        Ok(Self { id: KeyId(id), key })
    }

    /// Which key it is.
    pub fn id(&self) -> KeyId {
        self.id
    }
}

/// Where a sealed value lives. It opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The table, and the column if it has several.
    pub table: &'static str,
    /// The tenant that the row belongs to.
    pub tenant: &'a str,
    /// The row's id.
    pub row: i64,
}

impl<'a> Place<'a> {
    /// Where an endpoint's header values and private key live.
    pub fn of_endpoint(tenant: &'a TenantId, endpoint: EndpointId) -> Self {
        Self { table: "endpoints", tenant: tenant.as_str(), row: endpoint.0 }
    }

    /// Where a secret's text lives.
    pub fn of_secret(tenant: &'a TenantId, secret: SecretId) -> Self {
        Self { table: "secrets", tenant: tenant.as_str(), row: secret.0 }
    }

    /// Where a source's verify token lives.
    pub fn of_source(tenant: &'a TenantId, source: SourceId) -> Self {
        Self { table: "sources", tenant: tenant.as_str(), row: source.0 }
    }

    /// Where the text of a source's secret lives.
    pub fn of_source_secret(tenant: &'a TenantId, secret: SecretId) -> Self {
        Self { table: "source_secrets", tenant: tenant.as_str(), row: secret.0 }
    }
}

impl Place<'_> {
    /// One text for one place: neither tables nor tenants have a zero byte in their names.
    fn bound(&self, head: &[u8]) -> Aad<Vec<u8>> {
        let row = self.row.to_be_bytes();
        Aad::from(
            [head, self.table.as_bytes(), b"\0", self.tenant.as_bytes(), b"\0", &row].concat(),
        )
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of {} (tenant {})", self.row, self.table, self.tenant)
    }
}

/// Why a sealed value does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Sealed with a key that we were not given.
    #[error(
        "{place} is sealed with master key {key}, which is not configured (the current one is \
         {current}); add that key to master_keys_old, then run `snaphook secrets reseal`"
    )]
    UnknownKey {
        /// Which row.
        place: String,
        /// The key that it needs.
        key: KeyId,
        /// The key that we seal with.
        current: KeyId,
    },
    /// The key is right, the value is not.
    #[error(
        "{place} does not open with its master key {key}: it was changed, or copied from another row"
    )]
    Refused {
        /// Which row.
        place: String,
        /// The key that it names.
        key: KeyId,
    },
    /// Not in the form of a sealed value.
    #[error("{place} holds {bytes} bytes that are no sealed value of a version we know")]
    Malformed {
        /// Which row.
        place: String,
        /// How many bytes there are.
        bytes: usize,
    },
}

/// The master key that seals, and earlier ones that still open.
#[derive(Debug)]
pub struct Keyring {
    current: MasterKey,
    older: Vec<MasterKey>,
}

impl Keyring {
    /// `current` seals; all of them open.
    pub fn new(current: MasterKey, older: Vec<MasterKey>) -> Self {
        Self { current, older }
    }

    /// The key that seals.
    pub fn current(&self) -> KeyId {
        self.current.id
    }

    /// Seals `plain` for its place. Two calls give two different values.
    pub fn seal(&self, plain: &[u8], place: Place<'_>) -> Vec<u8> {
        let mut head = vec![VERSION];
        head.extend(self.current.id.0);
        let mut sealed = plain.to_vec();
        let nonce = self
            .current
            .key
            .seal_in_place_append_tag(place.bound(&head), &mut sealed)
            .expect("the system gives random bytes, and a secret is far under 64 GiB");
        [&head[..], nonce.as_ref(), &sealed].concat()
    }

    /// Opens what was sealed for this very place.
    pub fn open(&self, sealed: &[u8], place: Place<'_>) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let id = key_id(sealed).ok_or_else(|| SealError::Malformed {
            place: place.to_string(),
            bytes: sealed.len(),
        })?;
        let key = std::iter::once(&self.current).chain(&self.older).find(|key| key.id == id);
        let key = key.ok_or_else(|| SealError::UnknownKey {
            place: place.to_string(),
            key: id,
            current: self.current.id,
        })?;
        let refused = |_| SealError::Refused { place: place.to_string(), key: id };
        let (head, rest) = sealed.split_at(1 + KEY_ID_BYTES);
        let (nonce, ciphertext) = rest.split_at(NONCE_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(refused)?;
        let mut plain = Zeroizing::new(ciphertext.to_vec());
        let length =
            key.key.open_in_place(nonce, place.bound(head), &mut plain).map_err(refused)?.len();
        plain.truncate(length);
        Ok(plain)
    }

    /// The same value sealed with the current key; `None` if it is already.
    pub fn reseal(&self, sealed: &[u8], place: Place<'_>) -> Result<Option<Vec<u8>>, SealError> {
        if key_id(sealed) == Some(self.current.id) {
            return Ok(None);
        }
        let plain = self.open(sealed, place)?;
        Ok(Some(self.seal(&plain, place)))
    }
}

/// The key that a value names, if it has the form of a sealed value.
fn key_id(sealed: &[u8]) -> Option<KeyId> {
    if sealed.len() < HEAD_BYTES + TAG_BYTES || sealed[0] != VERSION {
        return None;
    }
    sealed[1..=KEY_ID_BYTES].try_into().ok().map(KeyId)
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place<'_> = Place { table: "secrets", tenant: "acme", row: 7 };

    fn key(first: u8) -> MasterKey {
        let bytes: Vec<u8> = (first..).take(32).collect();
        MasterKey::parse(&BASE64_STANDARD.encode(bytes)).unwrap()
    }

    #[test]
    fn opens_what_it_sealed_in_that_place_only() {
        let keyring = Keyring::new(key(1), vec![]);
        let sealed = keyring.seal(b"whsec_x", PLACE);

        assert_eq!(**keyring.open(&sealed, PLACE).unwrap(), *b"whsec_x");
        assert!(!sealed.windows(7).any(|window| window == b"whsec_x"));
        assert_ne!(sealed, keyring.seal(b"whsec_x", PLACE), "a fresh nonce each time");
        for other in [
            Place { row: 8, ..PLACE },
            Place { tenant: "acme2", ..PLACE },
            Place { table: "endpoints", ..PLACE },
        ] {
            let error = keyring.open(&sealed, other).unwrap_err().to_string();
            assert!(error.contains("copied from another row"), "{error}");
        }
    }

    #[test]
    fn an_older_key_opens_and_a_reseal_makes_it_superfluous() {
        let sealed = Keyring::new(key(1), vec![]).seal(b"x", PLACE);
        let both = Keyring::new(key(2), vec![key(1)]);

        let resealed = both.reseal(&sealed, PLACE).unwrap().expect("sealed anew");

        let new = Keyring::new(key(2), vec![]);
        assert_eq!(**new.open(&resealed, PLACE).unwrap(), *b"x");
        assert_eq!(both.reseal(&resealed, PLACE), Ok(None));
        let error = new.open(&sealed, PLACE).unwrap_err().to_string();
        for part in [key(1).id().to_string(), key(2).id().to_string(), "master_keys_old".to_owned()]
        {
            assert!(error.contains(&part), "{part}: {error}");
        }
    }

    #[test]
    fn a_master_key_is_32_bytes_in_base64_or_hexadecimal() {
        let bytes: Vec<u8> = (200..232).collect();
        let id = MasterKey::parse(&hex::encode(&bytes)).unwrap().id();
        for text in [
            hex::encode_upper(&bytes),
            BASE64_STANDARD.encode(&bytes),
            format!("{}\n", BASE64_STANDARD.encode(&bytes)),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            assert_eq!(MasterKey::parse(&text).unwrap().id(), id, "{text}");
        }
        for (text, expected) in [
            (String::new(), MasterKeyError::Length(0)),
            ("correct horse battery staple".to_owned(), MasterKeyError::Unreadable),
            (hex::encode(&bytes[1..]), MasterKeyError::Length(31)),
            (BASE64_STANDARD.encode(&bytes[1..]), MasterKeyError::Length(31)),
            (hex::encode([0; 32]), MasterKeyError::NotRandom),
        ] {
            assert_eq!(MasterKey::parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn debug_shows_ids_alone() {
        let shown = format!("{:?}", Keyring::new(key(1), vec![key(2)]));
        assert!(shown.contains(&key(1).id().to_string()), "{shown}");
        assert!(!shown.contains("[1, 2, 3"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_byte_can_be_changed(plain in any::<Vec<u8>>(), place: usize, flip in 1..=255_u8) {
            let keyring = Keyring::new(key(1), vec![]);
            let mut sealed = keyring.seal(&plain, PLACE);
            prop_assert_eq!(&**keyring.open(&sealed, PLACE).unwrap(), &plain);
            let place = place % sealed.len();
            sealed[place] ^= flip;
            prop_assert!(keyring.open(&sealed, PLACE).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let keyring = Keyring::new(key(1), vec![]);
            prop_assert!(keyring.open(&bytes, PLACE).is_err());
            prop_assert!(keyring.open(&[&[VERSION], &bytes[..]].concat(), PLACE).is_err());
        }
    }
}
