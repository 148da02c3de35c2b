//! The owner of shards: what it knows, and the steps by which it turns rows into jobs. Each step
//! is a function that the worker, or a test, calls when it likes; none of them sends anything.

mod fetch;
mod news;
mod outcomes;
mod shards;
mod staying;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use self::{news::News, staying::Pages};
use super::{
    Engine,
    attempt::Job,
    first::{self, Check},
    lanes::Lanes,
    leases::Leases,
    live::{LiveEndpoint, LiveEndpoints},
    scans::AllScans,
};
use crate::{
    domain::{
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::{CommandKind, Row, StoreError, Tx},
};

/// How often the lanes in the database are listed anew. Rows get there by us alone, or with a
/// command; this is for what a broken connection kept from us.
const LANES_EVERY: Duration = Duration::from_mins(1);

/// Deliveries whose requests are over and whose outcomes are still to be written, at most, beside
/// those that are being sent: one batch that is written, and the next that gathers.
pub const SETTLING: usize = 2 * super::completer::BATCH;

/// The key of the one cursor that SQLite has for all shards.
const ALL: i16 = -1;

/// A node's memory of the shards that it owns.
pub struct Owner {
    engine: Arc<Engine>,
    leases: Leases,
    lanes: Lanes,
    scans: AllScans,
    pages: Pages,
    /// Whether anything was emitted since it last looked.
    pub news: News,
    live: LiveEndpoints,
    /// Requests under way, by shard: a shard is given back when it has none.
    under_way: HashMap<i16, usize>,
    /// Shards to give back as soon as nothing of them is under way.
    leaving: Vec<i16>,
    /// Shards whose lanes are still to be read.
    unread: Vec<i16>,
    /// Whether a process of this name may have owned shards before.
    first_claim: bool,
    /// Whether a commit went unanswered that gave us shards, or took some.
    unsure: bool,
    /// By the monotonic clock: when to list the lanes again.
    lanes_at: Duration,
    /// Endpoints whose health was not taken, as they changed meanwhile.
    unsaved: Vec<EndpointId>,
}

impl Owner {
    /// Owns nothing yet.
    pub fn new(engine: Arc<Engine>) -> Self {
        let (health, circuit) = (engine.settings.health.clone(), engine.settings.circuit);
        let mut lanes = Lanes::new(engine.settings.concurrency, health, circuit);
        lanes.set_settling(SETTLING);
        Self {
            engine,
            leases: Leases::default(),
            lanes,
            scans: AllScans::default(),
            pages: Pages::default(),
            news: News::default(),
            live: LiveEndpoints::default(),
            under_way: HashMap::new(),
            leaving: Vec::new(),
            unread: Vec::new(),
            first_claim: true,
            unsure: false,
            lanes_at: Duration::MAX,
            unsaved: Vec::new(),
        }
    }

    /// Knows nothing any more, but what is under way: after a defect of our own.
    pub fn anew(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        *self = Self { under_way, ..Self::new(self.engine.clone()) };
    }

    /// Looks for what it may have missed: a step has failed on its way.
    pub fn doubt(&mut self) {
        self.news.told();
        self.scans.sweep();
        self.lanes_at = Duration::ZERO;
    }

    /// Reads what changed in the configuration; to be called at least every second.
    pub async fn refresh(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        let mut held = Vec::new();
        for changed in self.live.refresh(&engine, &mut tx).await? {
            let (endpoint, live) = (changed.endpoint, &changed.live);
            self.lanes.set(endpoint, live.lane.clone());
            if changed.is_enabled() {
                self.lanes.set_health(endpoint, live.health.clone());
            }
            if changed.is_moved() {
                self.lanes.probe_now(endpoint, None, engine.now());
            }
            if live.lane.held {
                held.extend(self.lanes.clear(endpoint));
            }
            // What was parked while it was held may be due by now.
            self.lanes.park(endpoint, engine.now());
        }
        for endpoint in std::mem::take(&mut self.unsaved) {
            self.lanes.change_again(endpoint);
        }
        tx.finish();
        self.park(held).await
    }

    /// Does what other processes and doors ask for.
    pub async fn obey(&mut self) -> Result<usize, StoreError> {
        let engine = self.engine.clone();
        // A shard that is lost, or about to be given back, is its next owner's to look at.
        let mut shards = self.leases.live_shards(engine.world.monotonic());
        shards.retain(|shard| !self.leaving.contains(shard));
        let mut tx = engine.store.read_engine().await?;
        let commands = tx.list_commands(&shards).await?;
        tx.finish();
        if commands.is_empty() {
            return Ok(0);
        }
        // Whoever asked believes, once the command is gone, that the new settings are in force.
        self.refresh().await?;
        let mut tx = engine.store.read_engine().await?;
        let now = engine.now();
        self.know(&mut tx, commands.iter().map(|command| command.endpoint)).await?;
        for command in &commands {
            let (endpoint, event) = (command.endpoint, command.event);
            let wanted = match command.kind {
                CommandKind::Look => Some(event).filter(|event| event.0 > 0),
                CommandKind::LetGo => {
                    self.lanes.let_go(event, endpoint);
                    None
                }
                CommandKind::Probe => {
                    self.lanes.probe_now(endpoint, None, now);
                    None
                }
            };
            self.lanes.look(endpoint, wanted, now);
        }
        tx.finish();
        let mut tx = engine.store.begin_engine().await?;
        for command in &commands {
            tx.delete_command(command.id).await?;
        }
        tx.commit().await?;
        Ok(commands.len())
    }

    /// Loads the settings of endpoints, unless they are here.
    async fn know(
        &mut self,
        tx: &mut Tx,
        endpoints: impl Iterator<Item = EndpointId>,
    ) -> Result<(), StoreError> {
        let unknown = endpoints.filter(|endpoint| !self.lanes.knows(*endpoint));
        let unknown: BTreeSet<EndpointId> = unknown.collect();
        self.live.load(&self.engine, tx, &unknown).await?;
        for endpoint in unknown {
            if let Some(live) = self.live.get(endpoint) {
                self.lanes.set(endpoint, live.lane.clone());
                self.lanes.set_health(endpoint, live.health.clone());
            }
        }
        Ok(())
    }

    /// Takes up to `most` deliveries whose turn it is, with all that their attempts need. None
    /// start on settings that may be stale, or under a lease that could end before the attempt.
    pub async fn take(&mut self, most: usize) -> Result<Vec<Job>, StoreError> {
        let engine = self.engine.clone();
        let monotonic = engine.world.monotonic();
        if !self.live.are_fresh(monotonic) {
            return Ok(Vec::new());
        }
        let rows = self.lanes.next(engine.now(), most);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        match self.jobs_of(&rows).await {
            Ok(jobs) => Ok(jobs),
            Err(error) => {
                for row in rows.into_iter().rev() {
                    self.lanes.put_back(row);
                }
                Err(error)
            }
        }
    }

    async fn jobs_of(&mut self, rows: &[Row]) -> Result<Vec<Job>, StoreError> {
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        let mut ids: Vec<EventId> = rows.iter().map(|row| row.event_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let events = tx.list_events_by_id(&ids).await?;
        let events: HashMap<_, _> =
            events.into_iter().map(|(id, event)| (id, Arc::new(event))).collect();
        let mut jobs = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(endpoint) = self.live.get(row.endpoint_id).cloned() else {
                // No lane is without its endpoint.
                self.lanes.shelve(row, engine.now(), engine.world.random());
                continue;
            };
            let event = events.get(&row.event_id).cloned();
            let check = match event.as_deref().filter(|_| first::is_asked(row)) {
                Some(event) => engine.check_of(&mut tx, self.live.epoch(), event).await?,
                None => Check::None,
            };
            jobs.push((row.clone(), event, endpoint, check));
        }
        tx.finish();
        // Only now: what was read may have been long in coming.
        let now = engine.world.monotonic();
        let fresh = self.live.are_fresh(now);
        let mut leased = Vec::with_capacity(jobs.len());
        for (row, event, endpoint, check) in jobs.into_iter().rev() {
            let timeout = timeout_of(&endpoint, engine.settings.timeout);
            match self.leases.epoch_for(row.shard, now, timeout).filter(|_| fresh) {
                Some(epoch) => {
                    *self.under_way.entry(row.shard).or_default() += 1;
                    let probe = self.lanes.is_probe(&row);
                    leased.push(Job { row, event, endpoint, check, epoch, probe });
                }
                None => self.lanes.put_back(row),
            }
        }
        leased.reverse();
        Ok(leased)
    }

    /// Whether there is more to read at once.
    pub fn has_more(&self) -> bool {
        self.scans.have_more() || self.lanes.have_to_move()
    }

    /// When something is due that nobody will ring for.
    pub fn next_at(&self) -> Option<Timestamp> {
        let now = self.engine.now();
        [self.lanes.next_at(now), self.scans.next_at()].into_iter().flatten().min()
    }

    /// When the next row that waits in a lane is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.lanes.next_at(self.engine.now())
    }

    /// Requests under way, those of shards that were lost too.
    pub fn under_way(&self) -> usize {
        self.under_way.values().sum()
    }
}

fn timeout_of(endpoint: &LiveEndpoint, default: Duration) -> Duration {
    endpoint.ready.as_ref().map_or(default, super::prepare::ReadyEndpoint::timeout)
}
