//! Group commit: what arrives together is committed together, so that one flush of the disk
//! serves many callers. A caller hears back only after the commit that holds its own.
//!
//! Callers may go away while they wait (a client that hangs up); the group's work must not, so
//! it is done by tasks of the store's own. What programs emit and what sources receive stand in
//! lines of their own, so that a burst of one delays the other by no more than its share of the
//! database.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Accepted, Arrival, Caller, Dialect, NewEvent, Store, StoreError, Tx, in_file::ROWS_MAX,
};

/// Items of one group: beyond a hundred, a larger group gains little and waits longer.
const GROUP_ITEMS_MAX: usize = 128;

/// Bytes after which a group takes no more: a statement is in memory several times over, here and
/// in the database, and PostgreSQL takes none of more than 1 GiB.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Callers that may wait before the next one has to wait for a place in the line.
const LINE: usize = 1_024;

/// Groups in progress at once on PostgreSQL: while one waits for its flush, the next is at work. More
/// would only be smaller, and each has a price of its own.
const GROUPS: usize = 2;

/// Items from which a group is worth its price beside another that is at work: the price of a
/// group is that of about ten items. A smaller one waits until the other has ended.
const COMPANY: usize = 32;

/// What stands in a line, and how a group of it is stored.
pub(super) trait Grouped: Send + Sync + 'static {
    /// What its caller is told.
    type Answer: Send + 'static;

    /// What it takes in memory, as far as that can be large.
    fn bytes(&self) -> usize;

    /// Stores a group, and gives an answer for each, in their order.
    fn store(store: &Store, group: &[&Self]) -> impl Future<Output = Results<Self::Answer>> + Send;
}

pub(super) type Results<A> = Vec<Result<A, StoreError>>;

struct Call<T: Grouped> {
    items: Vec<T>,
    reply: oneshot::Sender<Results<T::Answer>>,
}

/// The lines of a store.
#[derive(Clone)]
pub(super) struct Groups {
    pub(super) accept: Group<NewEvent>,
    pub(super) receive: Group<Arrival>,
}

impl Groups {
    /// Starts the tasks that serve `store`, a copy of it without groups of its own.
    pub(super) fn start(store: &Store) -> Self {
        Self { accept: Group::start(store), receive: Group::start(store) }
    }

    /// Takes no more callers, and waits until those in the lines are served.
    pub(super) async fn finish(&self) {
        tokio::join!(self.accept.finish(), self.receive.finish());
    }
}

/// A line of callers, and the tasks that serve it.
pub(super) struct Group<T: Grouped> {
    line: mpsc::Sender<Call<T>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl<T: Grouped> Clone for Group<T> {
    fn clone(&self) -> Self {
        let (tasks, closing) = (self.tasks.clone(), self.closing.clone());
        Self { line: self.line.clone(), tasks, closing }
    }
}

impl<T: Grouped> Group<T> {
    fn start(store: &Store) -> Self {
        let (line, calls) = mpsc::channel(LINE);
        let line_end = Arc::new(LineEnd {
            calls: Mutex::new(calls),
            at_work: AtomicUsize::new(0),
            ended: Notify::new(),
        });
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let groups = if store.dialect() == Dialect::Postgres { GROUPS } else { 1 };
        for _ in 0..groups {
            tasks.spawn(serve(store.clone(), line_end.clone(), closing.clone()));
        }
        tasks.close();
        Self { line, tasks, closing }
    }

    async fn finish(&self) {
        self.closing.cancel();
        self.tasks.wait().await;
    }

    /// Stores `items` in some group, and gives their answers once it is committed.
    pub(super) async fn run(&self, items: Vec<T>) -> Result<Results<T::Answer>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let closed = || StoreError::Unreachable(sqlx::Error::PoolClosed);
        self.line.send(Call { items, reply }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }
}

/// Where groups are taken from a line.
struct LineEnd<T: Grouped> {
    calls: Mutex<mpsc::Receiver<Call<T>>>,
    /// Groups in progress.
    at_work: AtomicUsize,
    /// Tells who waits for company when one has ended.
    ended: Notify,
}

/// A group in progress, however it ends.
struct AtWork<'a, T: Grouped>(&'a LineEnd<T>);

impl<T: Grouped> Drop for AtWork<'_, T> {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_one();
    }
}

/// The calls of a group that is being made.
struct Taken<T: Grouped> {
    calls: Vec<Call<T>>,
    items: usize,
    bytes: usize,
}

impl<T: Grouped> Default for Taken<T> {
    fn default() -> Self {
        Self { calls: Vec::new(), items: 0, bytes: 0 }
    }
}

impl<T: Grouped> Taken<T> {
    fn add(&mut self, call: Call<T>) {
        self.items += call.items.len();
        self.bytes += call.items.iter().map(T::bytes).sum::<usize>();
        self.calls.push(call);
    }

    /// Whether it takes one more, if it is to have no more than so many items.
    fn takes(&self, items: usize) -> bool {
        self.items < items && self.bytes < GROUP_BYTES_MAX
    }
}

async fn serve<T: Grouped>(store: Store, line: Arc<LineEnd<T>>, closing: CancellationToken) {
    loop {
        let mut taken = Taken::default();
        {
            let mut calls = line.calls.lock().await;
            let first = tokio::select! {
                biased;
                call = calls.recv() => call,
                () = closing.cancelled() => {
                    calls.close();
                    calls.recv().await
                }
            };
            let Some(first) = first else { return };
            taken.add(first);
            while taken.takes(COMPANY) && line.at_work.load(Ordering::Acquire) > 0 {
                let call = tokio::select! {
                    biased;
                    call = calls.recv() => call,
                    () = line.ended.notified() => continue,
                };
                let Some(call) = call else { break };
                taken.add(call);
            }
            while taken.takes(GROUP_ITEMS_MAX) {
                let Ok(call) = calls.try_recv() else { break };
                taken.add(call);
            }
            line.at_work.fetch_add(1, Ordering::AcqRel);
        }
        let at_work = AtWork(&line);
        let taken = taken.calls;
        let group: Vec<&T> = taken.iter().flat_map(|call| &call.items).collect();
        let mut results = T::store(&store, &group).await.into_iter();
        drop(at_work);
        for call in taken {
            let own = results.by_ref().take(call.items.len()).collect();
            // The caller may have gone; its own is stored all the same.
            let _ = call.reply.send(own);
        }
    }
}

/// One failure is everybody's: nothing was committed.
pub(super) fn for_all<A>(outcome: Result<Results<A>, StoreError>, many: usize) -> Results<A> {
    outcome.unwrap_or_else(|error| {
        let copies = (1..many).map(|_| Err(error.again())).collect::<Vec<_>>();
        copies.into_iter().chain([Err(error)]).collect()
    })
}

pub(super) fn lost() -> StoreError {
    StoreError::Unreadable("the database gave fewer answers than it was asked for".to_owned())
}

impl Grouped for NewEvent {
    type Answer = Accepted;

    fn bytes(&self) -> usize {
        self.payload.len()
    }

    fn store(store: &Store, group: &[&Self]) -> impl Future<Output = Results<Accepted>> + Send {
        store.accept_group(group)
    }
}

impl Store {
    /// Stores one event with its deliveries. On disk when it returns.
    pub async fn accept(&self, event: NewEvent) -> Result<Accepted, StoreError> {
        self.accept_many(vec![event]).await?.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Stores events, each with its own verdict, in the order given.
    pub async fn accept_many(
        &self,
        events: Vec<NewEvent>,
    ) -> Result<Results<Accepted>, StoreError> {
        match &self.groups {
            Some(groups) => groups.accept.run(events).await,
            None => Ok(self.accept_group(&events.iter().collect::<Vec<_>>()).await),
        }
    }

    /// One transaction for all. What the database refuses, it refuses alone; any other failure
    /// is everybody's, for then nothing was committed.
    async fn accept_group(&self, events: &[&NewEvent]) -> Results<Accepted> {
        let outcome = match self.dialect() {
            Dialect::Postgres if !is_uniform(events) => self.accept_one_by_one(events).await,
            _ => self.accept_at_once(events).await,
        };
        let outcome = match (outcome, self.dialect()) {
            (Err(StoreError::Refused(_)), Dialect::Sqlite) => self.accept_one_by_one(events).await,
            (Err(StoreError::Refused(_)), _) if events.len() > 1 => self.accept_apart(events).await,
            (outcome, _) => outcome,
        };
        for_all(outcome, events.len())
    }

    async fn accept_at_once(&self, events: &[&NewEvent]) -> Result<Results<Accepted>, StoreError> {
        let mut tx = self.begin_group(events.len()).await?;
        let accepted = tx.accept_many_at_once(events).await?;
        tx.commit().await?;
        if accepted.len() != events.len() {
            return Err(lost());
        }
        Ok(accepted.into_iter().map(Ok).collect())
    }

    /// For what [`Tx::accept_many_at_once`] and [`Tx::receive_many`] do with so many rows: what is
    /// one statement commits itself.
    pub(super) async fn begin_group(&self, many: usize) -> Result<Tx, StoreError> {
        match self.dialect() {
            Dialect::Sqlite if many > ROWS_MAX => self.begin().await,
            _ => self.writer(Caller::Door).await,
        }
    }

    async fn accept_one_by_one(
        &self,
        events: &[&NewEvent],
    ) -> Result<Results<Accepted>, StoreError> {
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
    async fn accept_apart(&self, events: &[&NewEvent]) -> Result<Results<Accepted>, StoreError> {
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
