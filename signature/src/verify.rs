//! The verifying half. Missing or unreadable parts come before the signature, the signature
//! before the age. Nothing here looks into the body.
//!
//! Digests are compared in constant time. For the schemes of other senders there is
//! `Verifier`, which can do these too; here are the three that a server's own endpoints need.

use aws_lc_rs::{hmac, signature};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    compare::same,
    received::{Clock, Genuine, RAW_BODY, Received, Refusal, Step, timestamp},
    secret::{Key, Secret},
    sign::tag,
};

/// Entries of one signature header. A sender has one a live secret; more is an attempt to make
/// us work.
const SIGNATURES_MAX: usize = 32;

/// Verifies Standard Webhooks: `{prefix}-id`, `{prefix}-timestamp`, `{prefix}-signature`.
///
/// `prefix` is `webhook` by the specification; some senders use their own. Entries of versions
/// other than `v1` (HMAC) and `v1a` (Ed25519) are passed over, and so are secrets of other kinds.
pub fn verify_standard(
    request: &Received<'_>,
    prefix: &str,
    secrets: &[Secret],
    clock: Clock,
) -> Result<Genuine, Refusal> {
    let id_header = format!("{prefix}-id");
    let timestamp_header = format!("{prefix}-timestamp");
    let header = format!("{prefix}-signature");
    let id = request.only(&id_header, Step::Id)?;
    let timestamp_text = request.only(&timestamp_header, Step::Timestamp)?;
    let signatures = request.only(&header, Step::Signature)?;
    if id.is_empty() {
        return Err(Refusal::malformed(Step::Id, id_header, "is empty"));
    }
    let sent = timestamp(&timestamp_header, timestamp_text)?;
    let entries = entries(signatures, &header)?;
    let head = format!("{id}.{timestamp_text}.");
    let found = secrets
        .iter()
        .position(|secret| matches_standard(secret, &entries, head.as_bytes(), request.body()));
    let secret = found.ok_or_else(|| Refusal::bad_signature(header, RAW_BODY))?;
    clock.judge(sent)?;
    Ok(Genuine { secret })
}

/// The version and the decoded value of each entry that can be decoded.
fn entries<'a>(text: &'a str, header: &str) -> Result<Vec<(&'a str, Vec<u8>)>, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::malformed(Step::Signature, header, "is empty"));
    }
    if text.split(' ').count() > SIGNATURES_MAX {
        return Err(Refusal::malformed(Step::Signature, header, "has more than 32 signatures"));
    }
    let readable = text.split(' ').filter_map(|entry| {
        let (version, value) = entry.split_once(',')?;
        Some((version, BASE64_STANDARD.decode(value).ok()?))
    });
    Ok(readable.collect())
}

fn matches_standard(
    secret: &Secret,
    entries: &[(&str, Vec<u8>)],
    head: &[u8],
    body: &[u8],
) -> bool {
    let of_version = |wanted| entries.iter().filter(move |(version, _)| *version == wanted);
    if let Key::Hmac(key) = secret.key() {
        let expected = tag(&hmac::Key::new(hmac::HMAC_SHA256, key), &[head, body]);
        return of_version("v1").any(|(_, value)| same(expected.as_ref(), value));
    }
    let mut candidates = of_version("v1a").peekable();
    let Some(public) = secret.public_key().filter(|_| candidates.peek().is_some()) else {
        return false;
    };
    let public = signature::UnparsedPublicKey::new(&signature::ED25519, public);
    let message = [head, body].concat();
    candidates.any(|(_, value)| public.verify(&message, value).is_ok())
}

/// Verifies `t=<timestamp>,v1=<hex>[,v1=…]` in `header`: HMAC-SHA256 of `{t}.{body}` with the
/// bytes of each key as they are (for a `whsec_` secret those of its whole text). Parts may come
/// in any order; those with other names are passed over. Digits are lower case, as they are sent.
pub fn verify_t_v1(
    request: &Received<'_>,
    header: &str,
    keys: &[&[u8]],
    clock: Clock,
) -> Result<Genuine, Refusal> {
    let (mut time, mut signatures) = (None, Vec::new());
    for part in request.only(header, Step::Signature)?.split(',') {
        match part.split_once('=') {
            Some(("t", text)) if time.replace(text).is_some() => {
                return Err(Refusal::malformed(Step::Timestamp, header, "has more than one t="));
            }
            Some(("v1", digits)) => signatures.push(digits),
            _ => {}
        }
    }
    let time = time.ok_or_else(|| Refusal::malformed(Step::Timestamp, header, "has no t="))?;
    let sent = timestamp(&format!("t= in {header}"), time)?;
    if signatures.is_empty() {
        return Err(Refusal::malformed(Step::Signature, header, "has no v1="));
    }
    if signatures.len() > SIGNATURES_MAX {
        return Err(Refusal::malformed(Step::Signature, header, "has more than 32 signatures"));
    }
    let head = format!("{time}.");
    let genuine = first_match(keys, &signatures, &[head.as_bytes(), request.body()], header)?;
    clock.judge(sent)?;
    Ok(genuine)
}

/// Verifies `sha256=<hex>` in `header`: HMAC-SHA256 of the body with the bytes of each key as
/// they are. There is no time in it, so a request can be replayed for ever: dedup by its id.
pub fn verify_sha256_hex(
    request: &Received<'_>,
    header: &str,
    keys: &[&[u8]],
) -> Result<Genuine, Refusal> {
    let digits =
        request.only(header, Step::Signature)?.strip_prefix("sha256=").ok_or_else(|| {
            Refusal::malformed(Step::Signature, header, "does not begin with sha256=")
        })?;
    first_match(keys, &[digits], &[request.body()], header)
}

fn first_match(
    keys: &[&[u8]],
    signatures: &[&str],
    parts: &[&[u8]],
    header: &str,
) -> Result<Genuine, Refusal> {
    let found = keys.iter().position(|key| {
        // An empty key would let anyone sign.
        let expected = tag(&hmac::Key::new(hmac::HMAC_SHA256, key), parts);
        let digits = hex::encode(expected.as_ref());
        !key.is_empty() && signatures.iter().any(|given| same(digits.as_bytes(), given.as_bytes()))
    });
    found.map(|secret| Genuine { secret }).ok_or_else(|| Refusal::bad_signature(header, RAW_BODY))
}

#[cfg(test)]
mod tests;
