//! Which of the fixed number of shards an endpoint belongs to. All its deliveries are there, and
//! a shard has one owner at a time; that makes caps and order per endpoint exact.

use super::id::EndpointId;

/// The shard of an endpoint: the upper six bits of Fibonacci hashing, so that endpoints made in
/// one burst, whose ids differ in few bits, spread evenly. It never changes; the row keeps it.
pub fn shard_of(endpoint: EndpointId) -> i16 {
    /// 2⁶⁴ divided by the golden ratio, made odd (Knuth, TAOCP 6.4).
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = endpoint.0.cast_unsigned().wrapping_mul(GOLDEN);
    i16::from(mixed.to_be_bytes()[0] >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{id::id_at, time::Timestamp};

    #[test]
    fn a_shard_is_in_range_and_never_changes() {
        for (id, expected) in [(0, 0), (1, 39), (2, 15), (i64::MAX, 56)] {
            assert_eq!(shard_of(EndpointId(id)), expected, "{id}");
        }
    }

    #[test]
    fn endpoints_of_one_burst_spread_over_all_shards() {
        let mut counts = [0_u32; 64];
        for n in 0..6_400 {
            let id = id_at(Timestamp(1_800_000_000_000_000 + n), u64::try_from(n % 7).unwrap());
            counts[usize::try_from(shard_of(EndpointId(id))).unwrap()] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 50 && *most < 200, "{least} to {most} of 100");
    }
}
