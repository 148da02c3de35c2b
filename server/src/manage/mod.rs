//! What people do to the configuration and to deliveries: one function for each thing, used by
//! the API and the command line alike. Each is one transaction with its line in the audit.
//!
//! Whether a caller may is asked at the doors; here stand only the rules that depend on what is
//! changed, such as who may reach inside the operator's network.

pub mod api_keys;
pub mod deliveries;
pub mod endpoint_state;
pub mod endpoints;
pub mod event_types;
mod file_sources;
mod owner;
pub mod queues;
pub mod requests;
pub mod reseal;
pub mod secrets;
pub mod source_secrets;
pub mod sources;
pub mod tenants;
mod test_event;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    domain::{
        endpoint_kind::EndpointKind, id::id_at, problem::Problem, scope::Actor, tenant::TenantId,
        time::Timestamp,
    },
    store::{
        Store, StoreError, Tx,
        audit::AuditRow,
        seal::{Keyring, SealError},
    },
    world::{Boxed, World, guard::Policy},
};

/// How long a change waits for the node that owns the shard before it answers without it.
pub const OWNER_WAIT: Duration = Duration::from_secs(2);

/// Has a process read at once what changed.
pub type Reread = Arc<dyn Fn() -> Boxed<'static, ()> + Send + Sync>;

/// For programs without a door.
pub fn no_door() -> Reread {
    Arc::new(|| Box::pin(async {}))
}

/// What every change needs.
pub struct Manage {
    /// Where everything is kept.
    pub store: Store,
    /// Time and chance.
    pub world: Arc<dyn World>,
    /// Seals secrets.
    pub keyring: Arc<Keyring>,
    /// Judges URLs when they are saved.
    pub policy: Arc<Policy>,
    /// Lets this process's engine look at once.
    pub wake: Arc<dyn Fn() + Send + Sync>,
    /// Lets this process's doors read at once what changed of sources.
    pub reread: Reread,
    /// How long to wait for the owner of a shard: [`OWNER_WAIT`], or nothing in tests.
    pub owner_wait: Duration,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// It is about something that is not there, or not there for this caller.
    #[error("there is no {what} {name}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// As the caller named it.
        name: String,
    },
    /// The input is wrong, field by field.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Problem>),
    /// The thing is in a state in which this cannot be done.
    #[error("{detail}")]
    Conflict {
        /// Stable, for programs.
        code: &'static str,
        /// What is in the way, and what to do.
        detail: String,
    },
    /// Only others may do this.
    #[error("{0}")]
    Forbidden(String),
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is sealed does not open.
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl ManageError {
    fn not_found(what: &'static str, name: &dyn std::fmt::Display) -> Self {
        Self::NotFound { what, name: name.to_string() }
    }

    fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Conflict { code, detail: detail.into() }
    }

    fn one(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::Invalid(vec![Problem::new(field, problem)])
    }
}

/// A line of the audit, before it has a time.
struct Deed<'a> {
    actor: &'a Actor,
    action: &'static str,
    object: String,
    tenant: Option<&'a TenantId>,
    detail: Map<String, Value>,
}

impl<'a> Deed<'a> {
    fn new(actor: &'a Actor, action: &'static str, object: &dyn std::fmt::Display) -> Self {
        Self { actor, action, object: object.to_string(), tenant: None, detail: Map::new() }
    }

    fn of(self, tenant: &'a TenantId) -> Self {
        Self { tenant: Some(tenant), ..self }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.to_owned(), value.into());
        self
    }

    async fn write(self, tx: &mut Tx, world: &dyn World) -> Result<(), StoreError> {
        let at = world.now();
        tx.add_audit(&AuditRow {
            id: new_id(world),
            at,
            actor: self.actor.name.clone(),
            action: self.action.to_owned(),
            object: self.object,
            tenant: self.tenant.cloned(),
            detail: self.detail,
        })
        .await
    }
}

impl Manage {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    /// When what is asked for now is due, by the clock of those who will look: the database's for
    /// consumers, who may ask any node.
    async fn due_now(&self, tx: &mut Tx, kind: EndpointKind) -> Result<Timestamp, StoreError> {
        match kind {
            EndpointKind::Http => Ok(self.now()),
            EndpointKind::Queue => tx.clock().await,
        }
    }
}

/// A number for a new id: 2,048 of them in a microsecond are different, and where each process
/// starts to count is left to chance.
fn new_id(world: &dyn World) -> i64 {
    static START: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let start = *START.get_or_init(|| world.random());
    id_at(world.now(), start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// 32 unpredictable bytes.
fn random_bytes(world: &dyn World) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&world.random().to_ne_bytes());
    }
    bytes
}

/// Checks a text for people that is stored as it is: no control characters, of which PostgreSQL
/// refuses NUL, and no more than `bytes_max`.
fn check_words(field: &str, text: &str, bytes_max: usize) -> Option<Problem> {
    if text.len() > bytes_max {
        let problem = format!("it is {} bytes; {bytes_max} are allowed", text.len());
        return Some(Problem::new(field, problem));
    }
    let odd = text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\t'))?;
    Some(Problem::new(field, format!("it contains the control character {odd:?}; leave it out")))
}
