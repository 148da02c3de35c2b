//! Contentful: method, path, a list of headers that the request itself names, and the body. The
//! list must name the time and itself, or they would be anybody's to change.

use std::fmt::Write as _;

use super::mac_keys;
use crate::{
    compare::same,
    received::{RAW_BODY_AND_URL, Received, Refusal, Step},
    sign::tag,
    signer::Outgoing,
    verifier::{Proven, Verifier},
};

const SIGNATURE: &str = "X-Contentful-Signature";
const SIGNED: &str = "X-Contentful-Signed-Headers";
const TIMESTAMP: &str = "X-Contentful-Timestamp";

/// Headers that may be signed. Contentful signs three or four.
const HEADERS_MAX: usize = 32;

pub(crate) fn prove(verifier: &Verifier, request: &Received<'_>) -> Result<Proven, Refusal> {
    let given = request.only(SIGNATURE, Step::Signature)?;
    let list = request.only(SIGNED, Step::Header)?;
    if given.is_empty() {
        return Err(Refusal::malformed(Step::Signature, SIGNATURE, "is empty"));
    }
    let time = verifier.scheme.time.as_ref();
    let sent = time.map(|time| time.read(request, None, "").map(|(_, sent)| sent)).transpose()?;
    let names: Vec<_> = list.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    if names.len() > HEADERS_MAX {
        return Err(Refusal::malformed(Step::Header, SIGNED, "names more than 32 headers"));
    }
    for needed in [SIGNED, TIMESTAMP] {
        if !names.iter().any(|name| name.eq_ignore_ascii_case(needed)) {
            let problem = format!("does not name {needed}");
            return Err(Refusal::malformed(Step::Header, SIGNED, problem));
        }
    }
    let mut headers = Vec::new();
    for name in names {
        let value = request.only(&name, Step::Header)?.trim().to_owned();
        headers.push((name, value));
    }
    let head = head(request, headers)?;
    for (index, key) in mac_keys(verifier) {
        let expected = hex::encode(tag(key, &[head.as_bytes(), request.body()]));
        if same(expected.as_bytes(), given.as_bytes()) {
            return Ok(Proven {
                sent,
                tolerance: time.map(|time| time.tolerance),
                ..Proven::by(index)
            });
        }
    }
    Err(Refusal::bad_signature(SIGNATURE, RAW_BODY_AND_URL))
}

/// What stands before the body: method, path with its query, and the headers in the order of
/// their names.
fn head(request: &Received<'_>, mut headers: Vec<(String, String)>) -> Result<String, Refusal> {
    let url = request.url()?;
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    headers.sort();
    let lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    Ok(format!("{}\n{}\n{}\n", request.method(), escaped(path), lines.join(";")))
}

/// The path as Contentful signs it: escaped once more, and its query twice.
fn escaped(path: &str) -> String {
    let mut parts = path.split('?');
    let whole = escape(parts.next().unwrap_or_default(), ";,/?:@&=+$-_.!~*'()#");
    match parts.next().filter(|query| !query.is_empty()) {
        Some(query) => format!("{whole}?{}", escape(query, "-_.!~*'()").replace('%', "%25")),
        None => whole,
    }
}

fn escape(text: &str, kept: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        let letter = char::from(byte);
        if byte.is_ascii_alphanumeric() || kept.contains(letter) {
            escaped.push(letter);
        } else {
            write!(escaped, "%{byte:02X}").expect("a String takes everything");
        }
    }
    escaped
}

pub(crate) fn sign(
    verifier: &Verifier,
    request: &Received<'_>,
    timestamp: &str,
) -> Result<Outgoing, Refusal> {
    let mut headers = vec![(TIMESTAMP.to_ascii_lowercase(), timestamp.to_owned())];
    if let Some(kind) = request.optional("content-type", Step::Header)? {
        headers.push(("content-type".to_owned(), kind.trim().to_owned()));
    }
    let signed = SIGNED.to_ascii_lowercase();
    let mut names: Vec<_> = headers.iter().map(|(name, _)| &**name).chain([&*signed]).collect();
    names.sort_unstable();
    let names = names.join(",");
    headers.push((signed, names.clone()));
    let head = head(request, headers)?;
    let mut outgoing = Outgoing::default();
    if let Some((_, key)) = mac_keys(verifier).next() {
        let tag = tag(key, &[head.as_bytes(), request.body()]);
        outgoing.add(SIGNATURE, hex::encode(tag));
    }
    outgoing.add(SIGNED, names);
    outgoing.add(TIMESTAMP, timestamp.to_owned());
    Ok(outgoing)
}
