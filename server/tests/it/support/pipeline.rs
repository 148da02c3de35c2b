//! A whole pipeline in a simulated world: one node, and beside it what people can do to it. Turns
//! are made by the test, so nothing happens by itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use snaphook::{
    domain::{
        attempt::Mark,
        circuit::CircuitState,
        endpoint::EndpointSettings,
        endpoint_state::EndpointState,
        event::Door,
        id::{DeliveryId, EndpointId, EventId},
        scope::Actor,
        tenant::TenantId,
    },
    engine::{Engine, EngineSettings, Owner},
    manage::Manage,
    store::{
        EndpointRow, NewEvent, Store, StoreError, attempts::AttemptRow, deliveries::DeliveryRow,
    },
    telemetry::metrics::Metrics,
    world::{World, guard::Policy},
};

use super::{
    databases::Database,
    simulated::{Reply, Simulated, at, engine_named, event, keyring, plant, run_dry, turn},
};

/// One node, and its manager.
pub struct Pipeline {
    pub world: Arc<Simulated>,
    pub store: Store,
    pub engine: Arc<Engine>,
    pub owner: Owner,
    pub manage: Manage,
    pub actor: Actor,
    pub acme: TenantId,
}

impl Pipeline {
    /// On `database`, with receivers that give `answer`; it owns all shards.
    pub async fn new(
        database: &Database,
        answer: impl Fn(&str, u32) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with(database, EngineSettings::default(), answer).await
    }

    /// As `new`, with settings of its own.
    pub async fn with(
        database: &Database,
        settings: EngineSettings,
        answer: impl Fn(&str, u32) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (store, world) = (database.open().await, Simulated::with(answer));
        let engine = Engine::new(store.clone(), world.clone(), settings, keyring(), Metrics::new());
        let manage = Manage {
            store: store.clone(),
            world: world.clone(),
            keyring: Arc::new(keyring()),
            policy: Arc::new(Policy::default()),
            wake: Arc::new(|| {}),
            reread: snaphook::manage::no_door(),
            owner_wait: Duration::ZERO,
        };
        let mut owner = Owner::new(engine.clone());
        owner.claim().await.unwrap();
        let (actor, acme) = (Actor::command_line(), TenantId::parse("acme").unwrap());
        Self { world, store, engine, owner, manage, actor, acme }
    }

    /// An endpoint at `https://{name}.example/`.
    pub async fn plant(&self, name: &str) -> EndpointId {
        self.plant_with(name, |_| {}).await
    }

    /// The same, with settings of its own.
    pub async fn plant_with(
        &self,
        name: &str,
        adjust: impl FnOnce(&mut EndpointSettings),
    ) -> EndpointId {
        let mut settings = at(&format!("https://{name}.example/"));
        adjust(&mut settings);
        plant(&self.store, &self.world, settings).await
    }

    /// An event of `acme`, over HTTP.
    pub async fn emit(&self, event_type: &str) -> EventId {
        self.store.accept(event(event_type, None)).await.unwrap().event
    }

    /// An event that came in by SQL, so that nobody has checked it.
    pub async fn emit_unchecked(&self, event_type: &str, payload: &str) -> EventId {
        let event = NewEvent {
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            door: Door::Sql,
            checked: false,
            ..event(event_type, None)
        };
        self.store.accept(event).await.unwrap().event
    }

    /// A new run of a delivery that has ended.
    pub async fn redeliver(&self, event: EventId, endpoint: EndpointId) {
        let id = DeliveryId { event, endpoint };
        self.manage.redeliver(&self.actor, &self.acme, id).await.unwrap();
    }

    /// One turn; gives how many attempts were made.
    pub async fn turn(&mut self) -> usize {
        self.try_turn().await.unwrap()
    }

    /// The same, where the database may fail.
    pub async fn try_turn(&mut self) -> Result<usize, StoreError> {
        turn(&self.engine, &mut self.owner).await
    }

    /// Delivers until nothing is waiting, turning the clock on.
    pub async fn run_dry(&mut self) {
        run_dry(&self.engine, &mut self.owner, &self.world).await.unwrap();
    }

    /// Lets time pass, with the leases renewed, and turns until nothing is due.
    pub async fn pass(&mut self, time: Duration) -> usize {
        self.world.pass(time);
        self.owner.claim().await.unwrap();
        let mut attempts = 0;
        loop {
            let more = self.turn().await;
            attempts += more;
            if more == 0 && !self.owner.has_more() {
                return attempts;
            }
        }
    }

    /// How many requests the endpoint of this name got.
    pub fn requests(&self, name: &str) -> usize {
        let url = format!("https://{name}.example/");
        self.world.requests().iter().filter(|request| *request.url == url).count()
    }

    /// A delivery; `None` when there is none.
    pub async fn find(&self, event: EventId, endpoint: EndpointId) -> Option<DeliveryRow> {
        let id = DeliveryId { event, endpoint };
        self.store.read().await.unwrap().find_delivery(None, id).await.unwrap()
    }

    /// How a delivery stands, and of what it died: `delivered`, `dead of gone` …
    pub async fn standing(&self, event: EventId, endpoint: EndpointId) -> String {
        let Some(row) = self.find(event, endpoint).await else { return "none".to_owned() };
        match row.cause {
            Some(cause) => format!("{} of {}", row.standing.name(), cause.name()),
            None => row.standing.name().to_owned(),
        }
    }

    /// What is on record of a delivery, oldest first.
    pub async fn attempts(&self, event: EventId, endpoint: EndpointId) -> Vec<AttemptRow> {
        let id = DeliveryId { event, endpoint };
        self.store.read().await.unwrap().list_attempts(id).await.unwrap()
    }

    /// The marks and reasons on record of a delivery, oldest first.
    pub async fn history(&self, event: EventId, endpoint: EndpointId) -> Vec<(Mark, String)> {
        let attempts = self.attempts(event, endpoint).await;
        attempts.into_iter().map(|one| (one.mark, one.reason.unwrap_or_default())).collect()
    }

    /// An endpoint as it is kept.
    pub async fn endpoint(&self, id: EndpointId) -> EndpointRow {
        self.store.read().await.unwrap().find_endpoint(id).await.unwrap().unwrap()
    }

    /// How the circuit of an endpoint stands, as it is kept.
    pub async fn circuit(&self, id: EndpointId) -> CircuitState {
        self.endpoint(id).await.health.circuit.state()
    }

    /// The process dies, and another of this name takes its place: a new owner, which knows nothing.
    pub async fn restart_as(&mut self, node: &str) {
        self.engine = engine_named(self.store.clone(), self.world.clone(), node);
        self.owner = Owner::new(self.engine.clone());
        self.world.pass(self.engine.settings.lease + Duration::from_secs(1));
        self.owner.claim().await.unwrap();
    }

    /// The state of an endpoint.
    pub async fn state(&self, endpoint: EndpointId) -> EndpointState {
        let mut tx = self.store.read().await.unwrap();
        tx.find_endpoint(endpoint).await.unwrap().unwrap().state
    }

    /// Changes settings of an endpoint as its owner would.
    pub async fn change(&self, endpoint: EndpointId, change: Value) {
        let Value::Object(change) = change else { panic!("not an object: {change}") };
        let changed = self.manage.update_endpoint(&self.actor, &self.acme, endpoint, &change);
        changed.await.unwrap();
    }

    /// The receiver's time of the last request.
    pub fn now(&self) -> snaphook::domain::time::Timestamp {
        self.world.now()
    }
}
