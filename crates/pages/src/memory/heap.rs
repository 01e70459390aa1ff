//! Zeroed pages from the heap.

use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Home, PageMemory};
use crate::{error::PagesError, page::Block};

/// Pages from the heap, zeroed each time they are taken, as the paper's page managers take them.
///
/// Returned blocks are kept, as a warm allocator would keep them. So taking one costs the zeroing,
/// but no page fault. The memory goes back to the system when the heap and all its blocks have been
/// dropped.
#[derive(Clone, Debug)]
pub struct Heap {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    page_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Free>,
    out: usize,
    peak: usize,
}

#[derive(Debug)]
struct Free(NonNull<u8>);

// SAFETY: a free block is owned by the list alone.
unsafe impl Send for Free {}

impl Heap {
    /// Creates a heap of pages of `page_bytes` bytes, which a [`PageShape`](crate::page::PageShape)
    /// allows. Nothing is allocated yet.
    pub fn new(page_bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { page_bytes, state: Mutex::default() }) }
    }

    /// Allocates and touches pages until `pages` are free, so that a measurement does not count
    /// page faults.
    ///
    /// # Errors
    /// Those of [`PageMemory::take`].
    pub fn warm(&self, pages: usize) -> Result<(), PagesError> {
        let held: Result<Vec<Block>, PagesError> = (0..pages).map(|_| self.take()).collect();
        held.map(drop)
    }
}

impl PageMemory for Heap {
    fn take(&self) -> Result<Block, PagesError> {
        let shared = &self.shared;
        let recycled = {
            let mut state = shared.lock();
            state.out += 1;
            state.peak = state.peak.max(state.out);
            state.free.pop()
        };
        let start = match recycled {
            Some(Free(start)) => start,
            // SAFETY: the layout's size is not zero.
            None => match NonNull::new(unsafe { alloc(shared.layout()) }) {
                Some(start) => start,
                None => {
                    let mut state = shared.lock();
                    state.out -= 1;
                    return Err(PagesError::Exhausted { pages: state.out, page_bytes: shared.page_bytes });
                }
            },
        };
        // SAFETY: the block has the layout's size, and belongs to this function.
        unsafe { start.write_bytes(0, shared.page_bytes) };
        let home: Arc<dyn Home> = Arc::clone(&self.shared) as _;
        // SAFETY: zeroed, aligned by the layout, and freed only by this heap.
        Ok(unsafe { Block::new(start, shared.page_bytes, home) })
    }

    fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    fn take_peak(&self) -> usize {
        let mut state = self.shared.lock();
        let out = state.out;
        std::mem::replace(&mut state.peak, out)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.page_bytes.max(64), 64).expect("page sizes are bounded")
    }
}

impl Home for Shared {
    fn give_back(&self, start: NonNull<u8>, bytes: usize) {
        debug_assert_eq!(bytes, self.page_bytes);
        let mut state = self.lock();
        state.out -= 1;
        state.free.push(Free(start));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let layout = self.layout();
        for Free(start) in std::mem::take(&mut self.lock().free) {
            // SAFETY: allocated with this layout, and no longer in a block, since blocks hold the heap.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}
