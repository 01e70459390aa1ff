//! Which side of a join has fewer rows, found out while it runs.
//!
//! Estimates of rows above filters and joins can be far off. So when a large build side has been
//! read, and the rows of the probe side are only guessed, the probe side is read as well before a
//! table is made, up to half as many rows. If it ends before that, the sides change places: the
//! table is made of its rows, and all streams together look up those of the planned build side.
//! Otherwise each stream goes on with its own partition, first with the rows that have been read.
//!
//! Rows then come out of other streams than planned. So this is for inner joins whose output
//! promises neither an order nor partitions. It is left out if a stream asks for rows before all
//! have been made: no stream waits for another one.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use annulus_join::Output;
use arrow::array::RecordBatch;
use datafusion::{
    common::{runtime::SpawnedTask, utils::memory::RecordBatchMemoryCounter},
    error::Result,
    execution::SendableRecordBatchStream,
};
use futures::{StreamExt, future};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    layout::{Layout, PROBE},
    spill::{Gathered, Room, Tools},
};
use crate::join::collect::ended;

/// How many times as many rows the build side must have.
const FEWER: usize = 2;
/// The most bytes that are read ahead of the probe side, whose rows may be wider: this many times
/// those of the build side.
const WIDER: usize = 4;

/// The partitions of the probe side, until it is known which side is looked up.
#[derive(Debug)]
pub(super) struct Peek {
    layout: Arc<Layout>,
    /// The rows of a build side that is too small.
    least_rows: usize,
    slots: Mutex<Vec<Slot>>,
    is_asked: watch::Sender<bool>,
}

/// A partition of the probe side.
enum Slot {
    /// Its stream has not been made.
    Missing,
    Waiting(Begun),
    /// It is being read ahead.
    Reading,
    /// Its stream has taken it, or was dropped.
    Gone,
}

/// The claim of a stream to its partition of the probe side. Dropping it drops the partition.
#[derive(Debug)]
pub(super) struct Claim {
    peek: Arc<Peek>,
    partition: usize,
}

/// A partition of the probe side, of which some batches may have been read.
#[derive(Default)]
pub(super) struct Begun {
    /// As the layout reads them, with the bytes that are reserved for each.
    read: VecDeque<(RecordBatch, usize)>,
    reading: Option<Arc<Reading>>,
    /// The rest, if there is any.
    stream: Option<SendableRecordBatchStream>,
}

/// What the tasks that read ahead share.
#[derive(Debug)]
struct Reading {
    layout: Arc<Layout>,
    room: Room,
    most_rows: usize,
    most_bytes: usize,
    rows: AtomicUsize,
    bytes: AtomicUsize,
    stop: watch::Sender<bool>,
}

/// The rows of a probe side that has clearly fewer than the build side.
pub(super) struct Smaller {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    /// The memory of these rows, and of the table to be made of them.
    pub(super) room: Room,
}

/// The planned build side as the side that is looked up.
pub(super) struct Turned {
    pub(super) layout: Arc<Layout>,
    pub(super) output: Arc<Output>,
    batches: Mutex<VecDeque<RecordBatch>>,
    _memory: Room,
}

impl Peek {
    /// Creates the partitions of a probe side, none of which has a stream. It is read ahead for
    /// build sides of at least `least_rows` rows.
    pub(super) fn new(layout: Arc<Layout>, partitions: usize, least_rows: usize) -> Self {
        let slots = (0..partitions).map(|_| Slot::Missing).collect();
        Self { layout, least_rows, slots: Mutex::new(slots), is_asked: watch::Sender::new(false) }
    }

    /// Takes a partition of the probe side for its stream.
    pub(super) fn keep(self: Arc<Self>, partition: usize, stream: SendableRecordBatchStream) -> Claim {
        if let Some(slot) = self.slots.lock().get_mut(partition) {
            *slot = Slot::Waiting(stream.into());
        }
        Claim { peek: self, partition }
    }

    /// Returns the rows of the probe side if they are clearly fewer than those of a build side.
    ///
    /// # Errors
    /// The first error or panic of a partition.
    pub(super) async fn smaller(&self, tools: &Tools, build: &Gathered) -> Result<Option<Smaller>> {
        if build.spilled.is_some() || build.rows < self.least_rows {
            return Ok(None);
        }
        // Joins above have told scans of the probe side their keys before they ask for rows. The
        // sender lives as long as this.
        let _ = self.is_asked.subscribe().wait_for(|is_asked| *is_asked).await;
        let Some(partitions) = self.take_all() else { return Ok(None) };
        let reading = Arc::new(Reading {
            layout: Arc::clone(&self.layout),
            room: tools.room.another(),
            most_rows: build.rows / FEWER,
            most_bytes: build.bytes.saturating_mul(WIDER),
            rows: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            stop: watch::Sender::new(false),
        });
        let (places, begun): (Vec<_>, Vec<_>) = partitions.into_iter().unzip();
        let tasks: Vec<_> = begun.into_iter().map(|begun| SpawnedTask::spawn(begun.read_ahead(&reading))).collect();
        let begun = future::try_join_all(tasks.into_iter().map(ended)).await?;
        let (rows, bytes) = (reading.rows.load(Ordering::Relaxed), reading.bytes.load(Ordering::Relaxed));
        if begun.iter().all(|begun| begun.stream.is_none()) && reading.room.try_table(bytes, rows).is_ok() {
            let batches = begun.into_iter().flat_map(|begun| begun.read).map(|(batch, _)| batch).collect();
            return Ok(Some(Smaller { batches, rows, room: reading.room.take() }));
        }
        self.put_back(places.into_iter().zip(begun));
        Ok(None)
    }

    /// Returns the partitions with their places, if there are streams of all.
    fn take_all(&self) -> Option<Vec<(usize, Begun)>> {
        let mut slots = self.slots.lock();
        if slots.iter().any(|slot| matches!(slot, Slot::Missing)) {
            return None;
        }
        let take = |slot: &mut Slot| match mem::replace(slot, Slot::Reading) {
            Slot::Waiting(begun) => Some(begun),
            other => {
                *slot = other;
                None
            }
        };
        Some(slots.iter_mut().enumerate().filter_map(|(place, slot)| Some((place, take(slot)?))).collect())
    }

    fn put_back(&self, partitions: impl Iterator<Item = (usize, Begun)>) {
        // Those of streams that were dropped meanwhile go after the lock.
        let mut dropped = Vec::new();
        let mut slots = self.slots.lock();
        for (place, begun) in partitions {
            match &mut slots[place] {
                slot @ Slot::Reading => *slot = Slot::Waiting(begun),
                _ => dropped.push(begun),
            }
        }
    }
}

impl Claim {
    /// Notes that the stream is asked for rows, and so waits for the table.
    pub(super) fn ask(&self) {
        self.peek.is_asked.send_replace(true);
    }

    /// Returns the partition, if it has not become part of a table.
    pub(super) fn take(&self) -> Option<Begun> {
        let slot = self.peek.slots.lock().get_mut(self.partition).map(|slot| mem::replace(slot, Slot::Gone));
        match slot {
            Some(Slot::Waiting(begun)) => Some(begun),
            _ => None,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl From<SendableRecordBatchStream> for Begun {
    fn from(stream: SendableRecordBatchStream) -> Self {
        Self { read: VecDeque::new(), reading: None, stream: Some(stream) }
    }
}

impl Begun {
    /// Returns the next batch that has been read ahead.
    pub(super) fn next_read(&mut self) -> Option<RecordBatch> {
        let (batch, bytes) = self.read.pop_front()?;
        if let Some(reading) = &self.reading {
            reading.room.shrink(bytes);
        }
        Some(batch)
    }

    /// Returns the rest, after all batches that have been read ahead.
    pub(super) fn rest(&mut self) -> Option<&mut SendableRecordBatchStream> {
        self.stream.as_mut()
    }

    /// Reads batches until one task has read too much, or the partition ends.
    fn read_ahead(mut self, reading: &Arc<Reading>) -> impl Future<Output = Result<Self>> + Send + use<> {
        let reading = Arc::clone(reading);
        async move {
            let Some(mut stream) = self.stream.take() else { return Ok(self) };
            let (mut stop, mut memory) = (reading.stop.subscribe(), RecordBatchMemoryCounter::new());
            self.reading = Some(Arc::clone(&reading));
            loop {
                let batch = tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop) => break,
                    batch = stream.next() => batch.transpose()?,
                };
                let Some(batch) = batch else { return Ok(self) };
                if batch.num_rows() == 0 {
                    continue;
                }
                let batch = reading.layout.sides[PROBE].read(&batch)?;
                let bytes = memory.count_batch(&batch);
                if !reading.count(batch.num_rows(), bytes) {
                    reading.stop.send_replace(true);
                }
                self.read.push_back((batch, bytes));
            }
            self.stream = Some(stream);
            Ok(self)
        }
    }
}

impl Reading {
    /// Reserves memory for rows that were read, and returns whether there may be more.
    fn count(&self, rows: usize, bytes: usize) -> bool {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let all_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.room.try_collect(bytes).is_err() {
            // They are there all the same.
            self.room.grow(bytes);
            return false;
        }
        rows <= self.most_rows && all_bytes <= self.most_bytes
    }
}

impl Turned {
    /// Creates the side that is looked up, in batches of at most this many rows, whose memory is in
    /// `memory`.
    ///
    /// # Errors
    /// If the join cannot be planned with its sides in each other's place.
    pub(super) fn new(layout: &Layout, batches: Vec<RecordBatch>, batch_rows: usize, memory: Room) -> Result<Self> {
        let layout = Arc::new(layout.turned());
        let parts = |batch: RecordBatch| {
            let rows = batch.num_rows();
            (0..rows).step_by(batch_rows).map(move |start| batch.slice(start, batch_rows.min(rows - start)))
        };
        let batches = Mutex::new(batches.into_iter().flat_map(parts).collect());
        let output = Arc::new(layout.output(batch_rows)?);
        Ok(Self { layout, output, batches, _memory: memory })
    }

    /// Returns the next batch for any stream.
    pub(super) fn next(&self) -> Option<RecordBatch> {
        self.batches.lock().pop_front()
    }
}

impl fmt::Debug for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turned").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Missing",
            Self::Waiting(_) => "Waiting",
            Self::Reading => "Reading",
            Self::Gone => "Gone",
        })
    }
}
