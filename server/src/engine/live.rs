//! Endpoints as the engine uses them: parsed, opened and ready, kept until they change.

use std::{
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use snaphook_signature::Secret;

use super::{
    Engine,
    lanes::LaneSettings,
    prepare::{EndpointSecret, ReadyEndpoint},
};
use crate::{
    domain::{
        endpoint::{EndpointSettings, Private},
        endpoint_state::EndpointState,
        filter::Filter,
        final_statuses::FinalStatuses,
        health::Health,
        id::EndpointId,
        outcome::Plain,
        retry::RetrySchedule,
    },
    store::{StoreError, Tx, endpoints::EndpointRow, seal::Place, secrets::SecretRow},
};

/// Nothing is sent on settings older than this.
const STALE: Duration = Duration::from_secs(5);

/// Endpoints that are loaded by one statement: a node that starts has to load them all.
const LOADED_AT_ONCE: usize = 500;

/// An endpoint, ready for attempts.
#[derive(Debug)]
pub struct LiveEndpoint {
    /// Requests are made of this; or why none can be.
    pub ready: Result<ReadyEndpoint, Unready>,
    /// Its own ladder, or the operator's.
    pub schedule: RetrySchedule,
    /// Statuses that end a delivery at once.
    pub final_statuses: FinalStatuses,
    /// Which payloads it wants.
    pub filter: Option<Filter>,
    /// What the lanes know of it.
    pub lane: LaneSettings,
    /// Whether it takes deliveries.
    pub state: EndpointState,
    /// Whether it was deleted: what still waits is for the upkeep to cancel.
    pub deleted: bool,
    /// Whether what it held is to be discarded.
    pub discarding: bool,
    /// The configuration's epoch as of its last change.
    pub epoch: i64,
    /// As it is on record. The lanes know better, but when it is new to them or begins anew.
    pub health: Health,
}

/// Why no request can be made for an endpoint.
#[derive(Clone, Debug)]
pub struct Unready {
    /// Whose fault it is: `invalid_request` is its owner's, `internal` the operator's.
    pub reason: Plain,
    /// In words, for those who may see the endpoint.
    pub detail: String,
}

impl Unready {
    fn invalid(problem: &impl ToString) -> Self {
        Self { reason: Plain::InvalidRequest, detail: problem.to_string() }
    }

    /// What is wrong goes to the log; an endpoint's owner could not mend it.
    fn internal(endpoint: EndpointId, problem: &str) -> Self {
        tracing::error!(%endpoint, "no request can be made for an endpoint: {problem}");
        let detail = "a defect or a shortage of snaphook; its log has more".to_owned();
        Self { reason: Plain::Internal, detail }
    }
}

/// An endpoint that changed.
pub struct Changed {
    /// Which.
    pub endpoint: EndpointId,
    /// As it was.
    pub before: Arc<LiveEndpoint>,
    /// As it is.
    pub live: Arc<LiveEndpoint>,
}

impl Changed {
    /// Whether it was given up and is not any more: it begins anew.
    pub fn is_enabled(&self) -> bool {
        self.before.state == EndpointState::Disabled && self.live.state != EndpointState::Disabled
    }

    /// Whether it lies elsewhere now: what was learned of the old place says nothing of this one.
    pub fn is_moved(&self) -> bool {
        let url =
            |live: &LiveEndpoint| live.ready.as_ref().ok().map(|ready| ready.url().to_owned());
        url(&self.before) != url(&self.live)
    }
}

/// The endpoints that were asked for, as of some epoch of the configuration.
#[derive(Default)]
pub struct LiveEndpoints {
    endpoints: HashMap<EndpointId, Arc<LiveEndpoint>>,
    epoch: Option<i64>,
    /// By the monotonic clock: when it was last known that nothing newer exists.
    fresh_at: Option<Duration>,
}

impl LiveEndpoints {
    /// An endpoint that was loaded before.
    pub fn get(&self, endpoint: EndpointId) -> Option<&Arc<LiveEndpoint>> {
        self.endpoints.get(&endpoint)
    }

    /// Whether requests may start on what is known.
    pub fn are_fresh(&self, monotonic: Duration) -> bool {
        self.fresh_at.is_some_and(|at| monotonic.saturating_sub(at) < STALE)
    }

    /// Loads those of these endpoints that are not here yet. One that has no row is left out.
    pub async fn load(
        &mut self,
        engine: &Engine,
        tx: &mut Tx,
        endpoints: &BTreeSet<EndpointId>,
    ) -> Result<(), StoreError> {
        let is_unknown = |endpoint: &EndpointId| !self.endpoints.contains_key(endpoint);
        let unknown: Vec<EndpointId> = endpoints.iter().copied().filter(is_unknown).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        if self.epoch.is_none() {
            // What changes between this load and the first refresh must be seen by the latter.
            self.epoch = Some(tx.config_epoch().await?);
        }
        let mut rows = Vec::with_capacity(unknown.len());
        for some in unknown.chunks(LOADED_AT_ONCE) {
            rows.extend(tx.list_endpoints_by_id(some).await?);
        }
        self.endpoints.extend(engine.live_endpoints(tx, rows).await?);
        Ok(())
    }

    /// Reads what changed since the last call. Gives the endpoints that did, of those loaded.
    pub async fn refresh(
        &mut self,
        engine: &Engine,
        tx: &mut Tx,
    ) -> Result<Vec<Changed>, StoreError> {
        let asked_at = engine.world.monotonic();
        let epoch = tx.config_epoch().await?;
        let mut changed = Vec::new();
        if let Some(seen) = self.epoch.filter(|seen| *seen != epoch) {
            let mut rows = tx.list_endpoints_changed_since(seen).await?;
            rows.retain(|row| self.endpoints.contains_key(&row.id));
            for (id, live) in engine.live_endpoints(tx, rows).await? {
                let Some(before) = self.endpoints.insert(id, live.clone()) else { continue };
                // Its connections were made for the settings before.
                if let Ok(ready) = &before.ready {
                    engine.world.forget(ready.url());
                }
                changed.push(Changed { endpoint: id, before, live });
            }
        }
        self.epoch = Some(epoch);
        self.fresh_at = Some(asked_at);
        Ok(changed)
    }

    /// Forgets an endpoint.
    pub fn remove(&mut self, endpoint: EndpointId) {
        self.endpoints.remove(&endpoint);
    }

    /// Forgets the endpoints of a shard.
    pub fn remove_shard(&mut self, shard: i16) {
        self.endpoints.retain(|_, live| live.lane.shard != shard);
    }

    /// Those of which what waits is to end: they were deleted, or it is to be discarded.
    pub fn ending(&self) -> Vec<(EndpointId, Arc<LiveEndpoint>)> {
        let ending = self.endpoints.iter().filter(|(_, live)| live.deleted || live.discarding);
        ending.map(|(endpoint, live)| (*endpoint, live.clone())).collect()
    }

    /// The configuration's epoch as of the last refresh.
    pub fn epoch(&self) -> i64 {
        self.epoch.unwrap_or_default()
    }
}

impl Engine {
    async fn live_endpoints(
        &self,
        tx: &mut Tx,
        rows: Vec<EndpointRow>,
    ) -> Result<Vec<(EndpointId, Arc<LiveEndpoint>)>, StoreError> {
        let ids: Vec<EndpointId> = rows.iter().map(|row| row.id).collect();
        let mut secrets: HashMap<EndpointId, Vec<SecretRow>> = HashMap::new();
        for some in ids.chunks(LOADED_AT_ONCE) {
            for secret in tx.list_secrets_of(some).await? {
                secrets.entry(secret.endpoint).or_default().push(secret);
            }
        }
        let live = |row: EndpointRow| {
            let secrets = secrets.remove(&row.id).unwrap_or_default();
            (row.id, Arc::new(self.live_endpoint(row, &secrets)))
        };
        Ok(rows.into_iter().map(live).collect())
    }

    fn live_endpoint(&self, row: EndpointRow, secrets: &[SecretRow]) -> LiveEndpoint {
        let mut settings = row.settings.clone();
        let schedule = match &settings.retry_schedule {
            Some(text) => RetrySchedule::from_text(text).unwrap_or(self.settings.schedule.clone()),
            None => self.settings.schedule.clone(),
        };
        let cap = settings.max_in_flight.unwrap_or(self.settings.max_in_flight).max(1);
        let lane = LaneSettings {
            tenant: row.tenant.as_str().into(),
            shard: row.shard,
            cap: if settings.ordered { 1 } else { usize::try_from(cap).unwrap_or(usize::MAX) },
            ordered: settings.ordered,
            rate: settings.rate_limit,
            held: row.state != EndpointState::Active || row.deleted_at.is_some(),
        };
        let final_statuses =
            FinalStatuses::from_texts(&settings.final_statuses).unwrap_or_default();
        let filter = Filter::parse_setting(&settings.filter);
        let ready = || {
            let secrets = self
                .open(&row, &mut settings, secrets)
                .map_err(|problem| Unready::internal(row.id, &problem))?;
            ReadyEndpoint::new(&settings, secrets, self.settings.timeout)
                .map_err(|error| Unready::invalid(&error))
        };
        // What an endpoint brings along (certificates, keys) must not end the whole pipeline.
        let ready = catch_unwind(AssertUnwindSafe(ready))
            .unwrap_or_else(|_| Err(Unready::internal(row.id, "its settings made us panic")));
        let (ready, filter) = match filter {
            Ok(filter) => (ready, filter),
            Err(error) => (Err(Unready::invalid(&error)), None),
        };
        let (state, deleted, epoch) = (row.state, row.deleted_at.is_some(), row.epoch);
        let (discarding, health) = (row.discarding && !deleted, row.health);
        LiveEndpoint {
            ready,
            schedule,
            final_statuses,
            filter,
            lane,
            state,
            deleted,
            discarding,
            epoch,
            health,
        }
    }

    /// Opens what is sealed. What does not open is the operator's to mend; attempts fail with the
    /// sentence until then.
    fn open(
        &self,
        row: &EndpointRow,
        settings: &mut EndpointSettings,
        secrets: &[SecretRow],
    ) -> Result<Vec<EndpointSecret>, String> {
        if let Some(sealed) = &row.sealed {
            let place = Place::of_endpoint(&row.tenant, row.id);
            let plain = self.keyring.open(sealed, place).map_err(|error| error.to_string())?;
            let private: Private =
                serde_json::from_slice(&plain).map_err(|error| error.to_string())?;
            settings.put_private(private);
        }
        let mut opened = Vec::with_capacity(secrets.len());
        for secret in secrets {
            let place = Place::of_secret(&secret.tenant, secret.id);
            let plain =
                self.keyring.open(&secret.sealed, place).map_err(|error| error.to_string())?;
            let text = std::str::from_utf8(&plain).map_err(|error| error.to_string())?;
            opened.push(EndpointSecret {
                id: secret.id,
                secret: Secret::parse(text).map_err(|error| error.to_string())?,
                expires_at: secret.expires_at,
            });
        }
        Ok(opened)
    }
}
