//! What a process that works with large blocks keeps. A process of its own: it holds for the whole
//! process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod common;

use annulus_alloc::CountingAllocator;
use common::{MIB, resident_mib};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

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
