//! What every measurement starts from: tenants, endpoints, a key; made once a database, and
//! copied for each measurement.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::{Map, json};

use super::{
    Measure, Plan,
    database::{Cluster, Database},
    waiting,
};
use crate::{
    domain::{
        id::{SecretId, SourceId, id_at},
        scope::{Actor, Scopes},
        source::{SourceSettings, SourceState, SourceToken},
        tenant::TenantId,
    },
    manage::{
        Manage,
        api_keys::{NewApiKey, create_api_key},
        tenants::TenantChange,
    },
    store::{
        Options, SourceRow, SourceSecretRow, Store,
        seal::{Keyring, MasterKey, Place},
    },
    world::{
        guard::Policy,
        real::{RealWorld, chance, wall_clock},
        settings::ClientSettings,
    },
};

/// Tenants of each kind. With one endpoint each they allow 1,600 requests at once, so that the
/// cap of an endpoint is not what is measured.
pub const TENANTS: u32 = 100;

/// What an emitter says happened.
pub const EVENT_TYPE: &str = "order.paid";

/// What may be reached: the receiver on this machine.
pub const LOOPBACK: &str = "127.0.0.0/8";

/// Seals the secrets of databases that hold nothing.
pub const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Bytes of each payload.
const PAYLOAD_BYTES: usize = 1_024;

/// How many endpoints want each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanOut {
    /// What the tenants' names begin with.
    pub prefix: &'static str,
    /// Endpoints of each of them.
    pub endpoints: u32,
}

/// One delivery an event.
pub const ONE: FanOut = FanOut { prefix: "one_", endpoints: 1 };

/// Ten deliveries an event.
pub const TEN: FanOut = FanOut { prefix: "ten_", endpoints: 10 };

/// As a condition of SQL, the tenants of whose deliveries everything is counted.
pub const HEALTHY: [&str; 2] = ["one\\_%", "ten\\_%"];

/// What a copy is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL, with nothing to deliver.
    Postgres,
    /// PostgreSQL, with deliveries that wait.
    Backlog,
    /// The same beside an endpoint that is down, with deliveries that wait.
    Dead,
    /// The same beside an endpoint that takes ten seconds.
    Slow,
    /// The same beside many endpoints, with nothing to deliver.
    Many,
    /// The same beside many endpoints, each with deliveries that wait.
    Crowd,
    /// SQLite, with nothing to deliver.
    Sqlite,
}

/// A database with tenants and endpoints, and a key to its API.
pub struct Prepared {
    /// The database.
    pub database: Database,
    /// An operator's.
    pub api_key: String,
}

/// The databases that are copied.
pub struct Fixture {
    /// Where PostgreSQL's are.
    pub cluster: Cluster,
    folder: PathBuf,
    made: Vec<(Kind, Prepared)>,
    copies: AtomicU32,
}

impl Fixture {
    /// Nothing yet; for `cluster`, and for files in `plan`'s folder.
    pub fn new(plan: &Plan, cluster: Cluster) -> Self {
        let (folder, copies) = (plan.folder.clone(), AtomicU32::new(0));
        Self { cluster, folder, made: Vec::new(), copies }
    }

    /// Makes what `plan` needs. All endpoints are the receiver at `sink`.
    pub async fn prepare(&mut self, plan: &Plan, sink: SocketAddr) -> anyhow::Result<()> {
        let database = self.cluster.create(&Self::name("postgres"), None).await?;
        let api_key = configure(&database, sink, &[ONE, TEN]).await?;
        database.run(REFERENCE).await?;
        // Nobody's plans are made on a database that was never analyzed, or not for long.
        database.run("VACUUM (ANALYZE)").await?;
        self.made.push((Kind::Postgres, Prepared { database, api_key }));
        if plan.wants(Measure::Drain) {
            let prepared = self.copy(Kind::Postgres).await?;
            waiting::fill(&prepared.database, plan.backlog).await?;
            self.made.push((Kind::Backlog, prepared));
        }
        if plan.wants_run_of(Measure::DeadRate) {
            let prepared = self.trouble(sink).await?;
            waiting::let_dead_wait(&prepared.database, plan.waiting).await?;
            self.made.push((Kind::Dead, prepared));
        }
        if plan.wants_run_of(Measure::SlowRate) {
            let prepared = self.trouble(sink).await?;
            waiting::let_slow_wait(&prepared.database).await?;
            self.made.push((Kind::Slow, prepared));
        }
        let crowd = plan.wants_run_of(Measure::CrowdRate);
        if crowd || plan.wants_run_of(Measure::IdleCpu) {
            let prepared = self.copy(Kind::Postgres).await?;
            let manage = manage(&prepared.database).await?;
            waiting::add_crowd(&manage, sink, plan.waiting / waiting::CROWD_WAITING).await?;
            manage.store.close().await;
            prepared.database.run("VACUUM (ANALYZE)").await?;
            self.made.push((Kind::Many, prepared));
        }
        if crowd {
            let prepared = self.copy(Kind::Many).await?;
            waiting::let_crowd_wait(&prepared.database).await?;
            self.made.push((Kind::Crowd, prepared));
        }
        if plan.wants(Measure::SqliteOne) || plan.wants(Measure::InboundSqlite) {
            let database = Database::Sqlite(self.folder.join("prepared.db"));
            let api_key = configure(&database, sink, &[ONE]).await?;
            self.made.push((Kind::Sqlite, Prepared { database, api_key }));
        }
        Ok(())
    }

    /// A copy with the endpoints that trouble others.
    async fn trouble(&self, sink: SocketAddr) -> anyhow::Result<Prepared> {
        let prepared = self.copy(Kind::Postgres).await?;
        let manage = manage(&prepared.database).await?;
        waiting::add_troubles(&manage, sink).await?;
        manage.store.close().await;
        Ok(prepared)
    }

    /// A copy, for one measurement.
    pub async fn copy(&self, kind: Kind) -> anyhow::Result<Prepared> {
        let found = self.made.iter().find(|(made, _)| *made == kind);
        let (_, prepared) = found.ok_or_else(|| anyhow::anyhow!("{kind:?} was not prepared"))?;
        let count = self.copies.fetch_add(1, Ordering::Relaxed);
        let database = match &prepared.database {
            Database::Postgres { name, .. } => {
                self.cluster.create(&Self::name(&count.to_string()), Some(name)).await?
            }
            Database::Sqlite(from) => {
                let to = self.folder.join(format!("copy-{count}.db"));
                std::fs::copy(from, &to)?;
                Database::Sqlite(to)
            }
        };
        Ok(Prepared { database, api_key: prepared.api_key.clone() })
    }

    /// Removes all that was made, also what a measurement that failed left behind.
    pub async fn remove(self) -> anyhow::Result<()> {
        for count in 0..self.copies.load(Ordering::Relaxed) {
            self.cluster.drop(&Self::name(&count.to_string())).await?;
        }
        for (_, prepared) in self.made {
            prepared.database.remove(&self.cluster).await?;
        }
        Ok(())
    }

    fn name(what: &str) -> String {
        format!("snaphook_bench_{}_{what}", std::process::id())
    }
}

/// The table of the ceiling R32: a payload and a key, as the least that an outbox could be.
const REFERENCE: &str = "CREATE TABLE public.reference (
    id       bigint  NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    payload  text    NOT NULL
)";

/// Lets the receiver on this machine be reached.
pub fn policy() -> Policy {
    let nothing: [&str; 0] = [];
    let made = Policy::new(&[LOOPBACK], &nothing, &["1024-65535"], false);
    made.expect("the range and the ports are written here, and are right")
}

/// JSON of 1 KiB.
pub fn payload() -> String {
    let (head, tail) = (r#"{"order_id":42,"amount":4999,"currency":"eur","note":""#, r#""}"#);
    let words = "the parcel was packed, weighed and handed over to the carrier; ".bytes().cycle();
    let room = PAYLOAD_BYTES - head.len() - tail.len();
    let note: String = words.take(room).map(char::from).collect();
    format!("{head}{note}{tail}")
}

/// What changes the configuration of a database, which is migrated if need be.
async fn manage(database: &Database) -> anyhow::Result<Manage> {
    let store = Store::open(&database.url(), Options { migrate: true, serve: false }).await?;
    let policy = Arc::new(policy());
    let world = Arc::new(RealWorld::new(ClientSettings::new(policy.clone()))?);
    Ok(Manage {
        store,
        world,
        keyring: Arc::new(Keyring::new(MasterKey::parse(MASTER_KEY)?, Vec::new())),
        policy,
        wake: Arc::new(|| {}),
        reread: crate::manage::no_door(),
        owner_wait: std::time::Duration::ZERO,
    })
}

/// Whose source it is.
pub const INBOUND: &str = "inbound";

/// What its provider signs with.
pub const SOURCE_SECRET: &str = "whsec_bench";

/// Adds a source of Stripe's, and a queue that wants what it takes. Gives the
/// path at which requests come in.
pub async fn add_source(database: &Database) -> anyhow::Result<String> {
    let manage = manage(database).await?;
    let actor = Actor::command_line();
    let tenant = TenantId::parse(INBOUND)?;
    manage.put_tenant(&actor, &tenant, TenantChange::default()).await?;
    let settings = Map::from_iter([("kind".to_owned(), json!("queue"))]);
    manage.create_endpoint(&actor, &tenant, settings).await?;
    let mut settings = SourceSettings::default();
    let fields = Map::from_iter([
        ("name".to_owned(), json!("shop")),
        ("scheme".to_owned(), json!("stripe")),
    ]);
    anyhow::ensure!(settings.apply(&fields).is_empty(), "the source's settings are wrong");
    let now = wall_clock();
    let mut source = SourceRow {
        id: SourceId(id_at(now, 1)),
        token: SourceToken::new(u128::from(chance()) << 64 | u128::from(chance())),
        tenant: tenant.clone(),
        state: SourceState::Active,
        state_since: now,
        armed_until: None,
        settings,
        sealed: None,
        from_file: false,
        epoch: 0,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    };
    let id = SecretId(id_at(now, 2));
    let place = Place::of_source_secret(&tenant, id);
    let secret = SourceSecretRow {
        id,
        source: source.id,
        tenant: tenant.clone(),
        sealed: manage.keyring.seal(SOURCE_SECRET.as_bytes(), place),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    let mut tx = manage.store.begin().await?;
    anyhow::ensure!(tx.add_source(&mut source).await?, "there is such a source");
    tx.add_source_secret(&secret).await?;
    tx.commit().await?;
    manage.store.close().await;
    Ok(format!("/in/{}", source.token))
}

/// Migrates, and makes tenants with their endpoints, as a user would. Gives an API key.
async fn configure(
    database: &Database,
    sink: SocketAddr,
    kinds: &[FanOut],
) -> anyhow::Result<String> {
    let manage = manage(database).await?;
    let actor = Actor::command_line();
    for kind in kinds {
        for number in 0..TENANTS {
            let tenant = TenantId::parse(&format!("{}{number}", kind.prefix))?;
            manage.put_tenant(&actor, &tenant, TenantChange::default()).await?;
            for endpoint in 0..kind.endpoints {
                let url = format!("http://{sink}/{tenant}/{endpoint}");
                let settings = Map::from_iter([("url".to_owned(), json!(url))]);
                manage.create_endpoint(&actor, &tenant, settings).await?;
            }
        }
    }
    let (name, scopes) = ("bench".to_owned(), Scopes::all());
    let new = NewApiKey { name, tenant: None, scopes, expires_at: None };
    let (_, key) = create_api_key(&manage.store, &*manage.world, &actor, new).await?;
    manage.store.close().await;
    Ok(key.expose().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_json_of_one_kibibyte_that_needs_no_quoting_in_sql() {
        let payload = payload();
        assert_eq!(payload.len(), 1_024);
        assert!(!payload.contains('\''));
        serde_json::from_str::<serde_json::Value>(&payload).unwrap();
    }
}
