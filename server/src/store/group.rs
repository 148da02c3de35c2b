//! Group commit: events that arrive together are committed together, so that one flush of the
//! disk serves many callers. A caller hears back only after the commit that holds its event.
//!
//! Callers may go away while they wait (a client that hangs up); the group's work must not, so
//! it is done by tasks of the store's own.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Accepted, Dialect, NewEvent, Store, StoreError};

/// Events of one group: beyond a hundred, a larger group gains little and waits longer.
const GROUP_EVENTS_MAX: usize = 128;

/// Callers that may wait before the next one has to wait for a place in the line.
const LINE: usize = 1_024;

/// Groups in progress at once on PostgreSQL: while one waits for its flush, the next is at work. More
/// would only be smaller, and each has a price of its own.
const GROUPS: usize = 2;

type Results = Vec<Result<Accepted, StoreError>>;

struct Call {
    events: Vec<NewEvent>,
    reply: oneshot::Sender<Results>,
}

/// The line of callers, and the tasks that serve it.
#[derive(Clone)]
pub(super) struct Group {
    line: mpsc::Sender<Call>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Group {
    /// Starts the tasks that serve `store`, a copy of it without a group of its own.
    pub(super) fn start(store: &Store) -> Self {
        let (line, calls) = mpsc::channel(LINE);
        let calls = Arc::new(Mutex::new(calls));
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let groups = if store.dialect() == Dialect::Postgres { GROUPS } else { 1 };
        for _ in 0..groups {
            tasks.spawn(serve(store.clone(), calls.clone(), closing.clone()));
        }
        tasks.close();
        Self { line, tasks, closing }
    }

    /// Takes no more callers, and waits until those in the line are served.
    pub(super) async fn finish(&self) {
        self.closing.cancel();
        self.tasks.wait().await;
    }

    async fn run(&self, events: Vec<NewEvent>) -> Result<Results, StoreError> {
        let (reply, answer) = oneshot::channel();
        let closed = || StoreError::Unreachable(sqlx::Error::PoolClosed);
        self.line.send(Call { events, reply }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }
}

async fn serve(store: Store, calls: Arc<Mutex<mpsc::Receiver<Call>>>, closing: CancellationToken) {
    loop {
        let mut taken = Vec::new();
        {
            let mut calls = calls.lock().await;
            let first = tokio::select! {
                biased;
                call = calls.recv() => call,
                () = closing.cancelled() => {
                    calls.close();
                    calls.recv().await
                }
            };
            let Some(first) = first else { return };
            let mut events = first.events.len();
            taken.push(first);
            while events < GROUP_EVENTS_MAX {
                let Ok(call) = calls.try_recv() else { break };
                events += call.events.len();
                taken.push(call);
            }
        }
        let events: Vec<&NewEvent> = taken.iter().flat_map(|call| &call.events).collect();
        let mut results = store.accept_group(&events).await.into_iter();
        for call in taken {
            let own = results.by_ref().take(call.events.len()).collect();
            // The caller may have gone; its event is stored all the same.
            let _ = call.reply.send(own);
        }
    }
}

impl Store {
    /// Stores one event with its deliveries. On disk when it returns.
    pub async fn accept(&self, event: NewEvent) -> Result<Accepted, StoreError> {
        self.accept_many(vec![event]).await?.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Stores events, each with its own verdict, in the order given.
    pub async fn accept_many(&self, events: Vec<NewEvent>) -> Result<Results, StoreError> {
        match &self.group {
            Some(group) => group.run(events).await,
            None => Ok(self.accept_group(&events.iter().collect::<Vec<_>>()).await),
        }
    }

    /// One transaction for all. What the database refuses, it refuses alone; any other failure
    /// is everybody's, for then nothing was committed.
    async fn accept_group(&self, events: &[&NewEvent]) -> Results {
        let outcome = match self.dialect() {
            Dialect::Postgres if is_uniform(events) => self.accept_at_once(events).await,
            _ => self.accept_one_by_one(events).await,
        };
        let outcome = match outcome {
            Err(StoreError::Refused(_)) if events.len() > 1 => self.accept_apart(events).await,
            outcome => outcome,
        };
        outcome.unwrap_or_else(|error| {
            let copies = (1..events.len()).map(|_| Err(error.again())).collect::<Vec<_>>();
            copies.into_iter().chain([Err(error)]).collect()
        })
    }

    async fn accept_at_once(&self, events: &[&NewEvent]) -> Result<Results, StoreError> {
        let accepted = self.read().await?.accept_many_at_once(events).await?;
        Ok(accepted.into_iter().map(Ok).collect())
    }

    async fn accept_one_by_one(&self, events: &[&NewEvent]) -> Result<Results, StoreError> {
        let mut tx = self.begin().await?;
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            match tx.accept(event).await {
                // In SQLite the statement alone is undone; in PostgreSQL the transaction is.
                Err(StoreError::Refused(why)) if self.dialect() == Dialect::Sqlite => {
                    results.push(Err(StoreError::Refused(why)));
                }
                accepted => results.push(Ok(accepted?)),
            }
        }
        tx.ring().await?;
        tx.commit().await?;
        Ok(results)
    }

    /// Each in a transaction of its own: the way when one of a group was refused.
    async fn accept_apart(&self, events: &[&NewEvent]) -> Result<Results, StoreError> {
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            let one = self.accept_one_by_one(std::slice::from_ref(event)).await;
            results.push(one.and_then(|mut one| one.pop().unwrap_or_else(|| Err(lost()))));
        }
        Ok(results)
    }
}

fn is_uniform(events: &[&NewEvent]) -> bool {
    events.windows(2).all(|two| two[0].door == two[1].door && two[0].checked == two[1].checked)
}

fn lost() -> StoreError {
    StoreError::Unreadable("the database gave fewer answers than it was asked for".to_owned())
}
