//! What was refused, kept apart for a person to look at: by what it failed, and whole, so that it
//! can be verified again once a secret was mended.
//!
//! Whoever knows a source's URL can send as much as they like, so a refusal costs no look into the
//! database: it goes on a shelf of bounded size, and what is there is written once a second. What
//! finds no place on the shelf is counted and nothing more.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::judge::Incoming;
use crate::{
    domain::{
        id::{RequestId, SourceId, id_at},
        request_state::RequestState,
        source::REJECTED_BYTES_MAX,
    },
    engine::Engine,
    store::{NewRequest, StoreError},
};

/// How often the shelf is emptied.
const EVERY: Duration = Duration::from_secs(1);

/// Requests on the shelf, of all sources and of one: of a flood a few are enough to see what it is,
/// and other sources keep their places.
const PLACES: usize = 256;
const PLACES_OF_SOURCE: usize = 32;

/// Bytes on the shelf.
const SHELF_BYTES_MAX: usize = 8 << 20;

/// A body beyond this is not kept: a few of them would push all else out of what a source may keep.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The shelf.
pub struct Rejects {
    engine: Arc<Engine>,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    requests: Vec<NewRequest>,
    bytes: usize,
    /// How many are of each source, and how many of them are to be kept.
    sources: HashMap<SourceId, (usize, u32)>,
}

impl Rejects {
    /// An empty shelf.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, shelf: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a refused request on the shelf, if there is room.
    pub fn put(&self, incoming: &Incoming, step: &'static str, reason: String) {
        let (id, keep) = (incoming.source.id, incoming.source.keep_rejected);
        let mut room = self.lock();
        let of_source = room.sources.get(&id).map_or(0, |(many, _)| *many);
        if keep == 0
            || of_source >= PLACES_OF_SOURCE
            || room.requests.len() >= PLACES
            || room.bytes >= SHELF_BYTES_MAX
        {
            return;
        }
        let mut request = self.request_of(incoming, RequestState::Rejected);
        (request.step, request.reason) = (Some(step), Some(reason));
        room.bytes += request.body.as_ref().map_or(0, bytes::Bytes::len);
        room.requests.push(request);
        room.sources.insert(id, (of_source + 1, keep));
    }

    /// A request as it is kept, of which nothing is said yet.
    pub fn request_of(&self, incoming: &Incoming, state: RequestState) -> NewRequest {
        let source = &incoming.source;
        NewRequest {
            id: RequestId(id_at(incoming.at, self.engine.world.random())),
            source: source.id,
            tenant: source.tenant.clone(),
            received_at: incoming.at,
            state,
            step: None,
            reason: None,
            method: incoming.head.method.to_string(),
            target: incoming.target(),
            headers: incoming.request_headers(),
            body: Some(incoming.body.clone()).filter(|body| body.len() <= BODY_BYTES_MAX),
            provider_id: None,
            provider_type: None,
            event: None,
            digest: None,
        }
    }

    /// Empties the shelf once a second until `stop`, and once more then.
    pub async fn keep(&self, stop: &CancellationToken) {
        while tokio::time::timeout(EVERY, stop.cancelled()).await.is_err() {
            self.write().await;
        }
        self.write().await;
    }

    /// Writes what is on the shelf. What cannot be written is lost: it was refused, and its sender
    /// was told so.
    pub async fn write(&self) {
        let taken = std::mem::take(&mut *self.lock());
        if taken.requests.is_empty() {
            return;
        }
        let many = taken.requests.len();
        if let Err(error) = self.add_all(taken).await {
            tracing::warn!(many, "refused requests could not be kept: {error}");
        }
    }

    async fn add_all(&self, taken: Shelf) -> Result<(), StoreError> {
        let mut tx = self.engine.store.begin().await?;
        for request in &taken.requests {
            tx.add_request(request).await?;
        }
        for (source, (_, keep)) in taken.sources {
            tx.delete_rejected_beyond(source, keep, REJECTED_BYTES_MAX).await?;
        }
        tx.commit().await
    }
}
