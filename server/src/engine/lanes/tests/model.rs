//! The lanes beside a database of two sets, fresh and parked, and the list of what is under way.
//! Each step does to the lanes what the owner would do, and to the sets what SQL would do.

mod staying;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::{super::*, QUICK, empty, report, row};
use crate::domain::{circuit::CircuitState, rate::RateLimit, signal::Signal};

pub const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

const SLOTS: usize = 6;

/// Endpoints 1 to 6: two of each tenant, two in each shard.
const ENDPOINTS: i64 = 6;

/// The one that keeps its events in order, and the one that has a rate: one request a second.
const ORDERED: EndpointId = EndpointId(6);
const PACED: EndpointId = EndpointId(5);

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
    /// Rows that were fetched at least once: what nobody has seen yet can be overtaken.
    seen: HashSet<Pair>,
    /// Fresh rows that no scan reads again, as they stay for their lane to come to them.
    staying: HashSet<Pair>,
    /// When the endpoint with a rate had its last request.
    paced_at: Option<Timestamp>,
    chance: u64,
}

impl Model {
    pub fn new() -> Self {
        let mut model = Self {
            lanes: empty(SLOTS),
            settings: HashMap::new(),
            now: START,
            events: 0,
            table: HashMap::new(),
            under_way: Vec::new(),
            shelved: HashSet::new(),
            rests: HashMap::new(),
            seen: HashSet::new(),
            staying: HashSet::new(),
            paced_at: None,
            chance: 1,
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
                self.lanes.look(endpoint, None, self.now);
                if how.is_multiple_of(2) {
                    self.lanes.probe_now(endpoint, None, self.now);
                }
            }
        }
    }

    fn emit(&mut self, which: usize, many: usize) {
        let endpoint = i64::try_from(which).unwrap() % ENDPOINTS + 1;
        for n in 0..many {
            self.events += 2;
            // Every now and then one of a transaction that was open for a while.
            let id = if n == 3 { self.events - 11 } else { self.events };
            let row = Row { due_at: self.now, ..row(id, endpoint) };
            self.table.insert(pair(&row), (false, row));
        }
    }

    fn set(&mut self, which: usize, cap: usize, held: bool) {
        let number = i64::try_from(which).unwrap() % ENDPOINTS;
        let endpoint = EndpointId(number + 1);
        let shard = i16::try_from(number % 3).unwrap();
        let tenant = format!("tenant-{}", number / 2).as_str().into();
        let ordered = endpoint == ORDERED;
        let rate = (endpoint == PACED).then(|| "1/s".parse::<RateLimit>().unwrap());
        let cap = if ordered { 1 } else { cap };
        let settings = LaneSettings { tenant, shard, cap, held, ordered, rate };
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
        self.park_left();
        self.move_stopped();
        for read in self.lanes.to_read(self.now, 64) {
            let mut rows = self.rows(|parked, row| parked && row.endpoint_id == read.endpoint);
            let staying = read.staying.map(|stretch| self.stretch(stretch)).unwrap_or_default();
            match read.order {
                Order::Due => rows.sort_by_key(|row| row.due_at),
                Order::Event => {}
                Order::Probe(after) => {
                    if rows.iter().any(|row| row.event_id > after) {
                        rows.retain(|row| row.event_id > after);
                    }
                }
            }
            rows.truncate(read.limit);
            self.lanes.fill(&read, rows, staying, self.now);
        }
        for row in self.rows(|parked, _| !parked) {
            self.seen.insert(pair(&row));
            if self.staying.contains(&pair(&row)) {
                continue;
            }
            match self.lanes.offer(&row, self.now) {
                Offer::Park if row.event_id.0 % 3 > 0 && self.lanes.stay(&row, 0) => {
                    self.staying.insert(pair(&row));
                }
                Offer::Park => self.park(&row),
                Offer::Displaced(other) => self.park(&other),
                Offer::Taken | Offer::Known => {}
            }
        }
        self.lanes.set_unread(std::iter::empty());
    }

    fn park_left(&mut self) {
        for row in self.lanes.take_left() {
            self.park(&row);
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
            self.check_turn(&row);
            let settings = &self.settings[&endpoint];
            assert!(!settings.held, "held lanes give nothing");
            assert!(self.rests.get(&endpoint).is_none_or(|until| *until <= self.now), "it rests");
            assert!(!self.under_way.iter().any(|other| pair(other) == pair(&row)), "twice");
            assert!(!self.shelved.contains(&pair(&row)), "shelved");
            self.under_way.push(row);
            let own = self.under_way.iter().filter(|other| other.endpoint_id == endpoint).count();
            let lane = &self.lanes.by_endpoint[&endpoint];
            let width = lane.health.circuit.width(settings.cap);
            assert!(own <= width, "{own} under way, {width} allowed");
            let slow = self.under_way.iter().filter(|row| self.is_slow(row.endpoint_id)).count();
            assert!(!self.is_slow(endpoint) || slow <= SLOTS / 2, "{slow} slow ones");
        }
        assert!(self.under_way.len() <= SLOTS);
    }

    /// What the endpoint's circuit, order and rate allow.
    fn check_turn(&mut self, row: &Row) {
        let lane = &self.lanes.by_endpoint[&row.endpoint_id];
        if lane.is_open() {
            assert_eq!(lane.probe, Some(row.event_id), "an open circuit lets its probe go");
            assert!(lane.health.circuit.probe_at().unwrap() <= self.now, "not before its time");
        }
        if row.endpoint_id == ORDERED {
            let waits = |(pair, (_, other)): (&Pair, &(bool, Row))| {
                let counts = self.seen.contains(pair) && !self.shelved.contains(pair);
                (counts && other.endpoint_id == ORDERED).then_some(pair.0)
            };
            let first = self.table.iter().filter_map(waits).min();
            assert!(first.is_none_or(|first| first >= row.event_id), "{first:?} was overtaken");
        }
        if row.endpoint_id == PACED {
            let pause = Duration::from_secs(1).saturating_sub(crate::domain::pace::CATCH_UP);
            let ready = self.paced_at.map(|at| at + pause);
            assert!(ready.is_none_or(|ready| ready <= self.now), "too soon for its rate");
            self.paced_at = Some(self.now);
        }
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
        let signal = match how % 11 {
            _ if !is_there => Signal::Silent,
            0..=5 => Signal::Fails,
            6 => Signal::Busy,
            7 => Signal::Unclear,
            _ => Signal::Works,
        };
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let report = Report { now: self.now, chance: self.chance, ..report(signal, due, took) };
        self.lanes.finish(&row, &report);
        if how % 7 == 1 {
            let until = self.now + Duration::from_secs(20);
            self.lanes.slow_down(row.endpoint_id, until);
            let rests = self.rests.entry(row.endpoint_id).or_default();
            *rests = (*rests).max(until);
        }
    }

    fn put_back(&mut self, which: usize) {
        if let Some(row) = self.take_under_way(which) {
            if row.endpoint_id == PACED {
                self.paced_at = None;
            }
            self.lanes.put_back(row);
        }
    }

    fn shelve(&mut self, which: usize) {
        if let Some(row) = self.take_under_way(which) {
            self.shelved.insert(pair(&row));
            self.lanes.shelve(&row, self.now, 0);
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
        self.park_left();
        self.lanes.remove_shard(shard);
        let ours: Vec<EndpointId> = self
            .settings
            .iter()
            .filter(|(_, settings)| settings.shard == shard)
            .map(|(endpoint, _)| *endpoint)
            .collect();
        self.under_way.retain(|row| !ours.contains(&row.endpoint_id));
        self.staying.retain(|(_, endpoint)| !ours.contains(endpoint));
        self.shelved.retain(|(_, endpoint)| !ours.contains(endpoint));
        self.rests.retain(|endpoint, _| !ours.contains(endpoint));
        if ours.contains(&PACED) {
            self.paced_at = None;
        }
        self.lanes.set_unread(std::iter::once(shard));
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
        let parked = lanes.by_endpoint.iter();
        let parked = parked.filter_map(|(endpoint, lane)| Some((lane.reads_at()?, *endpoint)));
        assert_eq!(lanes.parked, parked.collect::<BTreeSet<_>>());
        let stopped = lanes.by_endpoint.iter();
        let stopped = stopped.filter(|(_, lane)| lane.staying.is_some() && !lane.moves());
        assert_eq!(lanes.stopped, stopped.map(|(endpoint, _)| *endpoint).collect::<BTreeSet<_>>());
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
                let report = Report { now: self.now, ..report(Signal::Works, None, QUICK) };
                self.lanes.finish(&row, &report);
            }
            if self.table.keys().all(|pair| self.shelved.contains(pair)) {
                let lanes = self.lanes.by_endpoint.values();
                let open = lanes.filter(|lane| lane.health.circuit.state() == CircuitState::Open);
                assert!(open.count() <= self.shelved.len(), "well again, and still at rest");
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
