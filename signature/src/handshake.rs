//! Handshakes: the requests by which a provider tries a URL before it sends events there. What
//! they look like and what they want to hear is data, `handshakes.toml`.
//!
//! Some come before there is a secret, so these are the only requests that are answered without
//! being verified. Their answers give nothing away: an echo is plain text, what is signed for a
//! stranger cannot be a body, and a secret is taken only while the source waits for one.

use std::{fmt, sync::Arc};

use zeroize::Zeroizing;

use crate::{
    compare::same,
    credential::{Credential, CredentialError, Key},
    json::{self, Pointer},
    own,
    received::{Received, Step},
    scheme::{Encoding, Scheme},
    template::Facts,
    verifier::Verified,
};

mod read;
mod text;

pub(crate) use read::table;
use text::Text;

/// A body that is longer is no handshake. The longest that a provider sends has some hundred
/// bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// One kind of handshake of a provider.
#[derive(Debug)]
pub(crate) struct Rule {
    method: String,
    query: Vec<(String, Wanted)>,
    header: Vec<(String, Wanted)>,
    json: Vec<(Pointer, Wanted)>,
    verified: bool,
    token: Option<Text>,
    only: Option<Only>,
    sign: Option<(Text, Encoding)>,
    keep: Option<Text>,
    visit: Option<Text>,
    status: u16,
    body: Body,
    headers: Vec<(String, Text)>,
}

/// What must stand somewhere.
#[derive(Debug)]
enum Wanted {
    Any,
    Exactly(String),
}

/// The characters and the length of a text.
#[derive(Debug)]
struct Only {
    of: Text,
    chars: Vec<(char, char)>,
    length: (usize, usize),
}

#[derive(Debug)]
enum Body {
    Empty,
    Plain(Text),
    Json(Vec<(String, Member)>),
}

#[derive(Debug)]
enum Member {
    Text(Text),
    Number(i64),
}

/// The handshakes of one sender, with what its source knows.
///
/// ```
/// use snaphook_signature::{Handshake, Handshakes, Received, Scheme};
///
/// let handshakes = Handshakes::new(Scheme::named("dropbox")?, &["secret"], None, None)?;
/// let request = Received::new(&[], b"").with_method("GET").with_url("/hooks?challenge=8025497f");
/// let Some(Handshake::Answer(answer)) = handshakes.unverified(&request, false) else { panic!() };
/// assert_eq!((answer.status, &*answer.body), (200, &b"8025497f"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Handshakes {
    scheme: Arc<Scheme>,
    credentials: Vec<Credential>,
    public_key: Option<String>,
    verify_token: Option<Zeroizing<String>>,
}

/// What a handshake comes to.
#[derive(Clone, PartialEq, Eq)]
pub enum Handshake {
    /// The provider hears what it wants to.
    Answer(Answer),
    /// It looks like a handshake, and is none that may be answered.
    Refused {
        /// The status of the answer, which has no body.
        status: u16,
        /// Why. For logs and people; the sender learns nothing of it.
        reason: &'static str,
    },
}

/// The answer to a handshake, and what is to be done before it is given.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// 200, or 204.
    pub status: u16,
    /// Its headers: all that it needs, the type of the body among them.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// A secret that the source must keep before it answers. Its form was checked.
    pub keep: Option<Zeroizing<String>>,
    /// A URL to fetch before it is answered. Its host was judged to be the provider's own.
    pub visit: Option<String>,
}

impl Handshakes {
    /// Takes the secrets as the provider shows them, the first of which answers; there may be
    /// none yet. `public_key` is the second part of a credential, as for
    /// [`Verifier::new`](crate::Verifier::new); `verify_token` is what Meta shows to prove itself.
    pub fn new(
        scheme: impl Into<Arc<Scheme>>,
        secrets: &[impl AsRef<str>],
        public_key: Option<&str>,
        verify_token: Option<&str>,
    ) -> Result<Self, CredentialError> {
        let scheme = scheme.into();
        let credentials = secrets.iter().map(|text| Credential::parse(&scheme, text.as_ref()));
        Ok(Self {
            credentials: credentials.collect::<Result<_, _>>()?,
            public_key: public_key.map(str::to_owned),
            verify_token: verify_token
                .filter(|token| !token.is_empty())
                .map(|token| Zeroizing::new(token.to_owned())),
            scheme,
        })
    }

    /// The methods of its handshakes.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.scheme.handshakes.iter().map(|rule| &*rule.method)
    }

    /// Answers what is asked before anything can be verified. `may_keep` is whether the source
    /// waits for its secret: it has none, or somebody said that a new one is to come.
    ///
    /// The URL of the request is the one that it came with: path and query are enough.
    pub fn unverified(&self, request: &Received<'_>, may_keep: bool) -> Option<Handshake> {
        let fits = |rule: &&Rule| {
            !rule.verified && (may_keep || rule.keep.is_none()) && rule.fits(request)
        };
        let rule = self.scheme.handshakes.iter().find(fits)?;
        Some(self.answer(rule, request, 0))
    }

    /// Answers a request that has verified, if it is a handshake. It is no event then.
    pub fn verified(&self, request: &Received<'_>, verified: &Verified) -> Option<Handshake> {
        let fits = |rule: &&Rule| rule.verified && rule.fits(request);
        let rule = self.scheme.handshakes.iter().find(fits)?;
        Some(self.answer(rule, request, verified.secret))
    }

    fn answer(&self, rule: &Rule, request: &Received<'_>, secret: usize) -> Handshake {
        self.answered(rule, request, secret).map_or_else(
            |(status, reason)| Handshake::Refused { status, reason },
            Handshake::Answer,
        )
    }

    fn answered(
        &self,
        rule: &Rule,
        request: &Received<'_>,
        secret: usize,
    ) -> Result<Answer, (u16, &'static str)> {
        let facts = Facts { public_key: self.public_key.as_deref(), ..Facts::of(request) };
        let fill = |text: &Text| text.fill(&facts, "").ok_or((400, ABSENT));
        if let Some(token) = &rule.token {
            let given = token.fill(&facts, "").unwrap_or_default();
            let ours = self.verify_token.as_ref().ok_or((403, "the source has no verify token"))?;
            if !same(ours.as_bytes(), given.as_bytes()) {
                return Err((403, "its verify token is not the source's"));
            }
        }
        if rule.only.as_ref().is_some_and(|only| !only.holds_for(&facts)) {
            return Err((400, "its challenge has not the form that the provider gives it"));
        }
        let sig = match &rule.sign {
            Some((text, encoding)) => self.sign(&fill(text)?, *encoding, secret)?,
            None => String::new(),
        };
        let keep = rule.keep.as_ref().map(fill).transpose()?.map(Zeroizing::new);
        if keep.as_ref().is_some_and(|text| Credential::parse(&self.scheme, text).is_err()) {
            return Err((400, "what it gives as the secret has not the form of one"));
        }
        let visit = rule.visit.as_ref().map(fill).transpose()?;
        if visit.as_ref().is_some_and(|url| !own::sns::is_url_of_ours(url)) {
            return Err((400, "the URL that it asks to be fetched is not the provider's own"));
        }
        let (kind, body) = rule.body.fill(&facts, &sig).ok_or((400, ABSENT))?;
        let mut headers = Vec::new();
        for (name, text) in &rule.headers {
            if let Some(value) = text.fill(&facts, &sig) {
                if value.chars().any(|c| !matches!(c, ' '..='~')) {
                    return Err((400, "what is to be echoed has characters that no header has"));
                }
                headers.push((name.clone(), value));
            }
        }
        if let Some(kind) = kind {
            let fixed = [("Content-Type", kind), ("X-Content-Type-Options", "nosniff")];
            headers.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        Ok(Answer { status: rule.status, headers, body, keep, visit })
    }

    fn sign(
        &self,
        text: &str,
        encoding: Encoding,
        secret: usize,
    ) -> Result<String, (u16, &'static str)> {
        match self.credentials.get(secret).map(|credential| &credential.key) {
            Some(Key::Mac(key)) => {
                Ok(encoding.write(aws_lc_rs::hmac::sign(key, text.as_bytes()).as_ref()))
            }
            _ => Err((403, "the source has no secret to answer with")),
        }
    }
}

const ABSENT: &str = "what is to be echoed is absent";

impl Rule {
    /// The body is looked into last, and only when all else fits.
    fn fits(&self, request: &Received<'_>) -> bool {
        let header = |name: &str| request.optional(name, Step::Header).ok().flatten();
        request.method() == self.method
            && self.query.iter().all(|(name, wanted)| wanted.is(request.query(name).as_deref()))
            && self.header.iter().all(|(name, wanted)| wanted.is(header(name)))
            && (self.json.is_empty() || self.fits_body(request.body()))
    }

    fn fits_body(&self, body: &[u8]) -> bool {
        if body.len() > BODY_BYTES_MAX {
            return false;
        }
        let pointers: Vec<_> = self.json.iter().map(|(pointer, _)| pointer).collect();
        let values = json::pluck(body, &pointers);
        self.json.iter().zip(values).all(|((_, wanted), value)| wanted.is(value.as_deref()))
    }
}

impl Wanted {
    fn is(&self, value: Option<&str>) -> bool {
        match self {
            Self::Any => value.is_some(),
            Self::Exactly(text) => value == Some(text),
        }
    }
}

impl Only {
    fn holds_for(&self, facts: &Facts<'_>) -> bool {
        let text = self.of.fill(facts, "").unwrap_or_default();
        let allowed = |c: char| self.chars.iter().any(|(from, to)| (*from..=*to).contains(&c));
        (self.length.0..=self.length.1).contains(&text.len()) && text.chars().all(allowed)
    }
}

impl Body {
    /// The type and the bytes, or `None` when something that it names is absent.
    fn fill(&self, facts: &Facts<'_>, sig: &str) -> Option<(Option<&'static str>, Vec<u8>)> {
        match self {
            Self::Empty => Some((None, Vec::new())),
            Self::Plain(text) => Some((Some("text/plain"), text.fill(facts, sig)?.into_bytes())),
            Self::Json(members) => {
                let mut whole = serde_json::Map::new();
                for (name, member) in members {
                    let value = match member {
                        Member::Text(text) => text.fill(facts, sig)?.into(),
                        Member::Number(number) => (*number).into(),
                    };
                    whole.insert(name.clone(), value);
                }
                let bytes = serde_json::Value::Object(whole).to_string().into_bytes();
                Some((Some("application/json"), bytes))
            }
        }
    }
}

/// Prints nothing that could be a secret.
impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => answer.fmt(f),
            Self::Refused { status, reason } => write!(f, "Refused({status}, {reason})"),
        }
    }
}

/// Prints nothing that could be a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} bytes)", self.status, self.body.len())
    }
}

/// Prints the scheme alone.
impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshakes({}, {})", self.scheme.name, self.scheme.handshakes.len())
    }
}
