//! Where a request goes: the stored URL, read once for all who need a part of it. The rules of
//! what a URL may be are in `domain/url.rs`; a text that is not exactly a stored form is refused
//! here, for something else would have been signed and logged than is connected to.

use http::{HeaderValue, Uri};

use super::SendError;
use crate::domain::{outcome::Plain, url::EndpointUrl};

/// A stored URL in the forms that HTTP wants.
#[derive(Debug)]
pub(super) struct Target {
    pub url: EndpointUrl,
    /// The whole, for HTTP/2.
    pub uri: Uri,
    /// Path and query, for HTTP/1.1.
    pub origin_form: Uri,
    /// The `Host` header: a port only if it is not the scheme's own.
    pub host_header: HeaderValue,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, SendError> {
        let refuse = |problem: String| {
            SendError::new(Plain::InvalidRequest, format!("the endpoint's URL {text:?}: {problem}"))
        };
        let url = EndpointUrl::parse(text).map_err(|error| refuse(error.to_string()))?;
        if url.as_str() != text {
            return Err(refuse(format!("its stored form is {url}; save the endpoint anew")));
        }
        let uri: Uri = text.parse().map_err(|error| refuse(format!("{error}")))?;
        let authority = uri.authority().ok_or_else(|| refuse("it has no host".to_owned()))?;
        let host_header = HeaderValue::from_str(authority.as_str())
            .map_err(|_| refuse("its host cannot be sent in a header".to_owned()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let origin_form = path.parse().map_err(|error| refuse(format!("{error}")))?;
        Ok(Self { url, uri, origin_form, host_header })
    }

    /// `host:port`, an IPv6 address in brackets.
    pub(super) fn authority(&self) -> String {
        let (host, port) = (self.url.host(), self.url.port());
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_names_a_port_only_if_it_is_not_the_schemes_own() {
        for (url, header, path, authority) in [
            ("https://hooks.example/a?b=c", "hooks.example", "/a?b=c", "hooks.example:443"),
            ("http://hooks.example/", "hooks.example", "/", "hooks.example:80"),
            ("http://hooks.example:443/", "hooks.example:443", "/", "hooks.example:443"),
            ("http://[2001:db8::1]/", "[2001:db8::1]", "/", "[2001:db8::1]:80"),
            ("https://[2001:db8::1]:8443/", "[2001:db8::1]:8443", "/", "[2001:db8::1]:8443"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.host_header, header, "{url}");
            assert_eq!(target.origin_form.to_string(), path, "{url}");
            assert_eq!(target.authority(), authority, "{url}");
        }
    }

    #[test]
    fn only_a_stored_form_is_connected_to() {
        for (url, why) in [
            ("https://hooks.example", "no path"),
            ("https://hooks.example:443/", "a default port"),
            ("https://HOOKS.example/", "capitals"),
            ("https://hooks.example./", "a dot at the end"),
            ("http://0x7f.1/", "another spelling of an address"),
            ("http://2130706433/", "another spelling of an address"),
            ("http://good.example@127.0.0.1/", "a user name"),
            ("http://[fe80::1%25eth0]/", "a zone"),
            ("http://hooks.example:0/", "port 0"),
            ("http://hooks.example:65536/", "a port over 16 bits"),
            ("ftp://hooks.example/", "another scheme"),
            ("http:///path", "no host"),
            ("http://exa mple/", "a blank"),
            ("", "nothing"),
        ] {
            let error = Target::parse(url).expect_err(why);
            assert_eq!(error.reason, Plain::InvalidRequest.into(), "{url}: {why}");
        }
    }
}
