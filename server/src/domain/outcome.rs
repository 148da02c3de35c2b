//! What an attempt came to, and what a receiver's answer means.
//!
//! The receiver has four things to say: yes (2xx), never again (410), not this one (a status that
//! its owner calls final), and later (everything else, redirects too). No answer at all is
//! "later" as well. What becomes of the delivery is in `delivery.rs`.

use std::{fmt, time::Duration};

use super::{
    address::Verdict, final_statuses::FinalStatuses, retry_after::retry_after, time::Timestamp,
};

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx: the receiver has the event.
    Delivered,
    /// 410: the receiver wants no event ever again.
    Gone,
    /// A status that the endpoint's owner calls final: this event is not wanted.
    Refused,
    /// The address guard let no request out. Retried, since names change their addresses.
    Blocked,
    /// Anything else. Retried.
    Failed {
        /// The pause that the receiver asked for, at most 24 h.
        retry_after: Option<Duration>,
        /// 429 or 503: all requests to this endpoint should slow down.
        slow: bool,
    },
}

coded! {
    /// An [`Outcome`] without its data: stored with each attempt, counted in
    /// `snaphook_attempts_total{outcome}`.
    OutcomeKind {
        /// 2xx.
        Delivered = 1, "delivered";
        /// 410.
        Gone = 2, "gone";
        /// A final status.
        Refused = 3, "refused";
        /// The address guard.
        Blocked = 4, "blocked";
        /// Retried, or the last of the ladder.
        Failed = 5, "failed";
    }
}

impl Outcome {
    /// Its kind, for the record and for counting.
    pub const fn kind(self) -> OutcomeKind {
        match self {
            Self::Delivered => OutcomeKind::Delivered,
            Self::Gone => OutcomeKind::Gone,
            Self::Refused => OutcomeKind::Refused,
            Self::Blocked => OutcomeKind::Blocked,
            Self::Failed { .. } => OutcomeKind::Failed,
        }
    }
}

/// What an answer means. `retry_after_value` is the header's value, if there is exactly one;
/// `final_statuses` are the endpoint's own.
pub fn classify(
    status: u16,
    retry_after_value: Option<&[u8]>,
    final_statuses: &FinalStatuses,
    now: Timestamp,
) -> Outcome {
    match status {
        200..=299 => Outcome::Delivered,
        410 => Outcome::Gone,
        status if final_statuses.name(status) => Outcome::Refused,
        status => Outcome::Failed {
            retry_after: retry_after_value.and_then(|value| retry_after(value, now)),
            slow: matches!(status, 429 | 503),
        },
    }
}

/// No answer: the guard's refusals are told apart, everything else is a failure.
impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Blocked(_) => Self::Blocked,
            Reason::Plain(_) => Self::Failed { retry_after: None, slow: false },
        }
    }
}

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
    /// The certificate vouches for itself, and the endpoint does not name it as its authority.
    TlsSelfSigned = "tls_self_signed",
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

    /// The reason of this stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.strip_prefix("blocked_") {
            Some(verdict) => Verdict::from_name(verdict).map(Self::Blocked),
            None => Plain::ALL.iter().find(|plain| plain.name() == name).copied().map(Self::Plain),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn later(seconds: Option<u64>, slow: bool) -> Outcome {
        Outcome::Failed { retry_after: seconds.map(Duration::from_secs), slow }
    }

    #[test]
    fn an_answer_means_yes_never_not_this_one_or_later() {
        let finals = FinalStatuses::parse(["4xx", "501"]).unwrap();
        for (status, retry_after, expected, why) in [
            (200, None, Outcome::Delivered, "plain yes"),
            (299, Some("60"), Outcome::Delivered, "any 2xx, whatever it asks for"),
            (410, None, Outcome::Gone, "also where 4xx is final"),
            (404, Some("60"), Outcome::Refused, "final by its class"),
            (501, None, Outcome::Refused, "final by itself"),
            (408, None, later(None, false), "never final"),
            (425, None, later(None, false), "never final"),
            (429, Some("60"), later(Some(60), true), "never final, slows down"),
            (503, None, later(None, true), "slows down"),
            (500, Some("60"), later(Some(60), false), "any retried status may ask"),
            (500, Some("soon"), later(None, false), "garbage is ignored"),
            (302, None, later(None, false), "a redirect is not followed"),
            (304, None, later(None, false), "nor is any other 3xx a yes"),
            (199, None, later(None, false), "below 2xx"),
            (999, None, later(None, false), "beyond all classes"),
        ] {
            let value = retry_after.map(str::as_bytes);
            assert_eq!(classify(status, value, &finals, NOW), expected, "{status}: {why}");
        }
        let none = FinalStatuses::default();
        assert_eq!(classify(404, None, &none, NOW), later(None, false), "nothing is final");
    }

    #[test]
    fn no_answer_is_a_failure_but_the_guards_refusal_has_its_own_name() {
        assert_eq!(Outcome::from(Reason::Blocked(Verdict::Private)), Outcome::Blocked);
        for plain in Plain::ALL {
            assert_eq!(Outcome::from(Reason::from(*plain)), later(None, false));
        }
    }

    #[test]
    fn every_reason_is_read_back_by_its_name() {
        let blocked = Verdict::ALL.iter().map(|verdict| Reason::Blocked(*verdict));
        for reason in Plain::ALL.iter().map(|plain| Reason::Plain(*plain)).chain(blocked) {
            assert_eq!(Reason::from_name(reason.name()), Some(reason));
        }
        assert_eq!(Reason::from_name("blocked_"), None);
    }

    proptest! {
        /// Nothing that a receiver says panics or asks for more than a day.
        #[test]
        fn no_answer_parks_a_delivery(status: u16, value: Option<Vec<u8>>) {
            let finals = FinalStatuses::parse(["4xx"]).unwrap();
            let outcome = classify(status, value.as_deref(), &finals, NOW);
            if let Outcome::Failed { retry_after: Some(pause), .. } = outcome {
                prop_assert!(pause <= Duration::from_hours(24));
            }
        }
    }
}
