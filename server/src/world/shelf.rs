//! Which connections are open, to whom, and who uses them. Pure bookkeeping: no I/O, no clock of
//! its own, so that a test can play every order of events.
//!
//! A connection that takes one request at a time leaves the shelf while it is used. One that
//! takes many stays, and counts its users. Those that nobody uses stand in one line over all
//! hosts, by when they were put down: the first in line goes when room is needed.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// What the shelf must know of a connection.
pub(super) trait Seatable: Sized {
    /// Whether it can take a request, as far as is known.
    fn is_open(&self) -> bool;
    /// When it was made.
    fn opened(&self) -> Instant;
    /// How many requests it takes at once.
    fn room(&self) -> usize;
    /// Another handle on it, if it takes many.
    fn share(&self) -> Option<Self>;
}

/// How many requests a host's connections take at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// None was made yet.
    #[default]
    Unknown,
    One,
    Many,
}

/// The right to use one connection, to be given back with `put_back`.
#[derive(Debug)]
pub(super) struct Ticket {
    born: u64,
    seat: Option<u64>,
}

/// The connections by host, which is whatever `K` tells apart.
pub(super) struct Shelf<K, C> {
    hosts: HashMap<K, Host<C>>,
    /// The line of those that nobody uses, by the number of their turn.
    line: BTreeMap<u64, K>,
    /// Never given twice.
    next: u64,
    idle: Duration,
    age: Duration,
}

struct Host<C> {
    /// Changes when the host is forgotten; tickets from before then bring nothing back.
    born: u64,
    tickets: usize,
    kind: Kind,
    seats: Vec<Seat<C>>,
}

struct Seat<C> {
    number: u64,
    connection: C,
    users: usize,
    /// Its turn and since when, while nobody uses it.
    resting: Option<(u64, Instant)>,
}

impl<C: Seatable> Seat<C> {
    /// Whether it may take a request.
    fn stays(&self, now: Instant, idle: Duration, age: Duration) -> bool {
        let is_young = now.duration_since(self.connection.opened()) < age;
        let is_fresh = self.resting.is_none_or(|(_, since)| now.duration_since(since) < idle);
        is_young && is_fresh && self.connection.is_open()
    }
}

impl<K: Clone + Eq + Hash, C: Seatable> Shelf<K, C> {
    /// Connections are closed when nobody used them for `idle`, and take no new request once they
    /// are `age` old.
    pub(super) fn new(idle: Duration, age: Duration) -> Self {
        Self { hosts: HashMap::new(), line: BTreeMap::new(), next: 0, idle, age }
    }

    /// A connection to `key` that can be used at once, the one used last first, so that the
    /// others may grow old.
    pub(super) fn take(&mut self, key: &K, now: Instant) -> Option<(C, Ticket)> {
        let (idle, age) = (self.idle, self.age);
        let host = self.hosts.get_mut(key)?;
        // Only what would be taken is looked at: a busy host has hundreds, and the sweep sees to
        // the others. What is past its time and in use stays until it is given back.
        let place = loop {
            let place = host.seats.iter().rposition(|seat| seat.users < seat.connection.room())?;
            if host.seats[place].stays(now, idle, age) {
                break place;
            }
            let seat = host.seats.remove(place);
            if let Some((turn, _)) = seat.resting {
                self.line.remove(&turn);
            }
        };
        let seat = &mut host.seats[place];
        if let Some((turn, _)) = seat.resting.take() {
            self.line.remove(&turn);
        }
        host.tickets += 1;
        let mut ticket = Ticket { born: host.born, seat: None };
        let connection = match seat.connection.share() {
            Some(handle) => {
                seat.users += 1;
                ticket.seat = Some(seat.number);
                handle
            }
            None => host.seats.remove(place).connection,
        };
        Some((connection, ticket))
    }

    /// A ticket for a connection that is about to be made.
    pub(super) fn admit(&mut self, key: &K) -> Ticket {
        let born = self.count();
        let host = self.hosts.entry(key.clone()).or_insert_with(|| Host {
            born,
            tickets: 0,
            kind: Kind::Unknown,
            seats: Vec::new(),
        });
        host.tickets += 1;
        Ticket { born: host.born, seat: None }
    }

    /// The connection was made. If it takes many requests, others may use it from now on.
    pub(super) fn settle(&mut self, key: &K, ticket: &mut Ticket, connection: &C) {
        let number = self.count();
        let Some(host) = self.hosts.get_mut(key) else { return };
        let Some(handle) = connection.share() else {
            host.kind = Kind::One;
            return;
        };
        host.kind = Kind::Many;
        if host.born == ticket.born {
            ticket.seat = Some(number);
            host.seats.push(Seat { number, connection: handle, users: 1, resting: None });
        }
    }

    /// Gives a ticket back, with the connection if it can be used again.
    pub(super) fn put_back(
        &mut self,
        key: &K,
        ticket: &Ticket,
        connection: Option<C>,
        now: Instant,
    ) {
        let turn = self.count();
        let Some(host) = self.hosts.get_mut(key) else { return };
        host.tickets -= 1;
        if host.born == ticket.born {
            match (ticket.seat, connection) {
                (Some(number), _) => {
                    if let Some(seat) = host.seats.iter_mut().find(|seat| seat.number == number) {
                        seat.users -= 1;
                        if seat.users == 0 {
                            seat.resting = Some((turn, now));
                            self.line.insert(turn, key.clone());
                        }
                    }
                }
                (None, Some(connection)) => {
                    let resting = Some((turn, now));
                    host.seats.push(Seat { number: turn, connection, users: 0, resting });
                    self.line.insert(turn, key.clone());
                }
                (None, None) => {}
            }
        }
        self.drop_if_empty(key);
    }

    /// Closes the connection that nobody has used for longest. False if all are in use.
    pub(super) fn evict(&mut self) -> bool {
        let Some((turn, key)) = self.line.pop_first() else { return false };
        if let Some(host) = self.hosts.get_mut(&key) {
            host.seats.retain(|seat| seat.resting.is_none_or(|(other, _)| other != turn));
            self.drop_if_empty(&key);
        }
        true
    }

    /// Closes what is past its time, and forgets hosts without connections.
    pub(super) fn sweep(&mut self, now: Instant) {
        let keys: Vec<K> = self.hosts.keys().cloned().collect();
        for key in keys {
            self.prune(&key, now);
        }
    }

    /// Closes all connections to the hosts that `is_meant`, those in use as soon as they are
    /// given back.
    pub(super) fn forget(&mut self, is_meant: impl Fn(&K) -> bool) {
        let keys: Vec<K> = self.hosts.keys().filter(|key| is_meant(key)).cloned().collect();
        for key in keys {
            let born = self.count();
            let Some(host) = self.hosts.get_mut(&key) else { continue };
            host.born = born;
            for (turn, _) in host.seats.drain(..).filter_map(|seat| seat.resting) {
                self.line.remove(&turn);
            }
            self.drop_if_empty(&key);
        }
    }

    pub(super) fn kind(&self, key: &K) -> Kind {
        self.hosts.get(key).map_or(Kind::Unknown, |host| host.kind)
    }

    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn prune(&mut self, key: &K, now: Instant) {
        let (idle, age) = (self.idle, self.age);
        let Some(host) = self.hosts.get_mut(key) else { return };
        host.seats.retain(|seat| {
            let stays = seat.stays(now, idle, age);
            if let (false, Some((turn, _))) = (stays, seat.resting) {
                self.line.remove(&turn);
            }
            stays
        });
        self.drop_if_empty(key);
    }

    fn drop_if_empty(&mut self, key: &K) {
        if self.hosts.get(key).is_some_and(|host| host.tickets == 0 && host.seats.is_empty()) {
            self.hosts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
