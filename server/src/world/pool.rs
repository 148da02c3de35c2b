//! The connections that are kept, over all receivers.
//!
//! A kept connection was judged when it was made and stays with the address that was judged then.
//! What it does not see is a change: of the policy, of an endpoint, of the customer's DNS. That is
//! why it has an age limit, and why `forget` exists.
//!
//! While it is not known whether a host speaks HTTP/2, only one connection to it is made at a
//! time: else a burst of events would make one for each and throw all but one away.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    SendError,
    connection::{Connection, Sender},
    shelf::{Kind, Shelf, Ticket},
};
use crate::domain::outcome::Plain;

/// How long a connection may take to be ready for another request after its answer was read. It
/// is longer only if the receiver answered and did not read the request.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// At shutdown: for connections to be closed in peace.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(2);

/// What tells connections apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub https: bool,
    /// `host:port`.
    pub authority: Arc<str>,
    /// Whose certificates.
    pub tls: u64,
    /// What the guard was asked.
    pub internal: bool,
}

/// What those hear who wait for somebody else's connection.
type Dialed = watch::Receiver<Option<Result<(), SendError>>>;

pub(super) struct Pool {
    state: Mutex<State>,
    /// One permit a connection.
    places: Arc<Semaphore>,
    /// Requests that wait for a permit.
    waiting: AtomicUsize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct State {
    shelf: Shelf<Key, Connection>,
    dialing: HashMap<Key, Dialed>,
}

/// What to do for a connection.
enum Step {
    Use(Connection, Ticket),
    /// Make one; `Lead` if others wait for what comes of it.
    Dial(Ticket, Option<Lead>),
    Wait(Dialed),
}

impl Pool {
    pub(super) fn new(connections_max: usize, idle: Duration, age: Duration) -> Arc<Self> {
        let state = State { shelf: Shelf::new(idle, age), dialing: HashMap::new() };
        Arc::new(Self {
            state: Mutex::new(state),
            places: Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// The owner of all connections' tasks, and what ends them.
    pub(super) fn tasks(&self) -> (&TaskTracker, &CancellationToken) {
        (&self.tasks, &self.stop)
    }

    /// A connection for `key`: a kept one, or what `dial` makes.
    pub(super) async fn checkout<D, F>(
        self: &Arc<Self>,
        key: &Key,
        dial: D,
    ) -> Result<Lease, SendError>
    where
        D: Fn(OwnedSemaphorePermit) -> F,
        F: Future<Output = Result<Connection, SendError>>,
    {
        loop {
            let step = self.step(key);
            let (ticket, lead) = match step {
                Step::Use(connection, ticket) => {
                    return Ok(self.lease(key, ticket, Some(connection), true));
                }
                Step::Dial(ticket, lead) => (ticket, lead),
                Step::Wait(mut dialed) => {
                    let heard = dialed.wait_for(Option::is_some).await;
                    if let Some(Err(error)) = heard.ok().and_then(|result| result.clone()) {
                        return Err(error);
                    }
                    continue; // it was made, or given up: look again
                }
            };
            let mut lease = self.lease(key, ticket, None, false);
            let made = match self.place().await {
                Ok(place) => dial(place).await,
                Err(error) => Err(error),
            };
            return match made {
                Ok(connection) => {
                    lease.settle(connection);
                    if let Some(lead) = lead {
                        lead.tell(Ok(()));
                    }
                    Ok(lease)
                }
                Err(error) => {
                    if let Some(lead) = lead {
                        lead.tell(Err(error.clone()));
                    }
                    Err(error)
                }
            };
        }
    }

    /// Closes what is past its time.
    pub(super) fn sweep(&self) {
        self.state().shelf.sweep(Instant::now());
    }

    /// Closes all connections that `is_meant`.
    pub(super) fn forget(&self, is_meant: impl Fn(&Key) -> bool) {
        self.state().shelf.forget(is_meant);
    }

    /// Closes everything and waits for it. Requests that are still on the way end.
    pub(super) async fn shutdown(&self) {
        self.places.close();
        self.forget(|_| true);
        self.tasks.close();
        if timeout(CLOSING_TIMEOUT, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }

    fn step(self: &Arc<Self>, key: &Key) -> Step {
        let mut state = self.state();
        if let Some((connection, ticket)) = state.shelf.take(key, Instant::now()) {
            return Step::Use(connection, ticket);
        }
        if !key.https || state.shelf.kind(key) == Kind::One {
            return Step::Dial(state.shelf.admit(key), None);
        }
        if let Some(dialed) = state.dialing.get(key) {
            return Step::Wait(dialed.clone());
        }
        let (told, dialed) = watch::channel(None);
        state.dialing.insert(key.clone(), dialed);
        let lead = Lead { pool: self.clone(), key: key.clone(), told };
        Step::Dial(state.shelf.admit(key), Some(lead))
    }

    /// Room for one more connection, made by closing the one that was idle longest.
    async fn place(&self) -> Result<OwnedSemaphorePermit, SendError> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = Waiting::new(&self.waiting);
        self.state().shelf.evict();
        self.places
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| SendError::new(Plain::Internal, "the delivery client has been shut down"))
    }

    fn lease(
        self: &Arc<Self>,
        key: &Key,
        ticket: Ticket,
        connection: Option<Connection>,
        reused: bool,
    ) -> Lease {
        Lease { pool: self.clone(), key: key.clone(), ticket: Some(ticket), connection, reused }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use a connection for one request. Dropped, a connection that takes one request
/// at a time is closed.
pub(super) struct Lease {
    pool: Arc<Pool>,
    key: Key,
    /// Until it is given back.
    ticket: Option<Ticket>,
    connection: Option<Connection>,
    /// Whether others used it before.
    pub reused: bool,
}

impl Lease {
    /// The connection.
    pub(super) fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a lease is handed out with its connection")
    }

    /// Gives the connection back for others, if it is soon ready for another request.
    pub(super) async fn keep(mut self) {
        let connection = self.connection();
        if let Sender::H1(sender) = &mut connection.sender {
            match timeout(READY_TIMEOUT, sender.ready()).await {
                Ok(Ok(())) => connection.end(),
                _ => return,
            }
        }
        let connection = self.connection.take();
        self.put_back(connection);
    }

    fn settle(&mut self, connection: Connection) {
        if let Some(ticket) = &mut self.ticket {
            self.pool.state().shelf.settle(&self.key, ticket, &connection);
        }
        self.connection = Some(connection);
    }

    fn put_back(&mut self, connection: Option<Connection>) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.pool.state();
        state.shelf.put_back(&self.key, &ticket, connection, Instant::now());
        // Whoever waits for a place needs it more than a later request to this host.
        if self.pool.waiting.load(Ordering::Relaxed) > 0 {
            state.shelf.evict();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.put_back(None);
    }
}

/// Makes the connection that others wait for.
struct Lead {
    pool: Arc<Pool>,
    key: Key,
    told: watch::Sender<Option<Result<(), SendError>>>,
}

impl Lead {
    fn tell(self, result: Result<(), SendError>) {
        self.told.send_replace(Some(result));
    }
}

/// Also if the attempt was given up while connecting: then another one leads.
impl Drop for Lead {
    fn drop(&mut self) {
        self.pool.state().dialing.remove(&self.key);
    }
}

/// Counts a request that waits for a place, also if it is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
