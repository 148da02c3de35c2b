//! Ways of signing that data cannot tell: one file each.

pub(crate) mod adyen;
pub(crate) mod braintree;
pub(crate) mod contentful;
pub(crate) mod paypal;
pub(crate) mod sns;
pub(crate) mod twilio;

use aws_lc_rs::hmac;

use crate::{
    credential::Key,
    received::{Received, Refusal},
    scheme::Own,
    verifier::{Fetched, Proven, Verifier},
};

pub(crate) fn prove(
    own: Own,
    verifier: &Verifier,
    request: &Received<'_>,
    now: i64,
    fetched: Option<&Fetched>,
) -> Result<Proven, Refusal> {
    match own {
        Own::Twilio => twilio::prove(verifier, request),
        Own::Paypal => paypal::prove(verifier, request, now, fetched),
        Own::Sns => sns::prove(verifier, request, now, fetched),
        Own::Braintree => braintree::prove(verifier, request),
        Own::Adyen => adyen::prove(verifier, request),
        Own::Contentful => contentful::prove(verifier, request),
    }
}

/// The keys for HMAC among the secrets, with their places.
fn mac_keys(verifier: &Verifier) -> impl Iterator<Item = (usize, &hmac::Key)> {
    verifier.credentials.iter().enumerate().filter_map(|(index, credential)| {
        match &credential.key {
            Key::Mac(key) => Some((index, &**key)),
            _ => None,
        }
    })
}
