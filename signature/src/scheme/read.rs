//! Reads a scheme from its written form and checks it whole, so that a wrong field is named when a
//! scheme is set up and not when the first request comes.

use std::time::Duration;

use aws_lc_rs::{digest, hmac};

use super::{Encoding, IdScope, Own, Proof, Scheme, SchemeError, Time, TimePlace};
use crate::{
    credential::KeyForm,
    document::{SchemeDocument, SignatureDocument},
    json::Pointer,
    jwt::{Algorithm, BodyHash, Rules},
    place::{HeaderForm, Place},
    template::{Part, Source},
    time::Unit,
};

pub(super) fn read(name: &str, document: &SchemeDocument) -> Result<Scheme, SchemeError> {
    Reader(document).read(name)
}

struct Reader<'d>(&'d SchemeDocument);

fn wrong<T>(field: &'static str, problem: impl Into<String>) -> Result<T, SchemeError> {
    Err(SchemeError::Field { field, problem: problem.into() })
}

impl Reader<'_> {
    fn read(&self, name: &str) -> Result<Scheme, SchemeError> {
        let proof = self.proof()?;
        let time = self.time()?;
        let signed = parts("sign", &self.0.sign, Part::parse)?;
        let needs_parts = matches!(
            proof,
            Proof::Hmac(..) | Proof::Digest(..) | Proof::Ed25519(_) | Proof::Ecdsa(_)
        );
        if needs_parts && signed.is_empty() {
            return wrong(
                "sign",
                "is missing; say what is signed, such as [\"{ts}\", \".\", \"{body}\"]",
            );
        }
        if !needs_parts && !signed.is_empty() {
            return wrong(
                "sign",
                format!("has no use with auth = {:?}; leave it out", self.0.auth),
            );
        }
        let id = parts("id", &self.0.id.0, Part::parse_value)?;
        let scheme = Scheme {
            name: name.to_owned(),
            key: self.key(&proof)?,
            place: self.place(&proof)?,
            time,
            signed,
            id,
            event_type: parts("type", &self.0.event_type.0, Part::parse_value)?,
            id_scope: match self.0.id_scope.as_deref() {
                None | Some("event") => IdScope::Event,
                Some("object") => IdScope::Object,
                Some(other) => {
                    return wrong("id_scope", format!("{other:?} is neither event nor object"));
                }
            },
            require: self.require()?,
            otherwise: self.0.otherwise.clone(),
            handshakes: [].into(),
            proof,
            document: self.0.clone(),
        };
        if scheme.reads(&Source::Id) && scheme.id.is_empty() {
            return wrong(
                "id",
                "is missing, and {id} is signed; say where it is, such as header:webhook-id",
            );
        }
        if scheme.reads(&Source::Timestamp) && scheme.time.is_none() {
            return wrong("ts", "is missing, and {ts} is signed; say in which header it is");
        }
        Ok(scheme)
    }

    fn proof(&self) -> Result<Proof, SchemeError> {
        Ok(match &*self.0.auth {
            "hmac" => Proof::Hmac(self.hash()?.0, self.encoding()?),
            "digest" => Proof::Digest(self.hash()?.1, self.encoding()?),
            "ed25519" => Proof::Ed25519(self.encoding()?),
            "ecdsa" => match self.0.hash.as_deref() {
                Some("sha256") => Proof::Ecdsa(self.encoding()?),
                _ => return wrong("hash", "ecdsa goes with sha256 alone"),
            },
            "token" => Proof::Token,
            "basic" => Proof::Basic,
            "jwt" => Proof::Jwt(self.jwt()?),
            "twilio" => Proof::Own(Own::Twilio),
            "paypal" => Proof::Own(Own::Paypal),
            "sns" => Proof::Own(Own::Sns),
            "braintree" => Proof::Own(Own::Braintree),
            "adyen" => Proof::Own(Own::Adyen),
            "contentful" => Proof::Own(Own::Contentful),
            "" => return wrong("auth", "is missing; say what proves the sender, such as hmac"),
            other => {
                let known = "hmac, digest, ed25519, ecdsa, token, basic and jwt";
                return wrong("auth", format!("{other:?} is unknown; there are {known}"));
            }
        })
    }

    fn hash(&self) -> Result<(hmac::Algorithm, &'static digest::Algorithm), SchemeError> {
        match self.0.hash.as_deref() {
            Some(name) => hash("hash", name),
            None => wrong("hash", "is missing; there are sha1, sha256 and sha512"),
        }
    }

    fn encoding(&self) -> Result<Encoding, SchemeError> {
        match self.0.enc.as_deref() {
            Some(name) => encoding("enc", name),
            None => wrong("enc", "is missing; there are hex, base64 and base64url"),
        }
    }

    fn jwt(&self) -> Result<Rules, SchemeError> {
        let algorithm = match self.0.alg.as_deref() {
            Some("HS256") => Algorithm::Hs256,
            Some("ES256") => Algorithm::Es256,
            _ => return wrong("alg", "must be HS256 or ES256"),
        };
        let mut claims = Vec::new();
        for (name, text) in &self.0.claims {
            let part = Part::parse(text)
                .map_err(|problem| SchemeError::Field { field: "claims", problem })?;
            claims.push((name.clone(), part));
        }
        let Some(body_hash) = &self.0.body_hash else {
            return wrong("body_hash", "is missing; without it the token says nothing of the body");
        };
        Ok(Rules {
            algorithm,
            claims,
            body_hash: BodyHash {
                claim: body_hash.claim.clone(),
                hash: hash("body_hash.hash", &body_hash.hash)?.1,
                encoding: encoding("body_hash.enc", &body_hash.enc)?,
            },
            iat_tolerance: self.0.iat_tolerance.map(Duration::from_secs),
        })
    }

    fn key(&self, proof: &Proof) -> Result<KeyForm, SchemeError> {
        let form = match self.0.key.as_deref() {
            None | Some("utf8") => KeyForm::Utf8,
            Some("hex") => KeyForm::Hex,
            Some("whsec") => KeyForm::Whsec,
            Some("whpk") => KeyForm::Whpk,
            Some("hex-ed25519") => KeyForm::HexEd25519,
            Some("spki-base64") => KeyForm::SpkiBase64,
            Some("jwk") => KeyForm::Jwk,
            Some("plaid") => KeyForm::Plaid,
            Some(other) => {
                let known = "utf8, hex, whsec, whpk, hex-ed25519, spki-base64 and jwk";
                return wrong("key", format!("{other:?} is unknown; there are {known}"));
            }
        };
        let fits = match proof {
            Proof::Hmac(..) => matches!(form, KeyForm::Utf8 | KeyForm::Hex | KeyForm::Whsec),
            Proof::Ed25519(_) => matches!(form, KeyForm::Whpk | KeyForm::HexEd25519),
            Proof::Ecdsa(_) => form == KeyForm::SpkiBase64,
            Proof::Jwt(rules) if rules.algorithm == Algorithm::Es256 => {
                matches!(form, KeyForm::Jwk | KeyForm::Plaid)
            }
            Proof::Own(Own::Adyen) => form == KeyForm::Hex,
            _ => form == KeyForm::Utf8,
        };
        if fits {
            return Ok(form);
        }
        let given = self.0.key.as_deref().unwrap_or("utf8");
        wrong("key", format!("{given:?} does not go with auth = {:?}", self.0.auth))
    }

    fn place(&self, proof: &Proof) -> Result<Place, SchemeError> {
        if !self.0.slots.is_empty() {
            if self.0.sig.is_some() {
                return wrong("slots", "stands instead of sig; leave one of them out");
            }
            return Ok(Place::Slots(self.0.slots.clone()));
        }
        match (&self.0.sig, proof) {
            (Some(sig), _) => place(sig),
            (None, Proof::Own(_)) => Ok(Place::Own),
            (None, _) => wrong(
                "sig",
                "is missing; say where the signature is, such as { header = \"X-Signature\" }",
            ),
        }
    }

    fn time(&self) -> Result<Option<Time>, SchemeError> {
        let Some(ts) = &self.0.ts else { return Ok(None) };
        let pairs = self.0.sig.as_ref().is_some_and(|sig| sig.pairs.is_some());
        let place = match (&ts.header, &ts.json, &ts.pick) {
            (Some(name), None, None) => TimePlace::Header(name.clone()),
            (None, Some(text), None) => TimePlace::Json(pointer("ts.json", text)?),
            (None, None, Some(key)) if pairs => TimePlace::Pick(key.clone()),
            (None, None, Some(_)) => {
                return wrong("ts.pick", "needs sig.pairs, from which to pick");
            }
            _ => return wrong("ts", "is in one place: header, json or pick"),
        };
        let unit = match &*ts.unit {
            "s" => Unit::Seconds,
            "ms" => Unit::Milliseconds,
            "rfc3339" => Unit::Rfc3339,
            other => {
                return wrong(
                    "ts.unit",
                    format!("{other:?} is unknown; there are s, ms and rfc3339"),
                );
            }
        };
        Ok(Some(Time { place, unit, tolerance: Duration::from_secs(ts.tolerance) }))
    }

    fn require(&self) -> Result<Vec<(String, Part)>, SchemeError> {
        let read = |(name, text): (&String, &String)| {
            let part = Part::parse(text)
                .map_err(|problem| SchemeError::Field { field: "require", problem })?;
            Ok((name.clone(), part))
        };
        self.0.require.iter().map(read).collect()
    }
}

fn parts(
    field: &'static str,
    texts: &[String],
    parse: fn(&str) -> Result<Part, String>,
) -> Result<Vec<Part>, SchemeError> {
    let parsed = texts.iter().map(|text| parse(text));
    parsed.collect::<Result<_, _>>().map_err(|problem| SchemeError::Field { field, problem })
}

fn place(sig: &SignatureDocument) -> Result<Place, SchemeError> {
    let name = match (&sig.header, &sig.json, &sig.query) {
        (Some(name), None, None) => name,
        (None, Some(text), None) => return Ok(Place::Json(pointer("sig.json", text)?)),
        (None, None, Some(name)) => return Ok(Place::Query(name.clone())),
        _ => return wrong("sig", "is in one place: header, json or query"),
    };
    if let Some(family) = name.strip_suffix('*') {
        return Ok(Place::Family(family.to_owned()));
    }
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return wrong("sig.header", format!("{name:?} is no name of a header"));
    }
    let form = match (&sig.list, &sig.pairs, &sig.pick) {
        (None, None, None) => HeaderForm::Whole,
        (Some(between), None, None) if !between.is_empty() => HeaderForm::List(between.clone()),
        (None, Some(between), Some(pick)) if !between.is_empty() => {
            HeaderForm::Pairs { between: between.clone(), pick: pick.clone() }
        }
        (None, Some(_), None) => {
            return wrong("sig.pick", "is missing; name the key of the signature");
        }
        _ => return wrong("sig", "is a list, or pairs with a pick, or neither"),
    };
    let prefix = sig.prefix.clone().unwrap_or_default();
    Ok(Place::Header { name: name.clone(), form, prefix, any_case: sig.prefix_nocase })
}

fn pointer(field: &'static str, text: &str) -> Result<Pointer, SchemeError> {
    Pointer::parse(text).map_or_else(
        || wrong(field, format!("{text:?} is no JSON pointer; it looks like /data/id")),
        Ok,
    )
}

fn hash(
    field: &'static str,
    name: &str,
) -> Result<(hmac::Algorithm, &'static digest::Algorithm), SchemeError> {
    Ok(match name {
        "sha1" => (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        "sha256" => (hmac::HMAC_SHA256, &digest::SHA256),
        "sha512" => (hmac::HMAC_SHA512, &digest::SHA512),
        other => {
            return wrong(
                field,
                format!("{other:?} is unknown; there are sha1, sha256 and sha512"),
            );
        }
    })
}

fn encoding(field: &'static str, name: &str) -> Result<Encoding, SchemeError> {
    Ok(match name {
        "hex" => Encoding::Hex,
        "base64" => Encoding::Base64,
        "base64url" => Encoding::Base64Url,
        other => {
            return wrong(
                field,
                format!("{other:?} is unknown; there are hex, base64 and base64url"),
            );
        }
    })
}
