//! A countdown to a crash, or to a cut connection, for tests: every effect on the database or the
//! network first asks `step`. Inert in production, where the countdown never starts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts steps, and dies at one of them if a test says so.
#[derive(Debug, Default)]
pub struct Faults {
    steps: AtomicU64,
    crash_at: AtomicU64,
    /// Whether only that one step fails: a connection that is cut, and back at once.
    once: bool,
}

/// The process was made to crash here; everything after it fails in the same way.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the process was made to crash here")]
pub struct Crashed;

impl Faults {
    /// Dies at step number `step`, counted from 1; 0 is never.
    pub fn crash_at(step: u64) -> Self {
        Self { crash_at: AtomicU64::new(step), ..Self::default() }
    }

    /// Fails at step number `step` alone, counted from 1; 0 is never.
    pub fn cut_at(step: u64) -> Self {
        Self { once: true, ..Self::crash_at(step) }
    }

    /// Fails at the `steps`th step from now on.
    pub fn fail_in(&self, steps: u64) {
        self.crash_at.store(self.steps() + steps, Ordering::Relaxed);
    }

    /// Nothing fails from now on: the database can be reached again.
    pub fn mend(&self) {
        self.crash_at.store(0, Ordering::Relaxed);
    }

    /// How many steps were taken so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Takes a step, or dies.
    pub fn step(&self) -> Result<(), Crashed> {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let crash_at = self.crash_at.load(Ordering::Relaxed);
        let fails = step == crash_at || (step > crash_at && !self.once);
        if crash_at != 0 && fails { Err(Crashed) } else { Ok(()) }
    }
}
