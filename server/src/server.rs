//! The server: opens what it needs, mounts the doors, starts the worker, and stops all of it in
//! order.
//!
//! ```text
//! open: master key ─► database (migrated) ─► client ─► engine, manage, doors
//! stop: no new work, no new connections ─► what is under way ends ─► shards back ─► closed
//! ```
//! Signals and exit codes are the command line's.

pub mod connections;
pub mod files;
mod linger;
pub mod node_name;
pub mod signals;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, http::header, routing::get};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use self::connections::{ConnectionLimits, serve};
use crate::{
    api::{self, Api, ApiSettings},
    config::{
        Settings,
        master_key::{MasterKeyError, keyring},
    },
    domain::{circuit::CircuitRules, health::HealthRules, scope::Actor},
    engine::{Engine, EngineSettings, Worker, heartbeat},
    ingress::{self, Ingress},
    manage::{Manage, ManageError, OWNER_WAIT},
    store::{
        NameLock, Options, Store, StoreError,
        reseal::SealedIn,
        seal::{Keyring, SealError},
    },
    telemetry::metrics::{CONTENT_TYPE, Metrics},
    world::real::{ClientError, RealWorld, chance},
};

/// How long requests to us may take to end at the stop: as long as those that we make.
const DRAIN: Duration = Duration::from_secs(24);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no key that seals secrets.
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    /// What is sealed in the database was sealed with another key.
    #[error("the master key does not fit the database: {0}")]
    ForeignKey(#[from] SealError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sources of the settings file.
    #[error("the sources of the settings file cannot be put into the database: {0}")]
    Sources(#[from] ManageError),
    /// Another node has this one's name.
    #[error("another node named {0} is at work on this database")]
    NameTaken(String),
    /// The delivery client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A port is taken, or not ours to take.
    #[error("cannot listen on {address}, which the setting {setting} names: {cause}")]
    Listen {
        /// `listen` or `metrics.listen`.
        setting: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// A server that has opened everything and runs nothing yet.
pub struct Server {
    /// Changes to what is configured.
    pub manage: Arc<Manage>,
    /// The pipeline.
    pub engine: Arc<Engine>,
    settings: Settings,
    api: Arc<Api>,
    ingress: Arc<Ingress>,
    world: Arc<RealWorld>,
    metrics: Arc<Metrics>,
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    name: Option<NameLock>,
}

/// Takes the address of a setting.
pub async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let taken = TcpListener::bind(address).await;
    taken.map_err(|cause| StartError::Listen { setting, address, cause })
}

/// Opens the first secrets there are. A server with another key would send nothing that it should,
/// use up the attempts of what it cannot sign, and seal new secrets so that others cannot.
async fn check_key(store: &Store, keyring: &Keyring) -> Result<(), StartError> {
    let mut tx = store.read().await?;
    for table in [SealedIn::Secrets, SealedIn::SourceSecrets] {
        for secret in tx.list_sealed(table, 0).await? {
            keyring.open(&secret.sealed, secret.place())?;
        }
    }
    Ok(())
}

impl Server {
    /// Opens the database, migrated, and everything else. `listener` is where `settings` say, or
    /// where the caller found room.
    pub async fn open(mut settings: Settings, listener: TcpListener) -> Result<Self, StartError> {
        if let Ok(address) = listener.local_addr() {
            settings.move_to(address); // a port of 0 is the system's choice
        }
        if let Some(files) = files::raise_limit().filter(|files| *files < files::FILES_WANTED) {
            let wanted = files::FILES_WANTED;
            tracing::warn!(files, wanted, "few files may be open; raise the limit (ulimit -n)");
        }
        let keyring = Arc::new(keyring(&settings, chance)?);
        let url = settings.database.expose();
        let store = Store::open(&url, Options { migrate: true, serve: true }).await?;
        check_key(&store, &keyring).await?;
        let name = node_name::take_for(&store, &settings).await?;
        let mut tx = store.begin().await?;
        tx.set_payload_limit(i32::try_from(settings.payload_bytes_max).unwrap_or(i32::MAX)).await?;
        tx.commit().await?;
        let metrics_listener = match settings.metrics_listen {
            Some(address) => Some(bind("metrics.listen", address).await?),
            None => None,
        };
        let world = Arc::new(RealWorld::new(settings.client())?);
        let metrics = Metrics::new();
        let engine = Engine::new(
            store.clone(),
            world.clone(),
            engine_settings(&settings),
            keyring.clone(),
            metrics.clone(),
        );
        // Before the first request: whose source is not known yet would have to come again.
        engine.sources.refresh().await?;
        let waker = engine.clone();
        let sources = engine.sources.clone();
        let manage = Arc::new(Manage {
            store,
            world: world.clone(),
            keyring,
            policy: Arc::new(settings.guard.clone()),
            wake: Arc::new(move || waker.wake()),
            reread: Arc::new(move || {
                let sources = sources.clone();
                Box::pin(async move { drop(sources.refresh().await) }) // if not now, in a second
            }),
            owner_wait: OWNER_WAIT,
        });
        manage.put_file_sources(&Actor::settings_file(), &settings.sources).await?;
        let api = Api::new(manage.clone(), engine.clone(), api_settings(&settings));
        let ingress = Ingress::new(engine.clone());
        Ok(Self {
            manage,
            engine,
            settings,
            api,
            ingress,
            world,
            metrics,
            listener,
            metrics_listener,
            name,
        })
    }

    /// The settings as they came to be.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Works until `stop`, and then until everything is in order: 24 s at most for what is under
    /// way. To end at once, drop the future.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            manage,
            engine,
            settings,
            api,
            ingress,
            world,
            metrics,
            listener,
            metrics_listener,
            name,
        } = self;
        let limits = ConnectionLimits::for_files(files::hard_limit());
        let doors = doors(&settings, &api, &ingress);
        let doors = within_drain(serve(listener, doors, limits, stop.clone()), &stop);
        let metrics_door = async {
            if let Some(listener) = metrics_listener {
                let router = metrics_router(metrics);
                within_drain(serve(listener, router, limits, stop.clone()), &stop).await;
            }
        };
        let worker = async {
            let worker = settings.roles.worker.then(|| Worker::start(engine.clone()));
            stop.cancelled().await;
            if let Some(worker) = worker {
                worker.drain().await;
            }
        };
        let mut name = name;
        let beside = Box::pin(async {
            let period = heartbeat(settings.delivery.lease);
            tokio::select! {
                () = node_name::keep(&manage.store, &settings.node, &mut name, period),
                    if settings.roles.worker => {}
                () = engine.sources.keep() => {}
                () = engine.keep_pruned(), if settings.roles.worker => {}
                () = stop.cancelled() => {}
            }
        });
        tokio::join!(doors, metrics_door, worker, beside, ingress.keep_rejects(&stop));
        ingress.write_rejects().await; // of those whose requests were under way at the stop
        // Both have a bound of their own: a request that went on without its caller, and sockets.
        let _ = timeout(Duration::from_secs(5), api.finish()).await;
        world.shutdown().await;
        manage.store.close().await;
        drop(name); // nobody takes it for a restart before the shards are given back
    }
}

/// Runs `door` to its end, or until [`DRAIN`] after the stop.
async fn within_drain(door: impl Future<Output = ()>, stop: &CancellationToken) {
    let overtime = async {
        stop.cancelled().await;
        let _ = timeout(DRAIN, std::future::pending::<()>()).await;
    };
    tokio::select! {
        () = door => {}
        () = overtime => tracing::warn!("clients that are still connected are let go"),
    }
}

fn doors(settings: &Settings, api: &Arc<Api>, ingress: &Arc<Ingress>) -> Router {
    let roles = settings.roles;
    let router = if roles.api { api::router(api.clone()) } else { api::system_router(api.clone()) };
    if roles.ingress { router.merge(ingress::router(ingress.clone())) } else { router }
}

/// `/metrics` alone, on an address that only the operator's own network reaches.
fn metrics_router(metrics: Arc<Metrics>) -> Router {
    let show = move || {
        let text = metrics.render();
        async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], text) }
    };
    Router::new().route("/metrics", get(show))
}

fn engine_settings(settings: &Settings) -> EngineSettings {
    let delivery = &settings.delivery;
    EngineSettings {
        node: settings.node.clone(),
        base_url: settings.base_url.clone(),
        timeout: delivery.timeout,
        lease: delivery.lease,
        concurrency: delivery.concurrency,
        max_in_flight: delivery.max_in_flight_per_endpoint,
        schedule: delivery.retry_schedule.clone(),
        jitter: delivery.jitter,
        health: HealthRules {
            disable_after: settings.health.disable_after,
            warn_after: settings.health.warn_after.clone(),
        },
        circuit: CircuitRules {
            open_after: usize::try_from(settings.circuit.open_after).unwrap_or(usize::MAX),
            probe_first: settings.circuit.probe_first,
            probe_max: settings.circuit.probe_max,
            jitter: delivery.jitter,
        },
        keep_received: settings.retention.dedup,
        keep_requests: settings.retention.events,
        strict_event_types: settings.strict_event_types,
    }
}

fn api_settings(settings: &Settings) -> ApiSettings {
    ApiSettings {
        base_url: settings.base_url.clone(),
        payload_bytes_max: settings.payload_bytes_max,
        strict_event_types: settings.strict_event_types,
        serves_metrics: settings.metrics_listen.is_none(),
        schedule: settings.delivery.retry_schedule.clone(),
        jitter: settings.delivery.jitter,
        disable_after: settings.health.disable_after,
        ..ApiSettings::default()
    }
}
