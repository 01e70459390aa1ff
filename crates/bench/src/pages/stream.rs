//! Stores past the cache.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

const LINE: usize = 64;

/// Writes all of `bytes`, past the cache where the machine can (x86-64) and as far as they are
/// whole, aligned cache lines.
pub(super) fn write(bytes: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        let lines = bytes.len() / LINE * LINE;
        if bytes.as_ptr().addr().is_multiple_of(LINE) {
            let start = bytes.as_mut_ptr();
            // SAFETY: so many aligned lines are in the slice; AVX-512 is used where it is there.
            unsafe {
                if is_x86_feature_detected!("avx512f") {
                    wide(start, lines)
                } else {
                    narrow(start, lines)
                }
                _mm_sfence();
            }
            return;
        }
    }
    bytes.fill(1);
    std::hint::black_box(bytes);
}

/// # Safety
/// `bytes` bytes from `start` on are whole lines, aligned, and can be written; the processor has
/// AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn wide(start: *mut u8, bytes: usize) {
    let ones = _mm512_set1_epi32(1);
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: the caller's promises.
        unsafe { _mm512_stream_si512(start.add(at).cast(), ones) }
    }
}

/// # Safety
/// As [`wide`], on any processor.
#[cfg(target_arch = "x86_64")]
unsafe fn narrow(start: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(16) {
        // SAFETY: the caller's promises; every x86-64 processor has SSE2.
        unsafe { _mm_stream_si128(start.add(at).cast(), _mm_set1_epi32(1)) }
    }
}
