//! Where an attempt stands and how long each part took.
//!
//! It is shared by everything that an attempt passes through, so that a time-out, which cuts the
//! attempt off from outside, can still say what was waited for and give the times up to then.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Timings;

/// The parts of an attempt, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not a part of its own: reading the request, waiting for one's turn.
    Pool,
    Dns,
    Connect,
    Tls,
    Waiting,
    Reading,
}

impl Phase {
    /// What is waited for, to follow the words "while waiting for".
    pub(super) const fn awaited(self) -> &'static str {
        match self {
            Self::Pool => "a free connection",
            Self::Dns => "the name servers",
            Self::Connect => "a connection",
            Self::Tls => "the TLS handshake",
            Self::Waiting => "the answer, the request being sent",
            Self::Reading => "the rest of the answer's body",
        }
    }
}

/// One attempt's stop-watch.
pub(super) struct Trace(Mutex<State>);

struct State {
    began: Instant,
    phase: Phase,
    since: Instant,
    timings: Timings,
    address: Option<SocketAddr>,
    status: Option<u16>,
}

impl Trace {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self(Mutex::new(State {
            began: now,
            phase: Phase::Pool,
            since: now,
            timings: Timings::default(),
            address: None,
            status: None,
        }))
    }

    /// Ends the running part and begins another. Parts that come twice, as after a stale
    /// connection, add up.
    pub(super) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        state.book();
        state.phase = phase;
    }

    pub(super) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Remembers who is talked to.
    pub(super) fn reached(&self, address: Option<SocketAddr>) {
        self.state().address = address;
    }

    /// Remembers the status that came, in case that the body does not.
    pub(super) fn answered(&self, status: u16) {
        self.state().status = Some(status);
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.state().status
    }

    /// The times up to now, and the address that was talked to.
    pub(super) fn finish(&self) -> (Timings, Option<SocketAddr>) {
        let mut state = self.state();
        state.book();
        state.timings.total = state.since.duration_since(state.began);
        (state.timings, state.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn book(&mut self) {
        let now = Instant::now();
        let took = now.duration_since(self.since);
        if let Some(running) = self.running() {
            *running += took;
        }
        self.since = now;
    }

    fn running(&mut self) -> Option<&mut Duration> {
        match self.phase {
            Phase::Pool => None,
            Phase::Dns => Some(&mut self.timings.dns),
            Phase::Connect => Some(&mut self.timings.connect),
            Phase::Tls => Some(&mut self.timings.tls),
            Phase::Waiting => Some(&mut self.timings.waiting),
            Phase::Reading => Some(&mut self.timings.reading),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let trace = Trace::start();
        for phase in [Phase::Dns, Phase::Connect, Phase::Waiting, Phase::Dns] {
            trace.enter(phase);
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(1) {}
        }

        let (timings, address) = trace.finish();

        let Timings { dns, connect, tls, waiting, reading, total } = timings;
        assert!(dns >= Duration::from_millis(2), "a part that came twice: {dns:?}");
        assert_eq!(tls + reading, Duration::ZERO, "parts that did not take place");
        let sum = dns + connect + waiting;
        assert!(sum <= total && sum + Duration::from_millis(1) > total, "{sum:?} of {total:?}");
        assert_eq!(address, None);
    }
}
