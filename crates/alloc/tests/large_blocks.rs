//! What a process that works with large blocks keeps. A process of its own: it holds for the whole
//! process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs;

use annulus_alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MIB: usize = 1 << 20;

/// Returns the anonymous memory of this process that is resident, in MiB.
fn resident_mib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}

/// Fills and frees 128 MiB in pieces of this many bytes, and returns how much more memory is
/// resident afterwards than before, in MiB.
fn left_by(piece: usize) -> usize {
    let before = resident_mib();
    let pieces: Vec<_> = (0..128 * MIB / piece).map(|_| vec![1_u8; piece]).collect();
    assert!(pieces.iter().all(|piece| piece[piece.len() / 2] == 1));
    drop(pieces);
    resident_mib().saturating_sub(before)
}

#[test]
fn a_program_of_large_blocks_uses_them_again() {
    annulus_alloc::serve_large_blocks();
    assert!(left_by(16 * MIB) <= 8, "the largest blocks go back at once");
    let before = resident_mib();
    // Small blocks that are still in use may hold these.
    left_by(MIB);
    let again = left_by(MIB - 64);
    assert!(again <= 8, "{again} MiB are kept beside those from before");
    annulus_alloc::release();
    let left = resident_mib().saturating_sub(before);
    assert!(left <= 8, "{left} MiB are kept");
}
