//! A new connection: resolve once, judge every address, dial judged ones only, judge the peer.
//!
//! A literal takes the same road as a name. One refused address refuses the name: a mixed answer
//! is an attack or a mistake, and which of the two cannot be known from here.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{
    SendError, failure,
    guard::{Blocked, Policy},
    happy::{Failures, race},
    proxy::ProxySettings,
    resolver::Resolver,
    stream::Stream,
    target::Target,
    trace::{Phase, Trace},
};
use crate::domain::outcome::Plain;

/// Makes connections.
pub(super) struct Connector {
    pub resolver: Resolver,
    pub policy: ArcSwap<Policy>,
    pub proxy: Option<ProxySettings>,
    /// For DNS, TCP and TLS together.
    pub timeout: Duration,
}

/// A connection, ready for HTTP.
pub(super) struct Link {
    pub stream: Stream,
    /// Whom it goes to; unknown if a proxy chose.
    pub address: Option<SocketAddr>,
    /// Whether HTTP/2 was agreed on.
    pub is_h2: bool,
}

impl Connector {
    /// Connects to `target` within the time limit.
    pub(super) async fn connect(
        &self,
        target: &Target,
        internal: bool,
        tls: &Arc<ClientConfig>,
        trace: &Trace,
    ) -> Result<Link, SendError> {
        match timeout(self.timeout, self.dial(target, internal, tls, trace)).await {
            Ok(result) => result,
            Err(_) => Err(self.too_slow(target, trace)),
        }
    }

    async fn dial(
        &self,
        target: &Target,
        internal: bool,
        tls: &Arc<ClientConfig>,
        trace: &Trace,
    ) -> Result<Link, SendError> {
        let (tcp, address) = match &self.proxy {
            Some(proxy) if proxy.guards() => {
                trace.enter(Phase::Connect);
                let tunnel = proxy.tunnel(&target.authority()).await;
                (tunnel.map_err(|text| SendError::new(Plain::Proxy, text))?, None)
            }
            proxy => {
                let addresses = self.judged_addresses(target, internal, trace).await?;
                trace.enter(Phase::Connect);
                let (tcp, address) = match proxy {
                    Some(proxy) => tunneled(proxy, &addresses, target.url.port()).await?,
                    None => self.direct(target, &addresses, internal).await?,
                };
                (tcp, Some(address))
            }
        };
        trace.reached(address);
        if !target.url.is_https() {
            return Ok(Link { stream: Stream::Plain(tcp), address, is_h2: false });
        }
        trace.enter(Phase::Tls);
        let host = target.url.host();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            SendError::new(Plain::InvalidRequest, format!("{host} cannot stand in a certificate"))
        })?;
        let tls = TlsConnector::from(tls.clone())
            .connect(name, tcp)
            .await
            .map_err(|error| failure::of_handshake(&error, host))?;
        let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Link { stream: Stream::Tls(Box::new(tls)), address, is_h2 })
    }

    async fn judged_addresses(
        &self,
        target: &Target,
        internal: bool,
        trace: &Trace,
    ) -> Result<Vec<IpAddr>, SendError> {
        trace.enter(Phase::Dns);
        let addresses = match target.url.address() {
            Some(literal) => vec![literal],
            None => self.resolver.addresses(target.url.host()).await?,
        };
        let policy = self.policy.load();
        for address in &addresses {
            policy
                .check_address(target.url.host(), *address, target.url.port(), internal)
                .map_err(blocked)?;
        }
        Ok(addresses)
    }

    async fn direct(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        internal: bool,
    ) -> Result<(TcpStream, SocketAddr), SendError> {
        let (host, port) = (target.url.host(), target.url.port());
        let dial = |address| TcpStream::connect(SocketAddr::new(address, port));
        let tcp = race(addresses, dial).await.map_err(|failures| unreached(host, &failures))?;
        let prepared = tcp.set_nodelay(true).and_then(|()| tcp.peer_addr());
        let peer =
            prepared.map_err(|error| SendError::new(Plain::ConnectFailed, error.to_string()))?;
        // Once more, of what the kernel says: nothing between here and there may have turned it.
        let policy = self.policy.load();
        policy.check_address(host, peer.ip(), port, internal).map_err(blocked)?;
        Ok((tcp, peer))
    }

    fn too_slow(&self, target: &Target, trace: &Trace) -> SendError {
        let phase = trace.phase();
        let reason = if phase == Phase::Dns { Plain::DnsTimeout } else { Plain::TimeoutConnect };
        SendError::new(
            reason,
            format!(
                "{} was not connected within {:?}, while waiting for {}",
                target.authority(),
                self.timeout,
                phase.awaited()
            ),
        )
    }
}

/// The guard's no, as an attempt's end.
pub(super) fn blocked(blocked: Blocked) -> SendError {
    SendError::new(blocked.reason(), blocked.sentence)
}

/// The addresses are judged here; the proxy is told the address, not the name.
async fn tunneled(
    proxy: &ProxySettings,
    addresses: &[IpAddr],
    port: u16,
) -> Result<(TcpStream, SocketAddr), SendError> {
    let dial = |address| async move {
        let address = SocketAddr::new(address, port);
        proxy.tunnel(&address.to_string()).await.map(|tcp| (tcp, address))
    };
    race(addresses, dial)
        .await
        .map_err(|failures| SendError::new(Plain::Proxy, failures.to_string()))
}

/// One reason for many addresses: a refusal tells most, since somebody answered.
fn unreached(host: &str, failures: &Failures<io::Error>) -> SendError {
    let reasons = || failures.0.iter().map(|(_, error)| failure::of_dial(error));
    let reason = [Plain::Internal, Plain::ConnectRefused, Plain::ConnectUnreachable]
        .into_iter()
        .find(|reason| reasons().any(|other| other == *reason))
        .unwrap_or(Plain::ConnectFailed);
    SendError::new(reason, format!("{host} cannot be reached: {failures}"))
}
