//! The lanes beside a database of two sets, fresh and parked, and the list of what is under way.
//! Each step does to the lanes what the owner would do, and to the sets what SQL would do.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::{super::*, QUICK, row};

pub const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

const SLOTS: usize = 6;

/// Endpoints 1 to 6: two of each tenant, two in each shard.
const ENDPOINTS: i64 = 6;

type Pair = (EventId, EndpointId);

pub struct Model {
    lanes: Lanes,
    settings: HashMap<EndpointId, LaneSettings>,
    now: Timestamp,
    events: i64,
    /// The queue: parked or fresh.
    table: HashMap<Pair, (bool, Row)>,
    under_way: Vec<Row>,
    shelved: HashSet<Pair>,
    rests: HashMap<EndpointId, Timestamp>,
}

impl Model {
    pub fn new() -> Self {
        let mut model = Self {
            lanes: Lanes::new(SLOTS),
            settings: HashMap::new(),
            now: START,
            events: 0,
            table: HashMap::new(),
            under_way: Vec::new(),
            shelved: HashSet::new(),
            rests: HashMap::new(),
        };
        for endpoint in 0..ENDPOINTS {
            model.set(usize::try_from(endpoint).unwrap(), 2, false);
        }
        model
    }

    pub fn step(&mut self, what: u8, which: usize, how: usize) {
        let endpoint = EndpointId(i64::try_from(which).unwrap() % ENDPOINTS + 1);
        match what {
            0..=3 => self.emit(which, how % 5 + 1),
            4..=5 => self.fetch(),
            6..=7 => self.next(how % 9),
            8 => self.settle(which, how),
            9 => self.settle(which, how / 2),
            10 => self.put_back(which),
            11 => self.set(which, how % 4 + 1, how.is_multiple_of(3)),
            12 => self.now = self.now + Duration::from_secs(u64::try_from(how).unwrap()),
            13 => self.cancel(which),
            14 if how.is_multiple_of(4) => self.lose_shard(i16::try_from(which % 3).unwrap()),
            14 => self.shelve(which),
            _ => {
                self.rests.remove(&endpoint);
                self.lanes.look(endpoint);
            }
        }
    }

    fn emit(&mut self, which: usize, many: usize) {
        let endpoint = i64::try_from(which).unwrap() % ENDPOINTS + 1;
        for _ in 0..many {
            self.events += 1;
            let row = Row { due_at: self.now, ..row(self.events, endpoint) };
            self.table.insert(pair(&row), (false, row));
        }
    }

    fn set(&mut self, which: usize, cap: usize, held: bool) {
        let number = i64::try_from(which).unwrap() % ENDPOINTS;
        let endpoint = EndpointId(number + 1);
        let shard = i16::try_from(number % 3).unwrap();
        let tenant = format!("tenant-{}", number / 2).as_str().into();
        let settings = LaneSettings { tenant, shard, cap, held };
        self.lanes.set(endpoint, settings.clone());
        self.settings.insert(endpoint, settings);
        if held {
            for row in self.lanes.clear(endpoint) {
                self.park(&row);
            }
        }
        self.lanes.park(endpoint, self.now);
    }

    fn park(&mut self, row: &Row) {
        if let Some((parked, _)) = self.table.get_mut(&pair(row)) {
            *parked = true;
        }
        self.lanes.park(row.endpoint_id, row.due_at);
    }

    fn fetch(&mut self) {
        for (_, endpoint, limit) in self.lanes.to_read(self.now, 64) {
            let mut rows: Vec<Row> = self.rows(|parked, row| parked && row.endpoint_id == endpoint);
            rows.sort_by_key(|row| row.due_at);
            rows.truncate(limit);
            self.lanes.fill(endpoint, rows, limit, self.now);
        }
        for row in self.rows(|parked, _| !parked) {
            if self.lanes.offer(row.clone(), self.now) == Offer::Park {
                self.park(&row);
            }
        }
    }

    fn rows(&self, wanted: impl Fn(bool, &Row) -> bool) -> Vec<Row> {
        let rows = self.table.values().filter(|(parked, row)| wanted(*parked, row));
        let mut rows: Vec<Row> = rows.map(|(_, row)| row.clone()).collect();
        rows.sort_by_key(pair);
        rows
    }

    fn next(&mut self, most: usize) {
        for row in self.lanes.next(self.now, most) {
            let endpoint = row.endpoint_id;
            let settings = &self.settings[&endpoint];
            assert!(!settings.held, "held lanes give nothing");
            assert!(self.rests.get(&endpoint).is_none_or(|until| *until <= self.now), "it rests");
            assert!(!self.under_way.iter().any(|other| pair(other) == pair(&row)), "twice");
            assert!(!self.shelved.contains(&pair(&row)), "shelved");
            self.under_way.push(row);
            let own = self.under_way.iter().filter(|other| other.endpoint_id == endpoint).count();
            assert!(own <= settings.cap, "{own} under way, {} allowed", settings.cap);
            let slow = self.under_way.iter().filter(|row| self.is_slow(row.endpoint_id)).count();
            assert!(!self.is_slow(endpoint) || slow <= SLOTS / 2, "{slow} slow ones");
        }
        assert!(self.under_way.len() <= SLOTS);
    }

    fn is_slow(&self, endpoint: EndpointId) -> bool {
        self.lanes.by_endpoint[&endpoint].slow
    }

    fn take_under_way(&mut self, which: usize) -> Option<Row> {
        let count = self.under_way.len();
        (count > 0).then(|| self.under_way.swap_remove(which % count))
    }

    fn settle(&mut self, which: usize, how: usize) {
        let Some(row) = self.take_under_way(which) else { return };
        let took = if how.is_multiple_of(3) { SLOW + QUICK } else { QUICK };
        let is_there = self.table.contains_key(&pair(&row));
        let due = match how % 5 {
            _ if !is_there => Some(Timestamp(0)), // late: somebody canceled it
            0 | 1 => {
                let due_at = self.now + Duration::from_secs(u64::try_from(how).unwrap());
                let attempt = row.attempt + 1;
                self.table.insert(pair(&row), (true, Row { attempt, due_at, ..row.clone() }));
                Some(due_at)
            }
            _ => {
                self.table.remove(&pair(&row));
                None
            }
        };
        self.lanes.finish(&row, due, took, due.is_none());
        if how % 7 == 1 {
            let until = self.now + Duration::from_secs(20);
            self.lanes.slow_down(row.endpoint_id, until);
            let rests = self.rests.entry(row.endpoint_id).or_default();
            *rests = (*rests).max(until);
        }
    }

    fn put_back(&mut self, which: usize) {
        if let Some(row) = self.take_under_way(which) {
            self.lanes.put_back(row);
        }
    }

    fn shelve(&mut self, which: usize) {
        if let Some(row) = self.take_under_way(which) {
            self.shelved.insert(pair(&row));
            self.lanes.shelve(&row);
        }
    }

    fn cancel(&mut self, which: usize) {
        let mut pairs: Vec<Pair> = self.table.keys().copied().collect();
        pairs.sort_unstable();
        pairs.retain(|pair| !self.shelved.contains(pair));
        if pairs.is_empty() {
            return;
        }
        let chosen = pairs[which % pairs.len()];
        let under_way = self.under_way.iter().any(|row| pair(row) == chosen);
        self.table.remove(&chosen);
        let here = self.lanes.let_go(chosen.0, chosen.1);
        assert!(!(here && under_way), "what is under way cannot be let go");
    }

    /// Lost, and taken again at once: what is under way will be told too late to count.
    fn lose_shard(&mut self, shard: i16) {
        self.lanes.remove_shard(shard);
        let ours: Vec<EndpointId> = self
            .settings
            .iter()
            .filter(|(_, settings)| settings.shard == shard)
            .map(|(endpoint, _)| *endpoint)
            .collect();
        self.under_way.retain(|row| !ours.contains(&row.endpoint_id));
        self.shelved.retain(|(_, endpoint)| !ours.contains(endpoint));
        self.rests.retain(|endpoint, _| !ours.contains(endpoint));
        for endpoint in ours {
            self.lanes.set(endpoint, self.settings[&endpoint].clone());
            let waiting = self.rows(|parked, row| parked && row.endpoint_id == endpoint);
            if let Some(due) = waiting.iter().map(|row| row.due_at).min() {
                self.lanes.park(endpoint, due);
            }
        }
    }

    /// What the lanes count must be what there is.
    pub fn check(&self) {
        let lanes = &self.lanes;
        let sum = |part: fn(&Lane) -> usize| lanes.by_endpoint.values().map(part).sum::<usize>();
        assert_eq!(lanes.in_flight(), self.under_way.len());
        assert_eq!(lanes.in_flight(), sum(|lane| lane.in_flight));
        assert_eq!(lanes.waiting(), sum(|lane| lane.ring.len()));
        assert_eq!(lanes.slow_in_flight, sum(|lane| if lane.slow { lane.in_flight } else { 0 }));
        assert_eq!(lanes.known.len(), lanes.waiting() + lanes.in_flight() + self.shelved.len());
        let parked = lanes.by_endpoint.iter().filter(|(_, lane)| !lane.settings.held);
        let parked = parked.filter_map(|(endpoint, lane)| Some((lane.parked_due?, *endpoint)));
        assert_eq!(lanes.parked, parked.collect::<BTreeSet<_>>());
    }

    /// Everything that is left must go, once nothing is held any more, by nothing but what the
    /// lanes ask for.
    pub fn finish_all(&mut self) {
        for endpoint in 0..ENDPOINTS {
            self.set(usize::try_from(endpoint).unwrap(), 2, false);
        }
        for _ in 0..10_000 {
            self.fetch();
            self.next(SLOTS);
            self.check();
            while let Some(row) = self.take_under_way(0) {
                self.table.remove(&pair(&row));
                self.lanes.finish(&row, None, QUICK, true);
            }
            if self.table.keys().all(|pair| self.shelved.contains(pair)) {
                return;
            }
            if self.lanes.waiting() == 0
                && let Some(next_at) = self.lanes.next_at(self.now)
            {
                self.now = self.now.max(next_at);
            } else if self.lanes.waiting() > 0 {
                self.now = self.now.max(self.lanes.next_at(self.now).unwrap_or(self.now));
            }
        }
        panic!("{} rows are left behind: {:?}", self.table.len(), self.lanes);
    }
}

fn pair(row: &Row) -> Pair {
    (row.event_id, row.endpoint_id)
}
