//! The number of output files that can be open at once.

use std::fs;

/// The number of files that the process may have open besides the output: inputs, runs, standard
/// streams, and those of the embedding program.
const OTHER_FILES: usize = 128;
/// The limit on open files where the system does not report it: the lowest usual default.
const FEW_FILES: usize = 256;

/// Returns the number of open files of at least `floor_bytes` each that fit in `memory_bytes`, and are
/// within the limit on open files.
pub(crate) fn most(floor_bytes: usize, memory_bytes: usize) -> usize {
    (memory_bytes / floor_bytes.max(1)).min(max_open_files().saturating_sub(OTHER_FILES))
}

/// Returns the soft limit on open files, if `/proc` reports it, as on Linux.
fn max_open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(FEW_FILES)
}
