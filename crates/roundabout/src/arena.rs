//! The buffers of a host: allocated once, page-aligned, backed by memory from the start, and
//! reused. Hosts of one machine may share their arenas; then they use the buffers in turn.

use std::{
    io,
    ops::{Deref, DerefMut},
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    slice,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap},
};

use crate::wire::MESSAGE_BYTES;

/// The alignment of buffers.
const PAGE_BYTES: usize = 4096;
/// The seals of a shared arena, which fix its size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Buffers of equal size in one mapping.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    layout: Layout,
    /// For each buffer: whether it is taken in this process.
    taken: Box<[AtomicBool]>,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    buffers: u32,
    fragment_bytes: usize,
    /// The distance from the start of one buffer to that of the next.
    stride: usize,
    total: usize,
}

impl Layout {
    fn new(buffers: u32, fragment_bytes: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let stride =
            fragment_bytes.checked_add(MESSAGE_BYTES).and_then(|bytes| bytes.checked_next_multiple_of(PAGE_BYTES));
        let stride = stride.ok_or_else(too_large)?;
        let total = stride.checked_mul(buffers as usize).filter(|&total| total <= isize::MAX as usize);
        let total = total.ok_or_else(too_large)?.max(PAGE_BYTES);
        Ok(Self { buffers, fragment_bytes, stride, total })
    }
}

// SAFETY: the mapping is memory like any other.
unsafe impl Send for Arena {}
// SAFETY: the only operation on a shared arena is taking buffers, which is atomic.
unsafe impl Sync for Arena {}

impl Arena {
    /// Allocates private memory for `buffers` buffers of fragments up to `fragment_bytes`.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn private(buffers: u32, fragment_bytes: usize) -> io::Result<Arc<Self>> {
        let layout = Layout::new(buffers, fragment_bytes)?;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), layout.total, PROTECTION, flags) }?;
        Self::new(start, layout)
    }

    /// Allocates memory that other processes can map, and returns its descriptor with the arena.
    ///
    /// # Errors
    /// If memory is short.
    pub(crate) fn shared(buffers: u32, fragment_bytes: usize) -> io::Result<(Arc<Self>, OwnedFd)> {
        let layout = Layout::new(buffers, fragment_bytes)?;
        let memory = memfd_create("annulus-roundabout", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, layout.total as u64)?;
        fcntl_add_seals(&memory, SEALS)?;
        Ok((Self::map(&memory, layout, MapFlags::POPULATE)?, memory))
    }

    /// Maps the shared arena of another host.
    ///
    /// # Errors
    /// If the memory is not sealed, or has another size: its owner could remove it.
    pub(crate) fn of_other(memory: impl AsFd, buffers: u32, fragment_bytes: usize) -> io::Result<Arc<Self>> {
        let layout = Layout::new(buffers, fragment_bytes)?;
        if !fcntl_get_seals(&memory)?.contains(SEALS) || fstat(&memory)?.st_size as u64 != layout.total as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory has another size than agreed, or no seals",
            ));
        }
        Self::map(memory, layout, MapFlags::empty())
    }

    fn map(memory: impl AsFd, layout: Layout, flags: MapFlags) -> io::Result<Arc<Self>> {
        // SAFETY: a new mapping, at an address of the kernel's choice, of a file that keeps its size.
        let start =
            unsafe { mmap(std::ptr::null_mut(), layout.total, PROTECTION, MapFlags::SHARED | flags, memory, 0) }?;
        Self::new(start, layout)
    }

    fn new(start: *mut std::ffi::c_void, layout: Layout) -> io::Result<Arc<Self>> {
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let taken = (0..layout.buffers).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(Self { start, layout, taken }))
    }

    /// Returns the number of buffers.
    pub(crate) fn buffers(&self) -> u32 {
        self.layout.buffers
    }

    /// Returns the bytes of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.total
    }

    /// Returns whether the buffers are as many and as large.
    pub(crate) fn is_of(&self, buffers: u32, fragment_bytes: usize) -> bool {
        (self.layout.buffers, self.layout.fragment_bytes) == (buffers, fragment_bytes)
    }

    /// Takes a buffer. Returns `None` if it is taken in this process, or does not exist. A process
    /// may take a buffer of a shared arena only if the buffer was handed to it.
    pub(crate) fn take(self: &Arc<Self>, number: u32) -> Option<Buffer> {
        let taken = self.taken.get(number as usize)?;
        if taken.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the buffer is within the mapping.
        let start = unsafe { self.start.add(number as usize * self.layout.stride) };
        Some(Buffer { start, number, arena: Arc::clone(self) })
    }

    /// Returns the memory, for registration with a device.
    #[cfg(feature = "ofi")]
    pub(crate) fn memory(&self) -> (NonNull<u8>, usize) {
        (self.start, self.layout.total)
    }

    /// Returns whether all buffers are taken in this process. Then no other process may use them.
    pub(crate) fn are_all_taken(&self) -> bool {
        self.taken.iter().all(|taken| taken.load(Acquire))
    }

    /// Takes all buffers that are not taken.
    pub(crate) fn take_all(self: &Arc<Self>) -> Vec<Buffer> {
        (0..self.buffers()).filter_map(|number| self.take(number)).collect()
    }
}

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this arena's mapping, of which no buffer is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.layout.total) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Memory for a fragment, and for the message before it. A buffer owns its memory until it is
/// dropped or handed on.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    number: u32,
    arena: Arc<Arena>,
}

// SAFETY: a buffer owns its memory.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns the number of the buffer in its arena.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Writes `message` before the fragment, and returns both: the message and `bytes` bytes. They
    /// are contiguous so that one call sends them.
    ///
    /// # Panics
    /// If `bytes` exceeds the size of the buffer.
    pub fn with_message(&mut self, message: &[u8; MESSAGE_BYTES], bytes: usize) -> &[u8] {
        let all = &mut self.whole()[..MESSAGE_BYTES + bytes];
        all[..MESSAGE_BYTES].copy_from_slice(message);
        all
    }

    /// Returns the memory for the message and the fragment.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        let bytes = MESSAGE_BYTES + self.len();
        // SAFETY: the buffer also owns the memory before the fragment.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.arena.taken[self.number as usize].store(false, Release);
    }
}

/// The fragment's memory, aligned to 64 bytes.
impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, initialised by the kernel, and owned: within this process by `taken`, and among
        // the hosts of a machine by the protocol: only the host that was handed the buffer uses it.
        unsafe { slice::from_raw_parts(self.start.as_ptr().add(MESSAGE_BYTES), self.arena.layout.fragment_bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(MESSAGE_BYTES), self.arena.layout.fragment_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_aligned_and_taken_once() {
        let arena = Arena::private(3, 5000).unwrap();
        let mut buffers = arena.take_all();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!((buffer.number() as usize, buffer.len(), buffer.as_ptr().addr() % 64), (number, 5000, 0));
            buffer.fill(number as u8 + 1);
        }
        assert!(arena.take(1).is_none() && arena.take(3).is_none());
        let message = [9; MESSAGE_BYTES];
        assert!(buffers[1].with_message(&message, 7) == [[9; MESSAGE_BYTES].as_slice(), &[2; 7]].concat());
        let last = buffers.pop().unwrap();
        drop((buffers, arena));
        assert!(last.iter().all(|&byte| byte == 3));
        assert!(Arc::clone(&last.arena).take(1).unwrap().iter().all(|&byte| byte == 2));
        assert!(Arena::private(u32::MAX, usize::MAX / 8).is_err());
        assert!(Arena::private(1, usize::MAX).is_err());
    }

    #[test]
    fn what_is_written_to_a_shared_buffer_is_read_by_the_other() {
        let (ours, memory) = Arena::shared(2, 4096).unwrap();
        let theirs = Arena::of_other(&memory, 2, 4096).unwrap();
        let mut buffer = ours.take(1).unwrap();
        buffer[4095] = 7;
        drop(buffer);
        assert_eq!(theirs.take(1).unwrap()[4095], 7);
        assert_eq!(theirs.take(0).unwrap()[4095], 0);
    }

    #[test]
    fn memory_that_its_owner_could_take_away_is_refused() {
        let (_, memory) = Arena::shared(2, 4096).unwrap();
        assert!(Arena::of_other(&memory, 3, 4096).is_err());
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 4 * 4096).unwrap();
        assert!(Arena::of_other(&open, 2, 4096).is_err());
    }
}
