//! Bytes as senders write them, and the one comparison.

use aws_lc_rs::constant_time;
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};

use crate::scheme::Encoding;

/// The one comparison of anything that a secret made. It takes the same time wherever two texts
/// differ; that their lengths differ is no secret.
pub(crate) fn same(expected: &[u8], given: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(expected, given).is_ok()
}

impl Encoding {
    /// As the sender writes it: hexadecimal digits in lower case, base64 with its padding, its URL
    /// alphabet without.
    pub(crate) fn write(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(bytes),
            Self::Base64 => BASE64_STANDARD.encode(bytes),
            Self::Base64Url => BASE64_URL_SAFE_NO_PAD.encode(bytes),
        }
    }

    pub(crate) fn read(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex => hex::decode(text).ok(),
            Self::Base64 => BASE64_STANDARD.decode(text).ok(),
            Self::Base64Url => BASE64_URL_SAFE_NO_PAD.decode(text).ok(),
        }
    }
}
