//! Reading rows: what is due in the lanes, and what is fresh. What has no room in memory
//! stays or is parked.

use std::collections::HashMap;

use super::{ALL, LANES_EVERY, Owner, staying};
use crate::{
    domain::{
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    engine::{
        lanes::{Offer, Order, Read},
        scans::{BEGINNING, PAGE, Page, Place},
    },
    store::{Row, StoreError, Stretch, Tx},
};

/// Lanes that are read in one turn, so that a turn stays short.
pub(super) const LANES_A_TURN: usize = 64;

impl Owner {
    /// Reads what is due in the lanes and what is fresh. Gives how many rows came.
    pub async fn fetch(&mut self) -> Result<usize, StoreError> {
        let engine = self.engine.clone();
        self.tell_unread();
        // What left the memory must be in its lane before that is read.
        let left = self.lanes.take_left();
        self.park(left).await?;
        self.move_stopped().await?;
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
        let count = tx.count_emits().await?;
        let (count, over) = count.unzip();
        let news = self.news.are_there(count, begun);
        let pages = self.scans.pages(now, news, over);
        let (back, hot): (Vec<Page>, Vec<Page>) = pages.into_iter().partition(Page::goes_back);
        let mut surplus = Vec::new();
        for pages in [hot, back] {
            self.read_pages(&mut tx, &pages, now, &mut surplus).await?;
        }
        tx.finish();
        engine.metrics.database("fetch", engine.world.monotonic().saturating_sub(begun));
        let came = self.lanes.waiting().saturating_sub(before) + surplus.len();
        self.park(surplus).await?;
        self.tell_unread();
        Ok(came)
    }

    /// Tells the lanes of which shards fresh rows may be there that nobody has read.
    fn tell_unread(&mut self) {
        let unread: Vec<i16> = self.scans.unread().collect();
        let all = unread.contains(&ALL);
        let shards = self.leases.shards().into_iter();
        self.lanes.set_unread(shards.filter(|shard| all || unread.contains(shard)));
    }

    /// Fills the rings that ran low from what waits and is due.
    async fn fill_rings(&mut self, tx: &mut Tx, now: Timestamp) -> Result<(), StoreError> {
        let reads = self.lanes.to_read(now, LANES_A_TURN);
        let mut parked = self.read(tx, &reads).await?;
        let stretches: Vec<Stretch> = reads.iter().filter_map(|read| read.staying).collect();
        let mut staying = staying::list(tx, &stretches).await?;
        for read in reads {
            let parked = parked.remove(&read.endpoint).unwrap_or_default();
            let staying = staying.remove(&read.endpoint).unwrap_or_default();
            self.lanes.fill(&read, parked, staying, now);
        }
        Ok(())
    }

    async fn read(
        &mut self,
        tx: &mut Tx,
        reads: &[Read],
    ) -> Result<HashMap<EndpointId, Vec<Row>>, StoreError> {
        let (mut by_due, mut by_event) = (Vec::new(), Vec::new());
        for read in reads {
            let many = i64::try_from(read.limit).unwrap_or(i64::MAX);
            let after = match read.order {
                Order::Due => {
                    by_due.push((read.shard, read.endpoint, many));
                    continue;
                }
                Order::Event => EventId(0),
                Order::Probe(after) => after,
            };
            by_event.push((read.shard, read.endpoint, after, many));
        }
        let mut found: HashMap<EndpointId, Vec<Row>> = HashMap::new();
        if !by_due.is_empty() {
            add_by_lane(&mut found, tx.list_lane_rows(&by_due).await?);
        }
        if !by_event.is_empty() {
            add_by_lane(&mut found, tx.list_lane_rows_by_event(&by_event).await?);
        }
        // Nothing behind the last probe: round again.
        by_event.retain(|(_, endpoint, after, _)| after.0 > 0 && !found.contains_key(endpoint));
        if !by_event.is_empty() {
            for lane in &mut by_event {
                lane.2 = EventId(0);
            }
            add_by_lane(&mut found, tx.list_lane_rows_by_event(&by_event).await?);
        }
        Ok(found)
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
        // Of several horizons the earliest holds for all; one that has none asks for everything.
        let since = pages.iter().map(|page| page.since).min().flatten();
        let rows = tx.list_fresh(&cursors, PAGE, since).await?;
        let mut ends: HashMap<i16, (usize, Place)> = HashMap::new();
        let all = pages[0].cursor.shard == ALL;
        let key = |row: &Row| if all { ALL } else { row.shard };
        for row in &rows {
            let end = ends.entry(key(row)).or_insert((0, BEGINNING));
            *end = (end.0 + 1, (row.event_id, row.endpoint_id));
        }
        for page in pages {
            self.scans.read(page, ends.get(&page.cursor.shard).copied());
            self.pages.read(page);
        }
        let hot = !pages[0].goes_back();
        let dense = hot.then(|| staying::dense(&rows, key));
        self.know(tx, rows.iter().map(|row| row.endpoint_id)).await?;
        for row in rows {
            match self.lanes.offer(&row, now) {
                Offer::Park if self.let_stay(&row, key(&row), dense.as_ref(), now) => {}
                Offer::Park => surplus.push(row),
                Offer::Displaced(other) => surplus.push(*other),
                Offer::Taken | Offer::Known => {}
            }
        }
        Ok(())
    }

    /// Moves rows out of the way, into their lanes in the database.
    pub(super) async fn park(&mut self, rows: Vec<Row>) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut tx = self.engine.store.begin_statement().await?;
        tx.park(&rows).await?;
        tx.commit().await?;
        for row in rows {
            self.lanes.park(row.endpoint_id, row.due_at);
        }
        Ok(())
    }
}

/// Puts rows to those of their lanes, in the order in which they come.
pub(super) fn add_by_lane(found: &mut HashMap<EndpointId, Vec<Row>>, rows: Vec<Row>) {
    for row in rows {
        found.entry(row.endpoint_id).or_default().push(row);
    }
}
