//! What an attempt came to.

use std::fmt;

use super::address::Verdict;

/// Why an attempt got no usable answer, by its stable name: stored, listed, counted, filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The guard refused an address of the host.
    Blocked(Verdict),
    /// Any of the others, which carry nothing.
    Plain(Plain),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Reasons without further data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Plain { $($(#[$doc])* $variant,)* }

        impl Plain {
            /// All of them, for documents and tests.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    /// The answer was a status other than 2xx; the status tells.
    Status = "status",
    /// The name does not exist, or has no address.
    DnsNotFound = "dns_not_found",
    /// The name servers failed or lied.
    DnsFailed = "dns_failed",
    /// No answer from the name servers in time.
    DnsTimeout = "dns_timeout",
    /// Nobody listens there.
    ConnectRefused = "connect_refused",
    /// There is no road to the address.
    ConnectUnreachable = "connect_unreachable",
    /// Any other failure to connect.
    ConnectFailed = "connect_failed",
    /// Not connected within `delivery.connect_timeout`.
    TimeoutConnect = "timeout_connect",
    /// Not answered, body included, within the endpoint's timeout.
    TimeoutTotal = "timeout_total",
    /// The certificate's time is over.
    TlsExpired = "tls_expired",
    /// The certificate's time has not begun.
    TlsNotYetValid = "tls_not_yet_valid",
    /// The certificate is for another name.
    TlsNameMismatch = "tls_name_mismatch",
    /// Nobody we trust vouches for the certificate.
    TlsUnknownIssuer = "tls_unknown_issuer",
    /// The certificate was revoked, is malformed, or signed in a way we refuse.
    TlsBadCertificate = "tls_bad_certificate",
    /// The receiver wants a client certificate, or did not like ours.
    TlsClientCertificate = "tls_client_certificate",
    /// No common version, cipher or any other failure of the handshake.
    TlsHandshake = "tls_handshake",
    /// The egress proxy refused or failed.
    Proxy = "proxy",
    /// The connection ended before the answer was whole.
    ClosedEarly = "closed_early",
    /// The answer's headers are over the limits.
    HeadersTooLarge = "headers_too_large",
    /// The answer is no HTTP.
    Protocol = "protocol",
    /// The request could not be built from the endpoint's settings.
    InvalidRequest = "invalid_request",
    /// A defect of our own; the log has it.
    Internal = "internal",
}

impl Reason {
    /// The stable name: `timeout_connect`, `blocked_private` …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked(verdict) => verdict.reason(),
            Self::Plain(plain) => plain.name(),
        }
    }
}

impl From<Plain> for Reason {
    fn from(plain: Plain) -> Self {
        Self::Plain(plain)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
