//! The door for providers, called as they call it, on both databases. No socket: the router is a
//! service.

mod answers;
mod crash_sweep;
mod forwarded;
mod handshakes;
mod kept;
mod official;
mod quarantine;
mod seen_elsewhere;
mod wire;

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use snaphook::{
    domain::{
        id::{EventId, SecretId, SourceId, id_at},
        request_state::RequestState,
        source::{SourceSettings, SourceState, SourceToken},
        tenant::TenantId,
    },
    engine::{Engine, Owner},
    ingress::{Ingress, router},
    store::{
        RequestRow, SourceRow, SourceSecretRow, Store, events::EventFilter, page::Page, seal::Place,
    },
    world::World as _,
};
use snaphook_signature::Received;
use tower::ServiceExt as _;

use crate::support::{
    databases::{self, Database},
    simulated::{Simulated, at, engine, keyring, plant, run_dry},
};

/// The secret of every source, in a form that each scheme takes.
pub const SECRET: &str = "user:whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// A door without a socket, in a world of its own.
pub struct TestDoor {
    /// Its database.
    pub store: Store,
    /// Its world, whose receivers answer 200.
    pub world: Arc<Simulated>,
    /// What is behind it.
    pub engine: Arc<Engine>,
    ingress: Arc<Ingress>,
    router: Router,
}

/// A source, and how its provider signs.
pub struct TestSource {
    /// As it is kept.
    pub row: SourceRow,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl TestDoor {
    /// On a migrated database.
    pub async fn new(database: &Database) -> Self {
        let store = database.open().await;
        Self::on(store, Simulated::new(|_, _| 200))
    }

    /// Another process on the same database, in the same world.
    pub fn on(store: Store, world: Arc<Simulated>) -> Self {
        let engine = engine(store.clone(), world.clone());
        let ingress = Ingress::new(engine.clone());
        let router = router(ingress.clone());
        Self { store, world, engine, ingress, router }
    }

    /// A source of `acme` with [`SECRET`].
    pub async fn add_source(&self, settings: Value) -> TestSource {
        let source = self.add_source_without_secret(settings).await;
        self.add_secret(&source, SECRET).await;
        source
    }

    /// A secret of a source.
    pub async fn add_secret(&self, source: &TestSource, text: &str) {
        let tenant = &source.row.tenant;
        let id = SecretId(id_at(self.world.now(), self.world.random()));
        let sealed = keyring().seal(text.as_bytes(), Place::of_source_secret(tenant, id));
        let secret = SourceSecretRow {
            id,
            source: source.row.id,
            tenant: tenant.clone(),
            sealed,
            created_at: self.world.now(),
            expires_at: None,
            revoked_at: None,
        };
        let mut tx = self.store.begin().await.unwrap();
        tx.add_source_secret(&secret).await.unwrap();
        tx.commit().await.unwrap();
        self.engine.sources.refresh().await.unwrap();
    }

    /// The same, before it has one.
    pub async fn add_source_without_secret(&self, settings: Value) -> TestSource {
        self.world.pass(Duration::from_micros(10));
        let now = self.world.now();
        let mut made = SourceSettings::default();
        assert_eq!(made.apply(settings.as_object().unwrap()), []);
        assert_eq!(made.validate(), []);
        let mut row = SourceRow {
            id: SourceId(id_at(now, self.world.random())),
            token: SourceToken::new(u128::from(self.world.random()) << 32),
            tenant: TenantId::parse("acme").unwrap(),
            state: SourceState::Active,
            state_since: now,
            armed_until: None,
            settings: made,
            sealed: None,
            from_file: false,
            epoch: 0,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        let mut tx = self.store.begin().await.unwrap();
        assert!(tx.add_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        self.engine.sources.refresh().await.unwrap();
        TestSource { row }
    }

    /// Changes a source as its owner would.
    pub async fn set(&self, source: TestSource, set: impl FnOnce(&mut SourceRow)) -> TestSource {
        let mut tx = self.store.begin().await.unwrap();
        let mut row = tx.find_source(None, &source.row.token).await.unwrap().unwrap();
        set(&mut row);
        assert!(tx.update_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        self.engine.sources.refresh().await.unwrap();
        TestSource { row }
    }

    /// An endpoint of `acme` that wants everything.
    pub async fn add_endpoint(&self, name: &str) {
        self.add_endpoint_for(name, "*").await;
    }

    /// An endpoint of `acme` that wants these types.
    pub async fn add_endpoint_for(&self, name: &str, types: &str) {
        let mut settings = at(&format!("https://{name}.example/"));
        settings.event_types = vec![types.to_owned()];
        plant(&self.store, &self.world, settings).await;
    }

    /// A request as the provider signs it now: its body, and its id where that is in a header.
    pub fn signed(&self, source: &TestSource, id: &str, body: &[u8]) -> Request<Body> {
        let url = source.row.settings.public_url("http://127.0.0.1:8080", &source.row.token);
        let verifier = source.row.settings.verifier(&[SECRET]).unwrap();
        let given = Received::new(&[], body).with_url(&url);
        let now = self.world.now().0.div_euclid(1_000_000);
        let signed = verifier.sign(&given, id, now).unwrap();
        let mut request = Request::post(format!("/in/{}", source.row.token))
            .header("content-type", "application/json");
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(signed.body.unwrap_or_else(|| body.to_vec()))).unwrap()
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        self.world.pass(Duration::from_micros(10));
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Signs and sends, and gives the status.
    pub async fn post(&self, source: &TestSource, id: &str, body: &[u8]) -> u16 {
        self.send(self.signed(source, id, body)).await.status.as_u16()
    }

    /// Delivers all that is waiting, and gives how many requests receivers have had so far.
    pub async fn deliver(&self) -> usize {
        let mut owner = Owner::new(self.engine.clone());
        run_dry(&self.engine, &mut owner, &self.world).await.unwrap();
        self.world.requests().len()
    }

    /// What a source keeps apart, the newest first, bodies and all.
    pub async fn kept(&self, source: &TestSource) -> Vec<RequestRow> {
        self.ingress.write_rejects().await;
        let mut tx = self.store.read().await.unwrap();
        let list = tx.list_requests(source.row.id, None, Page::first(250)).await.unwrap();
        let mut rows = Vec::new();
        for row in list.rows {
            rows.push(tx.find_request(Some(&source.row.tenant), row.id).await.unwrap().unwrap());
        }
        rows
    }

    /// The states of what a source keeps apart, the newest first.
    pub async fn states(&self, source: &TestSource) -> Vec<RequestState> {
        self.kept(source).await.into_iter().map(|row| row.state).collect()
    }

    /// The events that there are, the oldest first.
    pub async fn events(&self) -> Vec<EventId> {
        let mut tx = self.store.read().await.unwrap();
        let page = Page::first(250);
        let mut ids: Vec<_> = tx
            .list_events(&EventFilter::default(), page)
            .await
            .unwrap()
            .rows
            .iter()
            .map(|row| row.id)
            .collect();
        ids.sort();
        ids
    }
}

/// Settings of a source of this scheme, called `shop`.
pub fn shop(scheme: &str) -> Value {
    json!({"name": "shop", "scheme": scheme})
}

/// Runs a test on a door on a database of each kind.
pub async fn on_both(test: impl AsyncFn(&TestDoor)) {
    databases::on_both(async |database| {
        let door = TestDoor::new(database).await;
        test(&door).await;
        door.store.close().await;
    })
    .await;
}
