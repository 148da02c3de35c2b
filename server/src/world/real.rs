//! The world as it is: the system's clocks, its randomness, and the network.

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use rand::Rng;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    Boxed, Request, Sent, World,
    client::Client,
    connect::Connector,
    guard::Policy,
    own_addresses::own_addresses,
    pool::Pool,
    resolver::Resolver,
    settings::ClientSettings,
    tls::{TlsError, TlsSetups},
};
use crate::domain::time::Timestamp;

/// How often idle connections are looked through, at most.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);

/// How often this host's own addresses are read anew, counted in sweeps: once a minute by default.
const SWEEPS_PER_ADDRESSES: u32 = 12;

/// Why the delivery client cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system's name servers.
    #[error("the configuration of the name servers cannot be read (/etc/resolv.conf): {0}")]
    Resolver(String),
    /// Without them the guard cannot refuse them.
    #[error("this host's own addresses cannot be read: {0}")]
    OwnAddresses(#[from] io::Error),
}

/// The one [`World`] outside tests.
pub struct RealWorld {
    client: Arc<Client>,
    upkeep: TaskTracker,
    _stop: DropGuard,
    stop: CancellationToken,
}

impl RealWorld {
    /// Starts the delivery client. To be called inside a tokio runtime, which gets a task that
    /// closes idle connections; [`RealWorld::shutdown`] ends it.
    pub fn new(settings: ClientSettings) -> Result<Self, ClientError> {
        let resolver = Resolver::new(&settings.resolver)
            .map_err(|error| ClientError::Resolver(error.to_string()))?;
        let policy = settings.policy.with_own_addresses(own_addresses()?);
        let client = Arc::new(Client {
            connector: Connector {
                resolver,
                policy: ArcSwap::from_pointee(policy),
                proxy: settings.proxy,
                timeout: settings.connect_timeout,
            },
            pool: Pool::new(settings.connections_max, settings.idle, settings.age),
            tls: TlsSetups::new(&settings.roots)?,
            response_bytes: settings.response_bytes,
        });
        let (upkeep, stop) = (TaskTracker::new(), CancellationToken::new());
        let period = SWEEP_PERIOD.min(settings.idle / 2).max(Duration::from_millis(10));
        upkeep.spawn(keep_up(client.clone(), period, stop.clone()));
        Ok(Self { client, upkeep, _stop: stop.clone().drop_guard(), stop })
    }

    /// Replaces the guard's policy, and closes all kept connections, for they were judged by the
    /// old one.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), ClientError> {
        let policy = policy.with_own_addresses(own_addresses()?);
        self.client.connector.policy.store(Arc::new(policy));
        self.client.pool.forget(|_| true);
        Ok(())
    }

    /// Closes all connections and ends all tasks. Requests still on the way end at the latest
    /// after 2 s; drain before.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.upkeep.close();
        self.upkeep.wait().await;
        self.client.pool.shutdown().await;
    }
}

impl World for RealWorld {
    fn now(&self) -> Timestamp {
        wall_clock()
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn random(&self) -> u64 {
        chance()
    }

    fn send(&self, request: Request) -> Boxed<'_, Sent> {
        Box::pin(self.client.post(request))
    }

    fn forget(&self, url: &str) {
        self.client.forget(url);
    }
}

/// The wall clock, for commands that need no more of the world.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall_clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(0) + since.unwrap_or_default() // a clock before 1970 reads as 1970
}

/// Time since this machine started, its sleep included.
pub fn monotonic() -> Duration {
    let time = clock_gettime(clock());
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// 64 bits of the system's randomness, fit for secrets.
#[expect(clippy::disallowed_methods, reason = "the one place that draws chance")]
pub fn chance() -> u64 {
    rand::rng().random()
}

/// The clock that goes on while the machine sleeps.
const fn clock() -> ClockId {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    // Apple's and others' monotonic clock stops in sleep or not; there is none better.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    clock
}

/// Until `stop`: closes idle connections, and learns when this host gets another address.
async fn keep_up(client: Arc<Client>, period: Duration, stop: CancellationToken) {
    let mut sweeps: u32 = 0;
    while timeout(period, stop.cancelled()).await.is_err() {
        client.pool.sweep();
        sweeps = sweeps.wrapping_add(1);
        if sweeps.is_multiple_of(SWEEPS_PER_ADDRESSES) {
            match own_addresses() {
                Ok(own) => {
                    client.connector.policy.rcu(|policy| policy.with_own_addresses(own.clone()));
                }
                Err(error) => tracing::warn!(%error, "this host's own addresses cannot be read"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guard_knows_this_hosts_own_addresses_from_the_start_and_after_a_change() {
        let world = RealWorld::new(ClientSettings::new(Arc::default())).unwrap();
        let knows_all = || {
            let policy = format!("{:?}", world.client.connector.policy.load());
            let own = own_addresses().unwrap();
            own.iter().all(|address| policy.contains(&address.to_string()))
        };
        assert!(knows_all());
        world.set_policy(&Policy::default()).unwrap();
        assert!(knows_all());
    }

    #[tokio::test]
    async fn the_clocks_agree_with_the_systems_and_go_on() {
        let world = RealWorld::new(ClientSettings::new(Arc::default())).unwrap();
        assert!(world.now() > Timestamp::from_seconds(1_700_000_000));
        let earlier = world.monotonic();
        assert!(world.monotonic() >= earlier);
        assert_ne!(world.random(), world.random());
    }
}
