//! Blocks of memory for values of any length, in a few sizes so that the pool can recycle them.

use std::{ptr::copy_nonoverlapping, sync::Arc};

use crate::pool::{BufferPool, PooledBuffer};

/// The bytes of the smallest block.
const MIN_BYTES: usize = 4 << 10;
/// The bytes of the largest block that the pool keeps. Larger ones, for long values, are not
/// recycled.
const MAX_POOLED_BYTES: usize = 4 << 20;
/// The bytes of a chunk. Short values are copied in chunks of this constant size, which takes a few
/// instructions instead of a call.
const CHUNK: usize = 32;

/// Returns the sizes of blocks that are recycled.
pub(super) fn block_sizes() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(MIN_BYTES), |bytes| Some(bytes * 2)).take_while(|&bytes| bytes <= MAX_POOLED_BYTES)
}

/// Takes a block with room for `bytes` bytes and [`SLACK`] more.
pub(super) fn take_block(pool: &Arc<BufferPool>, bytes: usize) -> PooledBuffer {
    let bytes = bytes.saturating_add(SLACK).max(MIN_BYTES);
    pool.take(bytes.checked_next_power_of_two().unwrap_or(bytes))
}

/// Returns the size of the first block of the next batch, if the last one took `bytes`.
pub(super) fn block_hint(bytes: usize) -> usize {
    // The hint is an eighth more than the last size, so that a similar batch does not outgrow its
    // block.
    (bytes + bytes / 8).min(MAX_POOLED_BYTES - SLACK)
}

/// The bytes that a copy may write beyond a value's end.
pub(super) const SLACK: usize = CHUNK;

/// Copies `len` bytes, and up to [`SLACK`] of the bytes that follow.
///
/// # Safety
/// `from` is readable for `readable >= len` bytes, `to` writable for `len + SLACK`, and they do not
/// overlap.
#[inline]
pub(super) unsafe fn copy_value(from: *const u8, readable: usize, to: *mut u8, len: usize) {
    // SAFETY: chunks read fewer than `len + CHUNK` bytes, and write the same number.
    unsafe {
        if len > 4 * CHUNK || readable < len + CHUNK {
            return copy_nonoverlapping(from, to, len);
        }
        for done in (0..len).step_by(CHUNK) {
            copy_nonoverlapping(from.add(done), to.add(done), CHUNK);
        }
    }
}
