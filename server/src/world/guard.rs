//! The operator's policy over the table of `domain/address.rs`: who may be reached. Pure.
//!
//! One set of rules for saving, testing and delivering. First match decides:
//!
//! ```text
//! deny list ─► port ─► https_only ─► allow list ─► names without a public meaning
//!           ─► internal reach ─► the table ─► this host's own addresses
//! ```
//! An allowed *range* opens all that is in it; an allowed *name* opens any address except those
//! of [`Verdict::is_never`]. Internal reach opens loopback and private ranges, and plain HTTP;
//! no other. The deny list wins over everything, also over an address in NAT64 clothes.

use std::net::IpAddr;

use crate::domain::{
    address::{Verdict, judge, nat64},
    outcome::Reason,
    url::EndpointUrl,
};

pub use rule::{PolicyError, Ports, Rule};

mod rule;

/// Top-level names that mean nothing on the public internet, with what stands below them:
/// RFC 6761 (localhost, invalid), RFC 6762 (local), RFC 7686 (onion), RFC 8375 (home.arpa),
/// RFC 9476 (alt), ICANN 2024 (internal), and what many hosts call themselves (localdomain).
const PRIVATE_NAMES: &[&str] =
    &["localhost", "local", "internal", "home.arpa", "localdomain", "invalid", "onion", "alt"];

/// Who may be reached.
#[derive(Clone, Debug)]
pub struct Policy {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    ports: Ports,
    https_only: bool,
    own: Vec<IpAddr>,
}

/// Why the guard said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Blocked {
    /// The rule, by name.
    pub verdict: Verdict,
    /// Host, address and rule, for people.
    pub sentence: String,
}

impl Blocked {
    /// As the reason of an attempt.
    pub fn reason(&self) -> Reason {
        Reason::Blocked(self.verdict)
    }
}

impl Default for Policy {
    /// The table alone, with the ports 80, 443 and 1024 to 65535.
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            ports: Ports::default(),
            https_only: false,
            own: Vec::new(),
        }
    }
}

impl Policy {
    /// From the settings `guard.allow`, `guard.deny` (addresses, ranges like `10.1.0.0/16`, names,
    /// `*.example.com`), `guard.ports` (`80`, `1024-65535`) and `guard.https_only`. Gives every
    /// entry that is wrong, each with its setting, value and remedy.
    pub fn new(
        allow: &[impl AsRef<str>],
        deny: &[impl AsRef<str>],
        ports: &[impl AsRef<str>],
        https_only: bool,
    ) -> Result<Self, Vec<PolicyError>> {
        let mut errors = Vec::new();
        let mut policy = Self { https_only, ..Self::default() };
        for entry in allow.iter().map(AsRef::as_ref) {
            match Rule::parse_allowed(entry) {
                Ok(rule) => policy.allow.push(rule),
                Err(problem) => errors.push(PolicyError::new("guard.allow", entry, problem)),
            }
        }
        for entry in deny.iter().map(AsRef::as_ref) {
            match Rule::parse(entry) {
                Ok(rule) => policy.deny.push(rule),
                Err(problem) => errors.push(PolicyError::new("guard.deny", entry, problem)),
            }
        }
        match Ports::parse(ports) {
            Ok(ports) => policy.ports = ports,
            Err(error) => errors.push(error),
        }
        if errors.is_empty() { Ok(policy) } else { Err(errors) }
    }

    /// The same policy, with `own` as this host's own addresses.
    #[must_use]
    pub fn with_own_addresses(&self, own: impl IntoIterator<Item = IpAddr>) -> Self {
        let own = own.into_iter().map(|address| address.to_canonical()).collect();
        Self { own, ..self.clone() }
    }

    /// Judges a URL when it is saved and before each attempt: all that can be known without
    /// asking DNS. `internal` is whether its endpoint's reach is "internal".
    pub fn check_url(&self, url: &EndpointUrl, internal: bool) -> Result<(), Blocked> {
        let (host, port) = (url.host(), url.port());
        if let Some(address) = url.address() {
            self.check_denied(host, Some(address))?;
            self.check_scheme(url, internal)?;
            return self.check_address(host, address, port, internal);
        }
        self.check_denied(host, None)?;
        self.check_port(host, port)?;
        self.check_scheme(url, internal)?;
        // A private name may have an address in a range that is allowed: connecting will tell.
        if self.allow.iter().any(|rule| rule.names(host) || rule.is_internal()) {
            return Ok(());
        }
        check_name(host, internal)
    }

    /// Judges one address of `host` before a connection to it, and the peer's after. `host` is
    /// the URL's: a name, or the address itself.
    pub fn check_address(
        &self,
        host: &str,
        address: IpAddr,
        port: u16,
        internal: bool,
    ) -> Result<(), Blocked> {
        self.check_denied(host, Some(address))?;
        self.check_port(host, port)?;
        let plain = address.to_canonical();
        if self.allow.iter().any(|rule| rule.holds(plain)) {
            return Ok(());
        }
        let verdict = judge(address);
        let named = self.allow.iter().any(|rule| rule.names(host));
        if named && !verdict.is_never() {
            return Ok(());
        }
        if !named && plain.to_string() != host && address.to_string() != host {
            check_name(host, internal)?;
        }
        // A translator must not carry private addresses (RFC 6052 §3.1): no reach opens those.
        if internal && verdict.is_internal() && embedded(plain).is_none() {
            return Ok(());
        }
        if verdict != Verdict::Public {
            return Err(refused(host, address, verdict));
        }
        // After the table, so that no customer learns which private addresses are ours.
        if !internal && self.is_own(plain) {
            return Err(refused(host, address, Verdict::Own));
        }
        Ok(())
    }

    fn check_denied(&self, host: &str, address: Option<IpAddr>) -> Result<(), Blocked> {
        let forms = [address.map(|address| address.to_canonical()), address.and_then(embedded)];
        let hit = self.deny.iter().find(|rule| {
            rule.names(host) || forms.into_iter().flatten().any(|address| rule.holds(address))
        });
        let Some(rule) = hit else { return Ok(()) };
        let what = address.map_or_else(|| host.to_owned(), |address| describe(host, address));
        let verdict = Verdict::Denied;
        Err(Blocked { verdict, sentence: format!("{what} is {} ({rule})", verdict.sentence()) })
    }

    fn check_port(&self, host: &str, port: u16) -> Result<(), Blocked> {
        if self.ports.allow(port) {
            return Ok(());
        }
        let sentence =
            format!("port {port} of {host} is not allowed; allowed ports are {}", self.ports);
        Err(Blocked { verdict: Verdict::Port, sentence })
    }

    fn check_scheme(&self, url: &EndpointUrl, internal: bool) -> Result<(), Blocked> {
        if url.is_https() || internal || !self.https_only {
            return Ok(());
        }
        let sentence = format!("{url} is {}; use https://", Verdict::Insecure.sentence());
        Err(Blocked { verdict: Verdict::Insecure, sentence })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address) || embedded(address).is_some_and(|v4| self.own.contains(&v4))
    }
}

/// The IPv4 address inside a NAT64 one.
fn embedded(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => nat64(v6).map(IpAddr::V4),
    }
}

/// A name must have a meaning on the public internet, unless its endpoint's reach is internal.
fn check_name(host: &str, internal: bool) -> Result<(), Blocked> {
    let below = |suffix: &&&str| {
        host.strip_suffix(**suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let why = match PRIVATE_NAMES.iter().find(below) {
        Some(name) => format!("{name} is reserved for private use"),
        None if !host.contains('.') => "it has no dot".to_owned(),
        None => return Ok(()),
    };
    if internal {
        return Ok(());
    }
    let verdict = Verdict::Name;
    let sentence = format!(
        "{host} is {} ({why}); use the full public name, or have the operator set reach to internal",
        verdict.sentence()
    );
    Err(Blocked { verdict, sentence })
}

fn describe(host: &str, address: IpAddr) -> String {
    if address.to_string() == host {
        host.to_owned()
    } else {
        format!("{address}, the address of {host},")
    }
}

fn refused(host: &str, address: IpAddr, verdict: Verdict) -> Blocked {
    let by_reach = verdict == Verdict::Own
        || (verdict.is_internal() && embedded(address.to_canonical()).is_none());
    let unless = if by_reach {
        "unless the operator sets reach to internal"
    } else {
        "and nothing opens this one but its own range in the operator's guard.allow"
    };
    let sentence = format!(
        "{} is {}; the host must have public addresses only, {unless}",
        describe(host, address),
        verdict.sentence()
    );
    Blocked { verdict, sentence }
}

#[cfg(test)]
mod tests;
