//! When the worker does what, and how it sleeps: lightly for a moment after work, then with the
//! bell in hand. Polling alone would be enough; the bell makes it prompt and cheap.

use std::time::Duration;

use super::Engine;
use crate::store::{Bell, StoreError};

/// How long to go on looking after there was something to do: more is likely to come, and while
/// we look nobody has to ring.
const AWAKE: Duration = Duration::from_millis(20);

/// How often to look while awake.
const LOOK: Duration = Duration::from_millis(4);

/// How often to look without a bell, or when another node has it.
const LOOK_WITHOUT_BELL: Duration = Duration::from_millis(50);

/// How often to look although nobody rang, for a bell can be lost.
const LOOK_ASLEEP: Duration = Duration::from_secs(1);

/// How often to ask whether another program wrote to the SQLite file.
const FILE: Duration = Duration::from_millis(25);

/// Something that is done every so often, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    pause: Duration,
    at: Duration,
}

impl Every {
    const fn new(pause: Duration) -> Self {
        Self { pause, at: Duration::ZERO }
    }

    /// Whether it is time.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.at
    }

    /// It was done.
    pub fn done(&mut self, now: Duration) {
        self.at = now + self.pause;
    }

    /// It is to be done at the next turn.
    pub fn now(&mut self) {
        self.at = Duration::ZERO;
    }
}

/// All that is done by the clock.
pub struct Timetable {
    /// Leases: nine times within one, so that a few failures cost nothing.
    pub claim: Every,
    /// Configuration and commands: the contract's "at least every second".
    pub refresh: Every,
    /// Figures that only the database knows.
    pub sample: Every,
    /// Partitions and old rows.
    pub upkeep: Every,
}

/// How often a node says that it lives, and renews its leases.
pub fn heartbeat(lease: Duration) -> Duration {
    (lease / 9).max(Duration::from_millis(100))
}

impl Timetable {
    /// Everything is due at once.
    pub fn new(lease: Duration) -> Self {
        Self {
            claim: Every::new(heartbeat(lease)),
            refresh: Every::new(Duration::from_millis(900)),
            sample: Every::new(Duration::from_secs(10)),
            upkeep: Every::new(Duration::from_hours(1)),
        }
    }

    /// How long until the next of them.
    pub fn next_in(&self, now: Duration) -> Duration {
        let times = [self.claim.at, self.refresh.at, self.sample.at, self.upkeep.at];
        times.into_iter().min().unwrap_or(now).saturating_sub(now)
    }
}

/// What the bell said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event, most likely.
    Event,
    /// A command for the owner of a shard.
    Command,
    /// The configuration changed.
    Config,
    /// Shards became free.
    Shards,
}

/// How the worker sleeps.
#[derive(Default)]
pub struct Sleeper {
    bell: Option<Bell>,
    asleep: bool,
    look: bool,
    awake_until: Duration,
    looked_at: Duration,
}

impl Sleeper {
    /// Look at the next turn.
    pub fn look(&mut self) {
        self.look = true;
    }

    /// There was something to do: stay awake for a moment, and look every so often.
    pub fn stay_awake(&mut self, now: Duration) {
        self.awake_until = now + AWAKE;
    }

    /// The connection may be gone; a new one is made at the next nap.
    pub fn forget_bell(&mut self) {
        self.bell = None;
        self.asleep = false;
        self.look = true;
    }

    /// Whether to read the queue in this turn, and whether that is because something is there.
    pub fn should_look(&mut self, engine: &Engine, now: Duration) -> (bool, bool) {
        let every = match (now < self.awake_until, self.asleep) {
            (true, _) => LOOK,
            (false, true) => LOOK_ASLEEP,
            (false, false) => LOOK_WITHOUT_BELL,
        };
        let told = self.look;
        let look = told || now.saturating_sub(self.looked_at) >= every;
        if look {
            self.look = false;
            self.looked_at = engine.world.monotonic();
        }
        (look, told)
    }

    /// Prepares to sleep, and tells for how long at most.
    pub async fn nap(&mut self, engine: &Engine, now: Duration) -> Result<Duration, StoreError> {
        if now < self.awake_until {
            if self.asleep {
                self.asleep = false;
                if let Some(bell) = &mut self.bell {
                    bell.wake_up().await?;
                }
            }
            return Ok(LOOK);
        }
        let bell = match &mut self.bell {
            Some(bell) => bell,
            none => none.insert(engine.store.bell().await?),
        };
        if !self.asleep {
            self.asleep = bell.fall_asleep().await?;
            // What came before the lock was taken rang for nobody: look once more.
            self.look = self.asleep;
            return Ok(if self.asleep { Duration::ZERO } else { LOOK_WITHOUT_BELL });
        }
        Ok(if matches!(bell, Bell::Sqlite { .. }) { FILE } else { LOOK_ASLEEP })
    }

    /// Waits for the bell; for ever where there is none.
    pub async fn heard(&mut self) -> Result<Heard, StoreError> {
        let Some(bell) = &mut self.bell else { return std::future::pending().await };
        Ok(match bell.heard().await?.as_str() {
            "command" => Heard::Command,
            "config" => Heard::Config,
            "shards" => Heard::Shards,
            _ => Heard::Event,
        })
    }

    /// Whether another program wrote to the SQLite file.
    pub async fn file_changed(&mut self) -> Result<bool, StoreError> {
        match &mut self.bell {
            Some(bell) => bell.has_changed().await,
            None => Ok(false),
        }
    }
}
