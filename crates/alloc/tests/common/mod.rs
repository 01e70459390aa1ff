//! The memory of this process.

use std::fs;

pub const MIB: usize = 1 << 20;

/// Returns the anonymous memory of this process that is resident, in MiB.
pub fn resident_mib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}
