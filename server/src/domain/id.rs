//! Ids: 64 bits, ordered by time, shown with a prefix that says of what.
//!
//! An event's id is made in the database, by one clock: microseconds since 2025 in the upper 52
//! bits, eleven scrambled bits of a sequence below, so that ids made by one connection are in
//! order and none of them tells how many events the operator has. It lasts until the year 2167.
//! A delivery is the pair of its event and its endpoint, and so is its id.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{problem::shown, time::Timestamp};

/// Crockford's alphabet in lower case: no i, l, o, u, so that ids survive being read aloud.
pub(super) const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Characters of one 64-bit number, five bits each.
const DIGITS: usize = 13;

/// 2025-01-01T00:00:00Z, from which ids count.
pub const ID_EPOCH: Timestamp = Timestamp::from_seconds(1_735_689_600);

/// Bits of an id below its time.
pub const ID_SEQUENCE_BITS: u32 = 11;

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is no id of this kind; it looks like {prefix}_ and {digits} letters and digits",
    shown(text)
)]
pub struct IdError {
    text: String,
    prefix: &'static str,
    digits: usize,
}

/// The smallest id that can have been made at `time`: the bound of a range of ids.
pub fn first_id_at(time: Timestamp) -> i64 {
    let micros = time.0.saturating_sub(ID_EPOCH.0).clamp(0, i64::MAX >> ID_SEQUENCE_BITS);
    micros << ID_SEQUENCE_BITS
}

/// A new id for something made by this process: `chance` fills the bits below the time.
pub fn id_at(time: Timestamp, chance: u64) -> i64 {
    first_id_at(time) | i64::try_from(chance & ((1 << ID_SEQUENCE_BITS) - 1)).unwrap_or(0)
}

fn encode(id: i64) -> [u8; DIGITS] {
    let bits = id.cast_unsigned();
    let mut text = [0; DIGITS];
    for (place, digit) in text.iter_mut().rev().enumerate() {
        *digit = ALPHABET[usize::try_from((bits >> (5 * place)) & 31).unwrap_or(0)];
    }
    text
}

/// `None` unless `text` is the one way to write a positive number.
fn decode(text: &[u8]) -> Option<i64> {
    if text.len() != DIGITS {
        return None;
    }
    let mut bits: u128 = 0;
    for digit in text {
        let value = ALPHABET.iter().position(|letter| letter == digit)?;
        bits = bits << 5 | value as u128;
    }
    i64::try_from(bits).ok()
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl $name {
            /// When it was made.
            pub fn created_at(self) -> Timestamp {
                let micros = (self.0 >> ID_SEQUENCE_BITS).max(0).cast_unsigned();
                ID_EPOCH + Duration::from_micros(micros)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!($prefix, "_"))?;
                encode(self.0).iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(|digits| decode(digits.as_bytes()))
                    .map(Self)
                    .ok_or_else(|| IdError { text: text.to_owned(), prefix: $prefix, digits: DIGITS })
            }
        }

        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

id!(
    /// An event, `evt_…`: also the `webhook-id` of every request that carries it.
    EventId, "evt"
);
id!(
    /// An endpoint, `ep_…`.
    EndpointId, "ep"
);
id!(
    /// A secret of an endpoint, `sec_…`.
    SecretId, "sec"
);
id!(
    /// An API key, `key_…`; not the key's own text.
    ApiKeyId, "key"
);

id!(
    /// A request that a source kept apart, `req_…`.
    RequestId, "req"
);

/// A source, as tables refer to it. People know it by its
/// [`SourceToken`](super::source::SourceToken), for this number can be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub i64);

/// A delivery, `dlv_…`: one event on its way to one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The event.
    pub event: EventId,
    /// The endpoint that it goes to.
    pub endpoint: EndpointId,
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dlv_")?;
        [encode(self.event.0), encode(self.endpoint.0)]
            .iter()
            .flatten()
            .try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl FromStr for DeliveryId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix("dlv_")
            .and_then(|digits| digits.as_bytes().split_at_checked(DIGITS))
            .and_then(|(event, endpoint)| {
                let (event, endpoint) = (EventId(decode(event)?), EndpointId(decode(endpoint)?));
                Some(Self { event, endpoint })
            })
            .ok_or_else(|| IdError { text: text.to_owned(), prefix: "dlv", digits: 2 * DIGITS })
    }
}

text_serde!(DeliveryId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_only_as_it_is_written() {
        for id in [0, 1, 31, 32, 1 << 40, i64::MAX] {
            let text = EventId(id).to_string();
            assert_eq!(text.len(), 17, "{text}");
            assert_eq!(text.parse(), Ok(EventId(id)));
        }
        let delivery = DeliveryId { event: EventId(7), endpoint: EndpointId(i64::MAX) };
        assert_eq!(delivery.to_string().parse(), Ok(delivery));
        for (text, why) in [
            ("ep_0000000000001", "an endpoint's"),
            ("evt_000000000001", "too short"),
            ("evt_00000000000001", "too long"),
            ("evt_000000000000I", "no letter of the alphabet"),
            ("evt_z000000000000", "over 64 bits"),
            ("evt_8000000000000", "over 63 bits"),
            ("evt_000000000000é", "no ASCII"),
            ("", "empty"),
        ] {
            assert!(text.parse::<EventId>().is_err(), "{text}: {why}");
        }
    }

    #[test]
    fn ids_sort_by_time_also_as_text() {
        let early = EventId(id_at(Timestamp::from_seconds(1_800_000_000), u64::MAX));
        let late = EventId(id_at(Timestamp(1_800_000_000_000_001), 0));
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(late.created_at(), Timestamp(1_800_000_000_000_001));
    }
}
