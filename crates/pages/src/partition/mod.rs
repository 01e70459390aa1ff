//! The shuffle onto pages: writers claim ranges of each partition's current page.
//!
//! Each thread has a small buffer for each partition, in which tuples collect. It copies a full
//! buffer, in whole cache lines and past the cache, to a claimed part of the partition's current
//! page. Payloads that fill lines themselves go there straight from the batch. Claims are large, so
//! that the shared state is rarely touched. They grow with the partition, so that little is left
//! unwritten in the end. Pages come from a [`Pool`], recycled and never zeroed. A page goes to the
//! [`PageSink`] when it is full and all its tuples are written, while other pages are being filled.
//! `PROTOCOL.md` has the rules. Most callers use [`stream`](crate::stream()), which hands the pages
//! to consumers.

mod buffers;
mod close;
mod fixed;
mod lists;
#[cfg(all(test, loom))]
mod loom_models;
mod open;
mod order;
mod pairs;
mod shared;
mod state;
mod store;
mod variable;
mod writer;

use std::sync::Arc;

use annulus_rows::partition::Modulo;

pub use shared::PageSink;
pub use variable::variable_writer_bytes;
pub use writer::Writer;

use self::{shared::Shared, state::TURNS, store::Store};
use crate::{
    error::PagesError,
    memory::{PageMemory, Pool},
    page::PageShape,
};

/// The way in which pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stores {
    /// Past the cache if the pool is larger than usual caches.
    #[default]
    Auto,
    /// Past the cache, for pages that are not read soon.
    PastCache,
    /// Through the cache, for pages that are read at once.
    Cached,
}

/// The order in which the pages of a partition go to the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageOrder {
    /// In the order of completion. Full pages go to the sink while a slow writer holds another one
    /// back. At the end tuples are moved, so that all pages except a partition's last are full.
    #[default]
    Completed,
    /// In the order in which the pages were begun, so that each writer's tuples keep their order. A
    /// page waits for those before it. So a writer without input should [flush](Writer::flush):
    /// otherwise it holds the others' pages back, until the pool may be exhausted. Pages may not be
    /// full if a writer ends on them, or waits for memory.
    Written,
}

/// Returns the page size in bytes that suits a shuffle into this number of partitions.
///
/// With few partitions, pages are large, because the partition has to take a new page for each.
/// With many partitions they are small, because each partition has a page that is not full. These
/// open pages take up to 64 MiB together for 32 partitions, and 256 MiB for 1,024. Pages of 5 MiB
/// would take 5 GiB.
pub fn default_page_bytes(partitions: usize) -> usize {
    match partitions {
        0..=32 => 2 << 20,
        33..=256 => 512 << 10,
        _ => 256 << 10,
    }
}

/// The size of a pool from which it is larger than the caches of most machines.
const LARGE_POOL_BYTES: usize = 32 << 20;

/// Creates a shuffle into `partitions` partitions with `writers` writers, one for each thread.
/// Pages of `shape` come from `pool`, which needs at least one for each partition. Each writer may
/// hold a page of each partition until it is full or the writer flushes or ends, so with few tuples
/// on a page, several writers may need as many. Pages go to `sink` when they are complete.
///
/// With payloads of any size, a complete page may wait for the end of a writer's call.
///
/// It takes the memory of the pages, and up to 4 MiB of buffers for each writer, or the bytes of 16
/// tuples for each partition if they are more.
///
/// # Errors
/// [`PagesError::Shape`] if the pool's pages do not have the size of the shape.
/// [`PagesError::Option`] if the pool has fewer pages than there are partitions, or 2^19 pages and
/// more with [`PageOrder::Written`].
pub fn partition_writers<S: PageSink>(
    partitions: Modulo,
    writers: usize,
    shape: PageShape,
    pool: Pool,
    stores: Stores,
    order: PageOrder,
    sink: S,
) -> Result<Vec<Writer<S>>, PagesError> {
    if pool.page_bytes() != shape.page_bytes() {
        let reason = "the pool's pages must have the size of the shape";
        return Err(PagesError::Shape { page_bytes: pool.page_bytes(), reason });
    }
    if pool.limit() < partitions.consumers() {
        let reason = "the pool needs at least one page for each partition: raise its limit, or use smaller pages";
        return Err(PagesError::Option { option: "number of pages in the pool", value: pool.limit(), reason });
    }
    if order == PageOrder::Written && pool.limit() >= TURNS {
        let reason = "with PageOrder::Written a pool has fewer than 524,288 pages: use larger pages";
        return Err(PagesError::Option { option: "number of pages in the pool", value: pool.limit(), reason });
    }
    let past_cache = match stores {
        Stores::Auto => pool.limit() * pool.page_bytes() > LARGE_POOL_BYTES,
        Stores::PastCache => true,
        Stores::Cached => false,
    };
    let shared = Arc::new(Shared::new(partitions, shape, pool, sink, Store::best(past_cache), order, writers));
    Ok((0..writers).map(|_| Writer::new(Arc::clone(&shared))).collect())
}
