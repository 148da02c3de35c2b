//! Through the operator's forward proxy, by `CONNECT` (RFC 9110, section 9.3.6) for both schemes.
//!
//! A proxy that is given a name resolves it itself, and the guard would judge nothing. So the
//! proxy is given the judged address, while TLS and the `Host` header keep the name; unless the
//! operator says that the proxy guards. Never taken from `HTTP_PROXY`: only settings count.

use std::{fmt, io};

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use url::Url;

/// Most that a proxy may say before the tunnel begins: what servers commonly take as headers.
const HEAD_BYTES_MAX: usize = 8192;

/// A forward proxy: `egress.proxy` and `egress.proxy_guards`.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxySettings {
    host: String,
    port: u16,
    /// The value of `proxy-authorization`.
    authorization: Option<String>,
    /// Whether the proxy itself keeps requests away from private addresses.
    guards: bool,
}

/// Why a proxy's URL is refused. Does not repeat the URL: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Not like `http://[user:password@]host[:port]`.
    #[error(
        "egress.proxy must look like http://proxy.example:3128 or http://user:password@proxy.example:3128"
    )]
    Malformed,
    /// TLS to the proxy itself.
    #[error("egress.proxy must begin with http://; TLS to the proxy itself is not supported")]
    Scheme,
}

impl ProxySettings {
    /// Reads `egress.proxy`. Port 80 if none is given, as in all `http` URLs.
    pub fn parse(url: &str, guards: bool) -> Result<Self, ProxyError> {
        let url = Url::parse(url).map_err(|_| ProxyError::Malformed)?;
        if url.scheme() != "http" {
            return Err(ProxyError::Scheme);
        }
        let extra = !matches!(url.path(), "" | "/") || url.query().is_some();
        let host = url.host_str().filter(|_| !extra && url.fragment().is_none());
        let host = host.ok_or(ProxyError::Malformed)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port().unwrap_or(80);
        let authorization = if url.username().is_empty() && url.password().is_none() {
            None
        } else {
            let user = decoded(url.username())?;
            let password = decoded(url.password().unwrap_or_default())?;
            let pair = [user.as_slice(), b":", &password].concat();
            Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        };
        Ok(Self { host, port, authorization, guards })
    }

    /// Whether the proxy itself keeps requests away from private addresses.
    pub fn guards(&self) -> bool {
        self.guards
    }

    /// A tunnel to `authority`, which is `host:port`. The text of an error is for people.
    pub(super) async fn tunnel(&self, authority: &str) -> Result<TcpStream, String> {
        // The system's resolver: the proxy's name is the operator's, and may be in a hosts file
        // or stand without a domain.
        let mut stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| format!("the proxy {self:?} cannot be reached: {error}"))?;
        let ended = |error: io::Error| format!("the proxy {self:?} ended the connection: {error}");
        stream.set_nodelay(true).map_err(ended)?;
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(value) = &self.authorization {
            request.push_str("Proxy-Authorization: ");
            request.push_str(value);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await.map_err(ended)?;
        let head = read_head(&mut stream).await.map_err(ended)?;
        match status(&head) {
            Some(200..=299) => Ok(stream),
            Some(407) => {
                Err(format!("the proxy {self:?} wants other credentials (407); check egress.proxy"))
            }
            Some(status) => {
                Err(format!("the proxy {self:?} answered {status} to CONNECT {authority}"))
            }
            None => Err(format!("the proxy {self:?} does not speak HTTP")),
        }
    }
}

/// Without the credentials.
impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Undoes percent-encoding, which a user name or password with `:` or `@` in it needs.
fn decoded(text: &str) -> Result<Vec<u8>, ProxyError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(ProxyError::Malformed)?;
        let mut byte = [0];
        hex::decode_to_slice(digits, &mut byte).map_err(|_| ProxyError::Malformed)?;
        bytes.push(byte[0]);
        rest = after;
    }
    Ok(bytes)
}

/// Reads up to the blank line and not a byte further: what follows belongs to the receiver.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(io::Error::other(format!("its answer is over {HEAD_BYTES_MAX} bytes")));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.strip_prefix(b"HTTP/1.")?;
    let digits = line.get(2..5)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_from_its_url_and_never_shown_with_its_password() {
        for (url, host, port, authorization) in [
            ("http://proxy.example:3128", "proxy.example", 3128, None),
            ("http://proxy.example/", "proxy.example", 80, None),
            ("http://[2001:db8::1]:3128", "2001:db8::1", 3128, None),
            ("http://me:p%40ss@squid:3128", "squid", 3128, Some("Basic bWU6cEBzcw==")),
            ("http://token@squid:3128", "squid", 3128, Some("Basic dG9rZW46")),
        ] {
            let proxy = ProxySettings::parse(url, false).unwrap();
            assert_eq!((proxy.host.as_str(), proxy.port), (host, port), "{url}");
            assert_eq!(proxy.authorization.as_deref(), authorization, "{url}");
            assert_eq!(format!("{proxy:?}"), format!("{host}:{port}"));
        }
        for (url, expected) in [
            ("proxy.example:3128", ProxyError::Scheme),
            ("https://proxy.example", ProxyError::Scheme),
            ("socks5://proxy.example", ProxyError::Scheme),
            ("", ProxyError::Malformed),
            ("http://", ProxyError::Malformed),
            ("http://proxy.example/path", ProxyError::Malformed),
            ("http://proxy.example/?query", ProxyError::Malformed),
            ("http://a:%4@proxy.example/", ProxyError::Malformed),
        ] {
            assert_eq!(ProxySettings::parse(url, false), Err(expected), "{url}");
        }
    }
}
