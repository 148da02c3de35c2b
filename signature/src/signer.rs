//! The signing half for all schemes: what a provider would send, for those whose key is shared.
//!
//! Where a scheme has its proof in the body or in the URL, these are made anew. Public keys, which
//! SendGrid, Plaid, PayPal and Amazon SNS give out, sign nothing.

use std::borrow::Cow;

use aws_lc_rs::{digest, hmac};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{
    credential::{Credential, Key},
    json, jwt, own,
    place::{HeaderForm, Place},
    received::{Received, Step},
    scheme::{Own, Proof, Scheme, TimePlace},
    sign::SignError,
    template::{Facts, Part, Source},
    verifier::Verifier,
};

/// What goes out in place of, or besides, what was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// Headers to add, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, where the proof is in it.
    pub body: Option<Vec<u8>>,
    /// The URL, where the proof is in it.
    pub url: Option<String>,
}

impl Outgoing {
    pub(crate) fn add(&mut self, name: &str, value: String) {
        self.headers.push((name.to_owned(), value));
    }
}

impl Verifier {
    /// Signs a request as the provider would at `now`, in seconds since 1970: with every secret
    /// where the scheme has room for several, else with the first. `id` is the event's, for schemes
    /// that have one in a header.
    ///
    /// ```
    /// use snaphook_signature::{Received, Scheme, Verifier};
    ///
    /// let slack = Verifier::new(Scheme::named("slack")?, &["8f742231b10e8888abcd99yyyzzz85a5"], None)?;
    /// let request = Received::new(&[], b"token=x");
    /// let outgoing = slack.sign(&request, "", 1_531_420_618)?;
    /// assert_eq!(outgoing.headers[0].0, "X-Slack-Request-Timestamp");
    /// assert!(outgoing.headers[1].1.starts_with("v0="));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sign(&self, request: &Received<'_>, id: &str, now: i64) -> Result<Outgoing, SignError> {
        if self.credentials.is_empty() {
            return Err(SignError::NoSecret);
        }
        let scheme = &*self.scheme;
        let timestamp = scheme.time.as_ref().map(|time| time.unit.write(now));
        let mut outgoing = match &scheme.proof {
            Proof::Own(Own::Twilio) => own::twilio::sign(self, request)?,
            Proof::Own(Own::Braintree) => own::braintree::sign(self, request),
            Proof::Own(Own::Adyen) => own::adyen::sign(self, request)?,
            Proof::Own(Own::Contentful) => {
                own::contentful::sign(self, request, timestamp.as_deref().unwrap_or_default())?
            }
            Proof::Own(Own::Sns | Own::Paypal) | Proof::Ecdsa(_) => return Err(self.public()),
            Proof::Jwt(rules) if rules.algorithm == jwt::Algorithm::Es256 => {
                return Err(self.public());
            }
            _ => self.sign_generic(request, id, now, timestamp.as_deref())?,
        };
        let (header, known) = id_header(scheme, request);
        if let (Some(name), None, false) = (header, known, id.is_empty()) {
            outgoing.headers.insert(0, (name.to_owned(), id.to_owned()));
        }
        Ok(outgoing)
    }

    fn public(&self) -> SignError {
        SignError::PublicScheme(self.scheme.name.clone())
    }

    fn sign_generic(
        &self,
        request: &Received<'_>,
        id: &str,
        now: i64,
        timestamp: Option<&str>,
    ) -> Result<Outgoing, SignError> {
        let scheme = &*self.scheme;
        let mut outgoing = Outgoing::default();
        if let (Some(time), Some(text)) = (&scheme.time, timestamp)
            && let TimePlace::Header(name) = &time.place
        {
            outgoing.add(name, text.to_owned());
        }
        for (name, part) in &scheme.require {
            let facts = Facts { public_key: self.public_key.as_deref(), ..Facts::of(request) };
            outgoing.add(name, part.text(&facts).unwrap_or_default().into_owned());
        }
        let changed = self.body_to_sign(request, id, timestamp)?;
        let body = changed.as_deref().unwrap_or(request.body());
        let request = request.with_body(body);
        let (_, known) = id_header(scheme, &request);
        let facts = Facts {
            timestamp,
            id: Some(known.unwrap_or(id)),
            public_key: self.public_key.as_deref(),
            ..Facts::of(&request)
        };
        let proofs = self.credentials.iter().map(|credential| self.proof(credential, &facts, now));
        let proofs: Vec<String> = proofs.collect::<Result<_, _>>()?;
        self.put(&mut outgoing, &request, proofs, timestamp)?;
        if outgoing.body.is_none() {
            outgoing.body = changed;
        }
        Ok(outgoing)
    }

    /// The body with what must be in it before it is signed: the time, and a token of one use.
    fn body_to_sign(
        &self,
        request: &Received<'_>,
        id: &str,
        timestamp: Option<&str>,
    ) -> Result<Option<Vec<u8>>, SignError> {
        let mut body: Option<Vec<u8>> = None;
        let mut put = |pointer, value: &str| {
            let current = body.as_deref().unwrap_or(request.body());
            body = Some(json::set(current, pointer, value).ok_or(SignError::NoJsonObject)?);
            Ok::<(), SignError>(())
        };
        if let (Some(time), Some(text)) = (&self.scheme.time, timestamp)
            && let TimePlace::Json(pointer) = &time.place
        {
            put(pointer, text)?;
        }
        for source in self.scheme.signed.iter().flat_map(Part::sources) {
            if let Source::Json(pointer) = source
                && json::pluck(request.body(), &[pointer])[0].is_none()
            {
                put(pointer, id)?;
            }
        }
        Ok(body)
    }

    /// What one secret makes of the request.
    fn proof(
        &self,
        credential: &Credential,
        facts: &Facts<'_>,
        now: i64,
    ) -> Result<String, SignError> {
        let facts = Facts { secret: &credential.text, ..*facts };
        let mut message: Vec<Cow<'_, [u8]>> = Vec::new();
        for part in &self.scheme.signed {
            part.signed(&facts, &mut message)?;
        }
        let message = message.concat();
        Ok(match (&self.scheme.proof, &credential.key) {
            (Proof::Hmac(_, encoding), Key::Mac(key)) => {
                encoding.write(hmac::sign(key, &message).as_ref())
            }
            (Proof::Digest(algorithm, encoding), _) => {
                encoding.write(digest::digest(algorithm, &message).as_ref())
            }
            (Proof::Ed25519(encoding), Key::Ed25519 { pair: Some(pair), .. }) => {
                encoding.write(pair.sign(&message).as_ref())
            }
            (Proof::Ed25519(_), _) => return Err(self.public()),
            (Proof::Basic, _) => {
                format!("Basic {}", BASE64_STANDARD.encode(credential.text.as_bytes()))
            }
            (Proof::Jwt(rules), Key::Mac(key)) => jwt::sign(rules, key, &facts, now),
            _ => credential.text.to_string(),
        })
    }

    /// Puts the proofs where the scheme has them.
    fn put(
        &self,
        outgoing: &mut Outgoing,
        request: &Received<'_>,
        proofs: Vec<String>,
        timestamp: Option<&str>,
    ) -> Result<(), SignError> {
        let first = proofs.first().cloned().unwrap_or_default();
        match &self.scheme.place {
            Place::Header { name, form, prefix, .. } => {
                let value = match form {
                    HeaderForm::Whole => format!("{prefix}{first}"),
                    HeaderForm::List(between) => {
                        let entries = proofs.iter().map(|proof| format!("{prefix}{proof}"));
                        entries.collect::<Vec<_>>().join(between)
                    }
                    HeaderForm::Pairs { between, pick } => {
                        let time = self.scheme.time.as_ref().and_then(|time| match &time.place {
                            TimePlace::Pick(key) => Some(format!("{key}={}", timestamp?)),
                            _ => None,
                        });
                        let proofs = proofs.iter().map(|proof| format!("{pick}={proof}"));
                        time.into_iter().chain(proofs).collect::<Vec<_>>().join(between)
                    }
                };
                outgoing.add(name, value);
            }
            Place::Family(start) => {
                for (number, proof) in (1..).zip(proofs) {
                    outgoing.add(&format!("{start}{number}"), proof);
                }
            }
            Place::Slots(names) => {
                for (name, proof) in names.iter().zip(proofs) {
                    outgoing.add(name, proof);
                }
            }
            Place::Json(pointer) => {
                let body = json::set(request.body(), pointer, &first);
                outgoing.body = Some(body.ok_or(SignError::NoJsonObject)?);
            }
            Place::Query(name) => outgoing.url = Some(with_query(request.url()?, name, &first)),
            Place::Own => {}
        }
        Ok(())
    }
}

/// The header of the event's id, if that is where the scheme has it, and its value if it is given.
fn id_header<'a>(scheme: &'a Scheme, request: &Received<'a>) -> (Option<&'a str>, Option<&'a str>) {
    let name = scheme.id.iter().find_map(|part| part.lone_header());
    (name, name.and_then(|name| request.optional(name, Step::Id).ok().flatten()))
}

/// A URL with one parameter set, in place of one of that name.
fn with_query(url: &str, name: &str, value: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let others = form_urlencoded::parse(query.as_bytes()).filter(|(other, _)| other != name);
    let mut written = form_urlencoded::Serializer::new(String::new());
    written.extend_pairs(others).append_pair(name, value);
    format!("{base}?{}", written.finish())
}
