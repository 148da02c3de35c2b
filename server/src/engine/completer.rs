//! Outcomes are gathered and written together. While one batch is written the next gathers, so
//! that batches are as large as the load makes them, and a lone result is written at once.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::sync::mpsc;

use super::{
    Engine,
    attempt::{Done, Rest},
};
use crate::{
    domain::{attempt::Mark, delivery::Cause, delivery::State, id::DeliveryId},
    store::{Completion, Finished, StoreError},
};

/// Rows of one batch: beyond a hundred or two nothing is gained.
pub const BATCH: usize = 200;

/// The pause after the database refused a batch; doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One line for an attempt that is on record. Dead letters are worth one always, the rest only to
/// those who look closer. Nothing of the payload or the answer; the URL may hold a token.
fn log(finished: &Finished) {
    let delivery = DeliveryId { event: finished.row.event_id, endpoint: finished.row.endpoint_id };
    let (attempt, took_ms) = (finished.row.attempt + 1, finished.took.as_millis());
    let (reason, status) = (finished.reason, finished.status);
    match (finished.mark, finished.cause) {
        (Mark::Dead, Some(cause)) => {
            let cause = cause.name();
            tracing::info!(%delivery, attempt, cause, reason, status, took_ms, "a dead letter");
        }
        (mark, _) => {
            let outcome = mark.name();
            tracing::debug!(%delivery, attempt, outcome, reason, status, took_ms, "attempted");
        }
    }
}

/// A batch that is written, for the lanes to take note of.
pub struct Written {
    /// What was done.
    pub done: Vec<Done>,
    /// What it came to.
    pub completion: Completion,
}

impl Engine {
    /// Writes a batch. On an error it is not known whether it was written: the same batch may be
    /// completed again.
    pub async fn complete(&self, batch: &[Finished]) -> Result<Completion, StoreError> {
        let (now, begun) = (self.now(), self.world.monotonic());
        let mut tx = self.store.begin_statement().await?;
        let completion = tx.complete(batch, now).await?;
        tx.commit().await?;
        self.metrics.database("complete", self.world.monotonic().saturating_sub(begun));
        for finished in batch {
            if completion.late.contains(&(finished.row.event_id, finished.row.endpoint_id)) {
                self.metrics.claim_lost();
            } else {
                self.count_ending(finished);
            }
            log(finished);
        }
        Ok(completion)
    }

    /// Counts and logs what was written elsewhere.
    pub(super) fn recorded(&self, finished: &Finished) {
        self.count_ending(finished);
        log(finished);
    }

    fn count_ending(&self, finished: &Finished) {
        let state = match finished.mark {
            Mark::Delivered => State::Delivered,
            Mark::Dead => State::Dead,
            Mark::Canceled => State::Canceled,
            Mark::Retry | Mark::Filtered | Mark::Late => return,
        };
        self.metrics.delivery_ended(state.name(), finished.cause.map_or("", Cause::name));
    }

    /// Writes a batch, however long that takes. Only what the database will never take is left
    /// out, as `unwritten`: its row stays in the queue, and the log says so.
    pub async fn complete_surely(&self, batch: &[Finished]) -> Completion {
        let mut pause = PAUSE;
        loop {
            let written = AssertUnwindSafe(self.complete(batch)).catch_unwind().await;
            match written {
                Ok(Ok(completion)) => return completion,
                Ok(Err(error)) if error.is_passing() => {
                    tracing::warn!("could not record {} attempts yet: {error}", batch.len());
                }
                Ok(Err(error)) => return self.complete_apart(batch, &error.to_string()).await,
                Err(_) => return self.complete_apart(batch, "a panic").await,
            }
            rest(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One of them is poison: each alone, and the poisonous one without what may be its poison.
    async fn complete_apart(&self, batch: &[Finished], problem: &str) -> Completion {
        tracing::error!("could not record {} attempts together: {problem}", batch.len());
        let mut all = Completion::default();
        for one in batch {
            let bare = Finished { response: None, detail: "{}".to_owned(), ..one.clone() };
            all.unwritten.insert(one.pair());
            for version in [one, &bare] {
                let version = std::slice::from_ref(version);
                let written = AssertUnwindSafe(self.complete(version)).catch_unwind().await;
                if let Ok(Ok(completion)) = written {
                    all.unwritten.remove(&one.pair());
                    all.late.extend(completion.late);
                    break;
                }
                tracing::error!(event = %one.row.event_id, endpoint = %one.row.endpoint_id,
                    "could not record an attempt");
            }
        }
        all
    }
}

#[expect(clippy::disallowed_methods, reason = "part of the worker: a database that is away")]
async fn rest(pause: Duration) {
    tokio::time::sleep(pause).await;
}

/// Serves until nobody can send any more.
pub async fn serve(
    engine: Arc<Engine>,
    mut done: mpsc::Receiver<Done>,
    written: mpsc::Sender<Written>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while done.recv_many(&mut batch, BATCH).await > 0 {
        let (finished, rests): (Vec<Finished>, Vec<Rest>) =
            batch.drain(..).map(|done| (done.finished, done.rest)).unzip();
        let completion = engine.complete_surely(&finished).await;
        let disabled = AssertUnwindSafe(engine.disable_gone(&finished)).catch_unwind().await;
        match disabled {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!("could not disable an endpoint that answered 410: {error}");
            }
            Err(_) => tracing::error!("disabling an endpoint that answered 410 panicked"),
        }
        let done = finished.into_iter().zip(rests);
        let done = done.map(|(finished, rest)| Done { finished, rest }).collect();
        if written.send(Written { done, completion }).await.is_err() {
            return;
        }
        engine.wake();
    }
}
