//! Which fresh rows that have no room in memory stay where they are, and which are parked. To
//! park a row costs about four times what it costs to read it; so a row stays that will be sent
//! before it was read too often.
//!
//! Parked are rows of lanes that do not move; young ones, which the scan for late rows would read
//! again and again; those of a lane that is rare among its shard's, for to read it is to step over
//! the others; and, above a number, those that a sweep finds still there.

use std::collections::{HashMap, HashSet};

use super::{
    Owner,
    fetch::{LANES_A_TURN, add_by_lane},
};
use crate::{
    domain::{id::EndpointId, time::Timestamp},
    engine::scans::{LATE_REACH, Page},
    store::{Row, StoreError, Stretch, Tx},
};

/// One row in how many of a page is a lane's own, at least, so that its rows stay.
const STEPS_MAX: usize = 32;

/// Rows that the sweeps of all shards together read and leave once more. Half a second of work
/// every thirty; what is over it is parked, and read no more.
const SWEPT_MAX: usize = 200_000;

/// Rows that one turn moves out of lanes that stopped: some ten milliseconds.
const MOVES_A_TURN: usize = 1_000;

/// The pages of fresh rows, by their shards.
#[derive(Debug, Default)]
pub struct Pages {
    /// How many the hot scan has read.
    hot: HashMap<i16, u64>,
    /// Rows that the latest sweep found and left where they were.
    swept: HashMap<i16, usize>,
}

impl Pages {
    /// Takes note of one.
    pub fn read(&mut self, page: &Page) {
        let shard = page.cursor.shard;
        if page.begins_sweep() {
            self.swept.remove(&shard);
        }
        if !page.goes_back() {
            *self.hot.entry(shard).or_default() += 1;
        }
    }

    /// Forgets a shard that is not ours any more.
    pub fn remove(&mut self, shard: i16) {
        self.hot.remove(&shard);
        self.swept.remove(&shard);
    }

    fn may_sweep_over(&mut self, shard: i16) -> bool {
        let may = self.swept.values().sum::<usize>() < SWEPT_MAX;
        *self.swept.entry(shard).or_default() += usize::from(may);
        may
    }
}

/// Of pages by their keys, the lanes that have many of the rows.
pub fn dense(rows: &[Row], key: impl Fn(&Row) -> i16) -> HashSet<EndpointId> {
    let (mut of_page, mut of_lane) = (HashMap::new(), HashMap::new());
    for row in rows {
        *of_page.entry(key(row)).or_insert(0) += 1;
        of_lane.entry(row.endpoint_id).or_insert((key(row), 0)).1 += 1;
    }
    let lanes = of_lane.into_iter();
    let dense = lanes.filter(|(_, (key, rows))| rows * STEPS_MAX >= of_page[key]);
    dense.map(|(endpoint, _)| endpoint).collect()
}

impl Owner {
    /// Whether a row that has no room stays where it is. The lanes that are `dense` are those of a
    /// page that is read for the first time; a scan that goes back tells of none.
    pub(super) fn let_stay(
        &mut self,
        row: &Row,
        page: i16,
        dense: Option<&HashSet<EndpointId>>,
        now: Timestamp,
    ) -> bool {
        let Some(dense) = dense else {
            return self.lanes.stays(row) && self.pages.may_sweep_over(page);
        };
        let young = row.event_id.created_at() + LATE_REACH >= now;
        let hot = self.pages.hot.get(&page).copied().unwrap_or(0);
        !young && dense.contains(&row.endpoint_id) && self.lanes.stay(row, hot)
    }

    /// Parks what stays of lanes that do not move any more.
    pub(super) async fn move_stopped(&mut self) -> Result<(), StoreError> {
        let stretches = self.lanes.to_move(LANES_A_TURN, MOVES_A_TURN);
        if stretches.is_empty() {
            return Ok(());
        }
        let engine = self.engine.clone();
        let mut tx = engine.store.read_engine().await?;
        let mut lanes = list(&mut tx, &stretches).await?;
        tx.finish();
        let (mut moved, mut rests) = (Vec::new(), Vec::new());
        for stretch in stretches {
            let rows = lanes.remove(&stretch.endpoint).unwrap_or_default();
            rests.push((stretch.endpoint, stretch.rest(&rows)));
            // What is here is parked when it leaves the memory, if it must.
            moved.extend(rows.into_iter().filter(|row| !self.lanes.has(row)));
        }
        self.park(moved).await?;
        for (endpoint, rest) in rests {
            self.lanes.stays_from(endpoint, rest);
        }
        Ok(())
    }
}

/// The fresh rows of stretches, by their lanes.
pub(super) async fn list(
    tx: &mut Tx,
    stretches: &[Stretch],
) -> Result<HashMap<EndpointId, Vec<Row>>, StoreError> {
    let mut rows = HashMap::new();
    if !stretches.is_empty() {
        add_by_lane(&mut rows, tx.list_fresh_of_lanes(stretches).await?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{domain::id::EventId, engine::scans::AllScans, store::Slot};

    fn row(event: i64, endpoint: i64, due: i64) -> Row {
        let (event_id, endpoint_id) = (EventId(event), EndpointId(endpoint));
        let (slot, tenant, due_at) = (Slot::default(), String::new(), Timestamp(due));
        Row { slot, event_id, endpoint_id, tenant, shard: 1, run: 0, attempt: 0, rung: 0, due_at }
    }

    #[test]
    fn a_lane_is_dense_that_has_one_row_in_so_many_of_its_page() {
        let steps = i64::try_from(STEPS_MAX).unwrap();
        for (others, expected) in [(0, true), (steps - 1, true), (steps, false)] {
            let mut rows: Vec<Row> = (1..=others).map(|event| row(event, 2, 0)).collect();
            rows.push(row(99, 1, 0));
            assert_eq!(dense(&rows, |_| 1).contains(&EndpointId(1)), expected, "{others} others");
        }
        let rows: Vec<Row> =
            (1..=100).map(|event| row(event, 2, 0)).chain([row(0, 1, 0)]).collect();
        let key = |row: &Row| i16::try_from(row.endpoint_id.0).unwrap();
        assert_eq!(dense(&rows, key).len(), 2, "each in its own page");
    }

    #[test]
    fn sweeps_leave_so_many_rows_together_and_no_more_until_the_next() {
        let mut pages = Pages::default();
        for shard in [1, 2] {
            let left = (0..SWEPT_MAX / 2).filter(|_| pages.may_sweep_over(shard)).count();
            assert_eq!(left, SWEPT_MAX / 2);
        }
        assert!(!pages.may_sweep_over(1) && !pages.may_sweep_over(3));
        let mut scans = AllScans::default();
        let start = Timestamp::from_seconds(1_800_000_000);
        scans.add(1, start);
        for (after, again) in [(Duration::from_secs(29), false), (Duration::from_secs(30), true)] {
            scans.pages(start + after, true, None).iter().for_each(|page| pages.read(page));
            assert_eq!(pages.may_sweep_over(3), again, "{after:?}");
        }
    }
}
