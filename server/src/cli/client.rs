//! The HTTP client of the client commands: one server, one key, JSON both ways.
//!
//! Not the client that delivers: that one is `world`, with a guard that would refuse the very
//! addresses at which operators run their server.

use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::hmac;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use snaphook_signature::Secret;
use tokio::time::timeout;
use url::Url;

use super::{
    connect::{ClientArgs, Server},
    exit::{Exit, Failure},
    problem,
};

/// Long enough for a server that is starting; short enough for a person to wait.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A whole call. `endpoints test` waits for a receiver, up to 30 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);

/// The largest answer: a page of 250 deliveries with their attempts stays well below it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The most that one page can hold.
const PAGE_MAX: usize = 250;

/// A server that can be called.
pub struct Client {
    server: Server,
    http: HttpClient,
    patience: Duration,
}

/// What posts over HTTP and HTTPS.
pub type HttpClient = Http<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// For one person's requests: no pool to speak of, and the certificates of this system.
pub fn http_client() -> anyhow::Result<HttpClient> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(provider)
        .context("cannot read the certificates of this system")?
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Http::builder(TokioExecutor::new()).build(connector))
}

/// What happened: the outer errors say "client error", the innermost says why.
pub fn innermost<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

/// One page of a listing, each item as the server wrote it.
#[derive(Deserialize)]
pub struct Page {
    /// The items.
    pub data: Vec<Box<RawValue>>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Client {
    /// For the server that flags, environment or `dev` name. Connects to nothing yet.
    pub fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        Ok(Self { server: args.server()?, http: http_client()?, patience: CALL_TIMEOUT })
    }

    /// One that waits no longer than that for an answer to begin.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// A secret for `purpose` that is the same whenever this key is used, and tells nothing of it.
    pub fn secret_for(&self, purpose: &str) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.server.api_key.expose().as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hmac::sign(&key, purpose.as_bytes()).as_ref());
        Secret::new_hmac(&bytes)
    }

    /// The URL of a path below the server's, each part escaped.
    pub fn url(&self, parts: &[&str]) -> Url {
        let mut url = self.server.url.clone();
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&parts.iter().fold(path, |path, part| format!("{path}/{}", escaped(part))));
        url
    }

    /// Gets one thing, as the server wrote it.
    pub async fn get(&self, url: &Url) -> anyhow::Result<Box<RawValue>> {
        parse(&self.call(Method::GET, url, None).await?)
    }

    /// Gets bytes that need not be JSON.
    pub async fn get_bytes(&self, url: &Url) -> anyhow::Result<Bytes> {
        self.call(Method::GET, url, None).await
    }

    /// Sends JSON and takes what comes back; `null` when nothing does.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        body: &Value,
    ) -> anyhow::Result<Box<RawValue>> {
        let body = Bytes::from(body.to_string());
        parse(&self.call(method, url, Some(("application/json", body))).await?)
    }

    /// Posts bytes of any type.
    pub async fn post_bytes(
        &self,
        url: &Url,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Box<RawValue>> {
        parse(&self.call(Method::POST, url, Some((content_type, body))).await?)
    }

    /// Deletes.
    pub async fn delete(&self, url: &Url) -> anyhow::Result<()> {
        self.call(Method::DELETE, url, None).await.map(drop)
    }

    /// One page, `limit` items at most.
    pub async fn page(&self, url: &Url, limit: usize) -> anyhow::Result<Page> {
        let mut url = url.clone();
        url.query_pairs_mut().append_pair("limit", &limit.clamp(1, PAGE_MAX).to_string());
        Ok(serde_json::from_str(self.get(&url).await?.get())?)
    }

    /// The first `limit` items of a listing, over as many pages as that takes, and whether there
    /// are more.
    pub async fn list(
        &self,
        url: &Url,
        limit: usize,
    ) -> anyhow::Result<(Vec<Box<RawValue>>, bool)> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut at = url.clone();
            if let Some(cursor) = &cursor {
                at.query_pairs_mut().append_pair("cursor", cursor);
            }
            let mut page = self.page(&at, limit - items.len()).await?;
            items.append(&mut page.data);
            match page.next {
                Some(next) if items.len() < limit && cursor.as_ref() != Some(&next) => {
                    cursor = Some(next);
                }
                more => return Ok((items, more.is_some())),
            }
        }
    }

    async fn call(
        &self,
        method: Method,
        url: &Url,
        body: Option<(&str, Bytes)>,
    ) -> anyhow::Result<Bytes> {
        let mut request = Request::builder()
            .method(method)
            .uri(url.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("snaphook-cli/", env!("CARGO_PKG_VERSION")))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.server.api_key.expose()));
        if let Some((content_type, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *content_type);
        }
        let body = body.map_or_else(Bytes::new, |(_, bytes)| bytes);
        let request = request
            .body(Full::new(body))
            .map_err(|_| Failure::usage("the API key has characters that no key has"))?;

        let exchange = async {
            let answer = timeout(self.patience, self.http.request(request)).await;
            let answer = answer.map_err(|_| self.no_answer(self.patience))?;
            let answer = answer.map_err(|error| self.unreachable(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.unreachable(error.as_ref()))?.to_bytes();
            if status.is_success() {
                Ok(body)
            } else {
                Err(problem::failure(status.as_u16(), &body))
            }
        };
        match timeout(CALL_TIMEOUT, exchange).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(self.no_answer(CALL_TIMEOUT).into()),
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        let cause = innermost(error);
        Failure::new(
            Exit::Unreachable,
            format!("cannot reach the server at {}: {cause}", self.server.url),
        )
        .hint("is it running? `snaphook serve` starts one; SNAPHOOK_URL says where it is")
    }

    fn no_answer(&self, within: Duration) -> Failure {
        let seconds = within.as_secs();
        let url = &self.server.url;
        Failure::new(Exit::Unreachable, format!("no answer from {url} within {seconds} s"))
    }
}

fn parse(body: &[u8]) -> anyhow::Result<Box<RawValue>> {
    let body: &[u8] = if body.is_empty() { b"null" } else { body };
    serde_json::from_slice(body).context("the answer is no JSON; is this a snaphook server?")
}
/// All but letters, digits and `-._~` (RFC 3986, 2.3). The library's own way drops line breaks and
/// tabs, as a browser's address bar does: another name would be asked for than was given.
fn escaped(part: &str) -> String {
    use std::fmt::Write as _;
    part.bytes().fold(String::with_capacity(part.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes everything");
        }
        text
    })
}
