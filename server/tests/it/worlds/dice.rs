//! Chance that can be thrown again: everything that a world does follows from its seed.

use std::time::Duration;

/// A stream of numbers from one seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// The same, as an index.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }

    /// Whether something happens that does so `percent` times of a hundred.
    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    /// A time from `least` to `most`, short ones as likely as long ones.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let (least, most) = (least.as_micros().max(1), most.as_micros().max(2));
        let doublings = (most / least).max(1).ilog2() + 1;
        let base = least << self.below(u64::from(doublings));
        let spread = u64::try_from(base).unwrap();
        Duration::from_micros((spread + self.below(spread)).min(u64::try_from(most).unwrap()))
    }
}
