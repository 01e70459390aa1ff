//! Zeroed pages from the heap.

use std::{
    alloc::{Layout, alloc, dealloc},
    ptr::NonNull,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::{Block, Home, PageMemory};
use crate::error::PagesError;

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
    /// The bytes of a piece of memory, from which pages are cut.
    piece_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pieces: Vec<FreeBlock>,
    free: Vec<FreeBlock>,
    out: usize,
    peak: usize,
}

#[derive(Clone, Copy, Debug)]
struct FreeBlock(NonNull<u8>);

// SAFETY: a free block is owned by the list alone, and a piece by the heap.
unsafe impl Send for FreeBlock {}

impl Heap {
    /// Creates a heap of pages of `page_bytes` bytes, which a [`PageShape`](crate::page::PageShape)
    /// allows. Nothing is allocated yet.
    pub fn new(page_bytes: usize) -> Self {
        Self::in_pieces(page_bytes, page_bytes)
    }

    /// Creates a heap that allocates pieces of `piece_bytes`, at least a page, and cuts pages from
    /// them. So the same memory can be [cut again](Self::recut).
    pub fn in_pieces(page_bytes: usize, piece_bytes: usize) -> Self {
        let piece_bytes = piece_bytes.max(page_bytes);
        Self { shared: Arc::new(Shared { page_bytes, piece_bytes, state: Mutex::default() }) }
    }

    /// Cuts the memory into pages of another size, at most that of a piece. Returns false, and
    /// changes nothing, if pages are larger than that, a page is in use, or the heap has clones.
    pub fn recut(&mut self, page_bytes: usize) -> bool {
        let Some(shared) = Arc::get_mut(&mut self.shared) else { return false };
        if page_bytes > shared.piece_bytes {
            return false;
        }
        shared.page_bytes = page_bytes;
        let state = shared.state.get_mut();
        (state.peak, state.free) = (0, Vec::with_capacity(state.free.len()));
        // The pages of the first piece are taken first, so that what was touched is used again.
        for piece in state.pieces.iter().rev() {
            state.free.extend(pages(*piece, shared.piece_bytes, page_bytes).rev());
        }
        true
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
        let Some(FreeBlock(start)) = recycled.or_else(|| shared.allocate()) else {
            let mut state = shared.lock();
            state.out -= 1;
            return Err(PagesError::Exhausted { pages: state.out, page_bytes: shared.page_bytes });
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
        self.state.lock()
    }

    /// Allocates a piece and returns its first page. The others become free.
    fn allocate(&self) -> Option<FreeBlock> {
        // SAFETY: the layout's size is not zero.
        let piece = FreeBlock(NonNull::new(unsafe { alloc(self.layout()) })?);
        let mut pages = pages(piece, self.piece_bytes, self.page_bytes);
        let first = pages.next();
        let mut state = self.lock();
        state.pieces.push(piece);
        state.free.extend(pages.rev());
        first
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.piece_bytes.max(64), 64).expect("page sizes are bounded")
    }
}

/// Returns the pages that fit in a piece.
fn pages(
    FreeBlock(start): FreeBlock,
    piece_bytes: usize,
    page_bytes: usize,
) -> impl DoubleEndedIterator<Item = FreeBlock> {
    // SAFETY: whole pages of the piece.
    (0..piece_bytes / page_bytes).map(move |page| FreeBlock(unsafe { start.add(page * page_bytes) }))
}

impl Home for Shared {
    fn give_back(&self, start: NonNull<u8>, bytes: usize) {
        debug_assert_eq!(bytes, self.page_bytes);
        let mut state = self.lock();
        state.out -= 1;
        state.free.push(FreeBlock(start));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let layout = self.layout();
        for FreeBlock(start) in std::mem::take(&mut self.lock().pieces) {
            // SAFETY: allocated with this layout, and no part is in a block, since blocks hold the heap.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_memory_is_cut_into_pages_of_other_sizes() {
        let addresses = |heap: &Heap, pages: usize| {
            let held: Vec<Block> = (0..pages).map(|_| heap.take().unwrap()).collect();
            assert!(
                held.iter().all(|block| block.len() == heap.page_bytes() && block.as_slice().iter().all(|&b| b == 0))
            );
            let mut starts: Vec<_> = held.iter().map(|block| block.start().as_ptr().addr()).collect();
            starts.sort_unstable();
            assert!(starts.windows(2).all(|two| two[1] - two[0] >= heap.page_bytes()), "pages overlap");
            (starts[0], starts[pages - 1] + heap.page_bytes())
        };
        let mut heap = Heap::in_pieces(4 << 10, 64 << 10);
        let small = addresses(&heap, 16);
        assert!(heap.recut(20 << 10) && heap.page_bytes() == 20 << 10);
        let large = addresses(&heap, 3);
        assert!(small.0 <= large.0 && large.1 <= small.1, "the piece is used again");
        assert_eq!((heap.take_peak(), heap.take_peak()), (3, 0));
        let held = heap.take().unwrap();
        assert!(!heap.recut(4 << 10), "a page is in use");
        drop(held);
        assert!(!heap.recut(65 << 10), "larger than a piece");
        assert!(heap.recut(4 << 10));
        addresses(&heap, 40);
    }
}
