//! The rows of a subplan, for several readers.
//!
//! 1. One mutex guards what is known of readers and rows. It is not held while a plan runs.
//! 2. Each partition has one writer: it appends batches, then the end, and after each of them notifies the readers.
//! 3. A reader looks before it waits. It subscribes before it looks, so no notification is missed.
//! 4. A batch is dropped when all readers that share the rows have read it, or are gone.
//! 5. The pool may refuse the memory of a batch. Readers that have read no row yet then run their own copies of the
//!    subplan. The others share the rows to the end: all partitions of a reader come from one execution.
//! 6. Without memory, a writer waits until a reader has read all batches of its partition. It does not wait for the
//!    others: an operator that reads them later may need this reader's rows first. Readers notify it as it does them.

use std::{collections::VecDeque, sync::Arc};

use datafusion::{
    arrow::array::{Array, RecordBatch},
    common::internal_datafusion_err,
    error::{DataFusionError, Result},
    execution::memory_pool::MemoryReservation,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The rows of all partitions that not all readers have read.
#[derive(Debug)]
pub(super) struct CommonRows {
    state: Mutex<State>,
    /// Notifies the readers of a partition.
    written: Vec<watch::Sender<()>>,
    /// Notifies its writer.
    read: Vec<watch::Sender<()>>,
}

#[derive(Debug)]
struct State {
    readers: Vec<Reader>,
    partitions: Vec<Log>,
    reservation: MemoryReservation,
}

#[derive(Debug)]
struct Reader {
    role: Role,
    /// The number of batches that were read, by partition; `None` if no more will be.
    positions: Vec<Option<usize>>,
}

/// Where the rows of a reader come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has not begun.
    Waiting,
    /// From here.
    Sharing,
    /// From a subplan of its own.
    Alone,
}

#[derive(Debug, Default)]
struct Log {
    /// The number of batches that were dropped.
    dropped: usize,
    /// With their bytes.
    batches: VecDeque<(RecordBatch, usize)>,
    end: Option<Option<Arc<DataFusionError>>>,
}

impl CommonRows {
    pub fn new(readers: usize, partitions: usize, reservation: MemoryReservation) -> Self {
        let reader = || Reader { role: Role::Waiting, positions: vec![Some(0); partitions] };
        let state = State {
            readers: (0..readers).map(|_| reader()).collect(),
            partitions: (0..partitions).map(|_| Log::default()).collect(),
            reservation,
        };
        let senders = || (0..partitions).map(|_| watch::Sender::default()).collect();
        Self { state: Mutex::new(state), written: senders(), read: senders() }
    }

    /// Begins to read a partition, and returns where its rows come from.
    pub fn begin(&self, reader: usize) -> Role {
        let mut state = self.state.lock();
        let role = &mut state.readers[reader].role;
        if *role == Role::Waiting {
            *role = Role::Sharing;
        }
        *role
    }

    /// Adds a batch to a partition, when there is memory for it or a reader needs it.
    pub async fn append(&self, partition: usize, batch: RecordBatch) {
        let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default());
        let bytes = bytes.sum();
        let mut read = self.read[partition].subscribe();
        while !self.state.lock().append(partition, &batch, bytes) {
            // It lives as long as this does.
            let _ = read.changed().await;
        }
        self.written[partition].send_replace(());
    }

    /// Ends a partition. Whether it failed is known from its first end.
    pub fn end(&self, partition: usize, error: Option<DataFusionError>) {
        self.state.lock().partitions[partition].end.get_or_insert(error.map(Arc::new));
        self.written[partition].send_replace(());
    }

    /// Returns the next batch of a partition for a reader that shares the rows.
    ///
    /// # Errors
    /// If the subplan failed.
    pub async fn next(&self, reader: usize, partition: usize) -> Result<Option<RecordBatch>> {
        let mut written = self.written[partition].subscribe();
        loop {
            let next = self.state.lock().next(reader, partition);
            self.read[partition].send_replace(());
            if let Some(next) = next {
                return next;
            }
            let lost = |_| internal_datafusion_err!("the rows of a common subplan are gone");
            written.changed().await.map_err(lost)?;
        }
    }

    /// Ends a reader's part in a partition.
    pub fn leave(&self, reader: usize, partition: usize) {
        let mut state = self.state.lock();
        state.readers[reader].positions[partition] = None;
        state.trim(partition);
        drop(state);
        self.read[partition].send_replace(());
    }
}

impl State {
    /// Adds a batch if there is memory for it, or if a reader has no other batch to read. Returns whether the batch was
    /// added.
    fn append(&mut self, partition: usize, batch: &RecordBatch, bytes: usize) -> bool {
        if self.reservation.try_grow(bytes).is_err() {
            self.send_away();
            let end = self.partitions[partition].dropped + self.partitions[partition].batches.len();
            let mut positions = self.sharing().filter_map(|reader| reader.positions[partition]).peekable();
            if positions.peek().is_some() && positions.all(|position| position < end) {
                return false;
            }
            self.reservation.grow(bytes);
        }
        self.partitions[partition].batches.push_back((batch.clone(), bytes));
        self.trim(partition);
        true
    }

    /// Returns the readers whose rows come from here.
    fn sharing(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().filter(|reader| reader.role != Role::Alone)
    }

    /// Returns the next batch or the end, if there is one already.
    fn next(&mut self, reader: usize, partition: usize) -> Option<Result<Option<RecordBatch>>> {
        let log = &self.partitions[partition];
        let Some(position) = self.readers[reader].positions[partition] else { return Some(Ok(None)) };
        if let Some((batch, _)) = log.batches.get(position - log.dropped) {
            let batch = batch.clone();
            self.readers[reader].positions[partition] = Some(position + 1);
            self.trim(partition);
            return Some(Ok(Some(batch)));
        }
        log.end.as_ref().map(|error| match error {
            Some(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            None => Ok(None),
        })
    }

    /// Lets the readers that have not begun run subplans of their own.
    fn send_away(&mut self) {
        for reader in self.readers.iter_mut().filter(|reader| reader.role == Role::Waiting) {
            reader.role = Role::Alone;
        }
        (0..self.partitions.len()).for_each(|partition| self.trim(partition));
    }

    /// Drops the batches of a partition that no reader needs.
    fn trim(&mut self, partition: usize) {
        let needed = self.sharing().filter_map(|reader| reader.positions[partition]).min().unwrap_or(usize::MAX);
        let log = &mut self.partitions[partition];
        while log.dropped < needed
            && let Some((_, bytes)) = log.batches.pop_front()
        {
            log.dropped += 1;
            self.reservation.shrink(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int32Array};
    use datafusion::{
        arrow::datatypes::Int32Type,
        execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool},
    };
    use futures::FutureExt;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn batch(number: i32) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values([number; 10]));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    fn rows(readers: usize, partitions: usize, bytes: usize) -> (CommonRows, Arc<dyn MemoryPool>) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        (CommonRows::new(readers, partitions, MemoryConsumer::new("rows").register(&pool)), pool)
    }

    async fn read(rows: &CommonRows, reader: usize, partition: usize) -> Vec<i32> {
        let mut all = Vec::new();
        while let Some(batch) = rows.next(reader, partition).await.unwrap() {
            all.push(batch.column(0).as_primitive::<Int32Type>().value(0));
        }
        all
    }

    #[tokio::test]
    async fn readers_that_have_not_begun_leave_when_memory_ends() {
        let (rows, pool) = rows(3, 2, 100);
        assert_eq!((rows.begin(1), rows.begin(2)), (Role::Sharing, Role::Sharing));
        rows.append(0, batch(0)).await;
        rows.append(1, batch(1)).await;
        assert_eq!(pool.reserved(), 80);
        assert!(rows.next(1, 1).await.unwrap().is_some());
        rows.append(1, batch(2)).await;
        assert_eq!((rows.begin(0), pool.reserved()), (Role::Alone, 120));
        // Both readers have a batch of the other partition to read.
        assert!(rows.append(0, batch(3)).now_or_never().is_none());
        assert!(rows.next(2, 0).await.unwrap().is_some());
        rows.append(0, batch(3)).await;
        rows.end(0, None);
        rows.end(1, None);
        assert_eq!((read(&rows, 1, 0).await, read(&rows, 1, 1).await), (vec![0, 3], vec![2]));
        assert_eq!(read(&rows, 2, 0).await, [3]);
        rows.leave(2, 1);
        assert_eq!(pool.reserved(), 0);
    }

    #[tokio::test]
    async fn all_readers_get_the_error() {
        let (rows, _) = rows(2, 1, 1000);
        rows.begin(0);
        rows.append(0, batch(7)).await;
        rows.end(0, Some(DataFusionError::Execution("no luck".to_owned())));
        rows.end(0, None);
        for reader in 0..2 {
            assert!(rows.next(reader, 0).await.unwrap().is_some());
            assert!(rows.next(reader, 0).await.unwrap_err().to_string().contains("no luck"));
        }
    }

    /// Writers and readers in random order, some of which leave early.
    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn all_that_share_read_all_rows_in_order() {
        for seed in 0..300 {
            let mut random = StdRng::seed_from_u64(seed);
            let (readers, partitions) = (random.random_range(2..5), random.random_range(1..4));
            let (rows, pool) = rows(readers, partitions, random.random_range(0..1500));
            let rows = Arc::new(rows);
            rows.begin(0);
            let mut tasks = Vec::new();
            for partition in 0..partitions {
                let (rows, count) = (Arc::clone(&rows), random.random_range(0..20));
                let yields = random.random_bool(0.5);
                tasks.push(tokio::spawn(async move {
                    for number in 0..count {
                        rows.append(partition, batch(number)).await;
                        if yields {
                            tokio::task::yield_now().await;
                        }
                    }
                    rows.end(partition, None);
                    count
                }));
            }
            let mut streams = Vec::new();
            for reader in 0..readers {
                for partition in 0..partitions {
                    let (rows, most) = (Arc::clone(&rows), random.random_range(1..40));
                    streams.push(tokio::spawn(async move {
                        let mut found = Vec::new();
                        if rows.begin(reader) != Role::Alone {
                            while found.len() < most
                                && let Some(batch) = rows.next(reader, partition).await.unwrap()
                            {
                                found.push(batch.column(0).as_primitive::<Int32Type>().value(0));
                            }
                        }
                        let role = rows.begin(reader);
                        rows.leave(reader, partition);
                        (role, partition, most, found)
                    }));
                }
            }
            let mut counts = Vec::new();
            for task in tasks {
                counts.push(task.await.unwrap());
            }
            for stream in streams {
                let (role, partition, most, found) = stream.await.unwrap();
                let most = if role == Role::Alone { 0 } else { most.min(counts[partition] as usize) };
                assert_eq!(found, (0..most as i32).collect::<Vec<_>>(), "seed {seed}");
            }
            assert_eq!(pool.reserved(), 0, "seed {seed}");
        }
    }
}
