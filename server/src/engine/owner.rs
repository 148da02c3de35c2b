//! The owner of shards: what it knows, and the steps by which it turns rows into jobs. Each step
//! is a function that the worker, or a test, calls when it likes; none of them sends anything.

mod shards;

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Engine,
    attempt::{Done, Job},
    detail::Detail,
    first::Check,
    lanes::{Lanes, Offer},
    leases::Leases,
    live::{LiveEndpoint, LiveEndpoints},
    scans::{AllScans, BEGINNING, PAGE, Page, Place},
};
use crate::{
    domain::{
        attempt::Mark,
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    store::{CommandKind, Completion, Dialect, Finished, Row, StoreError, Tx},
};

/// Lanes that are read in one turn, so that a turn stays short.
const LANES_A_TURN: usize = 64;

/// How often the lanes in the database are listed anew. Rows get there by us alone, or with a
/// command; this is for what a broken connection kept from us.
const LANES_EVERY: Duration = Duration::from_mins(1);

/// The key of the one cursor that SQLite has for all shards.
const ALL: i16 = -1;

/// A node's memory of the shards that it owns.
pub struct Owner {
    engine: Arc<Engine>,
    leases: Leases,
    lanes: Lanes,
    scans: AllScans,
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
}

impl Owner {
    /// Owns nothing yet.
    pub fn new(engine: Arc<Engine>) -> Self {
        let lanes = Lanes::new(engine.settings.concurrency);
        Self {
            engine,
            leases: Leases::default(),
            lanes,
            scans: AllScans::default(),
            live: LiveEndpoints::default(),
            under_way: HashMap::new(),
            leaving: Vec::new(),
            unread: Vec::new(),
            first_claim: true,
            unsure: false,
            lanes_at: Duration::MAX,
        }
    }

    /// Knows nothing any more, but what is under way: after a defect of our own.
    pub fn anew(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        *self = Self { under_way, ..Self::new(self.engine.clone()) };
    }

    /// Looks for what it may have missed: a step has failed on its way.
    pub fn doubt(&mut self) {
        self.scans.sweep();
        self.lanes_at = Duration::ZERO;
    }

    /// Reads what changed in the configuration; to be called at least every second.
    pub async fn refresh(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        let mut held = Vec::new();
        for (endpoint, live) in self.live.refresh(&engine, &mut tx).await? {
            self.lanes.set(endpoint, live.lane.clone());
            if live.lane.held {
                held.extend(self.lanes.clear(endpoint));
            }
            // What was parked while it was held may be due by now.
            self.lanes.park(endpoint, engine.now());
        }
        drop(tx);
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
        drop(tx);
        if commands.is_empty() {
            return Ok(0);
        }
        // Whoever asked believes, once the command is gone, that the new settings are in force.
        self.refresh().await?;
        let mut tx = engine.store.read_engine().await?;
        for command in &commands {
            if command.kind == CommandKind::LetGo {
                self.lanes.let_go(command.event, command.endpoint);
            }
            self.know(&mut tx, command.endpoint).await?;
            self.lanes.look(command.endpoint);
        }
        drop(tx);
        let mut tx = engine.store.begin_engine().await?;
        for command in &commands {
            tx.delete_command(command.id).await?;
        }
        tx.commit().await?;
        Ok(commands.len())
    }

    /// Loads an endpoint's settings, unless they are here.
    async fn know(&mut self, tx: &mut Tx, endpoint: EndpointId) -> Result<(), StoreError> {
        if !self.lanes.knows(endpoint)
            && let Some(live) = self.live.load(&self.engine, tx, endpoint).await?
        {
            self.lanes.set(endpoint, live.lane.clone());
        }
        Ok(())
    }

    /// Reads what is due in the lanes and what is fresh. Gives how many rows came.
    pub async fn fetch(&mut self) -> Result<usize, StoreError> {
        let engine = self.engine.clone();
        let (now, begun) = (engine.now(), engine.world.monotonic());
        let mut tx = engine.store.read_engine().await?;
        if begun >= self.lanes_at {
            let mut shards = self.leases.shards();
            shards.retain(|shard| !self.leaving.contains(shard));
            self.read_lanes(&mut tx, &shards).await?;
            self.lanes_at = begun + LANES_EVERY;
        }
        let before = self.lanes.waiting();
        self.fill_rings(&mut tx, now).await?;
        let pages = self.scans.pages(now);
        let (back, hot): (Vec<Page>, Vec<Page>) = pages.into_iter().partition(Page::goes_back);
        let mut surplus = Vec::new();
        for pages in [hot, back] {
            self.read_pages(&mut tx, &pages, now, &mut surplus).await?;
        }
        drop(tx);
        engine.metrics.database("fetch", engine.world.monotonic().saturating_sub(begun));
        let came = self.lanes.waiting().saturating_sub(before) + surplus.len();
        self.park(surplus).await?;
        Ok(came)
    }

    /// Fills the rings that ran low from what is parked and due.
    async fn fill_rings(&mut self, tx: &mut Tx, now: Timestamp) -> Result<(), StoreError> {
        let lanes = self.lanes.to_read(now, LANES_A_TURN);
        if lanes.is_empty() {
            return Ok(());
        }
        let many = |limit| i64::try_from(limit).unwrap_or(i64::MAX);
        let asked: Vec<_> = lanes
            .iter()
            .map(|(shard, endpoint, limit)| (*shard, *endpoint, many(*limit)))
            .collect();
        let mut found: HashMap<EndpointId, Vec<Row>> = HashMap::new();
        for row in tx.list_lane_rows(&asked).await? {
            found.entry(row.endpoint_id).or_default().push(row);
        }
        for (_, endpoint, limit) in lanes {
            let rows = found.remove(&endpoint).unwrap_or_default();
            self.lanes.fill(endpoint, rows, limit, now);
        }
        Ok(())
    }

    async fn read_pages(
        &mut self,
        tx: &mut Tx,
        pages: &[Page],
        now: Timestamp,
        surplus: &mut Vec<Row>,
    ) -> Result<(), StoreError> {
        if pages.is_empty() {
            return Ok(());
        }
        let cursors: Vec<_> = pages.iter().map(|page| page.cursor).collect();
        let rows = tx.list_fresh(&cursors, PAGE).await?;
        let mut ends: HashMap<i16, (usize, Place)> = HashMap::new();
        for row in &rows {
            let shard = if pages[0].cursor.shard == ALL { ALL } else { row.shard };
            let end = ends.entry(shard).or_insert((0, BEGINNING));
            *end = (end.0 + 1, (row.event_id, row.endpoint_id));
        }
        for page in pages {
            self.scans.read(page, ends.get(&page.cursor.shard).copied());
        }
        for row in rows {
            self.know(tx, row.endpoint_id).await?;
            if self.lanes.offer(row.clone(), now) == Offer::Park {
                surplus.push(row);
            }
        }
        Ok(())
    }

    /// Moves rows out of the way, into their lanes in the database.
    async fn park(&mut self, rows: Vec<Row>) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        match self.engine.store.dialect() {
            Dialect::Postgres => {
                self.engine.store.read_engine().await?.park(&rows).await?;
            }
            Dialect::Sqlite => {
                let mut tx = self.engine.store.begin_engine().await?;
                tx.park(&rows).await?;
                tx.commit().await?;
            }
        }
        for row in rows {
            self.lanes.park(row.endpoint_id, row.due_at);
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
                self.lanes.shelve(row); // no lane is without its endpoint
                continue;
            };
            let event = events.get(&row.event_id).cloned();
            let check = match event.as_deref().filter(|_| row.attempt == 0) {
                Some(event) => engine.check_of(&mut tx, self.live.epoch(), event).await?,
                None => Check::None,
            };
            jobs.push((row.clone(), event, endpoint, check));
        }
        // Only now: what was read may have been long in coming.
        let now = engine.world.monotonic();
        let fresh = self.live.are_fresh(now);
        let mut leased = Vec::with_capacity(jobs.len());
        for (row, event, endpoint, check) in jobs.into_iter().rev() {
            let timeout = timeout_of(&endpoint, engine.settings.timeout);
            match self.leases.epoch_for(row.shard, now, timeout).filter(|_| fresh) {
                Some(epoch) => {
                    *self.under_way.entry(row.shard).or_default() += 1;
                    leased.push(Job { row, event, endpoint, check, epoch });
                }
                None => self.lanes.put_back(row),
            }
        }
        leased.reverse();
        Ok(leased)
    }

    /// Takes note of what was written.
    pub fn finish(&mut self, done: &[Done], completion: &Completion) {
        for one in done {
            let row = &one.finished.row;
            if let Some(count) = self.under_way.get_mut(&row.shard) {
                *count = count.saturating_sub(1);
            }
            // A result of an earlier lease says nothing about the lanes of this one.
            if self.leases.epoch(row.shard) != Some(one.epoch) {
                continue;
            }
            if completion.unwritten.contains(&one.finished.pair()) {
                self.lanes.shelve(row);
                continue;
            }
            let late = completion.late.contains(&one.finished.pair());
            let due = match one.finished.mark {
                Mark::Retry if !late => Some(one.finished.due_at),
                _ if late => Some(Timestamp(0)),
                _ => None,
            };
            let success = one.finished.mark == Mark::Delivered;
            self.lanes.finish(row, due, one.finished.took, success);
            if let Some(until) = one.slow_until {
                self.lanes.slow_down(row.endpoint_id, until);
            }
        }
    }

    /// Ends, without a request, what waits for endpoints that were deleted.
    pub async fn cancel_deleted(&mut self) -> Result<(), StoreError> {
        let engine = self.engine.clone();
        for (endpoint, live) in self.live.deleted() {
            let mut tx = engine.store.read_engine().await?;
            let rows = tx.list_lane(live.lane.shard, endpoint, PAGE).await?;
            drop(tx);
            if rows.is_empty() {
                if self.lanes.remove(endpoint) {
                    self.live.remove(endpoint);
                }
                continue;
            }
            let now = engine.now();
            let detail = Detail { by: Some("endpoint deleted".to_owned()), ..Detail::default() };
            let detail = detail.to_json();
            let ended: Vec<Finished> =
                rows.into_iter().map(|row| Finished::canceled(row, now, detail.clone())).collect();
            engine.complete(&ended).await?;
        }
        Ok(())
    }

    /// Whether there is more to read at once.
    pub fn has_more(&self) -> bool {
        self.scans.have_more()
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
