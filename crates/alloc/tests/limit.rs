//! What a limit on the program's memory does to its allocator. A process of its own: it holds for
//! the whole process.
#![cfg(target_os = "linux")]

mod common;

use std::thread;

use annulus_alloc::CountingAllocator;
use common::{MIB, resident_mib};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Fills and frees 64 MiB in pieces of this many bytes, and returns how much more memory is
/// resident afterwards than before, in MiB.
fn left_by(piece: usize) -> usize {
    let before = resident_mib();
    let pieces: Vec<_> = (0..64 * MIB / piece).map(|_| vec![1_u8; piece]).collect();
    assert!(resident_mib() >= before + 60);
    drop(pieces);
    resident_mib().saturating_sub(before)
}

#[test]
fn under_a_limit_freed_memory_goes_back() {
    assert!(left_by(MIB) >= 32, "memory is kept for a while if there is no limit");
    let mut older: Vec<_> = (0..64_u8).map(|byte| vec![byte; 100 << (byte % 16)]).collect();
    annulus_alloc::release();
    annulus_alloc::limit(0);
    assert!(left_by(MIB) <= 8);

    // What mimalloc allocated stays mimalloc's.
    for (byte, piece) in (0..64_u8).zip(&mut older) {
        piece.resize(2 * piece.len() + 1, byte);
        piece.shrink_to_fit();
        assert!(piece.iter().all(|&found| found == byte));
    }
    drop(older);

    let before = resident_mib();
    thread::scope(|scope| scope.spawn(|| left_by(4096)).join()).unwrap();
    annulus_alloc::release();
    let left = resident_mib().saturating_sub(before);
    assert!(left <= 8, "{left} MiB");
}
