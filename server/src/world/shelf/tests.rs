use std::{cell::Cell, rc::Rc};

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
