//! Stores that bypass the cache.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Writes all of `bytes`. On x86-64, aligned whole cache lines bypass the cache.
pub(super) fn write(bytes: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        let lines = bytes.len() / LINE * LINE;
        if bytes.as_ptr().addr().is_multiple_of(LINE) {
            let start = bytes.as_mut_ptr();
            // SAFETY: the slice contains these lines, which are aligned. AVX-512 is used only if detected.
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

/// Copies `from` to `to`, which has the same length. On x86-64, aligned whole cache lines bypass
/// the cache.
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    if (to.as_ptr().addr() | to.len()).is_multiple_of(LINE) {
        // SAFETY: both slices have these lines, and those of `to` are aligned. AVX-512 is used only if
        // detected.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                copy_wide(from.as_ptr(), to.as_mut_ptr(), to.len());
            } else {
                copy_narrow(from.as_ptr(), to.as_mut_ptr(), to.len());
            }
            _mm_sfence();
        }
        return;
    }
    to.copy_from_slice(from);
}

/// Copies whole lines with AVX-512.
///
/// # Safety
/// `from` is readable for `bytes` bytes. The same number from `to` on are aligned whole lines and
/// can be written. The processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_wide(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: the caller's promises.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) }
    }
}

/// Copies whole lines with SSE2.
///
/// # Safety
/// As [`copy_wide`], on any x86-64 processor.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_narrow(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(16) {
        // SAFETY: the caller's promises; every x86-64 processor has SSE2.
        unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) }
    }
}

/// Writes whole lines with AVX-512.
///
/// # Safety
/// The `bytes` bytes from `start` on are aligned whole lines and can be written. The processor has
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

/// Writes whole lines with SSE2.
///
/// # Safety
/// As [`wide`], on any x86-64 processor.
#[cfg(target_arch = "x86_64")]
unsafe fn narrow(start: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(16) {
        // SAFETY: the caller's promises; every x86-64 processor has SSE2.
        unsafe { _mm_stream_si128(start.add(at).cast(), _mm_set1_epi32(1)) }
    }
}
