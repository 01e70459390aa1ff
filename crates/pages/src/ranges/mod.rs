//! Our own way onto pages.
//!
//! Tuples collect in a small buffer for each partition, one set of them a thread. A full buffer is
//! copied, in whole cache lines and past the cache, to a part of the partition's current page that
//! the thread has claimed; claims are large, so that the shared state is touched rarely, and grow
//! with the partition, so that little is left unwritten in the end. Pages come from a [`Pool`],
//! recycled and never zeroed. A page goes to the [`PageSink`] when it is full and all its tuples
//! are written, while others fill. `PROTOCOL.md` has the rules.

mod buffers;
mod close;
mod fixed;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
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

/// How pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// Past the cache if the pool is larger than caches are.
    #[default]
    Auto,
    /// Past the cache: for pages that nobody reads soon.
    PastCache,
    /// Through the cache: for pages that are read at once.
    Cached,
}

/// In which order the pages of a partition go to the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// As they become complete: full pages go on while a slow writer holds another one back. In the
    /// end tuples are moved, so that all pages but a partition's last are full.
    #[default]
    Completed,
    /// As they were begun, so that the tuples of each writer come in the order in which it wrote
    /// them. A page waits for those before it: a writer that is given nothing should
    /// [flush](Writer::flush), or it holds the others' pages back, and a pool's end. Pages that
    /// a writer ends on, or on which it waits for memory, need not be full.
    Written,
}

/// Bytes of a page that suit a shuffle into so many partitions: large pages while there are few
/// partitions, since a page costs a turn of its lane; small ones when there are many, since each
/// partition has one that is not full. A partition's open page then takes up to 32 MiB altogether
/// for 32 partitions, and 256 MiB for 1,024, where pages of 5 MiB would take 5 GiB.
pub fn default_page_bytes(partitions: usize) -> usize {
    match partitions {
        0..=32 => 1 << 20,
        33..=256 => 512 << 10,
        _ => 256 << 10,
    }
}

/// Pools from here on are larger than the caches of most machines.
const LARGE_POOL_BYTES: usize = 32 << 20;

/// A shuffle into `partitions` partitions with `writers` writers, one for each thread. Pages of
/// `shape` come from `pool`, which needs at least one for each partition, and go to `sink` when
/// complete.
///
/// Memory: the pages, and 0.5 to 2 MiB of buffers a writer (more from about 1,000 partitions with
/// large tuples on).
///
/// # Errors
/// If the pool's pages have another size, or it has fewer than there are partitions, or 2^19 and
/// more with [`PageOrder::Written`].
pub fn shuffle<S: PageSink>(
    partitions: Modulo,
    writers: usize,
    shape: PageShape,
    pool: Pool,
    stores: Stores,
    order: PageOrder,
    sink: S,
) -> Result<Vec<Writer<S>>, PagesError> {
    if pool.page_bytes() != shape.page_bytes() {
        let reason = "the pool's pages must have the shape's size";
        return Err(PagesError::Shape { page_bytes: pool.page_bytes(), reason });
    }
    if pool.limit() < partitions.consumers() {
        let reason = "the pool needs at least one page for each partition: raise its limit, or use smaller pages";
        return Err(PagesError::Option { option: "pages of the pool", value: pool.limit(), reason });
    }
    if order == PageOrder::Written && pool.limit() >= TURNS {
        let reason =
            "pages are told apart by their turns only below 524,288 of them, for PageOrder::Written: use larger ones";
        return Err(PagesError::Option { option: "pages of the pool", value: pool.limit(), reason });
    }
    let past_cache = match stores {
        Stores::Auto => pool.limit() * pool.page_bytes() > LARGE_POOL_BYTES,
        Stores::PastCache => true,
        Stores::Cached => false,
    };
    let shared = Arc::new(Shared::new(partitions, shape, pool, sink, Store::best(past_cache), order, writers));
    Ok((0..writers).map(|_| Writer::new(Arc::clone(&shared))).collect())
}
