//! Memory that is brought into the cache before it is read.

use arrow::{array::ArrayData, buffer::ScalarBuffer, datatypes::ArrowNativeType};

/// The bytes of a table or of a column that stay in a core's second-level cache.
pub(crate) const CACHE_BYTES: usize = 1 << 20;

/// The values that are brought into the cache before they are read.
const AHEAD: usize = 256;

/// Begins to bring the cache line at this address into the first-level cache. The processor does not wait
/// for it. Nothing happens for an address without memory, or on other processors than x86-64.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is allowed for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Returns the values of an array as numbers as wide as its own. `None` if they do not begin at a multiple of
/// their size, as intervals may.
pub(crate) fn values_of<T: ArrowNativeType>(data: &ArrayData) -> Option<ScalarBuffer<T>> {
    let buffer = data.buffers().first()?;
    let is_aligned = buffer.as_ptr().cast::<T>().is_aligned();
    is_aligned.then(|| ScalarBuffer::new(buffer.clone(), data.offset(), data.len()))
}

/// Returns the values at these indices. By itself the processor would wait for about twenty of them at once.
///
/// # Panics
/// If an index is not less than the number of values.
pub(crate) fn gathered<T: Copy>(values: &[T], indices: &[u32]) -> Vec<T> {
    let mut gathered = Vec::with_capacity(indices.len());
    for block in indices.chunks(AHEAD) {
        block.iter().for_each(|&index| prefetch(values.as_ptr().wrapping_add(index as usize)));
        gathered.extend(block.iter().map(|&index| values[index as usize]));
    }
    gathered
}
