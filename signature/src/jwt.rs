//! JSON Web Tokens (RFC 7519) that carry a hash of the body: one algorithm a scheme, never the one
//! that the token asks for.

use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use serde_json::{Map, Value};

use crate::{
    compare::same,
    credential::{Credential, Key, P256},
    received::{RAW_BODY, Received, Refusal, SECRET_ALONE, Step},
    scheme::Encoding,
    template::{Facts, Part},
};

/// Clocks differ; a token is not refused for so many seconds.
const LEEWAY_SECONDS: i64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Hs256,
    Es256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Es256 => "ES256",
        }
    }
}

/// What a token must say.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) algorithm: Algorithm,
    pub(crate) claims: Vec<(String, Part)>,
    pub(crate) body_hash: BodyHash,
    pub(crate) iat_tolerance: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct BodyHash {
    pub(crate) claim: String,
    pub(crate) hash: &'static digest::Algorithm,
    pub(crate) encoding: Encoding,
}

/// A token in its parts.
pub(crate) struct Token<'a> {
    name: &'a str,
    /// What is signed: header and claims as they are written.
    message: &'a str,
    signature: Vec<u8>,
    pub(crate) kid: Option<String>,
    claims: &'a str,
}

impl<'a> Token<'a> {
    /// Takes a token apart, and looks that it is of the one algorithm.
    pub(crate) fn parse(name: &'a str, text: &'a str, rules: &Rules) -> Result<Self, Refusal> {
        let wrong = |problem: &'static str| Refusal::malformed(Step::Signature, name, problem);
        let no_token = || wrong("is no JSON Web Token, three parts with dots between");
        let (message, signature) = text.rsplit_once('.').ok_or_else(no_token)?;
        let (header, claims) = message.split_once('.').ok_or_else(no_token)?;
        let header = object(header).ok_or_else(no_token)?;
        if header.get("alg").and_then(Value::as_str) != Some(rules.algorithm.name()) {
            return Err(wrong("is signed with another algorithm than the scheme's"));
        }
        Ok(Self {
            name,
            message,
            signature: Encoding::Base64Url.read(signature).ok_or_else(no_token)?,
            kid: header.get("kid").and_then(Value::as_str).map(str::to_owned),
            claims,
        })
    }

    /// Which of the keys signed it.
    pub(crate) fn signer<'k>(
        &self,
        keys: impl Iterator<Item = (usize, &'k Credential)>,
        fetched: Option<&P256>,
    ) -> Result<usize, Refusal> {
        if let Some(key) = fetched {
            let genuine = self.is_signed_by(key);
            return genuine.then_some(0).ok_or_else(|| self.refused(SECRET_ALONE));
        }
        for (index, credential) in keys {
            let genuine = match &credential.key {
                Key::Mac(key) => {
                    let tag = hmac::sign(key, self.message.as_bytes());
                    same(tag.as_ref(), &self.signature)
                }
                Key::P256(key) => self.is_signed_by(key),
                _ => false,
            };
            if genuine {
                return Ok(index);
            }
        }
        Err(self.refused(SECRET_ALONE))
    }

    fn is_signed_by(&self, key: &P256) -> bool {
        let other = matches!((&key.kid, &self.kid), (Some(ours), Some(theirs)) if ours != theirs);
        !other && key.key.verify_sig(self.message.as_bytes(), &self.signature).is_ok()
    }

    fn refused(&self, remedy: &'static str) -> Refusal {
        Refusal::bad_signature(self.name, remedy)
    }

    /// Judges what the token says, once its signature holds. Gives the time of its making.
    pub(crate) fn judge(
        &self,
        rules: &Rules,
        facts: &Facts<'_>,
        now: i64,
    ) -> Result<Option<i64>, Refusal> {
        let claims = object(self.claims).ok_or_else(|| {
            Refusal::malformed(Step::Signature, self.name, "has claims that cannot be read")
        })?;
        let text = |claim: &str| claims.get(claim).and_then(Value::as_str).unwrap_or_default();
        let hash = rules.body_hash.of(facts.request);
        if !same(hash.as_bytes(), text(&rules.body_hash.claim).as_bytes()) {
            return Err(self.refused(RAW_BODY));
        }
        for (claim, part) in &rules.claims {
            let wanted = part.text(facts).unwrap_or_default();
            if !same(wanted.as_bytes(), text(claim).as_bytes()) {
                return Err(self.refused("it is from another issuer than it should be"));
            }
        }
        let time = |claim: &str| claims.get(claim).and_then(Value::as_i64);
        let stale =
            |seconds: i64| Refusal::Stale { seconds, tolerance: LEEWAY_SECONDS.unsigned_abs() };
        if let Some(late) =
            time("exp").map(|exp| now.saturating_sub(exp)).filter(|l| *l > LEEWAY_SECONDS)
        {
            return Err(stale(late));
        }
        if let Some(early) =
            time("nbf").map(|nbf| nbf.saturating_sub(now)).filter(|e| *e > LEEWAY_SECONDS)
        {
            return Err(stale(early.saturating_neg()));
        }
        if rules.iat_tolerance.is_some() && time("iat").is_none() {
            return Err(Refusal::malformed(Step::Timestamp, self.name, "has no claim iat"));
        }
        Ok(time("iat"))
    }
}

impl BodyHash {
    fn of(&self, request: &Received<'_>) -> String {
        self.encoding.write(digest::digest(self.hash, request.body()).as_ref())
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&Encoding::Base64Url.read(part)?).ok()
}

/// A token that a verifier with the same key takes for five minutes.
pub(crate) fn sign(rules: &Rules, key: &hmac::Key, facts: &Facts<'_>, now: i64) -> String {
    let mut claims = Map::new();
    for (claim, part) in &rules.claims {
        claims.insert(claim.clone(), part.text(facts).unwrap_or_default().into());
    }
    claims.insert(rules.body_hash.claim.clone(), rules.body_hash.of(facts.request).into());
    claims.insert("iat".to_owned(), now.into());
    claims.insert("exp".to_owned(), now.saturating_add(300).into());
    let written = |value: &str| Encoding::Base64Url.write(value.as_bytes());
    let header = written("{\"alg\":\"HS256\",\"typ\":\"JWT\"}");
    let message = format!("{header}.{}", written(&Value::Object(claims).to_string()));
    let tag = hmac::sign(key, message.as_bytes());
    format!("{message}.{}", Encoding::Base64Url.write(tag.as_ref()))
}
