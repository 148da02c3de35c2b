//! Sizes in bytes as people write them: `1MiB`, `16384`.

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
