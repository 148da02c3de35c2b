//! What surrounds the nodes of a world: one true time, receivers that answer by chance, and the
//! list of all requests that ever left. Each rule that a request can break as it leaves is looked
//! at here.

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use snaphook::{
    domain::{outcome::Plain, time::Timestamp},
    world::{Boxed, Request, Response, SendError, Sent, Timings, World},
};

use super::dice::Dice;

/// How a receiver is.
#[derive(Clone, Copy, Debug)]
pub enum Temper {
    /// Says yes.
    Good,
    /// Says no this often.
    Moody(u64),
    /// Says no until then, and yes afterwards.
    Down(Timestamp),
    /// Always says no.
    Dead,
    /// Asks for a pause this often.
    Busy(u64),
    /// Is gone for good after so many requests.
    Leaving(usize),
    /// Closes the connection, or never answers, this often.
    Silent(u64),
}

/// A receiver, and what its endpoint says of it.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub temper: Temper,
    /// How long it takes, from and to.
    pub takes: (Duration, Duration),
    /// Requests that may be under way at once.
    pub cap: usize,
    /// Whether its events go one by one, in their order.
    pub ordered: bool,
}

/// A request that left.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Which receiver, and of which event.
    pub pair: (usize, String),
    /// By which node, in which of its lives.
    pub node: usize,
    pub life: u32,
    /// When it left, and when it was over, by the true time.
    pub begun: Timestamp,
    pub ends: Timestamp,
    /// The receiver's status; `None` when it gave none.
    pub status: Option<u16>,
    /// When its node heard that it is on record.
    pub recorded: Option<Timestamp>,
    /// Whether a node that was away may yet record an earlier request, and so overtake this one.
    pub shadowed: bool,
}

/// What became of a request on record.
#[derive(Clone, Copy, Debug)]
pub enum Became {
    Over,
    Due(Timestamp),
    Late,
}

/// What the outside knows, which is more than any node does.
#[derive(Default)]
struct Known {
    sights: Vec<Sight>,
    requests: HashMap<usize, usize>,
    /// What a node has on record as ended: nothing may leave for it any more.
    ended: HashSet<(usize, String)>,
    /// Events that were committed at the time of their ids: whoever reads a later one has read
    /// them. What commits late may be overtaken by what went before it was there to be seen.
    prompt: HashSet<String>,
    /// When a pair may be attempted again, by the clock of the database.
    due: HashMap<(usize, String), Timestamp>,
    /// When a node last had a mishap that explains a request that is made twice.
    mishaps: HashMap<usize, Timestamp>,
    /// The present life of each node: what an earlier one sent died with it.
    lives: HashMap<usize, u32>,
    broken: Vec<String>,
}

/// The outside of one world.
pub struct Outside {
    now: AtomicI64,
    receivers: Vec<Receiver>,
    dice: Mutex<Dice>,
    known: Mutex<Known>,
}

impl Outside {
    pub fn new(start: Timestamp, receivers: Vec<Receiver>, dice: Dice) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicI64::new(start.0),
            receivers,
            dice: Mutex::new(dice),
            known: Mutex::default(),
        })
    }

    /// The true time, which is the database's too.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    pub fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// A node crashed, froze, lost its connections: what it had under way may be sent again.
    pub fn mishap(&self, node: usize) {
        self.known.lock().unwrap().mishaps.insert(node, self.now());
    }

    /// A node starts again: its old connections are closed.
    pub fn begin_life(&self, node: usize) -> u32 {
        let mut known = self.known.lock().unwrap();
        let life = known.lives.entry(node).or_default();
        *life += 1;
        *life
    }

    /// A node has heard what became of a request: it is due again then, or over; or, as it came
    /// late, nothing.
    pub fn record(&self, node: usize, pair: (usize, String), became: Became) {
        let mut known = self.known.lock().unwrap();
        let of_this = |one: &&mut Sight| one.node == node && one.pair == pair;
        if let Some(sight) = known.sights.iter_mut().rev().find(of_this) {
            sight.recorded = Some(self.now());
        }
        match became {
            Became::Over => drop(known.ended.insert(pair)),
            Became::Due(due) => drop(known.due.insert(pair, due)),
            Became::Late => {}
        }
    }

    /// A request goes as the probe of an open circuit: it may leave before its time.
    pub fn expect_probe(&self, pair: &(usize, String)) {
        self.known.lock().unwrap().due.remove(pair);
    }

    /// An event was committed at the time of its id.
    pub fn commit(&self, event: String) {
        self.known.lock().unwrap().prompt.insert(event);
    }

    /// All requests that left.
    pub fn sights(&self) -> Vec<Sight> {
        self.known.lock().unwrap().sights.clone()
    }

    /// The soonest end of a request that is under way.
    pub fn next_end(&self) -> Option<Timestamp> {
        let now = self.now();
        let known = self.known.lock().unwrap();
        known.sights.iter().map(|sight| sight.ends).filter(|ends| *ends > now).min()
    }

    /// A rule was broken.
    pub fn complain(&self, what: String) {
        self.known.lock().unwrap().broken.push(what);
    }

    /// The rules that were broken.
    pub fn complaints(&self) -> Vec<String> {
        self.known.lock().unwrap().broken.clone()
    }

    /// Takes note of a request, judges it, and decides what comes of it.
    fn receive(&self, node: usize, life: u32, wall: Timestamp, request: &Request) -> Sight {
        let now = self.now();
        let endpoint = number_of(&request.url);
        let event = request.headers["webhook-id"].to_str().unwrap().to_owned();
        let receiver = &self.receivers[endpoint];
        let mut known = self.known.lock().unwrap();
        let count = known.requests.entry(endpoint).or_default();
        *count += 1;
        let (status, takes) = receiver.answer(*count, now, &mut self.dice.lock().unwrap());
        let over = takes >= request.timeout;
        let sight = Sight {
            pair: (endpoint, event.clone()),
            node,
            life,
            begun: now,
            ends: now + takes.min(request.timeout),
            status: status.filter(|_| !over),
            recorded: None,
            shadowed: known.is_shadowed(endpoint, &event),
        };
        let complaints = known.judge(&sight, receiver, wall);
        known.broken.extend(complaints);
        known.sights.push(sight.clone());
        sight
    }
}

impl Known {
    fn had_mishap(&self, sight: &Sight) -> bool {
        self.mishaps.get(&sight.node).is_some_and(|mishap| *mishap >= sight.begun)
    }

    /// Whether a later event went before this one.
    fn is_overtaken(&self, sight: &Sight) -> bool {
        let later = |one: &&Sight| one.pair.0 == sight.pair.0 && one.pair.1 > sight.pair.1;
        self.prompt.contains(&sight.pair.1) && self.sights.iter().any(|one| later(&one))
    }

    /// Whether a node that was away may have this one in hand, too: it has not recorded what it
    /// did, or only after it was away, when its heir had read the row already.
    fn is_shadowed(&self, endpoint: usize, event: &str) -> bool {
        let of_this: Vec<&Sight> = self
            .sights
            .iter()
            .filter(|one| one.pair.0 == endpoint && one.pair.1 == event)
            .collect();
        let loose = |sight: &&&Sight| {
            let lives = self.lives.get(&sight.node) == Some(&sight.life);
            let sent_since = |at: Timestamp| of_this.iter().any(|other| other.begun >= at);
            let away = self.mishaps.get(&sight.node).copied();
            let recorded = sight.recorded;
            lives
                && recorded.is_none_or(|at| away.is_some_and(|away| at >= away) && !sent_since(at))
        };
        of_this.iter().filter(loose).any(|one| self.had_mishap(one))
    }

    fn judge(&self, sight: &Sight, receiver: &Receiver, wall: Timestamp) -> Vec<String> {
        let mut broken = Vec::new();
        let mut complain = |what: &str| broken.push(format!("{what}: {sight:?}"));
        let open = self.sights.iter().filter(|other| {
            other.pair.0 == sight.pair.0
                && other.ends > sight.begun
                && self.lives.get(&other.node) == Some(&other.life)
        });
        let open: Vec<&Sight> = open.collect();
        if open.len() >= receiver.cap {
            complain(&format!("over the cap of {}", receiver.cap));
        }
        if open.iter().any(|other| other.pair == sight.pair) {
            complain("twice at the same time");
        }
        if receiver.ordered && self.is_overtaken(sight) {
            complain("after a later event of an ordered endpoint");
        }
        // A node that was away may record what it did when its heir has the row in hand already,
        // or has sent it.
        let explained = |one: &Sight| one.shadowed || self.had_mishap(one);
        let last = self.sights.iter().rev().find(|other| other.pair == sight.pair);
        let early = self.due.get(&sight.pair).is_some_and(|due| *due > wall);
        if early && !last.is_some_and(explained) {
            complain("before its time");
        }
        if last.is_some_and(|last| self.ended.contains(&sight.pair) && !explained(last)) {
            complain("after its end");
        }
        let pleased = self.sights.iter().rev().find(|other| {
            other.pair == sight.pair && other.status.is_some_and(|status| status / 100 == 2)
        });
        if pleased.is_some_and(|one| !explained(one)) {
            complain("again after a yes that nothing has lost");
        }
        broken
    }
}

impl Receiver {
    fn answer(&self, count: usize, now: Timestamp, dice: &mut Dice) -> (Option<u16>, Duration) {
        let takes = dice.time(self.takes.0, self.takes.1);
        let no = dice.pick(&[500, 502, 404, 301, 400]);
        let status = match self.temper {
            Temper::Good => Some(204),
            Temper::Moody(often) => Some(if dice.happens(often) { no } else { 200 }),
            Temper::Down(until) => Some(if now < until { no } else { 200 }),
            Temper::Dead => Some(no),
            Temper::Busy(often) => {
                Some(if dice.happens(often) { dice.pick(&[429, 503]) } else { 200 })
            }
            Temper::Leaving(after) => Some(if count > after { 410 } else { 200 }),
            Temper::Silent(often) if dice.happens(often) => None,
            Temper::Silent(_) => Some(200),
        };
        (status, takes)
    }
}

/// The URL of the `number`th receiver.
pub fn url_of(number: usize) -> String {
    format!("https://r{number}.example/")
}

fn number_of(url: &str) -> usize {
    let digits: String = url.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// One node's view of the outside: its wall clock may be wrong.
pub struct View {
    pub outside: Arc<Outside>,
    pub node: usize,
    pub life: u32,
    /// What to add to the true time to get this node's wall clock, in microseconds.
    pub skew: Arc<AtomicI64>,
    pub chance: AtomicU64,
    /// Whether due times go by this node's wall clock rather than by the true time; then by the
    /// latest that it ever showed, for what was due once is not put off by a clock set back.
    pub counts_by_wall: bool,
    pub latest: Arc<AtomicI64>,
}

impl World for View {
    fn now(&self) -> Timestamp {
        let wall = self.outside.now().0 + self.skew.load(Ordering::Relaxed);
        self.latest.fetch_max(wall, Ordering::Relaxed);
        Timestamp(wall)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.outside.now().0.cast_unsigned())
    }

    fn random(&self) -> u64 {
        let next = self.chance.fetch_add(1, Ordering::Relaxed);
        Dice::new(next).bits()
    }

    fn send(&self, request: Request) -> Boxed<'_, Sent> {
        let wall = self.now().0;
        let latest = self.latest.fetch_max(wall, Ordering::Relaxed).max(wall);
        let wall = if self.counts_by_wall { Timestamp(latest) } else { self.outside.now() };
        let sight = self.outside.receive(self.node, self.life, wall, &request);
        let over =
            poll_fn(
                move |_| {
                    if self.outside.now() >= sight.ends { Poll::Ready(()) } else { Poll::Pending }
                },
            );
        Box::pin(async move {
            over.await;
            let total = self.outside.now().since(sight.begun);
            let result = match sight.status {
                Some(status) => Ok(response(status)),
                None if total >= request.timeout => {
                    Err(SendError::new(Plain::TimeoutTotal, "no answer in time"))
                }
                None => Err(SendError::new(Plain::ClosedEarly, "closed")),
            };
            Sent { result, timings: Timings { total, ..Timings::default() }, address: None }
        })
    }
}

fn response(status: u16) -> Response {
    let mut headers = HeaderMap::new();
    if status == 503 {
        headers.insert("retry-after", HeaderValue::from_static("30"));
    }
    Response { status, headers, body: Bytes::from_static(b"noted"), truncated: false }
}
