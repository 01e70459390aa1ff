//! Values of command-line options, and counts as text.

use std::{fmt, str::FromStr};

use indicatif::HumanCount;

/// Reads bytes as a number with an optional unit: `1024`, `64K`, `1.5GiB`. Units are powers of
/// 1024; their case and a trailing `B` or `iB` do not matter.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let wrong = || format!("invalid size '{text}': expected a number with an optional K, M, G or T, like 512M or 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number * (1u64 << shift) as f64;
    if bytes < 1.0 || bytes > (1u64 << 53) as f64 {
        return Err(format!("size '{text}' is out of range: expected 1 to 8192T"));
    }
    Ok(bytes as usize)
}

/// Reads a number from 1 to 65536.
pub fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=65_536).contains(&count) => Ok(count),
        _ => Err(format!("invalid count '{text}': expected 1 to 65536")),
    }
}

/// Numbers of inputs and outputs, such as producers and consumers, written `MxN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// M, from 1 to 65536.
    pub inputs: usize,
    /// N, from 1 to 65536.
    pub outputs: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (inputs, outputs) = text
            .split_once('x')
            .ok_or_else(|| format!("invalid shape '{text}': expected MxN, such as 4x4 or 16x256"))?;
        Ok(Self { inputs: parse_count(inputs)?, outputs: parse_count(outputs)? })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.inputs, self.outputs)
    }
}

/// Reads a TPC-H scale factor.
pub fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        // Below 0.001 the generator has no supplier to choose from.
        Ok(scale) if (0.001..=100_000.0).contains(&scale) => Ok(scale),
        _ => Err(format!("invalid scale factor '{text}': expected 0.001 to 100000")),
    }
}

/// Reads a number of rows or tuples: `5000`, `64k`, `67.2M`. Units are powers of 1000.
pub fn parse_tuples(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid number '{text}': expected one like 500k or 67.2M");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return Err(wrong()),
    };
    let tuples = (number * scale).round();
    if !(1.0..=f64::from(u32::MAX)).contains(&tuples) {
        return Err(format!("number '{text}' is out of range: expected 1 to 4294967295"));
    }
    Ok(tuples as u64)
}

/// Returns a count and its noun, in the singular or the plural: `1 round`, `2,000 rows`,
/// `22 queries`.
pub fn counted(count: u64, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    let (noun, ending) = match stem {
        _ if count == 1 => (noun, ""),
        Some(stem) => (stem, "ies"),
        None if noun.ends_with("ch") => (noun, "es"),
        None => (noun, "s"),
    };
    format!("{} {noun}{ending}", HumanCount(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64k"), Ok(64 << 10));
        assert_eq!(parse_size("512MB"), Ok(512 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
    }

    #[test]
    fn wrong_sizes_say_what_to_write() {
        for text in ["", "G", "-1", "2X", "1.2.3M", "2 apples", "0", "99999999T", "NaN", "inf"] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn counts_have_bounds() {
        assert_eq!(parse_count("64"), Ok(64));
        assert!(parse_count("0").is_err());
    }

    #[test]
    fn shapes_are_inputs_by_outputs() {
        assert_eq!("16x256".parse(), Ok(Shape { inputs: 16, outputs: 256 }));
        for text in ["16", "x", "0x4", "4x0", "4x4x4", "-1x2", ""] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        for (count, noun, text) in [
            (0, "row", "0 rows"),
            (1, "row", "1 row"),
            (1_500_000, "row", "1,500,000 rows"),
            (1, "query", "1 query"),
            (22, "query", "22 queries"),
            (2, "key", "2 keys"),
            (2, "batch", "2 batches"),
        ] {
            assert_eq!(counted(count, noun), text);
        }
    }

    #[test]
    fn scales_have_bounds() {
        assert_eq!(parse_scale("0.01"), Ok(0.01));
        assert!(parse_scale("0").is_err());
        assert!(parse_scale("NaN").is_err());
    }

    #[test]
    fn tuples_are_counted_in_thousands() {
        assert_eq!(parse_tuples("5000"), Ok(5000));
        assert_eq!(parse_tuples("67.2M"), Ok(67_200_000));
        assert_eq!(parse_tuples("64k"), Ok(64_000));
        for text in ["", "M", "0", "-1", "5G", "1X", "1.2.3"] {
            assert!(parse_tuples(text).is_err(), "{text}");
        }
    }
}
