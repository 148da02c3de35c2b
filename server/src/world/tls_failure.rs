//! What went wrong with TLS, by a stable name and in words that help the receiver's owner.

use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error};
use rustls_pki_types::UnixTime;

use super::{SendError, tls_verify::SelfSigned};
use crate::domain::{outcome::Plain, time::Timestamp};

/// Names `error`, met while talking to `host`.
pub(super) fn explain(error: &Error, host: &str) -> SendError {
    let (reason, detail) = match error {
        Error::InvalidCertificate(problem) => certificate(problem, host),
        Error::NoCertificatesPresented => {
            (Plain::TlsBadCertificate, "it showed no certificate".to_owned())
        }
        Error::AlertReceived(alert) => refusal(*alert),
        Error::PeerIncompatible(why) => (
            Plain::TlsHandshake,
            format!(
                "it has no version or cipher in common with us, who speak TLS 1.2 and 1.3: {why:?}"
            ),
        ),
        Error::InvalidMessage(why) => {
            (Plain::TlsHandshake, format!("what it sent is no TLS: {why:?}"))
        }
        other => (Plain::TlsHandshake, other.to_string()),
    };
    SendError::new(reason, format!("TLS with {host}: {detail}"))
}

fn certificate(problem: &CertificateError, host: &str) -> (Plain, String) {
    match problem {
        CertificateError::Expired => {
            (Plain::TlsExpired, "its certificate's time is over".to_owned())
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            (Plain::TlsExpired, format!("its certificate ended at {}", shown(*not_after)))
        }
        CertificateError::NotValidYet => {
            (Plain::TlsNotYetValid, "its certificate's time has not begun".to_owned())
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            (Plain::TlsNotYetValid, format!("its certificate begins at {}", shown(*not_before)))
        }
        CertificateError::NotValidForName => {
            (Plain::TlsNameMismatch, format!("its certificate is not for {host}"))
        }
        CertificateError::NotValidForNameContext { presented, .. } => (
            Plain::TlsNameMismatch,
            format!("its certificate is for {}, not for {host}", list(presented)),
        ),
        CertificateError::UnknownIssuer => (
            Plain::TlsUnknownIssuer,
            "nobody we trust vouches for its certificate: either it leaves out the intermediate \
             certificates, which it must send after its own, or its authority is a private one, \
             which the endpoint must name"
                .to_owned(),
        ),
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => (
            Plain::TlsSelfSigned,
            "its certificate is self-signed; get one from an authority, or name it as the \
             endpoint's authority, in which case it must not itself be marked CA:TRUE"
                .to_owned(),
        ),
        other => (Plain::TlsBadCertificate, format!("its certificate is refused: {other}")),
    }
}

/// The receiver ended the handshake. Most of its words are about the certificate we showed, or
/// did not show.
fn refusal(alert: AlertDescription) -> (Plain, String) {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => (
            Plain::TlsClientCertificate,
            "it wants a client certificate, and the endpoint has none".to_owned(),
        ),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::NoCertificate => {
            (Plain::TlsClientCertificate, format!("it refuses our client certificate: {alert:?}"))
        }
        other => (Plain::TlsHandshake, format!("it ended the handshake: {other:?}")),
    }
}

fn shown(time: UnixTime) -> Timestamp {
    Timestamp(0) + Duration::from_secs(time.as_secs())
}

/// At most five of a certificate's names; some have hundreds.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    // The library gives each as `DnsName("a.example")` or `IpAddress(192.0.2.1)`.
    let bare = |name: &String| {
        let inside = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest);
        inside.trim_end_matches(')').trim_matches('"').to_owned()
    };
    let mut text = names.iter().take(SHOWN).map(bare).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        text.push_str("no name at all");
    }
    if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
