//! Places on shared pages. They are taken under a lock for each partition, and written without it
//! (paper, sections 3.3.1 and 3.3.5).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block, Page, PageShape,
        write::{self, Extent, Need, Run},
    },
};
use crossbeam_utils::CachePadded;

use super::{complete, take_block};

/// The pages of all partitions. Only the thread that takes a place writes it, without a lock.
pub(crate) struct Places<'a> {
    shape: PageShape,
    memory: &'a dyn PageMemory,
    partitions: Vec<CachePadded<Mutex<Partition>>>,
}

/// A taken place.
#[derive(Clone, Copy)]
pub(super) struct Claim<'m> {
    pub(super) page: &'m SharedPage,
    pub(super) at: Extent,
    /// The extent of the tuples that it has room for.
    pub(super) room: Extent,
}

/// A page that several threads write. Each writes its own places.
pub(super) struct SharedPage {
    block: Block,
    /// The number of written tuples.
    completed: AtomicU32,
}

#[derive(Default)]
struct Partition {
    /// The page on which places are taken.
    open: Option<Listed>,
    full: Vec<Listed>,
    /// The blocks for later pages.
    prepared: Vec<Block>,
}

struct Listed {
    /// The page. It never moves, so that places on it can be written without the lock.
    page: Arc<CachePadded<SharedPage>>,
    /// The end of the taken places.
    end: Extent,
}

impl<'a> Places<'a> {
    /// Creates a manager with one partition for each list of `prepared`. These blocks are used
    /// before new ones are taken.
    pub(crate) fn new(shape: PageShape, memory: &'a dyn PageMemory, prepared: Vec<Vec<Block>>) -> Self {
        let partition = |prepared| CachePadded::new(Mutex::new(Partition { prepared, ..Partition::default() }));
        Self { shape, memory, partitions: prepared.into_iter().map(partition).collect() }
    }

    /// Returns the shape of the pages.
    pub(super) fn shape(&self) -> &PageShape {
        &self.shape
    }

    /// Takes a place for the first of the tuples, at least one. A new page is added under the lock.
    ///
    /// # Errors
    /// If page memory runs out.
    #[inline(always)]
    pub(super) fn claim(&self, partition: usize, need: &Need<'_>) -> Result<Claim<'_>, PagesError> {
        let mut pages = self.lock(partition);
        let fitting = match &pages.open {
            Some(open) => need.fitting(&self.shape, open.end),
            None => Extent::default(),
        };
        let room = if fitting.tuples == 0 { self.add_page(&mut pages, need)? } else { fitting };
        let open = pages.open.as_mut().expect("a page was added if there was none");
        let at = open.end;
        open.end = at + room;
        let page: *const CachePadded<SharedPage> = Arc::as_ptr(&open.page);
        // SAFETY: the list keeps the page until the manager is moved or dropped, which the claim's borrow
        // forbids.
        Ok(Claim { page: unsafe { &*page }, at, room })
    }

    /// Replaces the open page by an empty one. Returns the extent of the tuples that fit there.
    #[cold]
    fn add_page(&self, pages: &mut Partition, need: &Need<'_>) -> Result<Extent, PagesError> {
        let block = match pages.prepared.pop() {
            Some(block) => block,
            None => take_block(self.memory, &self.shape)?,
        };
        let page = Arc::new(CachePadded::new(SharedPage { block, completed: AtomicU32::new(0) }));
        pages.full.extend(pages.open.replace(Listed { page, end: Extent::default() }));
        Ok(need.fitting(&self.shape, Extent::default()))
    }

    /// Returns the pages of each partition. Empty pages are given back.
    ///
    /// # Panics
    /// If a place was taken but not written, as after an error.
    pub(crate) fn finish(self) -> Vec<Vec<Page>> {
        let Self { shape, partitions, .. } = self;
        let pages = |(partition, pages): (usize, CachePadded<Mutex<Partition>>)| {
            let pages = pages.into_inner().into_inner().unwrap_or_else(PoisonError::into_inner);
            let used = pages.full.into_iter().chain(pages.open).filter(|listed| listed.end.tuples > 0).enumerate();
            used.map(|(sequence, listed)| {
                let page = Arc::into_inner(listed.page).expect("only the list owns pages").into_inner();
                let completed = page.completed.load(Ordering::Acquire) as usize;
                assert_eq!(completed, listed.end.tuples, "a place was taken and not written");
                complete(page.block, &shape, partition, sequence, listed.end)
            })
            .collect()
        };
        partitions.into_iter().enumerate().map(pages).collect()
    }

    #[inline]
    fn lock(&self, partition: usize) -> MutexGuard<'_, Partition> {
        // The list is consistent even if the memory panics under the lock.
        self.partitions[partition].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedPage {
    /// Writes a run to a place.
    ///
    /// # Safety
    /// The place is part of a claim on this page, belongs to the caller alone, and has room for the
    /// run.
    #[inline(always)]
    pub(super) unsafe fn write(&self, shape: &PageShape, at: Extent, run: &Run<'_>) {
        // SAFETY: the caller's promise, and blocks have the shape's size.
        unsafe { write::run(self.block.start(), shape, at, run) };
    }

    /// Counts `tuples` as written.
    #[inline(always)]
    pub(super) fn complete(&self, tuples: usize) {
        // Release, for the thread that finds the page complete.
        self.completed.fetch_add(tuples as u32, Ordering::Release);
    }
}
