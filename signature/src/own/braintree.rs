//! Braintree: a form with `bt_signature` (pairs of a public key and a signature) and `bt_payload`
//! (XML in base64). The key is the SHA-1 of the private key.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::mac_keys;
use crate::{
    compare::same,
    received::{RAW_BODY, Received, Refusal, Step},
    sign::tag,
    signer::Outgoing,
    template::form,
    verifier::{Proven, Verifier},
};

/// Pairs in one signature: a merchant has one for each of its keys.
const PAIRS_MAX: usize = 32;

pub(crate) fn prove(verifier: &Verifier, request: &Received<'_>) -> Result<Proven, Refusal> {
    let field = |name: &str| {
        let missing =
            || Refusal::malformed(Step::Body, format!("{name} in the body"), "is missing");
        form(request.body(), name).ok_or_else(missing)
    };
    let (signature, payload) = (field("bt_signature")?, field("bt_payload")?);
    let plain = |c: char| c.is_ascii_alphanumeric() || "+/=\n".contains(c);
    if !payload.chars().all(plain) {
        return Err(Refusal::malformed(Step::Body, "bt_payload", "is not base64"));
    }
    if signature.split('&').count() > PAIRS_MAX {
        return Err(Refusal::malformed(Step::Body, "bt_signature", "has more than 32 pairs"));
    }
    let ours = verifier.public_key.as_deref().unwrap_or_default();
    let given = signature
        .split('&')
        .filter_map(|pair| pair.split_once('|'))
        .find_map(|(public, digits)| (public == ours).then_some(digits))
        .ok_or_else(|| {
            Refusal::bad_signature("bt_signature", "it has none for our public key; check that key")
        })?;
    for (index, key) in mac_keys(verifier) {
        // Braintree signs with the line break at the end, which forms may lose.
        for end in ["", "\n"] {
            let expected = hex::encode(tag(key, &[payload.as_bytes(), end.as_bytes()]));
            if same(expected.as_bytes(), given.as_bytes()) {
                return Ok(Proven { event_type: kind(&payload), ..Proven::by(index) });
            }
        }
    }
    Err(Refusal::bad_signature("bt_signature", RAW_BODY))
}

/// `<kind>` of the notification: the one thing that is read of its XML.
fn kind(payload: &str) -> Option<String> {
    let lines: String = payload.split_whitespace().collect();
    let xml = String::from_utf8(BASE64_STANDARD.decode(lines).ok()?).ok()?;
    let (_, rest) = xml.split_once("<kind>")?;
    let (kind, _) = rest.split_once("</kind>")?;
    Some(kind.trim().to_owned())
}

/// Makes the form of a payload, which is XML.
pub(crate) fn sign(verifier: &Verifier, request: &Received<'_>) -> Outgoing {
    let payload = format!("{}\n", BASE64_STANDARD.encode(request.body()));
    let public = verifier.public_key.as_deref().unwrap_or_default();
    let pairs: Vec<_> = mac_keys(verifier)
        .take(1)
        .map(|(_, key)| format!("{public}|{}", hex::encode(tag(key, &[payload.as_bytes()]))))
        .collect();
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("bt_signature", &pairs.join("&")).append_pair("bt_payload", &payload);
    let mut outgoing = Outgoing { body: Some(form.finish().into_bytes()), ..Outgoing::default() };
    outgoing.add("Content-Type", "application/x-www-form-urlencoded".to_owned());
    outgoing
}
