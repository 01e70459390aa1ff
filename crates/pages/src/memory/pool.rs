//! Recycled pages, backed by memory before they are written and never zeroed.

use std::{
    io,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Block, Home, PageMemory, check_page_bytes, free::FreeList, region::Region};
use crate::error::PagesError;

/// The size of the stretches in which pages are backed.
const STRETCH_BYTES: usize = 8 << 20;

/// A pool of pages of one size.
///
/// The pages lie in one stretch of address space, on huge pages if the system supports them. They
/// are backed with memory ahead of their first use. A returned page is the next one to be taken,
/// unchanged. Taking and returning a page are a few atomic operations. Memory stays with the pool
/// until it and all its pages have been dropped.
///
/// ```
/// use annulus_pages::{Pool, memory::PageMemory};
///
/// let pool = Pool::new(4096, 8192)?;
/// let pages = (pool.take()?, pool.take()?);
/// assert_eq!((pool.out(), pool.limit()), (2, 2));
/// assert!(pool.take().is_err());
/// drop(pages);
/// assert_eq!(pool.out(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    page_bytes: usize,
    limit: usize,
    region: Region,
    free: FreeList,
    /// The first page that was never taken. All pages before it have been.
    fresh: AtomicU32,
    /// The number of pages that are backed, or about to be.
    backed: AtomicUsize,
    out: AtomicUsize,
    peak: AtomicUsize,
}

impl Pool {
    /// Creates a pool of up to `limit_bytes` of pages of `page_bytes`, at least one page. It
    /// reserves address space, not memory. However, for each possible page the pool takes 4 bytes,
    /// and a shuffle 64.
    ///
    /// # Errors
    /// If a [`PageShape`](crate::page::PageShape) does not allow the size of pages, the system
    /// refuses the address space, or there would be more pages than 32 bits can number.
    pub fn new(page_bytes: usize, limit_bytes: usize) -> io::Result<Self> {
        check_page_bytes(page_bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let limit = (limit_bytes / page_bytes).max(1);
        if u32::try_from(limit).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the pool would have more than 2^32 pages: use larger pages",
            ));
        }
        let shared = Shared {
            page_bytes,
            limit,
            region: Region::reserve(limit * page_bytes)?,
            free: FreeList::new(limit),
            fresh: AtomicU32::new(0),
            backed: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the largest number of pages that can be in use.
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// Returns the number of pages in use.
    pub fn out(&self) -> usize {
        self.shared.out.load(Relaxed)
    }

    /// Backs the first `pages` pages with memory now.
    pub fn warm(&self, pages: usize) {
        self.shared.back(pages.min(self.shared.limit));
    }

    pub(crate) fn take_number(&self) -> Option<u32> {
        self.shared.take()
    }

    pub(crate) fn give_back_number(&self, page: u32) {
        self.shared.put(page);
    }

    /// Returns the address of a page that is in use.
    pub(crate) fn address(&self, page: u32) -> NonNull<u8> {
        self.shared.address(page)
    }

    /// Returns the block of a page that was taken by number.
    pub(crate) fn block(&self, page: u32) -> Block {
        let home: Arc<dyn Home> = Arc::clone(&self.shared) as _;
        // SAFETY: the mapping is zeroed or written, pages are aligned to 4 KiB, this one is in use, and
        // blocks hold the pool.
        unsafe { Block::new(self.address(page), self.shared.page_bytes, home) }
    }
}

impl PageMemory for Pool {
    fn take(&self) -> Result<Block, PagesError> {
        let shared = &self.shared;
        let exhausted = || PagesError::Exhausted { pages: shared.limit, page_bytes: shared.page_bytes };
        shared.take().map(|page| self.block(page)).ok_or_else(exhausted)
    }

    fn page_bytes(&self) -> usize {
        self.shared.page_bytes
    }

    fn take_peak(&self) -> usize {
        self.shared.peak.swap(self.out(), Relaxed)
    }
}

impl Shared {
    fn take(&self) -> Option<u32> {
        let page = self.free.pop().or_else(|| self.take_fresh())?;
        let out = self.out.fetch_add(1, Relaxed) + 1;
        if out > self.peak.load(Relaxed) {
            self.peak.fetch_max(out, Relaxed);
        }
        Some(page)
    }

    fn take_fresh(&self) -> Option<u32> {
        let more = |fresh: u32| ((fresh as usize) < self.limit).then_some(fresh + 1);
        let page = self.fresh.fetch_update(Relaxed, Relaxed, more).ok()?;
        let stretch = STRETCH_BYTES.div_ceil(self.page_bytes);
        let needed = page as usize + 1;
        if needed > self.backed.load(Relaxed) {
            self.back((needed + stretch).min(self.limit));
        }
        Some(page)
    }

    /// Backs the first `pages` pages. Only the thread that raises `backed` calls the system. Other
    /// threads may meanwhile fault on these pages.
    fn back(&self, pages: usize) {
        let backed = self.backed.fetch_max(pages, Relaxed);
        if pages > backed {
            self.region.populate(backed * self.page_bytes, (pages - backed) * self.page_bytes);
        }
    }

    fn put(&self, page: u32) {
        self.out.fetch_sub(1, Relaxed);
        self.free.push(page);
    }

    fn address(&self, page: u32) -> NonNull<u8> {
        debug_assert!((page as usize) < self.limit);
        // SAFETY: the region has `limit` pages.
        unsafe { self.region.start().add(page as usize * self.page_bytes) }
    }
}

impl Home for Shared {
    fn give_back(&self, start: NonNull<u8>, _bytes: usize) {
        let offset = start.as_ptr().addr() - self.region.start().as_ptr().addr();
        self.put((offset / self.page_bytes) as u32);
    }
}
