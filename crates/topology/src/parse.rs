//! Parses sets of CPUs.

use std::str::FromStr;

use crate::{CpuList, TopologyError};

/// CPU numbers are below this one. Linux on x86-64 supports 8192 CPUs; a larger number is garbage,
/// and a range up to it would fill the memory.
const CPUS_MAX: usize = 1 << 16;
/// The length at which the text in an error is cut.
const SHOWN_CHARS: usize = 60;

impl FromStr for CpuList {
    type Err = TopologyError;

    /// Parses numbers and ranges separated by commas. White space around the text is ignored, and
    /// an empty text is the empty set, as in the kernel's files.
    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let mut cpus = Vec::new();
        let parts = text.trim();
        for part in parts.split(',').filter(|_| !parts.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(TopologyError::CpuList { text: text.chars().take(SHOWN_CHARS).collect() }),
            }
        }
        Ok(cpus.into_iter().collect())
    }
}

/// Parses a CPU number: digits alone, without a sign.
fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&cpu| digits && cpu < CPUS_MAX)
}
