//! The API, called as its callers call it, on both databases. No socket: the router is a service.

mod api_keys;
mod declared;
mod deliveries;
mod documents;
mod emit;
mod endpoint_health;
mod endpoints;
mod event_types;
mod events;
mod idempotency;
mod odd_input;
mod queues;
mod refusals;
pub mod requests;
mod secrets;
mod sources;
mod tenants;
mod urls;
mod wording;

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use snaphook::{
    api::{Api, ApiSettings, router},
    domain::{
        scope::{Actor, Scope, Scopes},
        tenant::TenantId,
    },
    engine::{Engine, Owner},
    manage::{
        Manage,
        api_keys::{NewApiKey, create_api_key},
        tenants::TenantChange,
    },
    store::Store,
    world::guard::Policy,
};
use tower::ServiceExt as _;

use crate::support::{
    databases::{self, Database},
    simulated::{Simulated, engine, keyring, run_dry},
};

/// A server without a socket, in a world of its own.
pub struct TestApi {
    /// Its database.
    pub store: Store,
    /// Its world.
    pub world: Arc<Simulated>,
    /// What the command line would use.
    pub manage: Arc<Manage>,
    /// A key that may do everything.
    pub operator: String,
    router: Router,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    /// The body as JSON, if the status is `expected`.
    #[track_caller]
    pub fn expect(&self, expected: u16) -> Value {
        let body = String::from_utf8_lossy(&self.bytes);
        assert_eq!(self.status.as_u16(), expected, "{body}");
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The code of the problem, if the status is `expected`.
    #[track_caller]
    pub fn problem(&self, expected: u16) -> String {
        let body = self.expect(expected);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(body["status"], expected);
        body["code"].as_str().unwrap().to_owned()
    }

    /// `field: problem` of each error.
    #[track_caller]
    pub fn errors(&self) -> Vec<String> {
        let body = self.json();
        let errors = body["errors"].as_array().unwrap().clone();
        let words = |error: &Value| {
            let (field, problem) = (&error["field"], &error["problem"]);
            format!("{}: {}", field.as_str().unwrap(), problem.as_str().unwrap())
        };
        errors.iter().map(words).collect()
    }
}

impl TestApi {
    /// On a migrated database, with a tenant `acme`; receivers answer 200.
    pub async fn new(database: &Database) -> Self {
        Self::with(database, ApiSettings { test_wait: Duration::ZERO, ..ApiSettings::default() })
            .await
    }

    /// As `new`, with settings of its own.
    pub async fn with(database: &Database, settings: ApiSettings) -> Self {
        let store = database.open().await;
        let world = Simulated::new(|url, _| if url.contains("/fail") { 500 } else { 200 });
        let manage = Arc::new(Manage {
            store: store.clone(),
            world: world.clone(),
            keyring: Arc::new(keyring()),
            policy: Arc::new(Policy::default()),
            wake: Arc::new(|| {}),
            reread: snaphook::manage::no_door(),
            owner_wait: Duration::ZERO,
        });
        let engine = engine(store.clone(), world.clone());
        let router = router(Api::new(manage.clone(), engine, settings));
        let mut api = Self { store, world, manage, operator: String::new(), router };
        api.operator = api.key(None, &[Scope::Read, Scope::Emit, Scope::Manage]).await;
        api.add_tenant("acme").await;
        api
    }

    /// Makes a tenant.
    pub async fn add_tenant(&self, name: &str) {
        let id = TenantId::parse(name).unwrap();
        let actor = Actor::command_line();
        self.manage.put_tenant(&actor, &id, TenantChange::default()).await.unwrap();
        self.world.pass(Duration::from_micros(10));
    }

    /// A new key with these scopes, of a tenant or of the operator.
    pub async fn key(&self, tenant: Option<&str>, scopes: &[Scope]) -> String {
        let new = NewApiKey {
            name: "test".to_owned(),
            tenant: tenant.map(|name| TenantId::parse(name).unwrap()),
            scopes: Scopes::new(scopes.to_vec()).unwrap(),
            expires_at: None,
        };
        let actor = Actor::command_line();
        let made = create_api_key(&self.store, &*self.world, &actor, new).await.unwrap();
        self.world.pass(Duration::from_micros(10));
        made.1.expose().to_owned()
    }

    /// Sends a request as it is.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        self.world.pass(Duration::from_micros(10));
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, bytes }
    }

    /// Calls with a key, and with JSON unless `body` is null.
    pub async fn call_as(&self, key: &str, method: Method, path: &str, body: Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !key.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            request = request.header(header::CONTENT_TYPE, "application/json");
            Body::from(body.to_string())
        };
        self.send(request.body(body).unwrap()).await
    }

    /// Calls as the operator.
    pub async fn call(&self, method: Method, path: &str, body: Value) -> Answer {
        self.call_as(&self.operator, method, path, body).await
    }

    /// Gets as the operator.
    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, Value::Null).await
    }

    /// Posts as the operator.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, body).await
    }

    /// Makes an endpoint of `acme` and gives its id.
    pub async fn add_endpoint(&self, settings: Value) -> String {
        let made = self.post("/v1/tenants/acme/endpoints", settings).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Sends an event of `acme` and gives its id.
    pub async fn emit(&self, event_type: &str) -> String {
        let event = serde_json::json!({ "tenant": "acme", "type": event_type, "data": {} });
        let accepted = self.post("/v1/events", event).await.expect(202);
        accepted["id"].as_str().unwrap().to_owned()
    }

    /// An engine on the same database, in the same world.
    pub fn engine(&self) -> Arc<Engine> {
        engine(self.store.clone(), self.world.clone())
    }

    /// Delivers all there is, over all ladders.
    pub async fn deliver_all(&self) {
        let engine = self.engine();
        let mut owner = Owner::new(engine.clone());
        run_dry(&engine, &mut owner, &self.world).await.unwrap();
    }
}

/// Runs a test on a server on a database of each kind.
pub async fn on_both(test: impl AsyncFn(&TestApi)) {
    databases::on_both(async |database| {
        let api = TestApi::new(database).await;
        test(&api).await;
        api.store.close().await;
    })
    .await;
}
