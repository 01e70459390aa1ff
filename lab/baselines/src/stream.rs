//! Pages that are taken out while a partitioner runs.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{IntoIter, SyncSender, sync_channel},
    },
    thread,
};

use annulus_pages::{PagesError, TupleBatch, page::Page, partition::PageSink};

use crate::{
    partitioner::{Job, Partitioner},
    source::{TupleReader, TupleSource},
};

/// The pages of a running shuffle with their partitions, in the order of completion. Dropping it
/// ends the shuffle.
pub type Pages = IntoIter<(usize, Page)>;

/// Runs a partitioner, and `consume` on this thread meanwhile. Up to `waiting` complete pages wait
/// for the consumer. A thread that completes another one waits until there is room, so memory is
/// bounded if the partitioner [streams](Partitioner::streams). Returns the result of `consume`, and
/// that of the shuffle: [`PagesError::Closed`] if the consumer left before the last page.
///
/// ```
/// use annulus_baselines::{
///     generator::{Generator, Keys, Payload},
///     partitioner::{Job, SmbBatched},
///     stream::{Pages, stream},
/// };
/// use annulus_pages::{memory::Heap, page::{PageLayout, PageShape, PayloadSize}};
/// use annulus_rows::partition::Modulo;
///
/// let source = Generator::new(10_000, 1, Keys::Uniform, Payload::Fixed(12), 100)?;
/// let job = Job {
///     partitions: Modulo::new(4),
///     threads: 2,
///     shape: PageShape::new(4096, PageLayout::Slotted, PayloadSize::Fixed(12))?,
///     memory: &Heap::new(4096),
///     source: &source,
///     buffer_bytes: 8192,
/// };
/// let tuples = |pages: Pages| pages.map(|(_, page)| page.header().claimed).sum::<u32>();
/// let (tuples, done) = stream(&SmbBatched, &job, 2, tuples);
/// assert_eq!((tuples, done), (10_000, Ok(())));
/// # Ok::<(), annulus_pages::PagesError>(())
/// ```
///
/// # Panics
/// If the partitioner or the consumer panics, after all threads have ended.
pub fn stream<T>(
    partitioner: &dyn Partitioner,
    job: &Job<'_>,
    waiting: usize,
    consume: impl FnOnce(Pages) -> T,
) -> (T, Result<(), PagesError>) {
    let (to, from) = sync_channel(waiting);
    thread::scope(|scope| {
        let shuffle = scope.spawn(move || {
            let sink = Sender { to, closed: AtomicBool::new(false) };
            let source = StoppableSource { source: job.source, closed: &sink.closed };
            let placed = partitioner.place(&Job { source: &source, ..*job }, &sink);
            if sink.closed.load(Relaxed) { placed.and(Err(PagesError::Closed)) } else { placed }
        });
        let consumed = consume(from.into_iter());
        let placed = shuffle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (consumed, placed)
    })
}

/// A sink that passes pages to the consumer. When it has left, pages are dropped.
struct Sender {
    to: SyncSender<(usize, Page)>,
    closed: AtomicBool,
}

impl PageSink for Sender {
    fn take(&self, partition: usize, page: Page) {
        if self.to.send((partition, page)).is_err() {
            self.closed.store(true, Relaxed);
        }
    }
}

/// A source that ends when the consumer has left.
struct StoppableSource<'a> {
    source: &'a dyn TupleSource,
    closed: &'a AtomicBool,
}

struct StoppableReader<'a> {
    reader: Box<dyn TupleReader + 'a>,
    closed: &'a AtomicBool,
}

impl TupleSource for StoppableSource<'_> {
    fn reader(&self, thread: usize, threads: usize) -> Box<dyn TupleReader + '_> {
        Box::new(StoppableReader { reader: self.source.reader(thread, threads), closed: self.closed })
    }
}

impl TupleReader for StoppableReader<'_> {
    fn fill(&mut self, batch: &mut TupleBatch) -> bool {
        !self.closed.load(Relaxed) && self.reader.fill(batch)
    }
}
