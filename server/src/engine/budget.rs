//! Memory for payloads: one budget for all that is held while it is under way, in whichever
//! direction, so that no number and no size of what others send can exhaust the process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of payloads that are held at once. Deliveries take at most half of it, so a backlog
/// leaves room for what comes in.
pub const PAYLOADS_BYTES_MAX: usize = 128 << 20;

/// How much is held, and how much may be.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    held: AtomicUsize,
}

/// The budget does not have so much left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// A part of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of which nothing is held.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicUsize::new(0) })
    }

    /// A share of nothing, to grow.
    pub fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// A share of so much, whether there is so much left or not: for what is in memory already.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Share {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Share { budget: self.clone(), bytes }
    }

    /// How much is held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes so much more, if it is left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.budget.bytes_max {
            self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Exhausted);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back_and_no_more_is_given_than_there_is() {
        let budget = Budget::new(10);
        let mut first = budget.share();
        assert_eq!(first.grow(6), Ok(()));
        let mut second = budget.share();
        assert_eq!(second.grow(5), Err(Exhausted));
        assert_eq!(second.grow(4), Ok(()));
        assert_eq!(first.grow(1), Err(Exhausted));
        let third = budget.hold(7);
        assert_eq!(budget.held(), 17, "what is there already is counted all the same");
        drop((first, third));
        assert_eq!(second.grow(6), Ok(()));
        drop(second);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn no_size_overflows() {
        let budget = Budget::new(10);
        let mut share = budget.hold(5);
        assert_eq!(share.grow(usize::MAX - 6), Err(Exhausted));
        assert_eq!(budget.held(), 5);
    }
}
