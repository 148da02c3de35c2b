//! The headers of a request as they came: in their order, repeated ones repeated, values byte for
//! byte. One line a header is how they are kept; a value can hold no line break (RFC 9110, 5.5).

/// Headers in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders(Vec<(String, Vec<u8>)>);

impl RequestHeaders {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// As the verifiers take them.
    pub fn pairs(&self) -> Vec<(&str, &[u8])> {
        self.iter().collect()
    }

    /// The first value of a header, as text; case makes no difference.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// As it is kept: `name: value`, one a line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.iter().map(|(n, v)| n.len() + v.len() + 3).sum());
        for (name, value) in &self.0 {
            bytes.extend([name.as_bytes(), b": ", value, b"\n"].concat());
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. `None` where a line is no header.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let header = |line: &[u8]| {
            let line = line.strip_suffix(b"\n")?;
            let colon = line.windows(2).position(|two| two == b": ")?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            Some((name.to_owned(), line[colon + 2..].to_vec()))
        };
        lines.map(header).collect::<Option<_>>().map(Self)
    }
}

/// Names must be tokens and values free of line breaks, as those of every parsed request are.
impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for RequestHeaders {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_repetition_and_bytes_are_kept() {
        let headers: RequestHeaders =
            [("x-b", &b"1"[..]), ("x-a", b": \xff\t:"), ("x-b", b"")].into_iter().collect();
        let bytes = headers.to_bytes();
        assert_eq!(bytes, b"x-b: 1\nx-a: : \xff\t:\nx-b: \n");
        assert_eq!(RequestHeaders::from_bytes(&bytes), Some(headers));
        for (bytes, why) in
            [(&b"x-a: 1"[..], "no end"), (b"x-a\n", "no value"), (b"\xff: 1\n", "no name")]
        {
            assert_eq!(RequestHeaders::from_bytes(bytes), None, "{why}");
        }
    }

    proptest! {
        #[test]
        fn what_was_kept_is_read_again(
            headers in prop::collection::vec(("[a-z][a-z0-9-]{0,9}", prop::collection::vec(32_u8..=255, 0..20)), 0..9),
        ) {
            let headers: RequestHeaders = headers.into_iter().collect();
            prop_assert_eq!(RequestHeaders::from_bytes(&headers.to_bytes()), Some(headers));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let _ = RequestHeaders::from_bytes(&bytes);
        }
    }
}
