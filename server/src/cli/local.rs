//! The program that is being developed on this machine, to which `listen` hands requests on.
//!
//! Not the client that delivers: its guard would refuse the very addresses that this is for.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Full, Limited};
use url::{Host, Url};

use super::client::{HttpClient, http_client, innermost};
use crate::domain::forwarded::{OF_CONNECTION, listed_in_connection};

/// As long as an endpoint's timeout can be: what takes longer here would fail there.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Headers that the next request has of its own. Beside them only those of one connection go no
/// further; all others do: also those of a tunnel on the way here.
const OWN: &[&str] = &["content-length", "host"];

/// The largest answer: providers read far less.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A program that takes requests.
pub struct Local {
    url: Url,
    http: HttpClient,
}

/// What it answered.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// `None` when it broke off, or was too large.
    pub body: Option<Bytes>,
}

impl Local {
    /// The program at `url`. Connects to nothing yet.
    pub fn at(url: Url) -> anyhow::Result<Self> {
        Ok(Self { url, http: http_client()? })
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whether that is this address of loopback: what it is handed would come back.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        let is_here = match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        is_here && self.url.port_or_known_default() == Some(address.port())
    }

    /// Sends a request, to `url` as it is written, and takes the answer; or says why there is none.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, String> {
        let request = Request::builder().method(method).uri(url).body(Full::new(body));
        let mut request = request.map_err(|error| format!("cannot be sent: {error}"))?;
        *request.headers_mut() = headers;
        let exchange = async {
            let answer = self.http.request(request).await;
            let answer = answer
                .map_err(|error| format!("cannot reach {}: {}", self.url, innermost(&error)))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.ok().map(http_body_util::Collected::to_bytes);
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())))
    }

    /// Hands a request on as it came, byte for byte; gives the answer, or says why there is none.
    pub async fn pass_on(
        &self,
        parts: Parts,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let mut url = self.url.clone();
        if let Some(query) = parts.uri.query() {
            let own = url.query().map(|own| format!("{own}&")).unwrap_or_default();
            url.set_query(Some(&format!("{own}{query}")));
        }
        let headers = passed_on(parts.headers);
        let answer = self.send(parts.method, url.as_str(), headers, body).await?;
        let body = answer.body.ok_or("its answer broke off, or is over 1 MiB")?;
        Ok((answer.status, passed_on(answer.headers), body))
    }
}

/// The headers of a message without those of its connection.
fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    let listed = headers.get_all(header::CONNECTION).iter().map(HeaderValue::as_bytes);
    let listed = listed_in_connection(listed);
    for name in OF_CONNECTION.iter().chain(OWN).copied().chain(listed.iter().map(String::as_str)) {
        headers.remove(name);
    }
    headers
}

/// A URL; one without `http://` and a port alone will do, since that is how people say it.
pub fn parse(text: &str) -> Result<Url, String> {
    let whole = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true if text.is_empty() => return Err("it is empty; write http://localhost:3000/".into()),
        true => format!("http://localhost:{text}/"),
        false if text.contains("://") || text.starts_with('/') => text.to_owned(),
        false => format!("http://{text}"),
    };
    match Url::parse(&whole) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        Ok(_) => Err("it is no URL of HTTP; write one like http://localhost:3000/hook".into()),
        Err(error) => Err(format!("{error}; write one like http://localhost:3000/hook")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_goes_no_further_and_all_else_does() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("host", "a.example"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("snaphook-signature", "v1,x"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-twice", "1"),
            ("x-twice", "2"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let passed = passed_on(headers);
        let mut names: Vec<_> = passed.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["snaphook-signature", "x-forwarded-for", "x-twice", "x-twice"]);
    }

    #[test]
    fn a_port_and_a_host_without_scheme_will_do() {
        for (text, expected) in [
            ("http://localhost:3000/hook?a=b", Some("http://localhost:3000/hook?a=b")),
            ("https://127.0.0.1", Some("https://127.0.0.1/")),
            ("localhost:3000/hook", Some("http://localhost:3000/hook")),
            ("3000", Some("http://localhost:3000/")),
            ("[::1]:3000", Some("http://[::1]:3000/")),
            ("", None),
            ("70000", None),
            ("ftp://localhost/", None),
            ("/hook", None),
        ] {
            assert_eq!(parse(text).ok().as_ref().map(Url::as_str), expected, "{text}");
        }
    }
}
