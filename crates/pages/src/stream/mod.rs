//! A stream of complete pages, which are taken out while the shuffle runs, in bounded memory.
//!
//! ```text
//! batches -> StreamWriter (one a thread) -> complete pages -> PageStream
//!                                              -> StreamedPage: gives its bytes back when dropped
//! ```
//! Pages of a partition come in the order of their numbers. So do the tuples of each writer, if
//! [`PageOrder`] asks for it. The bytes of pages in the stream and with its consumers are bounded:
//! a writer that completes a page beyond the bound waits. Each writer needs its own thread, because
//! it may wait for another one. Each stream needs its own pool. At low rates,
//! [`StreamWriter::flush`] hands on pages that are not full.
//!
//! ```
//! use annulus_pages::{PageLayout, PageShape, Payloads, PayloadSize, Pool, StreamConfig, Tuples, stream};
//!
//! let shape = PageShape::new(4096, PageLayout::Slotted, PayloadSize::Fixed(2))?;
//! let config = StreamConfig::new(2, 1, shape, Pool::new(4096, 1 << 20)?);
//! let (mut writers, pages) = stream(config)?;
//! let mut writer = writers.remove(0);
//! writer.write(&Tuples::new(&[6, 7], Payloads::Fixed { bytes: b"even", size: 2 })?)?;
//! writer.finish()?;
//!
//! while let Some(page) = pages.next()? {
//!     let tuples: Vec<(u32, &[u8])> = page.reader()?.tuples().collect();
//!     match page.partition() {
//!         0 => assert_eq!(tuples, [(6, &b"ev"[..])]),
//!         _ => assert_eq!(tuples, [(7, &b"en"[..])]),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod queue;

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_rows::partition::{MAX_CONSUMERS, Modulo, Target};
use parking_lot::{Condvar, Mutex};

use self::queue::{Queue, Sink, State};
use crate::{
    error::PagesError,
    memory::{PageMemory, Pool},
    page::{Page, PageShape},
    partition::{PageOrder, Stores, Writer, partition_writers},
    tuples::Tuples,
};

/// The shape and the bounds of a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamConfig {
    /// The number of partitions, 1 to 65536.
    pub partitions: usize,
    /// The number of writers, one for each thread.
    pub writers: usize,
    /// The shape of all pages.
    pub shape: PageShape,
    /// The source of pages. It needs at least one for each partition. If it also has
    /// `credit_bytes`, writers do not wait for memory.
    pub pool: Pool,
    /// The way in which pages are written: [`Stores::Auto`] by default.
    pub stores: Stores,
    /// The order of a partition's pages: [`PageOrder::Completed`] by default.
    pub order: PageOrder,
    /// The largest number of bytes of pages in the stream and with its consumers: by default half
    /// of the pool. One page is always allowed.
    pub credit_bytes: usize,
    /// The longest time that a tuple waits for its page to fill, if its writer is called in time
    /// ([`StreamWriter::due`]). Unlimited by default.
    pub flush_after: Option<Duration>,
}

impl StreamConfig {
    /// Creates the default settings for `partitions` partitions and `writers` writers. Pages of
    /// `shape` come from `pool`.
    pub fn new(partitions: usize, writers: usize, shape: PageShape, pool: Pool) -> Self {
        Self {
            partitions,
            writers,
            shape,
            credit_bytes: pool.limit() * pool.page_bytes() / 2,
            pool,
            stores: Stores::Auto,
            order: PageOrder::Completed,
            flush_after: None,
        }
    }

    /// Sets the [way in which pages are written](Self::stores).
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }

    /// Sets the [order of a partition's pages](Self::order).
    #[must_use]
    pub fn with_order(self, order: PageOrder) -> Self {
        Self { order, ..self }
    }

    /// Sets the largest number of bytes [in the stream and with its consumers](Self::credit_bytes).
    #[must_use]
    pub fn with_credit_bytes(self, credit_bytes: usize) -> Self {
        Self { credit_bytes, ..self }
    }

    /// Sets the longest time that a tuple [waits for its page to fill](Self::flush_after).
    #[must_use]
    pub fn with_flush_after(self, flush_after: Option<Duration>) -> Self {
        Self { flush_after, ..self }
    }
}

/// Creates a shuffle whose pages are taken out while it runs, and returns its two ends.
///
/// # Errors
/// [`PagesError::Option`] if the number of partitions is 0 or above 65536, and those of
/// [`partition_writers`].
pub fn stream(config: StreamConfig) -> Result<(Vec<StreamWriter>, PageStream), PagesError> {
    let StreamConfig { partitions, writers, shape, pool, stores, order, credit_bytes, flush_after } = config;
    if !(1..=MAX_CONSUMERS).contains(&partitions) {
        return Err(PagesError::Option { option: "partitions", value: partitions, reason: "choose 1 to 65536" });
    }
    let most = (credit_bytes / pool.page_bytes()).max(1);
    let state = Mutex::new(State { writers, ..State::default() });
    let queue = Arc::new(Queue { most, pool: pool.clone(), state, changed: Condvar::new() });
    let sink = Sink(Arc::clone(&queue));
    let writers = partition_writers(Modulo::new(partitions), writers, shape, pool, stores, order, sink)?;
    let writers = writers.into_iter().map(|writer| StreamWriter {
        writer: Some(writer),
        queue: Arc::clone(&queue),
        flush_after,
        oldest: None,
    });
    Ok((writers.collect(), PageStream { queue }))
}

/// The writing end of one thread: takes batches of tuples.
///
/// Dropping it before it has [finished](Self::finish) fails the stream: consumers get an error
/// after the pages that are already there.
pub struct StreamWriter {
    writer: Option<Writer<Sink>>,
    queue: Arc<Queue>,
    flush_after: Option<Duration>,
    /// The time at which the first tuple since the last flush was written.
    oldest: Option<Instant>,
}

impl StreamWriter {
    /// Places each tuple in partition `key % partitions`. Waits while consumers hold the largest
    /// allowed number of bytes.
    ///
    /// # Errors
    /// Those of [`Writer::write`], and [`PagesError::Closed`] if no consumer is left.
    pub fn write(&mut self, tuples: &Tuples<'_>) -> Result<(), PagesError> {
        self.step(|writer| writer.write(tuples))
    }

    /// Places each tuple in the partition that `targets` names, otherwise like
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// Those of [`Writer::write_to`], and [`PagesError::Closed`] if no consumer is left.
    pub fn write_to(&mut self, tuples: &Tuples<'_>, targets: &[Target]) -> Result<(), PagesError> {
        self.step(|writer| writer.write_to(tuples, targets))
    }

    /// Returns the time by which this writer should be [flushed](Self::flush) or written to again,
    /// so that its tuples are in time. `None` if no tuple waits. It is meant for a thread that
    /// waits for its input with a timeout.
    pub fn due(&self) -> Option<Instant> {
        self.flush_after.and_then(|after| self.oldest?.checked_add(after))
    }

    /// Hands on the tuples that this writer has placed, on pages that need not be full.
    ///
    /// # Errors
    /// Those of [`Writer::flush`], and [`PagesError::Closed`] if no consumer is left.
    pub fn flush(&mut self) -> Result<(), PagesError> {
        self.oldest = None;
        let flushed = self.step(Writer::flush);
        self.oldest = None;
        flushed
    }

    /// Places the remaining tuples. The stream ends when every writer has finished and all pages
    /// have been taken.
    ///
    /// # Errors
    /// Those of [`Writer::finish`], and [`PagesError::Closed`] if no consumer is left.
    pub fn finish(mut self) -> Result<(), PagesError> {
        self.step(|_| Ok(()))?;
        let finished = self.writer.take().map_or(Err(PagesError::Failed), Writer::finish);
        match finished {
            Ok(()) => self.queue.leave(),
            Err(error) => return Err(self.queue.fail_with(error)),
        }
        Ok(())
    }

    fn step(&mut self, place: impl FnOnce(&mut Writer<Sink>) -> Result<(), PagesError>) -> Result<(), PagesError> {
        if self.queue.lock().consumers_gone {
            return Err(PagesError::Closed);
        }
        let writer = self.writer.as_mut().ok_or(PagesError::Failed)?;
        let placed = place(writer).and_then(|()| {
            if let Some(after) = self.flush_after
                && self.oldest.get_or_insert_with(Instant::now).elapsed() >= after
            {
                self.oldest = None;
                writer.flush()?;
            }
            Ok(())
        });
        self.queue.stepped();
        // Consumers and other writers get the error now, not when this writer is dropped.
        placed.map_err(|error| if writer.has_failed() { self.queue.fail_with(error) } else { error })
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // Before the writer is dropped: its end may wait for consumers, and these for the end of
        // the stream.
        if self.writer.is_some() {
            self.queue.fail();
        }
    }
}

/// The reading end: returns complete pages. Any number of consumers may share it; each page goes to
/// one of them.
///
/// When it is dropped, writers get [`PagesError::Closed`].
pub struct PageStream {
    queue: Arc<Queue>,
}

impl PageStream {
    /// Waits for the next page and returns it. `None` if all writers have finished and every page
    /// was taken.
    ///
    /// # Errors
    /// [`PagesError::Failed`] if a writer was dropped or had an error, after the earlier pages were
    /// taken.
    pub fn next(&self) -> Result<Option<StreamedPage>, PagesError> {
        let mut state = self.queue.lock();
        loop {
            if let Some((partition, page)) = state.pages.pop_front() {
                return Ok(Some(StreamedPage { partition, page: Some(page), queue: Arc::clone(&self.queue) }));
            }
            if state.failed {
                return Err(PagesError::Failed);
            }
            if state.writers == 0 {
                return Ok(None);
            }
            self.queue.changed.wait(&mut state);
        }
    }
}

impl Drop for PageStream {
    fn drop(&mut self) {
        let pages = {
            let mut state = self.queue.lock();
            state.consumers_gone = true;
            let pages = std::mem::take(&mut state.pages);
            state.out -= pages.len();
            pages
        };
        self.queue.changed.notify_all();
        drop(pages);
    }
}

/// A page from a stream. Dropping it makes room for another one.
pub struct StreamedPage {
    partition: usize,
    page: Option<Page>,
    queue: Arc<Queue>,
}

impl StreamedPage {
    /// Returns the partition of all its tuples.
    pub fn partition(&self) -> usize {
        self.partition
    }
}

impl Deref for StreamedPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        self.page.as_ref().expect("there until dropped")
    }
}

impl Drop for StreamedPage {
    fn drop(&mut self) {
        // The page goes back to the pool before the waiting threads are notified of the room.
        drop(self.page.take());
        let mut state = self.queue.lock();
        state.out -= 1;
        state.events += 1;
        drop(state);
        self.queue.changed.notify_all();
    }
}
