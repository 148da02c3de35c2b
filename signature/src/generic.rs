//! The schemes that data tells whole: find the signature, put together what is signed, compare.

use std::borrow::Cow;

use aws_lc_rs::{digest, hmac, signature};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    compare::same,
    credential::{Credential, Key, P256},
    json,
    jwt::{self, Token},
    place::Found,
    received::{RAW_BODY, RAW_BODY_AND_URL, Received, Refusal, SECRET_ALONE, Step},
    scheme::{Encoding, Proof, Time, TimePlace},
    sign::tag,
    template::{Facts, Source},
    verifier::{Fetched, Need, Proven, Verifier},
};

pub(crate) fn prove(
    verifier: &Verifier,
    request: &Received<'_>,
    now: i64,
    fetched: Option<&Fetched>,
) -> Result<Proven, Refusal> {
    let scheme = &*verifier.scheme;
    let pick = scheme.time.as_ref().and_then(|time| match &time.place {
        TimePlace::Pick(key) => Some(&**key),
        _ => None,
    });
    let found = scheme.place.find(request, pick)?;
    check_required(verifier, request)?;
    if let (Proof::Basic, Some(given)) = (&scheme.proof, found.candidates.first()) {
        basic(&given.text)
            .map_err(|problem| Refusal::malformed(Step::Signature, scheme.place.name(), problem))?;
    }
    if let Proof::Jwt(rules) = &scheme.proof {
        return token(verifier, rules, request, &found, now, fetched);
    }
    let early = scheme.time.as_ref().filter(|time| time.is_early(verifier));
    let time =
        early.map(|time| time.read(request, found.time, &scheme.place.name())).transpose()?;
    let id = if scheme.reads(&Source::Id) { Some(signed_id(verifier, request)?) } else { None };
    let facts = Facts {
        timestamp: time.as_ref().map(|(text, _)| &**text),
        id: id.as_deref(),
        public_key: verifier.public_key.as_deref(),
        ..Facts::of(request)
    };
    let (secret, evidence) = matching(verifier, &facts, &found)?;
    let sent = match (&scheme.time, time) {
        (Some(_), Some((_, sent))) => Some(sent),
        (Some(late), None) => Some(late.read(request, None, "")?.1),
        (None, _) => None,
    };
    let tolerance = scheme.time.as_ref().map(|time| time.tolerance);
    Ok(Proven { secret, sent, tolerance, event_type: None, evidence })
}

impl Time {
    /// A time in the body that is not signed by itself is read only once the body is genuine.
    fn is_early(&self, verifier: &Verifier) -> bool {
        !matches!(self.place, TimePlace::Json(_)) || verifier.scheme.reads(&Source::Timestamp)
    }

    /// The time as it is written, and in milliseconds since 1970.
    pub(crate) fn read<'a>(
        &self,
        request: &Received<'a>,
        picked: Option<&'a str>,
        header: &str,
    ) -> Result<(Cow<'a, str>, i64), Refusal> {
        let (text, part) = match &self.place {
            TimePlace::Header(name) => {
                (Some(Cow::Borrowed(request.only(name, Step::Timestamp)?)), Cow::Borrowed(&**name))
            }
            TimePlace::Json(pointer) => {
                let value = json::pluck(request.body(), &[pointer]).remove(0);
                let part = format!("/{} in the body", pointer.parts().join("/"));
                (value.map(Cow::Owned), Cow::Owned(part))
            }
            TimePlace::Pick(key) => {
                (picked.map(Cow::Borrowed), Cow::Owned(format!("{key}= in {header}")))
            }
        };
        let text = text.ok_or_else(|| Refusal::malformed(Step::Timestamp, &part, "is missing"))?;
        let sent = self
            .unit
            .parse(&text)
            .ok_or_else(|| Refusal::malformed(Step::Timestamp, &part, self.unit.name()))?;
        Ok((text, sent))
    }
}

/// Headers that must be exactly so: versions, algorithms, the id of a key.
fn check_required(verifier: &Verifier, request: &Received<'_>) -> Result<(), Refusal> {
    for (name, part) in &verifier.scheme.require {
        let facts = Facts { public_key: verifier.public_key.as_deref(), ..Facts::of(request) };
        let value = request.only(name, Step::Header)?;
        if part.text(&facts).as_deref() != Some(value) {
            return Err(Refusal::malformed(Step::Header, name, "has another value than it should"));
        }
    }
    Ok(())
}

/// The id as it is signed: from the first place that the scheme names.
fn signed_id<'a>(verifier: &'a Verifier, request: &Received<'a>) -> Result<Cow<'a, str>, Refusal> {
    let mut missing = None;
    for part in &verifier.scheme.id {
        let Some(name) = part.lone_header() else { continue };
        match request.optional(name, Step::Id)? {
            Some("") => return Err(Refusal::malformed(Step::Id, name, "is empty")),
            Some(id) => return Ok(Cow::Borrowed(id)),
            None => missing = missing.or(Some(name)),
        }
    }
    Err(Refusal::malformed(Step::Id, missing.unwrap_or("the event's id"), "is missing"))
}

/// The secret that a signature matches, and the signature.
fn matching(
    verifier: &Verifier,
    facts: &Facts<'_>,
    found: &Found<'_>,
) -> Result<(usize, Option<String>), Refusal> {
    let scheme = &*verifier.scheme;
    let lone = !scheme.reads(&Source::Secret);
    let mut message = Vec::new();
    for (index, credential) in verifier.credentials.iter().enumerate() {
        if index == 0 || !lone {
            message.clear();
            let facts = Facts { secret: &credential.text, ..*facts };
            for part in &scheme.signed {
                part.signed(&facts, &mut message)?;
            }
        }
        let expected = Expected::of(&scheme.proof, credential, &message);
        let mut ours = found.candidates.iter().filter(|c| c.slot.is_none_or(|slot| slot == index));
        let one = if found.every {
            found.candidates.last().filter(|_| ours.all(|candidate| expected.is(&candidate.text)))
        } else {
            ours.find(|candidate| expected.is(&candidate.text))
        };
        if let Some(candidate) = one {
            let shared = matches!(scheme.proof, Proof::Token | Proof::Basic);
            return Ok((index, (!shared).then(|| candidate.text.clone().into_owned())));
        }
    }
    let remedy = match scheme.proof {
        Proof::Token | Proof::Basic => SECRET_ALONE,
        _ if scheme.signs_url() => RAW_BODY_AND_URL,
        _ => RAW_BODY,
    };
    Err(Refusal::bad_signature(scheme.place.name(), remedy))
}

/// What a signature must be for one secret.
enum Expected<'k> {
    /// This text, to the letter: there is one for each signature.
    Text(Cow<'k, str>),
    Basic(&'k str),
    Ed25519(Encoding, &'k [u8], Vec<u8>),
    P256(Encoding, &'k P256, Vec<u8>),
    Nothing,
}

impl<'k> Expected<'k> {
    fn of(proof: &Proof, credential: &'k Credential, message: &[Cow<'_, [u8]>]) -> Self {
        match (proof, &credential.key) {
            (Proof::Hmac(_, encoding), Key::Mac(key)) => {
                Self::Text(Cow::Owned(encoding.write(mac(key, message).as_ref())))
            }
            (Proof::Digest(algorithm, encoding), _) => {
                let mut context = digest::Context::new(algorithm);
                for part in message {
                    context.update(part);
                }
                Self::Text(Cow::Owned(encoding.write(context.finish().as_ref())))
            }
            (Proof::Ed25519(encoding), Key::Ed25519 { public, .. }) => {
                Self::Ed25519(*encoding, public, message.concat())
            }
            (Proof::Ecdsa(encoding), Key::P256(key)) => {
                Self::P256(*encoding, key, message.concat())
            }
            (Proof::Token, _) => Self::Text(Cow::Borrowed(&credential.text)),
            (Proof::Basic, _) => Self::Basic(&credential.text),
            _ => Self::Nothing,
        }
    }

    fn is(&self, given: &str) -> bool {
        match self {
            Self::Text(expected) => same(expected.as_bytes(), given.as_bytes()),
            Self::Basic(expected) => {
                basic(given).is_ok_and(|given| same(expected.as_bytes(), &given))
            }
            Self::Ed25519(encoding, public, message) => {
                let key = signature::UnparsedPublicKey::new(&signature::ED25519, public);
                encoding.read(given).is_some_and(|given| key.verify(message, &given).is_ok())
            }
            Self::P256(encoding, key, message) => {
                let given = encoding.read(given);
                given.is_some_and(|given| key.key.verify_sig(message, &given).is_ok())
            }
            Self::Nothing => false,
        }
    }
}

fn mac(key: &hmac::Key, message: &[Cow<'_, [u8]>]) -> hmac::Tag {
    match message {
        [one] => tag(key, &[one]),
        several => {
            let mut context = hmac::Context::with_key(key);
            for part in several {
                context.update(part);
            }
            context.sign()
        }
    }
}

/// The name and the password of HTTP's basic authentication (RFC 7617), as `name:password`.
fn basic(value: &str) -> Result<Vec<u8>, &'static str> {
    let (scheme, credentials) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err("does not begin with Basic");
    }
    let bytes =
        BASE64_STANDARD.decode(credentials.trim()).map_err(|_| "is not base64 after Basic")?;
    if bytes.contains(&b':') { Ok(bytes) } else { Err("has no colon between name and password") }
}

fn token(
    verifier: &Verifier,
    rules: &jwt::Rules,
    request: &Received<'_>,
    found: &Found<'_>,
    now: i64,
    fetched: Option<&Fetched>,
) -> Result<Proven, Refusal> {
    let name = verifier.scheme.place.name();
    let text = found.candidates.first().map_or("", |candidate| &*candidate.text);
    let token = Token::parse(&name, text, rules)?;
    let fetched = match fetched {
        Some(Fetched::Jwk(key)) => Some(key),
        _ if verifier.fetches_keys() => {
            return Err(Refusal::malformed(Step::Key, "the provider's key", "was not fetched"));
        }
        _ => None,
    };
    let secret = token.signer(verifier.credentials.iter().enumerate(), fetched)?;
    let facts = Facts { public_key: verifier.public_key.as_deref(), ..Facts::of(request) };
    let sent = token.judge(rules, &facts, now)?.map(|seconds| seconds.saturating_mul(1000));
    let evidence = Some(text.to_owned());
    Ok(Proven { sent, tolerance: rules.iat_tolerance, evidence, ..Proven::by(secret) })
}

/// Which key a token asks for.
pub(crate) fn kid(
    verifier: &Verifier,
    rules: &jwt::Rules,
    request: &Received<'_>,
) -> Result<Need, Refusal> {
    let name = verifier.scheme.place.name();
    let found = verifier.scheme.place.find(request, None)?;
    let text = found.candidates.first().map_or("", |candidate| &*candidate.text);
    let kid = Token::parse(&name, text, rules)?.kid;
    let plain = |kid: &String| {
        kid.len() <= 128 && kid.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    kid.filter(plain)
        .map(Need::Jwk)
        .ok_or_else(|| Refusal::malformed(Step::Key, &*name, "names no key (kid)"))
}
