//! The raw body, before anything looks at it: as it came, of any content type, in one piece or in
//! chunks, within the source's limit and the memory that there is.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use crate::engine::{Budget, budget::Share};

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is over the limit. It is never cut.
    TooLarge,
    /// It broke off, or its framing is none.
    Broken,
    /// There is no memory left for it.
    NoRoom,
}

/// A body that gives its share of the budget back when the last of those who use it is done.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body. Memory is taken as bytes arrive, not as they are announced: a sender that
/// promises much and sends nothing holds nothing.
pub async fn read(mut body: Body, limit: usize, budget: &Arc<Budget>) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut share = budget.share();
    let mut whole = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if whole.len() + rest.len() + bytes.len() > limit {
            return Err(BodyError::TooLarge);
        }
        share.grow(bytes.len()).map_err(|_| BodyError::NoRoom)?;
        if whole.is_empty() && rest.is_empty() {
            whole = bytes; // nearly always all there is: it is not copied
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&std::mem::take(&mut whole));
        }
        rest.extend_from_slice(&bytes);
    }
    let bytes = if rest.is_empty() { whole } else { rest.freeze() };
    Ok(Bytes::from_owner(Held { bytes, _share: share }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    fn chunks(chunks: &'static [&'static [u8]]) -> Body {
        let chunks = chunks.iter().map(|chunk| Ok::<_, Infallible>(Bytes::from_static(chunk)));
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_body_is_whole_or_not_there() {
        for (body, limit, expected, why) in [
            (Body::from("12345"), 5, Ok("12345"), "as much as is allowed"),
            (Body::from("123456"), 5, Err(BodyError::TooLarge), "announced"),
            (chunks(&[b"12", b"", b"345"]), 5, Ok("12345"), "in chunks"),
            (chunks(&[b"12", b"34", b"56"]), 5, Err(BodyError::TooLarge), "not announced"),
            (chunks(&[b"1234567", b"89012"]), 99, Err(BodyError::NoRoom), "over the budget"),
            (Body::empty(), 0, Ok(""), "nothing"),
        ] {
            let budget = Budget::new(10);
            let read = read(body, limit, &budget).await;
            assert_eq!(
                read.as_deref().map_err(|error| *error),
                expected.map(str::as_bytes),
                "{why}"
            );
            assert_eq!(budget.held(), expected.map_or(0, str::len), "{why}");
            drop(read);
            assert_eq!(budget.held(), 0, "{why}");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_no_body() {
        let parts = [Ok(Bytes::from_static(b"12")), Err(std::io::Error::other("gone"))];
        let body = Body::from_stream(stream::iter(parts));
        let budget = Budget::new(10);
        assert_eq!(read(body, 9, &budget).await, Err(BodyError::Broken));
        assert_eq!(budget.held(), 0);
    }
}
