//! A node starts under a name that no other has.

use std::time::Duration;

use tokio::time::timeout;

use super::StartError;
use crate::{
    config::Settings,
    engine::heartbeat,
    store::{NameLock, Store},
    world::real::monotonic,
};

/// How often to ask.
const EVERY: Duration = Duration::from_millis(100);

/// How long a node of the same name may take to stop: its drain, and a few seconds.
const STOPPING: Duration = Duration::from_secs(30);

/// The name of a node that delivers; others own nothing.
pub async fn take_for(store: &Store, settings: &Settings) -> Result<Option<NameLock>, StartError> {
    if !settings.roles.worker {
        return Ok(None);
    }
    take(store, &settings.node, heartbeat(settings.delivery.lease), STOPPING).await
}

/// Takes the name, as soon as a node that stops has let go of it. Whoever holds it for longer and
/// says that it lives is another node. One that says nothing is gone, though the database has not
/// noticed: then the name is taken without its lock. A node says so `period` after `period`.
pub async fn take(
    store: &Store,
    name: &str,
    period: Duration,
    patience: Duration,
) -> Result<Option<NameLock>, StartError> {
    let begun = monotonic();
    let mut first = None;
    loop {
        if let Some(lock) = store.take_name(name).await? {
            return Ok(Some(lock));
        }
        let seen = store.read().await?.node_seen_at(name).await?;
        let since = monotonic().saturating_sub(begun);
        let lives = *first.get_or_insert(seen) != seen;
        if since >= patience && lives {
            return Err(StartError::NameTaken(name.to_owned()));
        }
        if since >= 3 * period && !lives {
            tracing::warn!(node = name, "the session of a node that is gone still holds its name");
            return Ok(None);
        }
        if since < EVERY {
            tracing::warn!(node = name, "a node of this name is at work; waiting until it stops");
        }
        pause(EVERY).await;
    }
}

/// Keeps the name: a lock that ended with its session, as when the database was restarted, is taken
/// anew, and so is one that could not be had at the start. Looks `period` after `period`, and never
/// ends.
pub async fn keep(store: &Store, name: &str, lock: &mut Option<NameLock>, period: Duration) {
    loop {
        pause(period).await;
        if let Some(lock) = lock
            && lock.is_held().await
        {
            continue;
        }
        match store.take_name(name).await {
            Ok(Some(taken)) => *lock = Some(taken),
            Ok(None) if lock.take().is_some() => {
                tracing::error!(
                    node = name,
                    "another node took this one's name while the database was away; stop one of them"
                );
            }
            Ok(None) | Err(_) => {} // if not now, at the next look
        }
    }
}

async fn pause(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}
