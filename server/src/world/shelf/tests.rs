use std::{cell::Cell, rc::Rc};

use proptest::prelude::*;

use super::*;

/// A connection of paper.
#[derive(Clone)]
struct Paper {
    name: u32,
    opened: Instant,
    room: usize,
    open: Rc<Cell<bool>>,
}

impl Seatable for Paper {
    fn is_open(&self) -> bool {
        self.open.get()
    }
    fn opened(&self) -> Instant {
        self.opened
    }
    fn room(&self) -> usize {
        self.room
    }
    fn share(&self) -> Option<Self> {
        (self.room > 1).then(|| self.clone())
    }
}

const IDLE: Duration = Duration::from_secs(30);
const AGE: Duration = Duration::from_mins(1);

fn shelf() -> (Shelf<&'static str, Paper>, Instant) {
    (Shelf::new(IDLE, AGE), Instant::now())
}

fn paper(name: u32, opened: Instant, room: usize) -> Paper {
    Paper { name, opened, room, open: Rc::new(Cell::new(true)) }
}

/// Makes a connection and gives it back.
fn put(shelf: &mut Shelf<&'static str, Paper>, key: &'static str, paper: &Paper, now: Instant) {
    let mut ticket = shelf.admit(&key);
    shelf.settle(&key, &mut ticket, paper);
    shelf.put_back(&key, &ticket, Some(paper.clone()), now);
}

fn take(shelf: &mut Shelf<&'static str, Paper>, key: &'static str, now: Instant) -> Option<u32> {
    shelf.take(&key, now).map(|(paper, _)| paper.name)
}

#[test]
fn the_connection_used_last_is_used_first() {
    let (mut shelf, now) = shelf();
    put(&mut shelf, "a", &paper(1, now, 1), now);
    put(&mut shelf, "a", &paper(2, now, 1), now);
    assert_eq!(take(&mut shelf, "a", now), Some(2));
    assert_eq!(take(&mut shelf, "a", now), Some(1));
    assert_eq!(take(&mut shelf, "a", now), None);
    assert_eq!(take(&mut shelf, "b", now), None, "another host");
}

#[test]
fn time_closes_connections() {
    for (idle, age, expected, why) in [
        (29, 59, Some(1), "inside both limits"),
        (30, 40, None, "idle too long"),
        (1, 60, None, "too old, however busy"),
    ] {
        let (mut shelf, start) = shelf();
        let (at, end) = (start + Duration::from_secs(age - idle), start + Duration::from_secs(age));
        put(&mut shelf, "a", &paper(1, start, 1), at);
        assert_eq!(take(&mut shelf, "a", end), expected, "{why}");
    }
}

#[test]
fn a_closed_connection_is_not_handed_out() {
    let (mut shelf, now) = shelf();
    let closed = paper(1, now, 1);
    put(&mut shelf, "a", &closed, now);
    closed.open.set(false);
    assert_eq!(take(&mut shelf, "a", now), None);
}

#[test]
fn a_shared_connection_is_handed_out_up_to_its_room() {
    let (mut shelf, now) = shelf();
    let mut first = shelf.admit(&"a");
    shelf.settle(&"a", &mut first, &paper(1, now, 3));
    assert_eq!(shelf.kind(&"a"), Kind::Many);
    let (_, second) = shelf.take(&"a", now).unwrap();
    let (_, third) = shelf.take(&"a", now).unwrap();
    assert!(shelf.take(&"a", now).is_none(), "no room for a fourth");

    shelf.put_back(&"a", &second, None, now);
    assert!(shelf.take(&"a", now).is_some(), "room again");

    shelf.put_back(&"a", &first, None, now);
    shelf.put_back(&"a", &third, None, now);
    assert!(!shelf.evict(), "one still uses it");
}

#[test]
fn the_one_idle_longest_over_all_hosts_goes_first() {
    let (mut shelf, now) = shelf();
    for (name, key, room) in [(1, "a", 1), (2, "b", 5), (3, "a", 1)] {
        put(&mut shelf, key, &paper(name, now, room), now);
    }
    assert_eq!(take(&mut shelf, "a", now), Some(3));
    assert!(shelf.evict());
    assert_eq!(take(&mut shelf, "a", now), None, "number 1 is gone");
    assert!(shelf.evict());
    assert_eq!(take(&mut shelf, "b", now), None, "number 2 is gone");
    assert!(!shelf.evict(), "number 3 is in use");
}

#[test]
fn what_was_forgotten_while_in_use_does_not_come_back() {
    for room in [1, 5] {
        let (mut shelf, now) = shelf();
        put(&mut shelf, "a", &paper(1, now, room), now);
        put(&mut shelf, "b", &paper(2, now, room), now);
        let (used, ticket) = shelf.take(&"a", now).unwrap();

        shelf.forget(|key| *key == "a");

        shelf.put_back(&"a", &ticket, Some(used), now);
        assert_eq!(take(&mut shelf, "a", now), None, "room {room}");
        assert_eq!(take(&mut shelf, "b", now), Some(2), "room {room}: another host stays");
    }
}

#[test]
fn nothing_is_left_of_hosts_without_connections() {
    let (mut shelf, now) = shelf();
    for room in [1, 5] {
        put(&mut shelf, "a", &paper(1, now, room), now);
        let ticket = shelf.admit(&"b");
        shelf.put_back(&"b", &ticket, None, now);

        shelf.sweep(now + IDLE);

        assert!(shelf.hosts.is_empty() && shelf.line.is_empty(), "room {room}");
    }
}

/// One thing that can happen to a shelf; numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Event {
    Take(usize),
    Make { host: usize, room: usize },
    GiveBack { which: usize, kept: bool },
    Close(usize),
    Evict,
    Forget(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Event::Take),
        4 => (0..3_usize, 1..4_usize).prop_map(|(host, room)| Event::Make { host, room }),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(which, kept)| Event::GiveBack { which, kept }),
        1 => any::<usize>().prop_map(Event::Close),
        1 => Just(Event::Evict),
        1 => (0..3_usize).prop_map(Event::Forget),
        2 => (1..20_u64).prop_map(Event::Wait),
    ]
}

/// A shelf, and what its users hold.
struct Play {
    shelf: Shelf<&'static str, Paper>,
    held: Vec<(&'static str, Paper, Ticket)>,
    made: Vec<Paper>,
    now: Instant,
}

impl Play {
    fn step(&mut self, event: Event) {
        const HOSTS: [&str; 3] = ["a", "b", "c"];
        match event {
            Event::Take(host) => {
                if let Some((paper, ticket)) = self.shelf.take(&HOSTS[host], self.now) {
                    assert!(paper.open.get() && self.now - paper.opened < AGE);
                    self.held.push((HOSTS[host], paper, ticket));
                }
            }
            Event::Make { host, room } => {
                let made = paper(u32::try_from(self.made.len()).unwrap(), self.now, room);
                let mut ticket = self.shelf.admit(&HOSTS[host]);
                self.shelf.settle(&HOSTS[host], &mut ticket, &made);
                self.made.push(made.clone());
                self.held.push((HOSTS[host], made, ticket));
            }
            Event::GiveBack { which, kept } if !self.held.is_empty() => {
                let (key, paper, ticket) = self.held.swap_remove(which % self.held.len());
                self.shelf.put_back(&key, &ticket, kept.then_some(paper), self.now);
            }
            Event::Close(which) if !self.made.is_empty() => {
                self.made[which % self.made.len()].open.set(false);
            }
            Event::Evict => drop(self.shelf.evict()),
            Event::Forget(host) => self.shelf.forget(|key| *key == HOSTS[host]),
            Event::Wait(seconds) => self.now += Duration::from_secs(seconds),
            Event::GiveBack { .. } | Event::Close(_) => {}
        }
    }

    /// The line and the seats tell the same, and no connection has more users than room.
    fn check(&self) {
        let seats = || self.shelf.hosts.values().flat_map(|host| &host.seats);
        let resting: Vec<u64> =
            seats().filter_map(|seat| seat.resting).map(|(turn, _)| turn).collect();
        assert_eq!(resting.len(), self.shelf.line.len());
        assert!(resting.iter().all(|turn| self.shelf.line.contains_key(turn)));
        for seat in seats() {
            assert_eq!(seat.resting.is_none(), seat.users > 0);
        }
        for paper in &self.made {
            let users = self.held.iter().filter(|(_, held, _)| held.name == paper.name).count();
            assert!(users <= paper.room, "{users} users of {}", paper.room);
        }
        let tickets: usize = self.shelf.hosts.values().map(|host| host.tickets).sum();
        assert_eq!(tickets, self.held.len());
    }
}

proptest! {
    #[test]
    fn in_whatever_order_things_happen_the_books_are_right(
        events in proptest::collection::vec(event(), 0..200)
    ) {
        let (shelf, now) = shelf();
        let mut play = Play { shelf, held: Vec::new(), made: Vec::new(), now };
        for event in events {
            play.step(event);
            play.check();
        }
        while let Some((key, paper, ticket)) = play.held.pop() {
            play.shelf.put_back(&key, &ticket, Some(paper), play.now);
        }
        play.shelf.sweep(play.now + AGE);
        prop_assert!(play.shelf.hosts.is_empty() && play.shelf.line.is_empty());
    }
}
