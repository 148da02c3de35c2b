//! PayPal: `id|time|webhook id|CRC-32 of the body`, with RSA, by a certificate that the request
//! names. The webhook's id stands for the secret, though it is none: what counts is that the
//! certificate is PayPal's.

use crate::{
    certificate::{Certificate, https},
    credential::CredentialError,
    received::{Received, Refusal, Step},
    scheme::Encoding,
    time::Unit,
    verifier::{Fetched, Need, Proven, Verifier},
};

const ID: &str = "PAYPAL-TRANSMISSION-ID";
const TIME: &str = "PAYPAL-TRANSMISSION-TIME";
const SIGNATURE: &str = "PAYPAL-TRANSMISSION-SIG";
const CERTIFICATE: &str = "PAYPAL-CERT-URL";
const ALGORITHM: &str = "PAYPAL-AUTH-ALGO";

fn is_ours(host: &str) -> bool {
    host.to_ascii_lowercase().ends_with(".paypal.com")
}

pub(crate) fn certificate(pem: &str) -> Result<Certificate, CredentialError> {
    Certificate::parse(pem)
}

pub(crate) fn need(request: &Received<'_>) -> Result<Need, Refusal> {
    certificate_url(request).map(|url| Need::Certificate(url.to_owned()))
}

fn certificate_url<'a>(request: &Received<'a>) -> Result<&'a str, Refusal> {
    let url = request.only(CERTIFICATE, Step::Key)?;
    let ours = https(url).is_some_and(|(host, path)| {
        is_ours(host)
            && path.starts_with("/v1/notifications/certs/")
            && !path.contains("..")
            && !path.contains(['?', '#'])
    });
    if ours {
        Ok(url)
    } else {
        Err(Refusal::malformed(Step::Key, CERTIFICATE, "is none of PayPal's"))
    }
}

pub(crate) fn prove(
    verifier: &Verifier,
    request: &Received<'_>,
    now: i64,
    fetched: Option<&Fetched>,
) -> Result<Proven, Refusal> {
    let id = request.only(ID, Step::Id)?;
    let time = request.only(TIME, Step::Timestamp)?;
    let given = request.only(SIGNATURE, Step::Signature)?;
    certificate_url(request)?;
    if !request.only(ALGORITHM, Step::Header)?.eq_ignore_ascii_case("SHA256withRSA") {
        return Err(Refusal::malformed(Step::Header, ALGORITHM, "is not SHA256withRSA"));
    }
    let sent = Unit::Rfc3339
        .parse(time)
        .ok_or_else(|| Refusal::malformed(Step::Timestamp, TIME, Unit::Rfc3339.name()))?;
    let given = Encoding::Base64
        .read(given)
        .ok_or_else(|| Refusal::malformed(Step::Signature, SIGNATURE, "is not base64"))?;
    let certificate = match (&verifier.certificate, fetched) {
        (Some(pinned), _) => pinned,
        (None, Some(Fetched::Certificate(fetched))) => fetched,
        _ => return Err(Refusal::malformed(Step::Key, "the certificate", "was not fetched")),
    };
    if !certificate.is_for(is_ours, now) {
        let remedy = "its certificate is not PayPal's, or has ended";
        return Err(Refusal::bad_signature(SIGNATURE, remedy));
    }
    let crc = crc32fast::hash(request.body());
    for (index, credential) in verifier.credentials.iter().enumerate() {
        let message = format!("{id}|{time}|{}|{crc}", *credential.text);
        if certificate.verify_sha256(message.as_bytes(), &given) {
            return Ok(Proven { sent: Some(sent), ..Proven::by(index) });
        }
    }
    let remedy = "check the webhook's id, and that the body is the raw bytes";
    Err(Refusal::bad_signature(SIGNATURE, remedy))
}
