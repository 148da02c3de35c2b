//! What is read of an answer, and what is not.
//!
//! The receiver is a stranger: it may answer without end, slowly, or with more headers than
//! anybody needs. Time is bounded by the attempt's limit; here size is.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;

/// Headers of an answer; more end the attempt.
pub(super) const HEADERS_MAX: usize = 100;

/// Bytes of an HTTP/1.1 answer's status line and headers. The library's own limit of about
/// 400 KiB, times all connections, would be gigabytes.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an HTTP/2 answer's headers, counted as RFC 9113 section 6.5.2 does.
pub(super) const H2_HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Bytes that are read beyond those kept, so that the connection can be used again. A new
/// connection costs about as much as this.
pub(super) const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// The beginning of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub kept: Bytes,
    /// Whether there was more than that.
    pub truncated: bool,
    /// Whether it was read to its end, so that another answer can follow.
    pub ended: bool,
}

/// Reads up to `keep` bytes to keep and [`DRAIN_BYTES_MAX`] to throw away.
pub(super) async fn read<B>(mut body: B, keep: usize) -> Result<Beginning, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    // A length that is told beforehand settles whether draining is worth it.
    let end = body.size_hint().exact();
    let drain = end.is_none_or(|length| length <= keep as u64 + DRAIN_BYTES_MAX);
    let mut kept = BytesMut::new();
    let mut excess: u64 = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue }; // trailers
        let fits = data.len().min(keep - kept.len());
        kept.extend_from_slice(&data[..fits]);
        excess += (data.len() - fits) as u64;
        if excess > DRAIN_BYTES_MAX || (excess > 0 && !drain) {
            return Ok(Beginning { kept: kept.freeze(), truncated: true, ended: false });
        }
    }
    Ok(Beginning { kept: kept.freeze(), truncated: excess > 0, ended: true })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const KEEP: usize = 16_384;

    fn chunks(count: usize, bytes: usize) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        StreamBody::new(stream::iter((0..count).map(move |_| Ok(Frame::data(chunk.clone())))))
    }

    #[tokio::test]
    async fn a_body_is_kept_to_the_byte_and_drained_to_a_bound() {
        for (count, bytes, kept, truncated, ended, why) in [
            (0, 0, 0, false, true, "no body"),
            (1, KEEP, KEEP, false, true, "exactly the limit"),
            (1, KEEP + 1, KEEP, true, true, "one byte over it"),
            (3, 10_000, KEEP, true, true, "over it in the middle of a chunk"),
            (5, KEEP, KEEP, true, true, "exactly the bound of draining"),
            (1000, KEEP, KEEP, true, false, "far over it"),
            (5, 0, 0, false, true, "empty chunks"),
        ] {
            let read = read(chunks(count, bytes), KEEP).await.unwrap();
            let got = (read.kept.len(), read.truncated, read.ended);
            assert_eq!(got, (kept, truncated, ended), "{why}");
        }
    }

    #[tokio::test]
    async fn a_length_told_beforehand_saves_the_draining() {
        let whole = read(Full::new(Bytes::from(vec![b'x'; 40_000])), KEEP).await.unwrap();
        assert!(whole.ended && whole.truncated);
        let long = read(Full::new(Bytes::from(vec![b'x'; 100_000])), KEEP).await.unwrap();
        assert!(!long.ended && long.truncated);
    }
}
