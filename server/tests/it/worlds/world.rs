//! One world from its seed: nodes, receivers, a while of events and mishaps, then peace until
//! nothing waits; and the rules that hold in the end.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use snaphook::{
    domain::{
        attempt::Mark,
        duration,
        endpoint::ScheduleText,
        id::{EndpointId, EventId},
        time::Timestamp,
    },
    faults::Faults,
    store::{Store, StoreError},
};

use super::{
    database::{Recorded, WorldDatabase},
    dice::Dice,
    node::{Condition, Node, Site},
    outside::{Outside, Receiver, Temper, url_of},
};
use crate::support::{
    databases::Kind,
    simulated::{at, event, plant_at},
};

/// When every world begins: later than any real clock of today, since SQLite's ids only rise.
const START: Timestamp = Timestamp::from_seconds(1_900_000_000);

/// As `EngineSettings` has it.
const LEASE: Duration = Duration::from_secs(45);

/// Enough for a node to go on with what it has in hand.
const MOMENT: Duration = Duration::from_millis(1);

/// Rounds in which things happen.
const ROUNDS: usize = 40;

/// Rounds of peace after which all must be over: each rung of each ladder takes a few.
const PEACE: usize = 1_500;

/// The ladders of a world: short ones, for each rung is a few turns.
const LADDERS: &[&[u64]] = &[&[0, 5, 60], &[0, 0, 1, 30], &[0], &[2, 10, 10, 300], &[0, 3_600]];

struct World<'a> {
    database: &'a mut WorldDatabase,
    dice: Dice,
    outside: Arc<Outside>,
    endpoints: Arc<[EndpointId]>,
    ladders: Vec<usize>,
    nodes: Vec<Node>,
    /// The pairs that were committed, with the key of their event.
    committed: Vec<(EventId, EndpointId)>,
    emitted: usize,
}

/// Runs the world of `seed`. Gives what was broken, with all that happened; or the requests that
/// left, if all is well.
pub async fn run(database: &mut WorldDatabase, seed: u64) -> Result<String, String> {
    database.empty().await;
    let mut world = World::new(database, seed).await;
    for _ in 0..ROUNDS {
        world.round().await;
    }
    world.peace().await;
    world.judge().await;
    let story = world.story();
    let complaints = world.outside.complaints();
    if complaints.is_empty() { Ok(story) } else { Err(format!("{complaints:#?}\n{story}")) }
}

impl<'a> World<'a> {
    async fn new(database: &'a mut WorldDatabase, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        database.set_clock(START).await;
        let receivers: Vec<Receiver> = (0..=dice.index(4)).map(|_| receiver(&mut dice)).collect();
        let outside = Outside::new(START, receivers.clone(), Dice::new(dice.bits()));
        let (mut endpoints, mut ladders) = (Vec::new(), Vec::new());
        for (number, receiver) in receivers.iter().enumerate() {
            let made = START + Duration::from_micros(u64::try_from(number).unwrap());
            // One by one, with probes two minutes apart, an hour's rung would take days of a world.
            let rungs = if receiver.ordered { &LADDERS[..LADDERS.len() - 1] } else { LADDERS };
            let ladder = dice.pick(rungs);
            let mut settings = at(&url_of(number));
            settings.max_in_flight = Some(u32::try_from(receiver.cap).unwrap());
            settings.ordered = receiver.ordered;
            settings.timeout = dice.happens(50).then(|| text(dice.below(29) + 1));
            settings.retry_schedule =
                Some(ScheduleText::Pauses(ladder.iter().map(|pause| text(*pause)).collect()));
            endpoints.push(plant_at(&database.store, made, dice.bits(), settings).await);
            ladders.push(ladder.len());
        }
        let endpoints: Arc<[EndpointId]> = endpoints.into();
        let site = Site {
            store: database.store.clone(),
            outside: outside.clone(),
            endpoints: endpoints.clone(),
        };
        // A file has one node.
        let count = if database.kind() == Kind::Sqlite { 1 } else { 1 + dice.index(3) };
        let nodes = (0..count).map(|number| Node::start(number, &site)).collect();
        let committed = Vec::new();
        Self { database, dice, outside, endpoints, ladders, nodes, committed, emitted: 0 }
    }

    /// Time passes, something happens, and every node has a turn.
    async fn round(&mut self) {
        let least = Duration::from_millis(1);
        let most =
            if self.dice.happens(8) { Duration::from_mins(10) } else { Duration::from_secs(8) };
        self.pass(self.dice.clone().time(least, most)).await;
        self.dice.bits();
        if self.dice.happens(45) {
            for _ in 0..=self.dice.below(3) {
                self.emit().await;
            }
        }
        if self.dice.happens(25) {
            self.mishap();
        }
        self.turns().await;
    }

    async fn turns(&mut self) {
        let first = self.dice.index(self.nodes.len());
        self.nodes.rotate_left(first);
        for node in &mut self.nodes {
            node.turn(&mut self.dice).await;
        }
    }

    async fn pass(&mut self, time: Duration) {
        self.outside.pass(time);
        if time > LEASE / 2 {
            // Nobody had a turn in between: all of them were frozen, as far as they can tell.
            self.nodes.iter().for_each(|node| self.outside.mishap(node.number));
        }
        if self.database.kind() == Kind::Postgres {
            self.database.set_clock(self.outside.now()).await;
        }
    }

    /// An event is committed, at times long after it was made; or the program that emits it dies,
    /// comes back and emits it again, as it has a key.
    async fn emit(&mut self) {
        self.outside.pass(Duration::from_micros(2)); // no two are made at the same time
        let late = match self.dice.below(10) {
            0 => self.dice.time(Duration::from_secs(1), Duration::from_mins(3)),
            1 | 2 => self.dice.time(Duration::from_millis(1), Duration::from_millis(900)),
            _ => Duration::ZERO,
        };
        self.database.set_clock(self.outside.now() - late).await;
        self.emitted += 1;
        let key = format!("key-{}", self.emitted);
        let active = self.database.active().await;
        if self.dice.happens(30) {
            let faults = Arc::new(Faults::crash_at(1 + self.dice.below(8)));
            let mortal = self.database.store.with_faults(faults);
            if accept(&mortal, &key).await.is_err() {
                self.check_fan_out(&key, active).await;
            }
        }
        accept(&self.database.store, &key).await.unwrap();
        let (event, _) = self.check_fan_out(&key, active).await.unwrap();
        if late.is_zero() {
            self.outside.commit(event.to_string());
        }
        for (pair_event, endpoint) in self.database.queued().await {
            if pair_event == event {
                self.committed.push((event, endpoint));
            }
        }
        self.database.set_clock(self.outside.now()).await;
    }

    /// An event is there with all of its deliveries, or not at all.
    async fn check_fan_out(&mut self, key: &str, active: i64) -> Option<(EventId, i64)> {
        let found = self.database.fan_out(key).await;
        if let Some((event, deliveries)) = found
            && deliveries != active
        {
            self.outside.complain(format!("{event} has {deliveries} deliveries of {active}"));
        }
        found
    }

    fn mishap(&mut self) {
        let now = self.outside.now();
        let node = self.dice.index(self.nodes.len());
        let node = &mut self.nodes[node];
        if node.condition != Condition::Up || node.cut_until.is_some() {
            return;
        }
        let a_while = self.dice.time(Duration::from_millis(50), Duration::from_mins(3));
        match self.dice.below(4) {
            0 => node.die_in(self.dice.below(25)),
            1 => {
                self.outside.mishap(node.number);
                node.condition = Condition::Frozen(now + a_while);
            }
            2 => {
                self.outside.mishap(node.number);
                node.cut(now + a_while, self.dice.below(10));
            }
            _ => {
                let hours = 3_600_000_000 * self.dice.pick(&[-2, -1, 0, 0, 1, 2]);
                node.skew.store(hours, Ordering::Relaxed);
            }
        }
    }

    /// Nothing bad happens any more, and all that waits is delivered or dies.
    async fn peace(&mut self) {
        for _ in 0..PEACE {
            self.turns().await;
            let busy = self.nodes.iter().any(Node::is_busy);
            if !busy && self.database.waiting().await == 0 {
                return;
            }
            let now = self.outside.now();
            let ends = self.nodes.iter().filter_map(|node| match node.condition {
                Condition::Up => node.cut_until,
                Condition::Dead(until) | Condition::Frozen(until) => Some(until),
            });
            let times = ends.chain(self.outside.next_end());
            let due = self.nodes.iter().filter_map(Node::next_at);
            let next = times.chain(due).filter(|time| *time > now).min();
            // The sweep looks every half minute, and what it may find has no due time.
            let pause = next.map_or(Duration::from_secs(30), |time| time.since(now));
            self.pass(if busy && next.is_none() { MOMENT } else { pause.max(MOMENT) }).await;
        }
    }

    async fn judge(&mut self) {
        let waiting = self.database.waiting().await;
        if waiting > 0 {
            self.outside.complain(format!("{waiting} deliveries never ended"));
        }
        let mut by_pair: BTreeMap<(EventId, EndpointId), Vec<Recorded>> = BTreeMap::new();
        for one in self.database.attempts().await {
            by_pair.entry((one.event, one.endpoint)).or_default().push(one);
        }
        let queued: HashSet<_> = self.database.queued().await.into_iter().collect();
        let mut answered: HashMap<(EventId, EndpointId), (usize, bool)> = HashMap::new();
        for sight in self.outside.sights() {
            let pair = (sight.pair.1.parse().unwrap(), self.endpoints[sight.pair.0]);
            let told = answered.entry(pair).or_default();
            told.0 += 1;
            told.1 |= sight.status.is_some_and(|status| status / 100 == 2);
        }
        for pair in &self.committed {
            let none = Vec::new();
            let attempts = by_pair.get(pair).unwrap_or(&none);
            let (requests, pleased) = answered.get(pair).copied().unwrap_or_default();
            let place = self.endpoints.iter().position(|id| *id == pair.1).unwrap();
            let held = queued.contains(pair);
            for problem in problems(attempts, requests, pleased, held, self.ladders[place]) {
                self.outside.complain(format!("{} to r{place}: {problem}: {attempts:?}", pair.0));
            }
        }
    }

    /// All requests, in the order in which they left.
    fn story(&self) -> String {
        let mut story = String::new();
        for sight in self.outside.sights() {
            let at = |time: Timestamp| time.since(START).as_secs_f64();
            let _ = writeln!(
                story,
                "{:>12.6}–{:<12.6} node {} (life {}) sends {} to r{}: {:?}",
                at(sight.begun),
                at(sight.ends),
                sight.node,
                sight.life,
                sight.pair.1,
                sight.pair.0,
                sight.status,
            );
        }
        story
    }
}

/// What is wrong with a delivery in the end.
fn problems(
    attempts: &[Recorded],
    requests: usize,
    pleased: bool,
    held: bool,
    ladder: usize,
) -> Vec<String> {
    let mut found = Vec::new();
    let is = |one: &Recorded, mark: Mark| one.outcome == i64::from(mark.code());
    let counted: Vec<&Recorded> = attempts.iter().filter(|one| !is(one, Mark::Late)).collect();
    let ends = counted.iter().filter(|one| !is(one, Mark::Retry)).count();
    if ends + usize::from(held) != 1 {
        found.push(format!("it ended {ends} times, and is held: {held}"));
    }
    if counted.last().is_some_and(|last| is(last, Mark::Retry)) && !held {
        found.push("a retry is its last attempt".to_owned());
    }
    if counted.iter().zip(1..).any(|(one, number)| one.number != number) {
        found.push("its attempts are not numbered through".to_owned());
    }
    if counted.iter().any(|one| is(one, Mark::Delivered)) && !pleased {
        found.push("it is delivered, and nobody said yes".to_owned());
    }
    if counted.iter().any(|one| is(one, Mark::Delivered) && one.status / 100 != 2) {
        found.push("it is delivered by another status than 2xx".to_owned());
    }
    if attempts.iter().filter(|one| one.sent).count() > requests {
        found.push(format!("{requests} requests left, and more are on record"));
    }
    let exhausted = counted.last().is_some_and(|last| is(last, Mark::Dead) && last.status != 410);
    let climbed = counted.iter().filter(|one| !one.probe).count();
    if climbed > ladder || exhausted && climbed != ladder {
        found.push(format!("its ladder has {ladder} rungs"));
    }
    found
}

fn receiver(dice: &mut Dice) -> Receiver {
    let temper = match dice.below(10) {
        0..4 => Temper::Good,
        4 | 5 => Temper::Moody(10 + dice.below(80)),
        6 => Temper::Down(START + Duration::from_secs(dice.below(3_600))),
        7 => dice.pick(&[Temper::Dead, Temper::Busy(50)]),
        8 => Temper::Leaving(dice.index(8)),
        _ => Temper::Silent(10 + dice.below(80)),
    };
    let least = Duration::from_micros(200);
    let most = dice.pick(&[10, 500, 3_000, 20_000, 40_000]);
    let takes = (least, Duration::from_millis(most));
    let ordered = dice.happens(25);
    let cap = if ordered { 1 } else { 1 + dice.index(4) };
    Receiver { temper, takes, cap, ordered }
}

fn text(seconds: u64) -> duration::Text {
    duration::Text(Duration::from_secs(seconds))
}

async fn accept(store: &Store, key: &str) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.accept(&event("order.paid", Some(key))).await?;
    tx.commit().await
}
