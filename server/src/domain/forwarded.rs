//! The headers of a request that came in at a source, as they are kept and passed on.
//!
//! All of them go on as they came: in their order, repeated ones repeated, values byte for byte.
//! Left out is what belongs to one connection alone (RFC 9110, 7.6.1), what the next request has
//! of its own, what proxies on the way here said of it, and names that are ours.

use super::request_headers::RequestHeaders;

/// Headers of one connection, in lower case, beside those that `connection` lists (RFC 9110, 7.6.1).
pub const OF_CONNECTION: &[&str] = &[
    "connection",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Names that are not passed on beside those of the connection, in lower case.
const LEFT: &[&str] = &[
    // Of one connection too.
    "http2-settings",
    "proxy-authenticate",
    "proxy-authorization",
    // The next request has its own. Its answer is read by us, who decompress nothing.
    "accept-encoding",
    "content-length",
    "host",
    // What proxies say of the way here.
    "forwarded",
    "via",
    "x-real-ip",
];

/// Beginnings of names that are not passed on: what proxies say, and ours.
const LEFT_PREFIXES: &[&str] = &["x-forwarded-", "snaphook-"];

/// Names in lower case, and values that have no line break in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders(RequestHeaders);

impl ForwardedHeaders {
    /// What is to be passed on of the headers of a request.
    pub fn of<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone) -> Self {
        let connection =
            headers.clone().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
        let listed = listed_in_connection(connection.map(|(_, value)| value));
        let passed = headers.filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let sendable = !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
            (sendable && is_passed_on(&name) && !listed.contains(&name))
                .then(|| (name, value.to_vec()))
        });
        Self(passed.collect())
    }

    /// Names in lower case, and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.0.iter()
    }

    /// As they are stored: a line `name: value` each, so that people can read them there too.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. What is not in that form is left out.
    pub fn from_bytes(stored: &[u8]) -> Self {
        let lines = stored.split(|byte| *byte == b'\n');
        let headers = lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| !name.is_empty())?;
            Some((name.to_owned(), line[colon + 1..].strip_prefix(b" ")?.to_vec()))
        });
        Self(headers.collect())
    }
}

/// The names in the values of `connection`, in lower case.
pub fn listed_in_connection<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let names = values.flat_map(|value| value.split(|byte| *byte == b','));
    names.map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase()).collect()
}

/// Whether a header of this name, in lower case, goes on to who processes the event.
fn is_passed_on(name: &str) -> bool {
    !OF_CONNECTION.contains(&name)
        && !LEFT.contains(&name)
        && !LEFT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn passed(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let given = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let of = ForwardedHeaders::of(given);
        of.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
    }

    #[test]
    fn what_belongs_to_the_way_here_stays_here() {
        for (name, expected, why) in [
            ("Stripe-Signature", true, "the provider's own"),
            ("webhook-id", true, "a provider may use Standard Webhooks as we do"),
            ("Authorization", true, "some providers prove themselves with it"),
            ("User-Agent", true, "handlers look at it"),
            ("Content-Type", true, "of the body"),
            ("Content-Encoding", true, "the body goes on as it is"),
            ("X-Forwarded", true, "no name that proxies use"),
            ("Host", false, "the next request has its own"),
            ("Content-Length", false, "the next request has its own"),
            ("Accept-Encoding", false, "the answer is ours to read"),
            ("Transfer-Encoding", false, "of the connection"),
            ("Keep-Alive", false, "of the connection"),
            ("TE", false, "of the connection"),
            ("Upgrade", false, "of the connection"),
            ("Proxy-Authorization", false, "of the connection"),
            ("X-Hop", false, "the connection lists it"),
            ("Forwarded", false, "what a proxy says"),
            ("X-Forwarded-For", false, "what a proxy says"),
            ("X-Real-IP", false, "what a proxy says"),
            ("Via", false, "what a proxy says"),
            ("Snaphook-Signature", false, "ours, and made at each attempt"),
        ] {
            let passed = passed(&[("Connection", "close, x-HOP "), (name, "v")]);
            assert_eq!(!passed.is_empty(), expected, "{name}: {why}");
        }
    }

    #[test]
    fn order_and_repetition_are_kept() {
        let passed = passed(&[("B", "1"), ("a", "2"), ("b", "3"), ("c", "")]);
        let pairs: Vec<_> = passed.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("b", "1"), ("a", "2"), ("b", "3"), ("c", "")]);
    }

    #[test]
    fn what_could_begin_another_header_is_left_out() {
        assert_eq!(passed(&[("a", "x\r\nb: 1"), ("b", "x\n"), ("c", "\0"), ("d", "x")]).len(), 1);
    }

    proptest! {
        #[test]
        fn stored_and_read_they_are_the_same(
            headers in vec(("[a-z-]{1,9}", vec(any::<u8>(), 0..9)), 0..9)
        ) {
            let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
            let of = ForwardedHeaders::of(given);
            prop_assert_eq!(ForwardedHeaders::from_bytes(&of.to_bytes()), of);
        }

        #[test]
        fn no_stored_bytes_panic(stored in vec(any::<u8>(), 0..99)) {
            ForwardedHeaders::from_bytes(&stored);
        }
    }
}
