//! Places on shared pages. They are taken under a lock for each partition, and written without it
//! (paper, sections 3.3.1 and 3.3.5).

use std::{
    marker::PhantomData,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use annulus_pages::{
    PagesError,
    memory::PageMemory,
    page::{
        Block, PageShape, PayloadSize,
        write::{self, Extent, Run, TupleExtents},
    },
};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

use super::{outlet::Outlet, take_block};

/// The pages of all partitions. Only the thread that takes a place writes it, without a lock. A
/// page goes to the outlet when no place is left on it and all are written.
pub(crate) struct Places<'a> {
    memory: &'a dyn PageMemory,
    outlet: Outlet<'a>,
    partitions: Vec<CachePadded<Mutex<Partition>>>,
}

/// A taken place. Its page stays where it is until the claim is completed.
pub(super) struct Claim<'m> {
    page: NonNull<SharedPage>,
    partition: usize,
    pub(super) at: Extent,
    /// The extent of the tuples that it has room for.
    pub(super) room: Extent,
    manager: PhantomData<&'m ()>,
}

/// A page that several threads write. Each writes its own places.
struct SharedPage {
    block: Block,
    /// The page's number in the list of its partition.
    number: usize,
    /// [`OPEN`] minus the written tuples. When the page is closed, the taken tuples replace `OPEN`.
    /// So it reaches zero once, when the page is closed and all its places are written.
    left: AtomicU32,
}

/// More tuples than a page has room for.
const OPEN: u32 = 1 << 31;

#[derive(Default)]
struct Partition {
    /// The page on which places are taken.
    open: Option<OpenPage>,
    /// The pages that are not complete. They never move, so that places on them can be written
    /// without the lock.
    pages: Vec<Option<PageEntry>>,
    /// The numbers that no page has.
    free: Vec<usize>,
    /// The blocks for later pages.
    prepared: Vec<Block>,
}

struct OpenPage {
    page: NonNull<SharedPage>,
    /// The end of the taken places.
    end: Extent,
}

// SAFETY: the pointer leads to a page of the list, which is with it.
unsafe impl Send for OpenPage {}

struct PageEntry {
    /// Shared with no other owner. An `Arc`, because pointers to it stay valid when it is moved.
    page: Arc<CachePadded<SharedPage>>,
    /// The end of the taken places; set when the page is closed.
    end: Extent,
}

/// A page on which all places are taken and written.
type FilledPage = (Block, Extent);

impl<'a> Places<'a> {
    /// Creates a manager with one partition for each list of `prepared`. These blocks are used
    /// before new ones are taken.
    pub(crate) fn new(memory: &'a dyn PageMemory, outlet: Outlet<'a>, prepared: Vec<Vec<Block>>) -> Self {
        let partition = |prepared| CachePadded::new(Mutex::new(Partition { prepared, ..Partition::default() }));
        Self { memory, outlet, partitions: prepared.into_iter().map(partition).collect() }
    }

    /// Takes a place for the first of the tuples, at least one. A new page is added under the lock.
    ///
    /// # Errors
    /// If page memory runs out.
    #[inline(always)]
    pub(super) fn claim(&self, partition: usize, need: &TupleExtents<'_>) -> Result<Claim<'_>, PagesError> {
        let shape = self.outlet.shape();
        let mut pages = self.lock(partition);
        let fitting = match &pages.open {
            Some(open) => need.fitting(shape, open.end),
            None => Extent::default(),
        };
        let (room, whole) = if fitting.tuples == 0 { self.add_page(&mut pages, need)? } else { (fitting, None) };
        let open = pages.open.as_mut().expect("a page was added if there was none");
        let (page, at) = (open.page, open.end);
        open.end = at + room;
        if is_full(shape, open.end) {
            // The places that were just taken are not written, so the page is not whole yet.
            let whole = pages.close();
            debug_assert!(whole.is_none());
        }
        drop(pages);
        if let Some((block, end)) = whole {
            self.outlet.hand_on(partition, block, end);
        }
        Ok(Claim { page, partition, at, room, manager: PhantomData })
    }

    /// Replaces the open page by an empty one. Returns the extent of the tuples that fit there, and
    /// the replaced page if all its places are written.
    #[cold]
    fn add_page(
        &self,
        pages: &mut Partition,
        need: &TupleExtents<'_>,
    ) -> Result<(Extent, Option<FilledPage>), PagesError> {
        let block = match pages.prepared.pop() {
            Some(block) => block,
            None => take_block(self.memory, self.outlet.shape())?,
        };
        let whole = pages.close();
        pages.open(block);
        Ok((need.fitting(self.outlet.shape(), Extent::default()), whole))
    }

    /// Writes a run to a part of a claim, from `at` on.
    ///
    /// # Safety
    /// The claim is not completed, and has room for the run there. The thread has not written that
    /// part before.
    #[inline(always)]
    pub(super) unsafe fn write(&self, claim: &Claim<'_>, at: Extent, run: &Run<'_>) {
        // SAFETY: pages with claims that are not completed stay in the list, which nothing else removes
        // them from while the claim borrows the manager.
        let page = unsafe { claim.page.as_ref() };
        // SAFETY: the caller's promise, and blocks have the shape's size.
        unsafe { write::run(page.block.start(), self.outlet.shape(), at, run) };
    }

    /// Counts all tuples of a claim as written. The last one of a closed page hands it on.
    #[inline(always)]
    pub(super) fn complete(&self, claim: Claim<'_>) {
        let Claim { page, partition, room, .. } = claim;
        // SAFETY: as in `write`. The page is not used after the count says that it is written.
        let (number, whole) = unsafe { (page.as_ref().number, page.as_ref().written(room.tuples as u32)) };
        if whole {
            self.hand_on(partition, number);
        }
    }

    #[cold]
    fn hand_on(&self, partition: usize, number: usize) {
        let (block, end) = self.lock(partition).remove(number);
        self.outlet.hand_on(partition, block, end);
    }

    /// Hands on the pages that are not full.
    ///
    /// # Panics
    /// If a place was taken but not written, as after an error.
    pub(crate) fn finish(self) {
        let Self { outlet, partitions, .. } = self;
        for (partition, pages) in partitions.into_iter().enumerate() {
            let mut pages = pages.into_inner().into_inner();
            if let Some((block, end)) = pages.close() {
                outlet.hand_on(partition, block, end);
            }
            assert!(pages.pages.iter().all(Option::is_none), "a place was taken and not written");
        }
    }

    #[inline]
    fn lock(&self, partition: usize) -> MutexGuard<'_, Partition> {
        self.partitions[partition].lock()
    }
}

/// Returns whether no place is left on a page of tuples of one size.
#[inline(always)]
fn is_full(shape: &PageShape, end: Extent) -> bool {
    matches!(shape.payload(), PayloadSize::Fixed(_)) && end.tuples == shape.capacity()
}

impl Partition {
    fn open(&mut self, block: Block) {
        let number = self.free.pop().unwrap_or(self.pages.len());
        let page = Arc::new(CachePadded::new(SharedPage { block, number, left: AtomicU32::new(OPEN) }));
        self.open = Some(OpenPage { page: NonNull::from(&**page), end: Extent::default() });
        if number == self.pages.len() {
            self.pages.push(None);
        }
        self.pages[number] = Some(PageEntry { page, end: Extent::default() });
    }

    /// Closes the open page, if there is one. Returns it if all its places are written.
    fn close(&mut self) -> Option<FilledPage> {
        let OpenPage { page, end } = self.open.take()?;
        // SAFETY: it was open, so it is still in the list.
        let page = unsafe { page.as_ref() };
        let number = page.number;
        self.pages[number].as_mut().expect("an open page is in the list").end = end;
        page.written(OPEN - end.tuples as u32).then(|| self.remove(number))
    }

    /// Takes a page out of the list.
    fn remove(&mut self, number: usize) -> FilledPage {
        let PageEntry { page, end } = self.pages[number].take().expect("a page is whole once");
        self.free.push(number);
        (Arc::into_inner(page).expect("only the list owns pages").into_inner().block, end)
    }
}

impl SharedPage {
    /// Counts `tuples` as written. Returns true for one caller only: then the page is closed, and
    /// all its places are written and can be read.
    #[inline(always)]
    fn written(&self, tuples: u32) -> bool {
        // Release for the thread that hands the page on, which acquires all writes.
        self.left.fetch_sub(tuples, Ordering::AcqRel) == tuples
    }
}
