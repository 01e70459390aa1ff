//! Full pages as a stream: taken out while the shuffle runs, in bounded memory.
//!
//! ```text
//! batches -> StreamWriter (one a thread) -> complete pages -> PageStream -> StreamedPage, which gives its bytes back when dropped
//! ```
//! Pages of a partition come in the order of their numbers; so do the tuples of each writer, if
//! asked for ([`PageOrder`]). What lies in the stream and with its consumers is bounded in bytes: a
//! writer that completes one page too many waits. Each writer is for a thread of its own, since it
//! may wait for what another one does, and each stream for a pool of its own. At low rates
//! [`StreamWriter::flush`] hands on what is there.

mod queue;

use std::{
    ops::Deref,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use annulus_rows::partition::{Modulo, Target};

use self::queue::{Queue, Sink, State};
use crate::{
    error::PagesError,
    memory::{PageMemory, Pool},
    page::{Page, PageShape},
    ranges::{PageOrder, Stores, Writer, shuffle},
    tuples::Tuples,
};

/// What a stream is made of.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Number of partitions.
    pub partitions: Modulo,
    /// Writers, one for each thread.
    pub writers: usize,
    /// The shape of all pages.
    pub shape: PageShape,
    /// Where they come from: at least one for each partition, and `credit_bytes` on top for writers
    /// not to wait for memory.
    pub pool: Pool,
    /// How they are written.
    pub stores: Stores,
    /// In which order those of a partition come.
    pub order: PageOrder,
    /// Most bytes of pages that lie in the stream or with its consumers; at least one page may.
    pub credit_bytes: usize,
    /// How long a tuple may wait for its page to fill, if its writer is called in time
    /// ([`StreamWriter::due`]).
    pub flush_after: Option<Duration>,
}

/// A shuffle whose pages are taken out while it runs.
///
/// # Errors
/// As [`shuffle`].
pub fn stream(config: StreamConfig) -> Result<(Vec<StreamWriter>, PageStream), PagesError> {
    let StreamConfig { partitions, writers, shape, pool, stores, order, credit_bytes, flush_after } = config;
    let most = (credit_bytes / pool.page_bytes()).max(1);
    let state = Mutex::new(State { writers, ..State::default() });
    let queue = Arc::new(Queue { most, pool: pool.clone(), state, changed: Condvar::new() });
    let sink = Sink(Arc::clone(&queue));
    let writers = shuffle(partitions, writers, shape, pool, stores, order, sink)?;
    let writers = writers.into_iter().map(|writer| StreamWriter {
        writer: Some(writer),
        queue: Arc::clone(&queue),
        flush_after,
        oldest: None,
    });
    Ok((writers.collect(), PageStream { queue }))
}

/// One thread's end: batches go in.
///
/// Dropped before it has [finished](Self::finish), it fails the stream: consumers get an error
/// behind the pages that are there.
pub struct StreamWriter {
    writer: Option<Writer<Sink>>,
    queue: Arc<Queue>,
    flush_after: Option<Duration>,
    /// When the first tuple since the last flush was written.
    oldest: Option<Instant>,
}

impl StreamWriter {
    /// Places each tuple in partition `key % partitions`; waits while consumers hold as many bytes
    /// as they may.
    ///
    /// # Errors
    /// As [`Writer::write`], and [`PagesError::Closed`] when no consumer is left.
    pub fn write(&mut self, tuples: &Tuples<'_>) -> Result<(), PagesError> {
        self.step(|writer| writer.write(tuples))
    }

    /// Places each tuple in the partition that `targets` names; otherwise as
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// As [`Writer::write_to`], and [`PagesError::Closed`] when no consumer is left.
    pub fn write_to(&mut self, tuples: &Tuples<'_>, targets: &[Target]) -> Result<(), PagesError> {
        self.step(|writer| writer.write_to(tuples, targets))
    }

    /// When this writer should be [flushed](Self::flush), or written to again, for its tuples to be
    /// in time; nothing waits if `None`. For a thread that waits for its input with a timeout.
    pub fn due(&self) -> Option<Instant> {
        self.flush_after.and_then(|after| self.oldest?.checked_add(after))
    }

    /// Hands on what this writer has placed, on pages that need not be full.
    ///
    /// # Errors
    /// As [`Writer::flush`], and [`PagesError::Closed`] when no consumer is left.
    pub fn flush(&mut self) -> Result<(), PagesError> {
        self.oldest = None;
        let flushed = self.step(Writer::flush);
        self.oldest = None;
        flushed
    }

    /// Places what is left. The stream ends when every writer has finished and all pages are taken.
    ///
    /// # Errors
    /// As [`Writer::finish`], and [`PagesError::Closed`] when no consumer is left.
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
        // The consumers need not wait until this writer is dropped, and neither do the others.
        placed.map_err(|error| if writer.has_failed() { self.queue.fail_with(error) } else { error })
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // Before the writer, whose end may have to wait for consumers that wait for an end.
        if self.writer.is_some() {
            self.queue.fail();
        }
    }
}

/// The other end: pages come out. Shared by any number of consumers; each page goes to one of them.
///
/// When it is dropped, writers get [`PagesError::Closed`].
pub struct PageStream {
    queue: Arc<Queue>,
}

impl PageStream {
    /// The next page and its partition; waits for it. `None` when all writers have finished and
    /// every page was taken.
    ///
    /// # Errors
    /// [`PagesError::Failed`] if a writer was dropped or had an error, once the pages that came
    /// before were taken.
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
            state = self.queue.wait(state);
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

/// A page from a stream. Dropping it makes room for another.
pub struct StreamedPage {
    partition: usize,
    page: Option<Page>,
    queue: Arc<Queue>,
}

impl StreamedPage {
    /// The partition of all its tuples.
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
        // The page goes back to the pool before anybody is told that there is room.
        drop(self.page.take());
        let mut state = self.queue.lock();
        state.out -= 1;
        state.events += 1;
        drop(state);
        self.queue.changed.notify_all();
    }
}
