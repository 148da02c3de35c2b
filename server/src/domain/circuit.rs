//! The circuit of one endpoint. Closed: requests flow. Open: they rest, for the last ones all
//! failed, and now and then one goes as a probe. Half-open: a probe has passed, and more go step
//! by step. Pure: it is told the time and what attempts came to.
//!
//! ```text
//!           5 deliveries fail in a row                a probe passes
//!  closed ────────────────────────────► open ──────────────────────────► half-open
//!    ▲                                   │ ▲ a probe fails: twice the wait   │ │
//!    │                                   └─┘                                 │ │
//!    │                                    ▲ one fails: twice the wait        │ │
//!    │                                    └──────────────────────────────────┘ │
//!    └─────────────────── 1, 2, 4 … at once, up to its cap ─────────────────────┘
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{duration::Text, id::EventId, retry::Jitter, signal::Signal, time::Timestamp};

/// When circuits open, and when they are probed: `circuit.*` of the settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitRules {
    /// Distinct deliveries that fail in a row before it opens.
    pub open_after: usize,
    /// The wait before the first probe. Each later one is twice as long,
    pub probe_first: Duration,
    /// up to this.
    pub probe_max: Duration,
    /// The part of a wait that chance may add.
    pub jitter: Jitter,
}

impl Default for CircuitRules {
    fn default() -> Self {
        Self {
            open_after: 5,
            probe_first: Duration::from_secs(30),
            probe_max: Duration::from_mins(30),
            jitter: Jitter::default(),
        }
    }
}

coded! {
    /// How a circuit stands.
    CircuitState {
        /// Requests flow.
        Closed = 0, "closed";
        /// They rest; one goes now and then.
        Open = 1, "open";
        /// One has passed; more go step by step.
        HalfOpen = 2, "half_open";
    }
}

/// An endpoint's circuit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Circuit {
    /// Requests flow.
    Closed {
        /// The deliveries that failed since the last success, each once. Not kept over a restart:
        /// what it costs is a few attempts more.
        #[serde(skip)]
        failed: Vec<EventId>,
    },
    /// Requests rest.
    Open {
        /// Since when.
        since: Timestamp,
        /// When the next one may go, to see.
        probe_at: Timestamp,
        /// How long it waits between two probes, as of now.
        wait: Text,
        /// The event of the last probe that failed: the next takes the oldest delivery behind it,
        /// so that one event which its receiver never takes does not keep it open.
        probed: Option<EventId>,
    },
    /// Requests go step by step.
    HalfOpen {
        /// Since when.
        since: Timestamp,
        /// The wait that was the last.
        wait: Text,
        /// How many may be under way at once.
        #[serde(skip, default = "one")]
        width: usize,
        /// How many have passed at this width.
        #[serde(skip)]
        passed: usize,
    },
}

const fn one() -> usize {
    1
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed { failed: Vec::new() }
    }
}

/// An attempt that is over, as a circuit sees it.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// What it says of the endpoint.
    pub signal: Signal,
    /// Of which event.
    pub event: EventId,
    /// Whether it went as the probe of an open circuit.
    pub probe: bool,
    /// How many the endpoint may have under way.
    pub cap: usize,
    /// Whether nothing else waits that could go now.
    pub idle: bool,
    /// When it was over.
    pub now: Timestamp,
    /// 64 random bits.
    pub chance: u64,
}

impl Circuit {
    /// How it stands.
    pub const fn state(&self) -> CircuitState {
        match self {
            Self::Closed { .. } => CircuitState::Closed,
            Self::Open { .. } => CircuitState::Open,
            Self::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Since when it is not closed.
    pub const fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { since, .. } | Self::HalfOpen { since, .. } => Some(*since),
        }
    }

    /// When the next probe may go, if it is open.
    pub const fn probe_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open { probe_at, .. } => Some(*probe_at),
            _ => None,
        }
    }

    /// How many requests it lets be under way at once, of the `cap` that the endpoint has.
    pub fn width(&self, cap: usize) -> usize {
        match self {
            Self::Closed { .. } => cap,
            Self::Open { .. } => cap.min(1),
            Self::HalfOpen { width, .. } => cap.min(*width),
        }
    }

    /// Lets the next probe go at once. False when it is not open.
    pub fn probe_now(&mut self, now: Timestamp) -> bool {
        let Self::Open { probe_at, .. } = self else { return false };
        *probe_at = (*probe_at).min(now);
        true
    }

    /// Closes it if it is half-open: there is nobody left that a step could hold back.
    pub fn close_idle(&mut self) -> bool {
        let closes = self.state() == CircuitState::HalfOpen;
        if closes {
            *self = Self::default();
        }
        closes
    }

    /// The clock was set back: the next probe waits as long as it would have.
    pub fn turn_back(&mut self, by: Duration) {
        if let Self::Open { probe_at, .. } = self {
            *probe_at = *probe_at - by;
        }
    }

    /// Learns from an attempt. Tells whether it changed in a way that must outlive the process.
    pub fn learn(&mut self, passage: &Passage, rules: &CircuitRules) -> bool {
        match self {
            Self::Closed { .. } => self.learn_closed(passage, rules),
            Self::Open { .. } => self.learn_open(passage, rules),
            Self::HalfOpen { .. } => self.learn_half_open(passage, rules),
        }
    }

    fn learn_closed(&mut self, passage: &Passage, rules: &CircuitRules) -> bool {
        let Self::Closed { failed } = self else { return false };
        match passage.signal {
            Signal::Works | Signal::Answers => failed.clear(),
            // One delivery that fails again and again says nothing about the others.
            Signal::Fails if !failed.contains(&passage.event) => failed.push(passage.event),
            _ => {}
        }
        if failed.len() < rules.open_after {
            return false;
        }
        *self = opened(passage.now, rules.probe_first, None, passage, rules);
        true
    }

    /// What began before it opened decides nothing; only its probe does.
    fn learn_open(&mut self, passage: &Passage, rules: &CircuitRules) -> bool {
        let Self::Open { since, wait, .. } = self else { return false };
        let (since, wait) = (*since, wait.0);
        if !passage.probe {
            return false;
        }
        *self = match passage.signal {
            Signal::Works | Signal::Answers => step(since, wait, 0, 0, passage),
            Signal::Fails => {
                opened(since, longer(wait, rules), Some(passage.event), passage, rules)
            }
            // It is there, or we cannot tell: the same wait again.
            Signal::Busy | Signal::Unclear => {
                opened(since, wait, Some(passage.event), passage, rules)
            }
            // Another delivery takes the probe's place, at once.
            Signal::Silent => return false,
        };
        true
    }

    fn learn_half_open(&mut self, passage: &Passage, rules: &CircuitRules) -> bool {
        let Self::HalfOpen { since, wait, width, passed } = *self else { return false };
        *self = match passage.signal {
            Signal::Works | Signal::Answers => step(since, wait.0, width, passed + 1, passage),
            Signal::Fails => opened(passage.now, longer(wait.0, rules), None, passage, rules),
            Signal::Busy | Signal::Unclear | Signal::Silent => return false,
        };
        self.state() != CircuitState::HalfOpen
    }
}

/// Twice the width once that many have passed; closed at the endpoint's own cap, or when there
/// is nobody left that a step could hold back.
fn step(since: Timestamp, wait: Duration, width: usize, passed: usize, at: &Passage) -> Circuit {
    let (width, passed) = match (width, passed) {
        (0, _) => (1, 0),
        (width, passed) if passed >= width => (2 * width, 0),
        same => same,
    };
    if width >= at.cap || at.idle {
        return Circuit::default();
    }
    Circuit::HalfOpen { since, wait: Text(wait), width, passed }
}

fn longer(wait: Duration, rules: &CircuitRules) -> Duration {
    (wait * 2).min(rules.probe_max)
}

/// Open for `wait` and what chance adds, so that endpoints which failed together are not probed
/// together; yet never for longer than the longest wait.
fn opened(
    since: Timestamp,
    wait: Duration,
    probed: Option<EventId>,
    at: &Passage,
    rules: &CircuitRules,
) -> Circuit {
    let stretched = rules.jitter.add_to(wait, at.chance);
    let pause = stretched.min(rules.probe_max.max(wait));
    Circuit::Open { since, probe_at: at.now + pause, wait: Text(wait), probed }
}

#[cfg(test)]
mod tests;
