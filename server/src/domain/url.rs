//! An endpoint's URL, parsed once. The stored form is the one string that is judged, signed,
//! logged and connected to, so that no two parsers can read two hosts out of one text.
//!
//! Refused here is what is no absolute HTTP URL, or what two parsers might read differently. Who
//! may be reached, on which port and over which scheme is the policy's to say: `world/guard.rs`.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use url::{Host, Url};

/// Bytes of a URL, as written and as stored. What servers and proxies commonly take.
pub const URL_BYTES_MAX: usize = 2048;

/// Bytes of a host name (RFC 1035 §2.3.4: 255 on the wire, which is 253 as text).
pub const NAME_BYTES_MAX: usize = 253;

/// Bytes of one label of a host name (RFC 1035 §2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;

/// A URL that deliveries can go to: `http` or `https`, with a host, in its stored form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EndpointUrl {
    text: Arc<str>,
    host: Box<str>,
    address: Option<IpAddr>,
    port: u16,
    https: bool,
}

/// Why a text is no URL of an endpoint, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing there.
    #[error("the URL is empty; write one like https://example.com/webhooks")]
    Empty,
    /// Over [`URL_BYTES_MAX`].
    #[error("the URL is {0} bytes; {URL_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Control characters, blanks and backslashes, which parsers drop or read in their own ways.
    #[error("the URL contains {0:?}; write it percent-encoded, or leave it out")]
    Character(char),
    /// No `http://` or `https://` in front.
    #[error("{0:?} is no absolute URL; it must begin with https:// or http://")]
    Scheme(String),
    /// `https:///path` and the like.
    #[error("the URL has no host between // and the path")]
    NoHost,
    /// `user@` or `user:password@`.
    #[error(
        "the URL has a user name or password before @; send credentials in the endpoint's headers"
    )]
    Userinfo,
    /// Anything after `#`.
    #[error("the URL has a fragment (#…), which is never sent; leave it out")]
    Fragment,
    /// Percent signs in the host: encoded letters or the zone of an address.
    #[error("the host {0:?} contains %; write the name in plain letters, an address without zone")]
    EncodedHost(String),
    /// Nothing that a URL's host may be.
    #[error("{host:?} is no host: {problem}")]
    Host {
        /// As written.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// 2130706433, 0x7f.1 and the like.
    #[error("{written:?} is another way to write the address {address}; write that instead")]
    AddressForm {
        /// As written.
        written: String,
        /// In its plain form.
        address: IpAddr,
    },
    /// Zero or over 65535.
    #[error("the port in {0:?} is none; it must be a number from 1 to 65535")]
    Port(String),
    /// All else that the parser or the HTTP library objects to.
    #[error("the URL cannot be read: {0}")]
    Unreadable(String),
}

impl EndpointUrl {
    /// Reads a URL as a person wrote it, and gives it in its stored form: scheme and host in
    /// lower case, international names in ASCII (UTS 46), without a default port or a final dot
    /// of the name, with a path. What could be read in two ways is refused, never mended.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (written_host, https) = written_host(text)?;
        let mut url = Url::parse(text).map_err(|error| match error {
            url::ParseError::EmptyHost => UrlError::NoHost,
            url::ParseError::InvalidPort => UrlError::Port(beginning(text)),
            url::ParseError::InvalidIpv4Address
            | url::ParseError::InvalidIpv6Address
            | url::ParseError::InvalidDomainCharacter
            | url::ParseError::IdnaError => {
                let problem = format!("{error}; write a name like example.com, or a plain address");
                UrlError::Host { host: written_host.to_owned(), problem }
            }
            other => UrlError::Unreadable(other.to_string()),
        })?;
        let (host, address) = match url.host().ok_or(UrlError::NoHost)? {
            Host::Domain(name) => (checked_name(name)?.to_owned(), None),
            Host::Ipv4(address) => {
                let plain = address.to_string();
                if written_host != plain {
                    let (written, address) = (written_host.to_owned(), address.into());
                    return Err(UrlError::AddressForm { written, address });
                }
                (plain, Some(address.into()))
            }
            Host::Ipv6(address) => {
                if let Some(address) = address.to_ipv4_mapped() {
                    let (written, address) = (written_host.to_owned(), address.into());
                    return Err(UrlError::AddressForm { written, address });
                }
                (address.to_string(), Some(address.into()))
            }
        };
        if address.is_none() && url.host_str() != Some(&host) {
            url.set_host(Some(&host)).map_err(|error| UrlError::Unreadable(error.to_string()))?;
        }
        let port = url
            .port_or_known_default()
            .filter(|port| *port != 0)
            .ok_or_else(|| UrlError::Port(beginning(text)))?;
        let text: Arc<str> = url.as_str().into();
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong(text.len()));
        }
        agrees_with_http(&text, &host)?;
        Ok(Self { text, host: host.into(), address, port, https })
    }

    /// The stored form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The stored form, to be shared.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The host: a name in lower-case ASCII, or an address in its plain form, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The port that is connected to, whether it was written or not.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is over TLS.
    pub fn is_https(&self) -> bool {
        self.https
    }
}

/// The text of the host as written, and whether the scheme is `https`. Refuses what the URL
/// standard would mend in silence.
fn written_host(text: &str) -> Result<(&str, bool), UrlError> {
    if text.is_empty() {
        return Err(UrlError::Empty);
    }
    if text.len() > URL_BYTES_MAX {
        return Err(UrlError::TooLong(text.len()));
    }
    if let Some(odd) =
        text.chars().find(|char| char.is_control() || char.is_whitespace() || *char == '\\')
    {
        return Err(UrlError::Character(odd));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| UrlError::Scheme(beginning(text)))?;
    let https = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err(UrlError::Scheme(beginning(text))),
    };
    if rest.contains('#') {
        return Err(UrlError::Fragment);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UrlError::Userinfo);
    }
    if authority.starts_with('[') && !authority.contains(']') {
        let problem = "its bracket is not closed; write it like [2001:db8::1]".to_owned();
        return Err(UrlError::Host { host: authority.to_owned(), problem });
    }
    let host = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    if host.contains('%') {
        return Err(UrlError::EncodedHost(host.to_owned()));
    }
    Ok((host, https))
}

/// Enough of a text to recognize it in an error.
fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The name without its final dot, if it can stand in DNS and in a certificate.
fn checked_name(name: &str) -> Result<&str, UrlError> {
    let refused = |problem: String| UrlError::Host { host: name.to_owned(), problem };
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.len() > NAME_BYTES_MAX {
        return Err(refused(format!("it is {} bytes; {NAME_BYTES_MAX} are allowed", bare.len())));
    }
    for label in bare.split('.') {
        if label.is_empty() {
            return Err(refused("a part between two dots is empty".to_owned()));
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(refused(format!(
                "the part {label:?} is {} bytes; {LABEL_BYTES_MAX} are allowed",
                label.len()
            )));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(refused(format!("the part {label:?} begins or ends with a hyphen")));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if let Some(odd) = label.chars().find(|char| !u8::try_from(*char).is_ok_and(allowed)) {
            return Err(refused(format!("{odd:?} cannot be part of a name")));
        }
    }
    Ok(bare)
}

/// The HTTP library reads the same host out of the stored form as we did.
fn agrees_with_http(text: &str, host: &str) -> Result<(), UrlError> {
    let uri: http::Uri = text
        .parse()
        .map_err(|error: http::uri::InvalidUri| UrlError::Unreadable(error.to_string()))?;
    let theirs = uri.host().unwrap_or_default();
    if theirs.trim_start_matches('[').trim_end_matches(']') == host {
        return Ok(());
    }
    Err(UrlError::Unreadable(format!("its host reads as {host:?} and as {theirs:?}")))
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointUrl({})", self.text)
    }
}

impl FromStr for EndpointUrl {
    type Err = UrlError;
    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl Serialize for EndpointUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for EndpointUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
