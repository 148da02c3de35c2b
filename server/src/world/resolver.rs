//! Names to addresses. Judges nothing: that is the connector's business, which asks once per
//! connection and uses no other address than those it asked for.
//!
//! Customers choose the names. So by default they are asked of the name servers directly, without
//! a thread per question, with limits of our own; and always with the dot at the end, for
//! otherwise `redis` could become `redis.default.svc.cluster.local`.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{op::ResponseCode, rr::Name},
    system_conf::read_system_conf,
};

use super::SendError;
use crate::domain::outcome::Plain;

/// One question to one server; twice this is still inside the usual 5 s for a connection.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest that an answer is remembered, whatever its own time: a customer who moves a receiver
/// should not have to wait longer than for the age limit of connections.
const ANSWER_AGE_MAX: Duration = Duration::from_mins(1);

/// The same for "there is no such name": a name that was just made should be found soon.
const DENIAL_AGE_MAX: Duration = Duration::from_secs(10);

/// Answers of a test, by name.
pub type Answers = dyn Fn(&str) -> Vec<IpAddr> + Send + Sync;

/// Whom to ask.
#[derive(Clone, Default)]
pub enum ResolverKind {
    /// The name servers of `/etc/resolv.conf`, and `/etc/hosts`.
    #[default]
    Direct,
    /// These name servers, and `/etc/hosts`.
    Servers(Vec<SocketAddr>),
    /// The system's own way, `getaddrinfo`, for sites with special sources of names.
    System,
    /// A function; no answer means that the name does not exist. For tests.
    Static(Arc<Answers>),
}

impl fmt::Debug for ResolverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("Direct"),
            Self::Servers(servers) => f.debug_tuple("Servers").field(servers).finish(),
            Self::System => f.write_str("System"),
            Self::Static(_) => f.write_str("Static"),
        }
    }
}

/// Asks once for the addresses of `host`, as a delivery would: for `doctor`.
pub async fn look_up(kind: &ResolverKind, host: &str) -> Result<Vec<IpAddr>, SendError> {
    let resolver = Resolver::new(kind)
        .map_err(|error| SendError::new(Plain::DnsFailed, format!("/etc/resolv.conf: {error}")))?;
    resolver.addresses(host).await
}

pub(super) enum Resolver {
    Direct(Box<TokioResolver>),
    System,
    Static(Arc<Answers>),
}

impl Resolver {
    /// Fails when the system's configuration cannot be read.
    pub(super) fn new(kind: &ResolverKind) -> Result<Self, NetError> {
        let (servers, mut options) = match kind {
            ResolverKind::System => return Ok(Self::System),
            ResolverKind::Static(answers) => return Ok(Self::Static(answers.clone())),
            ResolverKind::Direct => match read_system_conf() {
                Ok((config, options)) => (config.into_parts().2, options),
                // There is none, or it says something that only the system understands.
                Err(error) => {
                    tracing::warn!(%error, "the configuration of the name servers cannot be read; asking the system instead");
                    return Ok(Self::System);
                }
            },
            ResolverKind::Servers(servers) => {
                (servers.iter().map(name_server).collect(), ResolverOpts::default())
            }
        };
        set_limits(&mut options);
        // Of the system's configuration only the servers: no domain, no search list.
        let config = ResolverConfig::from_name_servers(servers);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options);
        Ok(Self::Direct(Box::new(builder.build()?)))
    }

    /// All addresses of `host`, at least one, in the order given.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, SendError> {
        let absolute = format!("{host}.");
        let addresses: Vec<IpAddr> = match self {
            Self::Direct(resolver) => resolver
                .lookup_ip(name_of(host, &absolute)?)
                .await
                .map_err(|error| direct_failure(host, &error))?
                .iter()
                .collect(),
            Self::System => match system_addresses(&absolute, host).await {
                // A hosts file knows no final dot. If search domains lead somewhere, it is the
                // operator's wish, and the address is judged like any other.
                Err(error) if error.reason == Plain::DnsNotFound.into() => {
                    system_addresses(host, host).await?
                }
                result => result?,
            },
            Self::Static(answers) => answers(host),
        };
        if addresses.is_empty() { Err(not_found(host)) } else { Ok(addresses) }
    }
}

/// Fails on what is no name, such as one with a label that is too long.
fn name_of(host: &str, absolute: &str) -> Result<Name, SendError> {
    let unreadable = |error| {
        let problem = format!("the addresses of {host} could not be learned: {error}");
        SendError::new(Plain::InvalidRequest, problem)
    };
    Name::from_utf8(absolute).map_err(unreadable)
}

async fn system_addresses(asked: &str, host: &str) -> Result<Vec<IpAddr>, SendError> {
    let found = tokio::net::lookup_host((asked, 0)).await;
    let found = found.map_err(|error| system_failure(host, &error))?;
    Ok(found.map(|address| address.ip()).collect())
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn set_limits(options: &mut ResolverOpts) {
    options.timeout = QUESTION_TIMEOUT;
    options.attempts = 1; // beyond the first
    options.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    options.positive_max_ttl = Some(ANSWER_AGE_MAX);
    options.negative_max_ttl = Some(DENIAL_AGE_MAX);
    options.max_active_requests = 1024; // beyond it questions fail as "busy"
    options.edns0 = true;
}

fn not_found(host: &str) -> SendError {
    SendError::new(Plain::DnsNotFound, format!("{host} has no address in the DNS"))
}

fn direct_failure(host: &str, error: &NetError) -> SendError {
    let reason = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain | ResponseCode::NoError => return not_found(host),
            _ => Plain::DnsFailed,
        },
        NetError::Timeout => Plain::DnsTimeout,
        // What the name servers say makes no sense; the name itself was read before.
        _ => Plain::DnsFailed,
    };
    SendError::new(reason, format!("the addresses of {host} could not be learned: {error}"))
}

/// `getaddrinfo` gives its codes as texts only: these are glibc's, musl's and the BSDs' for
/// `EAI_NONAME` and `EAI_NODATA`.
fn system_failure(host: &str, error: &io::Error) -> SendError {
    const NOT_FOUND: [&str; 5] = [
        "Name or service not known",
        "No address associated",
        "Name does not resolve",
        "nodename nor servname",
        "Name has no usable address",
    ];
    let text = error.to_string();
    if NOT_FOUND.iter().any(|known| text.contains(known)) {
        return not_found(host);
    }
    SendError::new(
        Plain::DnsFailed,
        format!("the addresses of {host} could not be learned: {text}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_is_told_from_a_failure() {
        for (text, expected) in [
            ("failed to lookup address information: Name or service not known", "dns_not_found"),
            ("failed to lookup address information: Name does not resolve", "dns_not_found"),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                "dns_failed",
            ),
            ("failed to lookup address information: Try again", "dns_failed"),
        ] {
            let failure = system_failure("hooks.example", &io::Error::other(text));
            assert_eq!(failure.reason.name(), expected, "{text}");
        }
    }
}
