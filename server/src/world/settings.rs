//! The delivery client's settings, as used; what a settings file looks like is `config`'s.

use std::{sync::Arc, time::Duration};

use super::{guard::Policy, proxy::ProxySettings, resolver::ResolverKind, tls::Roots};

/// How the outside world is reached.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// For DNS, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Bytes of an answer's body that are kept.
    pub response_bytes: usize,
    /// Which addresses may be reached. This host's own are added by the client.
    pub policy: Arc<Policy>,
    /// Who is asked for addresses.
    pub resolver: ResolverKind,
    /// Whom to trust in TLS.
    pub roots: Roots,
    /// The operator's forward proxy, if all requests must go through one.
    pub proxy: Option<ProxySettings>,
    /// Open connections to all receivers together, busy or idle.
    pub connections_max: usize,
    /// A connection that nobody has used for so long is closed. Shorter than what servers allow
    /// (nginx: 75 s, Apache: 5 s, Node: 5 s), or a little longer, which costs a second request.
    pub idle: Duration,
    /// A connection of this age takes no new request: it was resolved and judged that long ago.
    pub age: Duration,
}

impl ClientSettings {
    /// The defaults, with `policy`.
    ///
    /// 512 connections are twice the default of `delivery.concurrency`, and leave half of the
    /// 1,024 files that a process may usually have open.
    pub fn new(policy: Arc<Policy>) -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            response_bytes: 16_384,
            policy,
            resolver: ResolverKind::default(),
            roots: Roots::default(),
            proxy: None,
            connections_max: 512,
            idle: Duration::from_secs(30),
            age: Duration::from_mins(1),
        }
    }
}
