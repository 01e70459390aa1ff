//! The buffers of a host: allocated once, page-aligned, backed by memory from the start, and used again and again.

use std::{io, ops::Deref, ops::DerefMut, ptr::NonNull, slice, sync::Arc};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::wire::MESSAGE_BYTES;

/// Buffers begin on pages of this size.
const PAGE_BYTES: usize = 4096;

/// Maps `count` buffers for fragments of up to `fragment_bytes`, and writes to each, so that the kernel has given all memory before
/// the first fragment comes.
///
/// # Errors
/// If there is not as much memory.
pub fn allocate(count: u32, fragment_bytes: usize) -> io::Result<Vec<Buffer>> {
    let bytes = (MESSAGE_BYTES + fragment_bytes).next_multiple_of(PAGE_BYTES);
    let total = bytes.checked_mul(count as usize).ok_or(io::ErrorKind::OutOfMemory)?;
    if total == 0 {
        return Ok(Vec::new());
    }
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), total, protection, flags) }?;
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    let arena = Arc::new(Arena { start, bytes: total });
    Ok((0..count)
        .map(|number| {
            // SAFETY: there are so many buffers in the mapping.
            let start = unsafe { arena.start.add(number as usize * bytes) };
            Buffer { start, fragment_bytes, number, _arena: Arc::clone(&arena) }
        })
        .collect())
}

/// A mapping, until its last buffer is gone.
#[derive(Debug)]
struct Arena {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is memory like any other.
unsafe impl Send for Arena {}
// SAFETY: nothing is done with a shared arena but to keep it.
unsafe impl Sync for Arena {}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `allocate`, and no buffer is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Memory for a fragment, after room for the message that goes before it. Who has a buffer owns its memory.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    fragment_bytes: usize,
    number: u32,
    _arena: Arc<Arena>,
}

// SAFETY: a buffer owns its memory.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Its number in its arena.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The message and `bytes` bytes of the fragment, which lie together so that one call sends them.
    ///
    /// # Panics
    /// If the fragment cannot have so many.
    pub fn with_message(&mut self, message: &[u8; MESSAGE_BYTES], bytes: usize) -> &[u8] {
        assert!(bytes <= self.fragment_bytes, "fragments fit in their buffers");
        // SAFETY: the memory before the fragment is the buffer's, too, and backed.
        let all = unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), MESSAGE_BYTES + bytes) };
        all[..MESSAGE_BYTES].copy_from_slice(message);
        all
    }
}

/// The fragment's memory, aligned to 64 bytes.
impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, initialised by the kernel, and owned.
        unsafe { slice::from_raw_parts(self.start.as_ptr().add(MESSAGE_BYTES), self.fragment_bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialised by the kernel, and owned.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(MESSAGE_BYTES), self.fragment_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_and_aligned() {
        let mut buffers = allocate(3, 5000).unwrap();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!((buffer.number() as usize, buffer.len(), buffer.as_ptr().addr() % 64), (number, 5000, 0));
            buffer.fill(number as u8 + 1);
        }
        let message = [9; MESSAGE_BYTES];
        let last = buffers.pop().unwrap();
        assert!(buffers[1].with_message(&message, 7) == [[9; MESSAGE_BYTES].as_slice(), &[2; 7]].concat());
        assert!(buffers[0].iter().all(|&byte| byte == 1) && buffers[1].iter().all(|&byte| byte == 2));
        drop(buffers);
        assert!(last.iter().all(|&byte| byte == 3));
        assert!(allocate(0, 4096).unwrap().is_empty());
        assert!(allocate(u32::MAX, usize::MAX / 8).is_err());
    }
}
