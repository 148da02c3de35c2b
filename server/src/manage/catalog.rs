//! Whether an event may come in over HTTP: its type declared, its payload as its schema says.
//! Schemas are compiled once and kept as long as the configuration's epoch stands.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    domain::{event_type::EventType, problem::Problem, schema::Schema},
    store::{Store, StoreError},
    world::World,
};

/// How long the epoch is taken as read: a new schema holds after a second at the latest.
const FRESH: Duration = Duration::from_secs(1);

/// Compiled schemas that are kept: a few megabytes at most.
const KEPT_MAX: usize = 1_000;

/// What is known of a type in one version.
#[derive(Clone)]
enum Known {
    Undeclared,
    Free,
    Schema(Arc<Schema>),
}

#[derive(Default)]
struct Kept {
    epoch: i64,
    read_at: Option<Duration>,
    known: HashMap<(EventType, String), Known>,
}

/// Compiled schemas, shared by all requests of a process.
#[derive(Default)]
pub struct Catalog {
    kept: Mutex<Kept>,
}

impl Catalog {
    /// All that is wrong with an event. `strict` refuses types that nobody declared.
    pub async fn check(
        &self,
        store: &Store,
        world: &dyn World,
        strict: bool,
        event: (&EventType, Option<&str>, &[u8]),
    ) -> Result<Vec<Problem>, StoreError> {
        let (event_type, version, payload) = event;
        self.refresh(store, world).await?;
        let version = version.unwrap_or_default();
        Ok(match self.find(store, event_type, version).await? {
            Known::Undeclared if strict => vec![Problem::new(
                "type",
                format!(
                    "{event_type} is not declared, and this server takes declared types only; \
                     declare it with PUT /v1/event-types/{event_type}"
                ),
            )],
            Known::Undeclared | Known::Free => Vec::new(),
            Known::Schema(schema) => schema
                .check(payload)
                .into_iter()
                .map(|problem| Problem::new(format!("data{}", problem.path), problem.problem))
                .collect(),
        })
    }

    /// Forgets what is known if the configuration has changed.
    async fn refresh(&self, store: &Store, world: &dyn World) -> Result<(), StoreError> {
        let now = world.monotonic();
        let is_fresh = |at: Duration| now.saturating_sub(at) < FRESH;
        if self.lock().read_at.is_some_and(is_fresh) {
            return Ok(());
        }
        let epoch = store.read().await?.config_epoch().await?;
        let mut kept = self.lock();
        if kept.epoch != epoch {
            kept.known.clear();
        }
        (kept.epoch, kept.read_at) = (epoch, Some(now));
        Ok(())
    }

    async fn find(
        &self,
        store: &Store,
        event_type: &EventType,
        version: &str,
    ) -> Result<Known, StoreError> {
        let key = (event_type.clone(), version.to_owned());
        let (known, epoch) = {
            let kept = self.lock();
            (kept.known.get(&key).cloned(), kept.epoch)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let row = store.read().await?.find_event_type(event_type).await?;
        let known = match row.filter(|row| !row.archived) {
            None => Known::Undeclared,
            Some(row) => row.schemas.get(version).map_or(Known::Free, |text| compile(text)),
        };
        let mut kept = self.lock();
        if kept.epoch == epoch {
            if kept.known.len() >= KEPT_MAX {
                kept.known.clear();
            }
            kept.known.insert(key, known.clone());
        }
        Ok(known)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A schema that was saved compiles; one that does not was put there by other hands.
fn compile(text: &str) -> Known {
    let source = serde_json::from_str(text).map_err(|error| error.to_string());
    match source.and_then(|source| Schema::compile(&source).map_err(|error| error.to_string())) {
        Ok(schema) => Known::Schema(Arc::new(schema)),
        Err(problem) => {
            tracing::error!("a stored schema does not compile and is not applied: {problem}");
            Known::Free
        }
    }
}
