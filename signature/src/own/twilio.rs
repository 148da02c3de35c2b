//! Twilio: the URL, and behind it each field of the form, name and value without anything between,
//! in the order of the names. A body that is no form is bound by `bodySHA256` in the URL.
//!
//! Proxies add and drop the standard port, so Twilio's own libraries try the URL with it and
//! without it; so does this.

use std::{borrow::Cow, collections::BTreeSet};

use aws_lc_rs::{digest, hmac};

use crate::{
    compare::same,
    received::{RAW_BODY, RAW_BODY_AND_URL, Received, Refusal, Step},
    scheme::Encoding,
    sign::tag,
    signer::Outgoing,
    verifier::{Proven, Verifier},
};

const HEADER: &str = "X-Twilio-Signature";

/// Names the hash, where a key that is shared between accounts is used.
const SETTINGS: &str = "X-Twilio-Webhooks-Signature-Settings";

const BODY_HASH: &str = "bodySHA256";

pub(crate) fn prove(verifier: &Verifier, request: &Received<'_>) -> Result<Proven, Refusal> {
    let given = request.only(HEADER, Step::Signature)?;
    if given.is_empty() {
        return Err(Refusal::malformed(Step::Signature, HEADER, "is empty"));
    }
    let algorithm = algorithm(request)?;
    let url = request.url()?;
    let fields = match request.query(BODY_HASH) {
        Some(hash) => {
            if !is_hash_of_body(&hash, request) {
                return Err(Refusal::bad_signature(format!("{BODY_HASH} in the URL"), RAW_BODY));
            }
            String::new()
        }
        None => fields(request.body()),
    };
    for (index, credential) in verifier.credentials.iter().enumerate() {
        let key = hmac::Key::new(algorithm, credential.text.as_bytes());
        for url in spellings(url) {
            let expected =
                Encoding::Base64.write(tag(&key, &[url.as_bytes(), fields.as_bytes()]).as_ref());
            if same(expected.as_bytes(), given.as_bytes()) {
                return Ok(Proven { evidence: Some(given.to_owned()), ..Proven::by(index) });
            }
        }
    }
    Err(Refusal::bad_signature(HEADER, RAW_BODY_AND_URL))
}

fn algorithm(request: &Received<'_>) -> Result<hmac::Algorithm, Refusal> {
    let Some(settings) = request.optional(SETTINGS, Step::Header)? else {
        return Ok(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY);
    };
    let mut pairs = settings.split(',').filter_map(|pair| pair.trim().split_once('='));
    match pairs.find(|(key, _)| *key == "algorithm") {
        Some((_, "HMAC_SHA256")) => Ok(hmac::HMAC_SHA256),
        Some((_, "HMAC_SHA1")) => Ok(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        _ => Err(Refusal::malformed(Step::Header, SETTINGS, "names no algorithm that is known")),
    }
}

fn is_hash_of_body(hash: &str, request: &Received<'_>) -> bool {
    let expected = digest::digest(&digest::SHA256, request.body());
    same(hex::encode(expected).as_bytes(), hash.to_ascii_lowercase().as_bytes())
}

/// Names and values in the order of the names; equal ones once, as Twilio's libraries have it.
fn fields(body: &[u8]) -> String {
    let sorted: BTreeSet<(Cow<'_, str>, Cow<'_, str>)> = form_urlencoded::parse(body).collect();
    sorted.into_iter().flat_map(|(name, value)| [name, value]).collect()
}

/// The URL as it is, without a port, and with the standard one.
fn spellings(url: &str) -> Vec<Cow<'_, str>> {
    let mut all = vec![Cow::Borrowed(url)];
    let Some((scheme, rest)) = url.split_once("://") else { return all };
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            all.push(Cow::Owned(format!("{scheme}://{name}{path}")));
            name
        }
        _ => host,
    };
    let port = if scheme == "http" { 80 } else { 443 };
    all.push(Cow::Owned(format!("{scheme}://{name}:{port}{path}")));
    all
}

/// A form is signed field by field; of any other body the hash goes into the URL.
pub(crate) fn sign(verifier: &Verifier, request: &Received<'_>) -> Result<Outgoing, Refusal> {
    let url = request.url()?;
    let is_form = request.lenient("content-type").is_none_or(|kind| {
        kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    });
    let mut outgoing = Outgoing::default();
    let (url, fields) = if is_form {
        (Cow::Borrowed(url), fields(request.body()))
    } else if request.query(BODY_HASH).is_some_and(|hash| is_hash_of_body(&hash, request)) {
        (Cow::Borrowed(url), String::new())
    } else {
        let between = if url.contains('?') { '&' } else { '?' };
        let hash = hex::encode(digest::digest(&digest::SHA256, request.body()));
        let with_hash = format!("{url}{between}{BODY_HASH}={hash}");
        outgoing.url = Some(with_hash.clone());
        (Cow::Owned(with_hash), String::new())
    };
    let secret = verifier.credentials.first().map_or("", |credential| &credential.text);
    let key = hmac::Key::new(algorithm(request)?, secret.as_bytes());
    let tag = tag(&key, &[url.as_bytes(), fields.as_bytes()]);
    outgoing.add(HEADER, Encoding::Base64.write(tag.as_ref()));
    Ok(outgoing)
}
