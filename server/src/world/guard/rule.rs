//! Entries of the operator's lists: addresses, ranges, names and ports, as written in settings.

use std::{fmt, net::IpAddr, ops::RangeInclusive};

use ipnet::IpNet;
use url::Host;

use crate::domain::address::judge;

/// The shortest prefix of an allowed range: those of the largest private ranges, 10.0.0.0/8 and
/// fc00::/7. Anything shorter would switch the guard off for a part of the internet.
const ALLOWED_PREFIX_MIN: (u8, u8) = (8, 7);

/// An entry of `guard.allow` or `guard.deny`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An address or a range of them.
    Range(IpNet),
    /// Exactly this name.
    Name(String),
    /// Every name below this one, at any depth, but not the name itself.
    Below(String),
}

/// An entry of the settings that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {entry:?} {problem}")]
pub struct PolicyError {
    /// The setting's name, as in `guard.allow`.
    pub setting: &'static str,
    /// The entry, as written.
    pub entry: String,
    /// What is wrong with it, and what to write instead.
    pub problem: String,
}

impl PolicyError {
    pub(super) fn new(setting: &'static str, entry: &str, problem: String) -> Self {
        Self { setting, entry: entry.to_owned(), problem }
    }
}

impl Rule {
    /// Reads an address (`10.0.0.1`), a range (`10.1.0.0/16`), a name or `*.example.com`.
    pub(super) fn parse(entry: &str) -> Result<Self, String> {
        if let Ok(address) = entry.parse::<IpAddr>() {
            return Ok(Self::Range(address.to_canonical().into()));
        }
        if entry.contains('/') {
            return Self::parse_range(entry);
        }
        let (below, name) = entry.strip_prefix("*.").map_or((false, entry), |rest| (true, rest));
        let name = match Host::parse(name) {
            Ok(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
            Ok(Host::Ipv4(address)) => {
                return Err(format!("is an odd way to write an address; write {address}"));
            }
            _ => String::new(),
        };
        if name.is_empty() || name.contains('*') {
            return Err("is neither an address, nor a range like 10.1.0.0/16, nor a name like \
                        example.com or *.example.com"
                .to_owned());
        }
        Ok(if below { Self::Below(name) } else { Self::Name(name) })
    }

    /// The same for the allow list, where a range must not be so wide that it ends the guard.
    pub(super) fn parse_allowed(entry: &str) -> Result<Self, String> {
        let rule = Self::parse(entry)?;
        let Self::Range(range) = &rule else { return Ok(rule) };
        let (v4, v6) = ALLOWED_PREFIX_MIN;
        let shortest = if range.addr().is_ipv4() { v4 } else { v6 };
        if range.prefix_len() >= shortest {
            return Ok(rule);
        }
        Err(format!(
            "would open far more than your own network; name your ranges, /{shortest} or longer"
        ))
    }

    fn parse_range(entry: &str) -> Result<Self, String> {
        let range: IpNet =
            entry.parse().map_err(|_| "is no range; write one like 10.1.0.0/16".to_owned())?;
        if range.trunc() != range {
            return Err(format!("has bits beyond its prefix; write {}", range.trunc()));
        }
        match range {
            IpNet::V6(v6) if v6.network().to_ipv4_mapped().is_some() => {
                Err("is a range of IPv4 addresses in IPv6 form; write it as IPv4".to_owned())
            }
            _ => Ok(Self::Range(range)),
        }
    }

    /// Whether it is about this address, given in its plain form.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        matches!(self, Self::Range(range) if range.contains(&address))
    }

    /// Whether it is a range within somebody's own network.
    pub(super) fn is_internal(&self) -> bool {
        matches!(self, Self::Range(range) if judge(range.network()).is_internal())
    }

    /// Whether it is about this host name.
    pub(super) fn names(&self, host: &str) -> bool {
        match self {
            Self::Range(_) => false,
            Self::Name(name) => name == host,
            Self::Below(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => range.fmt(f),
            Self::Name(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// The ports that may be connected to: `guard.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

impl Default for Ports {
    /// Those of the web, and all that need no privilege to listen on. Below 1024 are mail, SSH,
    /// DNS and other services that must not be talked to in HTTP.
    fn default() -> Self {
        Self(vec![80..=80, 443..=443, 1024..=u16::MAX])
    }
}

impl Ports {
    /// Reads entries like `443` and `1024-65535`.
    pub(super) fn parse(entries: &[impl AsRef<str>]) -> Result<Self, PolicyError> {
        if entries.is_empty() {
            let problem = "allows no port at all; write at least \"443\"".to_owned();
            return Err(PolicyError::new("guard.ports", "", problem));
        }
        let ranges = entries.iter().map(AsRef::as_ref).map(|entry| {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            match (first.trim().parse(), last.trim().parse()) {
                (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
                _ => {
                    let problem = "is no port from 1 to 65535 and no range like 1024-65535";
                    Err(PolicyError::new("guard.ports", entry, problem.to_owned()))
                }
            }
        });
        ranges.collect::<Result<_, _>>().map(Self)
    }

    /// Whether `port` may be connected to.
    pub fn allow(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
