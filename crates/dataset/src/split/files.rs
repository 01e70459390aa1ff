//! Whether all files can be open at once.

use std::fs;

/// Files that the process has open besides the output: inputs, runs, standard streams, the
/// embedder's.
const OTHER_FILES: usize = 128;
/// Where the limit cannot be told: the least that systems begin with.
const FEW_FILES: usize = 256;

/// Whether `files` open files of at least `floor_bytes` each fit in `memory_bytes`, and may be open
/// at once.
pub(crate) fn fit(files: usize, floor_bytes: usize, memory_bytes: usize) -> bool {
    files.saturating_mul(floor_bytes) <= memory_bytes && files + OTHER_FILES <= max_open_files()
}

/// The soft limit, where the system tells it in a file, as Linux does.
fn max_open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(FEW_FILES)
}
