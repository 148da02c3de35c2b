//! What is declared of event types, compiled and kept: one catalog for the doors and the engine of
//! a process. What is kept holds for one epoch of the configuration; after a change it is read
//! again, and compiled again only where a schema's text is another.
//!
//! Doors look at the epoch themselves, once a second; the engine tells the one that it has seen.
//! Many that miss the same type read it once; the engine, which is one task, waits for none.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    panic::catch_unwind,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::Mutex as Turn;

use super::{Store, StoreError, Tx, on};
use crate::domain::{
    declared::Declared,
    event::{Event, Inbound},
    id::SourceId,
    schema::Schema,
};

/// How long doors take the epoch as read: a new schema holds on every node after a second.
const FRESH: Duration = Duration::from_secs(1);

/// Bytes of text that are kept in each of two generations. Compiled, a schema takes several times
/// its text.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What an entry takes beside its texts.
const ENTRY_BYTES: usize = 256;

/// Types that are read at the same time; one type has one turn.
const TURNS: usize = 16;

/// A type and a version, `""` where an event names none.
type Key = (String, String);

/// What is declared of event types, as far as it was asked for.
#[derive(Default)]
pub struct Catalog {
    kept: Mutex<Kept>,
    /// Of those who read the epoch.
    turn: Turn<()>,
    /// Of those who read a type.
    turns: [Turn<()>; TURNS],
    hasher: RandomState,
}

#[derive(Default)]
struct Kept {
    epoch: i64,
    /// By the monotonic clock: when the epoch was last read by a door.
    read_at: Option<Duration>,
    /// Counts the changes that this process made.
    changes: u64,
    /// What was asked for of late. What nobody asks for while it fills up once more is forgotten.
    young: HashMap<Key, Entry>,
    old: HashMap<Key, Entry>,
    young_bytes: usize,
}

#[derive(Clone)]
struct Entry {
    epoch: i64,
    text: Option<Arc<str>>,
    declared: Option<Arc<Declared>>,
}

/// What the database says of a type and one of its versions.
struct DeclaredRow {
    archived: bool,
    versions: Vec<String>,
    schema: Option<String>,
}

impl Catalog {
    /// Lets every door look again: this process has changed a type.
    pub(super) fn doubt(&self) {
        let mut kept = self.lock();
        kept.changes += 1;
        kept.read_at = None;
    }

    /// What is known, if it is of the latest epoch that was seen.
    fn get(&self, key: &Key) -> Option<Entry> {
        self.lock().get(key)
    }

    /// Reads a type, and keeps what it finds.
    async fn load(
        &self,
        tx: &mut Tx,
        key: &Key,
        source: Option<(SourceId, &str)>,
    ) -> Result<Option<Arc<Declared>>, StoreError> {
        let (epoch, before) = self.lock().before(key);
        let row = match source {
            None => tx.find_declared(&key.0, &key.1).await?,
            Some((source, name)) => tx.find_source_schema(source, name).await?,
        };
        let text: Option<Arc<str>> =
            row.as_ref().and_then(|row| row.schema.as_deref()).map(Arc::from);
        let same = before.filter(|before| before.text == text).and_then(|before| before.declared);
        let schema = match (&text, same) {
            (None, _) => None,
            (Some(_), Some(same)) => same.schema.clone(),
            (Some(text), None) => compile(&key.0, text),
        };
        let declared = row.map(|row| {
            Arc::new(Declared { archived: row.archived, versions: row.versions, schema })
        });
        self.lock().keep(key, Entry { epoch, text, declared: declared.clone() });
        Ok(declared)
    }

    fn is_fresh(&self, now: Duration) -> bool {
        self.lock().read_at.is_some_and(|at| now.saturating_sub(at) < FRESH)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn get(&mut self, key: &Key) -> Option<Entry> {
        if !self.young.contains_key(key)
            && let Some(entry) = self.old.remove(key)
        {
            self.keep(key, entry);
        }
        self.young.get(key).filter(|entry| entry.epoch == self.epoch).cloned()
    }

    /// The epoch as of now, and what was known at any.
    fn before(&self, key: &Key) -> (i64, Option<Entry>) {
        (self.epoch, self.young.get(key).or_else(|| self.old.get(key)).cloned())
    }

    fn keep(&mut self, key: &Key, entry: Entry) {
        let bytes = weight(key, &entry);
        if self.young_bytes + bytes > KEPT_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(key.clone(), entry) {
            self.young_bytes -= weight(key, &before);
        }
    }
}

fn weight(key: &Key, entry: &Entry) -> usize {
    let versions = entry.declared.iter().flat_map(|declared| &declared.versions);
    let texts = key.0.len() + key.1.len() + entry.text.as_ref().map_or(0, |text| text.len());
    ENTRY_BYTES + texts + versions.map(|version| version.len() + size_of::<String>()).sum::<usize>()
}

/// A schema that was saved compiles; one that does not was put there by other hands, and is not
/// applied: those who emit could not mend it.
fn compile(name: &str, text: &str) -> Option<Arc<Schema>> {
    let source = serde_json::from_str(text).map_err(|error| error.to_string());
    let schema = source.and_then(|source| {
        catch_unwind(|| Schema::compile(&source).map_err(|error| error.to_string()))
            .unwrap_or_else(|_| Err("a panic".to_owned()))
    });
    schema
        .map(Arc::new)
        .map_err(|problem| {
            tracing::error!(
                event_type = name,
                "a stored schema does not compile and is not applied: {problem}"
            );
        })
        .ok()
}

impl Store {
    /// What is declared of a type and a version, for doors: no older than a second, by their
    /// monotonic clock, and never older than a change by this process.
    pub async fn declared(
        &self,
        now: Duration,
        event_type: &str,
        version: Option<&str>,
    ) -> Result<Option<Arc<Declared>>, StoreError> {
        let catalog = &*self.catalog;
        let key = (event_type.to_owned(), version.unwrap_or_default().to_owned());
        if !catalog.is_fresh(now) {
            let _turn = catalog.turn.lock().await;
            if !catalog.is_fresh(now) {
                let changes = catalog.lock().changes;
                let epoch = self.read().await?.config_epoch().await?;
                let mut kept = catalog.lock();
                kept.epoch = kept.epoch.max(epoch);
                if kept.changes == changes {
                    kept.read_at = Some(now);
                }
            }
        }
        if let Some(known) = catalog.get(&key) {
            return Ok(known.declared);
        }
        let turn = usize::try_from(catalog.hasher.hash_one(&key) % TURNS as u64).unwrap_or(0);
        let _turn = catalog.turns[turn].lock().await;
        if let Some(known) = catalog.get(&key) {
            return Ok(known.declared);
        }
        let mut tx = self.read().await?;
        catalog.load(&mut tx, &key, None).await
    }

    /// As `declared`, for the engine, which knows the configuration's epoch and has a connection.
    pub async fn declared_at(
        &self,
        tx: &mut Tx,
        epoch: i64,
        event_type: &str,
        version: Option<&str>,
    ) -> Result<Option<Arc<Declared>>, StoreError> {
        let key = (event_type.to_owned(), version.unwrap_or_default().to_owned());
        self.known_or_read(tx, epoch, &key, None).await
    }

    /// As `declared_at`, of an event: where a source took it that has a schema for its type, in the
    /// provider's spelling, that one counts.
    pub async fn declared_of(
        &self,
        tx: &mut Tx,
        epoch: i64,
        event: &Event,
    ) -> Result<Option<Arc<Declared>>, StoreError> {
        if let Some(Inbound { source, source_type: Some(name), .. }) = &event.inbound {
            // No event type has a slash in it.
            let key = (format!("{}/{name}", source.0), String::new());
            let own = self.known_or_read(tx, epoch, &key, Some((*source, name))).await?;
            if own.is_some() {
                return Ok(own);
            }
        }
        self.declared_at(tx, epoch, &event.event_type, event.version.as_deref()).await
    }

    async fn known_or_read(
        &self,
        tx: &mut Tx,
        epoch: i64,
        key: &Key,
        source: Option<(SourceId, &str)>,
    ) -> Result<Option<Arc<Declared>>, StoreError> {
        let known = {
            let mut kept = self.catalog.lock();
            kept.epoch = kept.epoch.max(epoch);
            kept.get(key)
        };
        match known {
            Some(known) => Ok(known.declared),
            None => self.catalog.load(tx, key, source).await,
        }
    }

    /// Says that this process has changed an event type: its doors see it at once.
    pub fn event_types_changed(&self) {
        self.catalog.doubt();
    }
}

impl Tx {
    async fn find_declared(
        &mut self,
        event_type: &str,
        version: &str,
    ) -> Result<Option<DeclaredRow>, StoreError> {
        let text = "SELECT t.archived, s.version,
                 CASE WHEN s.version = $2 THEN s.schema END AS schema
             FROM snaphook.event_types t
             LEFT JOIN snaphook.event_schemas s ON s.name = t.name
             WHERE t.name = $1
             ORDER BY s.version";
        let rows: Vec<(bool, Option<String>, Option<String>)> =
            on!(self, text, |sql, connection| {
                sqlx::query_as(sql).bind(event_type).bind(version).fetch_all(connection).await?
            });
        let Some((archived, ..)) = rows.first() else { return Ok(None) };
        let mut row = DeclaredRow { archived: *archived, versions: Vec::new(), schema: None };
        for (_, version, schema) in rows {
            row.versions.extend(version);
            row.schema = row.schema.or(schema);
        }
        Ok(Some(row))
    }

    /// The schema that a source has for a type of its provider's.
    async fn find_source_schema(
        &mut self,
        source: SourceId,
        name: &str,
    ) -> Result<Option<DeclaredRow>, StoreError> {
        let text = "SELECT settings FROM snaphook.sources WHERE id = $1";
        let settings: Option<String> = on!(self, text, |sql, connection| {
            sqlx::query_scalar(sql).bind(source).fetch_optional(connection).await?
        });
        let settings = settings.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let schema =
            settings.and_then(|settings| Some(settings.get("schemas")?.get(name)?.to_string()));
        let versions = vec![String::new()];
        Ok(schema.map(|schema| DeclaredRow { archived: false, versions, schema: Some(schema) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Key {
        (format!("type-{n}"), String::new())
    }

    fn entry(bytes: usize) -> Entry {
        let declared = Some(Arc::new(Declared::default()));
        Entry { epoch: 0, text: Some("x".repeat(bytes).into()), declared }
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_asked_for_stays() {
        let mut kept = Kept::default();
        for n in 0..200 {
            kept.keep(&key(n), entry(100_000));
            assert!(kept.get(&key(0)).is_some(), "asked for each time, {n}");
        }
        assert!(kept.get(&key(1)).is_none(), "nobody asked for it");
        assert!(kept.get(&key(199)).is_some(), "of late");
        let all = kept.young.iter().chain(&kept.old);
        let bytes: usize = all.map(|(key, entry)| weight(key, entry)).sum();
        assert!(bytes <= 2 * KEPT_BYTES_MAX, "{bytes}");
        let young: usize = kept.young.iter().map(|(key, entry)| weight(key, entry)).sum();
        assert_eq!(kept.young_bytes, young);
    }

    #[test]
    fn a_type_that_is_not_declared_takes_its_room_too() {
        let mut kept = Kept::default();
        for n in 0..100_000 {
            kept.keep(&key(n), Entry { epoch: 0, text: None, declared: None });
        }
        assert!(kept.young.len() + kept.old.len() < 2 * KEPT_BYTES_MAX / ENTRY_BYTES);
    }

    #[test]
    fn what_is_of_another_epoch_is_not_known() {
        let mut kept = Kept::default();
        kept.keep(&key(1), entry(1));
        assert!(kept.get(&key(1)).is_some());
        kept.epoch = 1;
        assert!(kept.get(&key(1)).is_none());
        assert!(kept.before(&key(1)).1.is_some(), "but it need not be compiled again");
    }
}
