//! A countdown to a crash, for tests: every effect on the database or the network first asks
//! `step`. Inert in production, where the countdown never starts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts steps, and dies at one of them if a test says so.
#[derive(Debug, Default)]
pub struct Faults {
    steps: AtomicU64,
    crash_at: AtomicU64,
}

/// The process was made to crash here; everything after it fails in the same way.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the process was made to crash here")]
pub struct Crashed;

impl Faults {
    /// Dies at step number `step`, counted from 1; 0 is never.
    pub fn crash_at(step: u64) -> Self {
        Self { steps: AtomicU64::new(0), crash_at: AtomicU64::new(step) }
    }

    /// How many steps were taken so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Takes a step, or dies.
    pub fn step(&self) -> Result<(), Crashed> {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let crash_at = self.crash_at.load(Ordering::Relaxed);
        if crash_at != 0 && step >= crash_at { Err(Crashed) } else { Ok(()) }
    }
}
