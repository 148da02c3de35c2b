//! One verifier for all schemes. Missing or unreadable parts come before the signature, the
//! signature before the age, and the body is not looked into before all of them hold, but where
//! the proof itself is in it.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    certificate::Certificate,
    credential::{self, Credential, CredentialError, Key, KeyForm, P256},
    generic,
    json::{self, Pointer},
    own,
    received::{Clock, Received, Refusal, Step},
    scheme::{IdScope, Own, Proof, Scheme, SchemeError},
    template::{Facts, Part, Source},
};

/// Secrets of which each is tried: two are live during a rotation, and more are of little use.
const SECRETS_MAX: usize = 16;

/// Verifies the requests of one sender: a scheme, and the secrets that are live.
///
/// ```
/// use snaphook_signature::{Received, Scheme, Verifier};
///
/// let scheme = Scheme::named("github")?;
/// let verifier = Verifier::new(scheme, &["It's a Secret to Everybody"], None)?;
///
/// let headers: [(&str, &[u8]); 3] = [
///     ("X-GitHub-Event", b"ping"),
///     ("X-GitHub-Delivery", b"72d3162e-cc78-11e3-81ab-4c9367dc0958"),
///     (
///         "X-Hub-Signature-256",
///         b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
///     ),
/// ];
/// let request = Received::new(&headers, b"Hello, World!"); // the raw bytes
/// let verified = verifier.verify(&request, 1_700_000_000)?;
/// assert_eq!(verified.event_type.as_deref(), Some("ping"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Verifier {
    pub(crate) scheme: Arc<Scheme>,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) public_key: Option<String>,
    pub(crate) certificate: Option<Certificate>,
    tolerance: Option<Duration>,
    id_from: Option<Vec<Part>>,
    type_from: Option<Vec<Part>>,
    /// For requests that have no signature of the scheme's own.
    otherwise: Option<Box<Verifier>>,
}

/// A request that is genuine and in time, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Which of the secrets matched, as an index.
    pub secret: usize,
    /// The event's id, by which a repeat is known. `None` when the sender gives none.
    pub event_id: Option<String>,
    /// The event's type, in the sender's spelling.
    pub event_type: Option<String>,
    /// When it was sent, in milliseconds since 1970, if that is signed.
    pub sent: Option<i64>,
    /// The signature that matched, where the id is not part of what it covers: a second request
    /// with the same one under another id is a copy. `None` where there is nothing to compare.
    pub evidence: Option<String>,
}

/// What a scheme makes of a request before its age is judged.
pub(crate) struct Proven {
    pub(crate) secret: usize,
    pub(crate) sent: Option<i64>,
    pub(crate) tolerance: Option<Duration>,
    pub(crate) event_type: Option<String>,
    pub(crate) evidence: Option<String>,
}

impl Proven {
    pub(crate) fn by(secret: usize) -> Self {
        Self { secret, sent: None, tolerance: None, event_type: None, evidence: None }
    }
}

/// What must be fetched before a request can be verified. This crate fetches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The certificate at this URL, whose host was judged to be the provider's own. Fetch it over
    /// TLS, follow no redirect, and keep it: it changes rarely.
    Certificate(String),
    /// The public key of this name, as a JSON Web Key, by the provider's API.
    Jwk(String),
}

pub(crate) enum Fetched {
    Certificate(Certificate),
    Jwk(P256),
}

impl Verifier {
    /// Takes the secrets as the provider shows them, and checks their form. `public_key` is the
    /// second part of a credential where a provider has two: Pusher's and LiveKit's key id,
    /// Braintree's public key, PayPal's certificate (which is fetched when none is given).
    pub fn new(
        scheme: impl Into<Arc<Scheme>>,
        secrets: &[impl AsRef<str>],
        public_key: Option<&str>,
    ) -> Result<Self, CredentialError> {
        let scheme = scheme.into();
        if secrets.len() > SECRETS_MAX {
            return Err(CredentialError::TooMany(secrets.len()));
        }
        let credentials = secrets.iter().map(|text| Credential::parse(&scheme, text.as_ref()));
        let credentials: Vec<_> = credentials.collect::<Result<_, _>>()?;
        let fetches = matches!(&scheme.proof, Proof::Jwt(_))
            && matches!(scheme.key, KeyForm::Jwk | KeyForm::Plaid);
        if credentials.is_empty() && !fetches {
            return Err(CredentialError::Missing {
                scheme: scheme.name.clone(),
                what: missing(&scheme),
            });
        }
        let certificate = match (&scheme.proof, public_key) {
            (Proof::Own(Own::Paypal), Some(pem)) => Some(own::paypal::certificate(pem)?),
            _ => None,
        };
        if let Some(what) =
            public_key_wanted(&scheme).filter(|_| public_key.is_none_or(str::is_empty))
        {
            return Err(CredentialError::PublicKey { scheme: scheme.name.clone(), what });
        }
        let otherwise = match scheme.otherwise.as_deref().map(Scheme::named) {
            Some(Ok(other)) => Some(Box::new(Self::new(other, secrets, public_key)?)),
            Some(Err(error)) => return Err(CredentialError::Form(format!("else: {error}"))),
            None => None,
        };
        let public_key = public_key.map(str::to_owned);
        let (id_from, type_from, tolerance) = (None, None, None);
        Ok(Self {
            scheme,
            credentials,
            public_key,
            certificate,
            tolerance,
            id_from,
            type_from,
            otherwise,
        })
    }

    /// How far a timestamp may be off, either way, instead of what the scheme says. Schemes
    /// without a timestamp have no use for it.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.otherwise = self.otherwise.map(|other| Box::new(other.with_tolerance(tolerance)));
        Self { tolerance: Some(tolerance), ..self }
    }

    /// Where the event's id is, instead of where the scheme says: the first of these that is
    /// there. What is signed does not change by it.
    pub fn with_id_from(mut self, templates: &[impl AsRef<str>]) -> Result<Self, SchemeError> {
        self.id_from = Some(templates_of("id_from", templates)?);
        self.otherwise = None;
        Ok(self)
    }

    /// Where the event's type is, instead of where the scheme says.
    pub fn with_type_from(mut self, templates: &[impl AsRef<str>]) -> Result<Self, SchemeError> {
        self.type_from = Some(templates_of("type_from", templates)?);
        self.otherwise = None;
        Ok(self)
    }

    /// The scheme.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether two requests with one id are one event.
    pub fn id_scope(&self) -> IdScope {
        self.scheme.id_scope
    }

    /// What must be fetched for this request, if anything. Only Amazon SNS, PayPal and Plaid
    /// publish what they sign with.
    pub fn need(&self, request: &Received<'_>) -> Result<Option<Need>, Refusal> {
        match &self.scheme.proof {
            Proof::Own(Own::Paypal) if self.certificate.is_none() => {
                own::paypal::need(request).map(Some)
            }
            Proof::Own(Own::Sns) if own::sns::is_unpinned(self) => {
                own::sns::need(self, request).map(Some)
            }
            Proof::Jwt(rules) if self.fetches_keys() => {
                generic::kid(self, rules, request).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether none of the secrets is a key by itself.
    pub(crate) fn fetches_keys(&self) -> bool {
        self.credentials.iter().all(|credential| matches!(credential.key, Key::Text))
    }

    /// Verifies a request that was received at `now`, in seconds since 1970.
    pub fn verify(&self, request: &Received<'_>, now: i64) -> Result<Verified, Refusal> {
        self.verify_by(request, now, None)
    }

    /// As [`verify`](Self::verify), with what [`need`](Self::need) asked for, as text: the
    /// certificate as PEM, the key as JSON.
    pub fn verify_with(
        &self,
        request: &Received<'_>,
        now: i64,
        fetched: &str,
    ) -> Result<Verified, Refusal> {
        let read = match &self.scheme.proof {
            Proof::Jwt(_) => credential::jwk(fetched).map(Fetched::Jwk),
            _ => Certificate::parse(fetched).map(Fetched::Certificate),
        };
        let unreadable = |error: CredentialError| {
            Refusal::malformed(Step::Key, "what was fetched", format!("is no key: {error}"))
        };
        self.verify_by(request, now, Some(&read.map_err(unreadable)?))
    }

    /// What a request says of itself, nothing of which is proven: its id, and its type in the
    /// sender's spelling. For a person who decides to believe it all the same.
    pub fn unproven(&self, request: &Received<'_>) -> (Option<String>, Option<String>) {
        if let Some(other) =
            self.otherwise.as_deref().filter(|_| self.scheme.place.is_absent(request))
        {
            return other.unproven(request);
        }
        let told = self.told(request, Proven::by(0));
        (told.event_id, told.event_type)
    }

    fn verify_by(
        &self,
        request: &Received<'_>,
        now: i64,
        fetched: Option<&Fetched>,
    ) -> Result<Verified, Refusal> {
        if let Some(other) =
            self.otherwise.as_deref().filter(|_| self.scheme.place.is_absent(request))
        {
            return other.verify_by(request, now, fetched);
        }
        let proven = match &self.scheme.proof {
            Proof::Own(own) => own::prove(*own, self, request, now, fetched)?,
            _ => generic::prove(self, request, now, fetched)?,
        };
        if let (Some(sent), Some(tolerance)) = (proven.sent, proven.tolerance) {
            let tolerance = self.tolerance.unwrap_or(tolerance);
            Clock { now, tolerance }.judge_millis(sent)?;
        }
        for name in self.id_parts().iter().filter_map(Part::lone_header) {
            // Of two ids, which one counts would depend on who reads them.
            request.optional(name, Step::Id)?;
        }
        Ok(self.told(request, proven))
    }

    fn id_parts(&self) -> &[Part] {
        self.id_from.as_ref().unwrap_or(&self.scheme.id)
    }

    /// What a genuine request says of itself. The body is read once for all of it.
    fn told(&self, request: &Received<'_>, proven: Proven) -> Verified {
        let id_from = self.id_parts();
        let type_from = self.type_from.as_ref().unwrap_or(&self.scheme.event_type);
        let pointers: Vec<&Pointer> = id_from
            .iter()
            .chain(type_from)
            .flat_map(Part::sources)
            .filter_map(|source| match source {
                Source::Json(pointer) => Some(pointer),
                _ => None,
            })
            .collect();
        let values = json::pluck(request.body(), &pointers);
        let plucked: Vec<_> = pointers.into_iter().zip(values).collect();
        let facts = Facts {
            plucked: &plucked,
            public_key: self.public_key.as_deref(),
            ..Facts::of(request)
        };
        let first =
            |parts: &[Part]| parts.iter().find_map(|part| Some(part.text(&facts)?.into_owned()));
        let event_id = first(id_from);
        Verified {
            secret: proven.secret,
            event_type: proven.event_type.or_else(|| first(type_from)),
            sent: proven.sent,
            evidence: proven.evidence.filter(|_| event_id.is_some() && !self.scheme.signs_id()),
            event_id,
        }
    }
}

/// Prints the scheme alone.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({}, {} secrets)", self.scheme.name, self.credentials.len())
    }
}

fn templates_of(
    field: &'static str,
    templates: &[impl AsRef<str>],
) -> Result<Vec<Part>, SchemeError> {
    let read = templates.iter().map(|text| Part::parse_value(text.as_ref()));
    read.collect::<Result<_, _>>().map_err(|problem| SchemeError::Field { field, problem })
}

fn missing(scheme: &Scheme) -> &'static str {
    match scheme.proof {
        Proof::Own(Own::Sns) => "the topic's ARN, without which anybody's topic would pass",
        Proof::Own(Own::Paypal) => "the webhook's id, from the app's settings",
        _ => "the one that the provider shows",
    }
}

/// What the second part of the credential is, where it must be there.
fn public_key_wanted(scheme: &Scheme) -> Option<&'static str> {
    let jwt = match &scheme.proof {
        Proof::Own(Own::Braintree) => return Some("the public key beside the private one"),
        Proof::Jwt(rules) => &*rules.claims,
        _ => &[],
    };
    let mut parts =
        scheme.signed.iter().chain(jwt.iter().chain(&scheme.require).map(|(_, part)| part));
    let named = parts.any(|part| part.sources().any(|source| *source == Source::PublicKey));
    named.then_some("the key id that goes with the secret")
}
