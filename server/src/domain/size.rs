//! Sizes in bytes as people write them: `1MiB`, `16384`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Units of 1024. `kB` and `MB` mean 1000 to some and 1024 to others, so they are refused.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a whole number of bytes, or of KiB, MiB, GiB, from `least` to `most` bytes.
pub fn size(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |text| {
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit)))
            .unwrap_or((text, 1));
        let bytes = number.replace('_', "").parse::<usize>().ok().and_then(|n| n.checked_mul(unit));
        match bytes {
            None => Err("write a number of bytes, KiB, MiB or GiB, for example 1MiB".to_owned()),
            Some(bytes) if bytes < least || bytes > most => {
                Err(format!("it must be from {} to {}", write(least), write(most)))
            }
            Some(bytes) => Ok(bytes),
        }
    }
}

/// Writes bytes with the coarsest unit that divides them.
pub fn write(bytes: usize) -> String {
    let fits = |(_, unit): &&(&str, usize)| bytes != 0 && bytes.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!("{}{name}", bytes / unit)
}

/// A size that is read as text or as a number of bytes, and written as text: for JSON and TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(pub usize);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self.0))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, for example \"64KiB\" or 65536")
            }
            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Text, E> {
                self.visit_str(&bytes.to_string())
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Text, E> {
                self.visit_str(&bytes.to_string())
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                size(0, usize::MAX)(text).map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        for (text, expected, why) in [
            ("1MiB", Some(1 << 20), "the usual way"),
            ("16384", Some(16_384), "bytes"),
            ("64 KiB", Some(65_536), "a blank is harmless"),
            ("1024B", Some(1024), "bytes, said"),
            ("1MB", None, "1000 or 1024?"),
            ("1.5MiB", None, "no fractions"),
            ("-1", None, "negative"),
            ("", None, "nothing"),
            ("99999999999999999999GiB", None, "beyond any number"),
            ("2GiB", None, "over the limit"),
        ] {
            assert_eq!(size(0, 1 << 30)(text).ok(), expected, "{text}: {why}");
        }
        assert_eq!(size(1024, 1 << 20)("1").unwrap_err(), "it must be from 1KiB to 1MiB");
    }
}
