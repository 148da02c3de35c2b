//! Certificates that providers sign with: what is needed of X.509, and where one may be fetched
//! from. The host is judged before anybody fetches, so that a forged request cannot choose it.

use aws_lc_rs::signature::{
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

use crate::credential::CredentialError;

/// A certificate, as far as it matters here.
pub(crate) struct Certificate {
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
    /// With SHA-256, and with SHA-1 for the older of the forms that are still sent.
    sha256: ParsedPublicKey,
    sha1: ParsedPublicKey,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    pub(crate) fn parse(pem: &str) -> Result<Self, CredentialError> {
        let wrong = || {
            CredentialError::Form(
                "the certificate cannot be read; give it as PEM, from -----BEGIN CERTIFICATE----- on"
                    .to_owned(),
            )
        };
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| wrong())?;
        let (_, parsed) = X509Certificate::from_der(&pem.contents).map_err(|_| wrong())?;
        let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let mut names: Vec<_> = common.map(str::to_owned).collect();
        if let Ok(Some(other)) = parsed.subject_alternative_name() {
            names.extend(other.value.general_names.iter().filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            }));
        }
        let key = parsed.public_key().raw;
        Ok(Self {
            names,
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            sha256: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).map_err(|_| wrong())?,
            sha1: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, key)
                .map_err(|_| wrong())?,
        })
    }

    /// Whether it is for a host that `is_ours` and valid at `now`.
    pub(crate) fn is_for(&self, is_ours: impl Fn(&str) -> bool, now: i64) -> bool {
        self.names.iter().any(|name| is_ours(name))
            && (self.not_before..=self.not_after).contains(&now)
    }

    pub(crate) fn verify_sha256(&self, message: &[u8], signature: &[u8]) -> bool {
        self.sha256.verify_sig(message, signature).is_ok()
    }

    pub(crate) fn verify_sha1(&self, message: &[u8], signature: &[u8]) -> bool {
        self.sha1.verify_sig(message, signature).is_ok()
    }
}

/// The host and the path of `https://host/path`, if it is just that: no port, no user, no escape
/// in the host.
pub(crate) fn https(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    (host.chars().all(plain) && !host.is_empty()).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_only_when_nothing_hides_in_it() {
        for (url, expected, why) in [
            ("https://a.test/x?y", Some(("a.test", "/x?y")), "plain"),
            ("http://a.test/x", None, "no TLS"),
            ("https://a.test", None, "no path"),
            ("https://a.test:444/x", None, "a port"),
            ("https://a.test@b.test/x", None, "a user"),
            ("https://a.test\\@b.test/x", None, "a backslash"),
            ("https:///x", None, "no host"),
            ("HTTPS://a.test/x", None, "another case"),
        ] {
            assert_eq!(https(url), expected, "{url}: {why}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_said_so() {
        for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x"] {
            let error = Certificate::parse(text).err().expect("none").to_string();
            assert!(error.contains("give it as PEM"), "{error}");
        }
    }
}
