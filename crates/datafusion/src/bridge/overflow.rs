//! The session's memory pool and disk, for the exchange.

use std::sync::Arc;

use annulus_exchange::{Overflow, SpilledBatch, StopError};
use arrow::array::RecordBatch;
use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
        runtime_env::RuntimeEnv,
    },
    physical_plan::{
        SpillManager,
        metrics::Gauge,
        spill::spill_pool::{SpillPoolSink, spsc_channel},
    },
};
use parking_lot::Mutex;

use crate::error::into_stop;

/// One memory reservation for the exchange, and a queue on disk for each consumer whose rows spill.
///
/// A queue returns batches in the order in which they were written. So for a spilled batch the
/// exchange carries only a marker that the next batch of the queue is due.
pub(crate) struct SessionOverflow {
    reservation: MemoryReservation,
    peak: Gauge,
    runtime: Arc<RuntimeEnv>,
    spill: Arc<SpillManager>,
    /// The size at which a queue begins another file.
    file_bytes: usize,
    /// Locked while a batch is written: each queue allows one writer at a time.
    queues: Vec<Mutex<DiskQueue>>,
}

/// A consumer's queue on disk. Most queues are never used.
enum DiskQueue {
    Unused,
    /// The writing end, and the reading end until the consumer fetches it.
    Open(SpillPoolSink, Option<SendableRecordBatchStream>),
    /// The consumer reads no more.
    Closed,
}

/// The marker that the exchange carries for a spilled batch.
struct NextOnDisk;

impl SessionOverflow {
    /// Creates an overflow into the session's memory pool, and to disk through `spill`.
    pub(crate) fn new(context: &TaskContext, spill: SpillManager, consumers: usize, peak: Gauge) -> Self {
        let consumer = MemoryConsumer::new(format!("RingRepartitionExec[{consumers}]")).with_can_spill(true);
        Self {
            reservation: consumer.register(context.memory_pool()),
            peak,
            runtime: context.runtime_env(),
            spill: Arc::new(spill),
            file_bytes: context.session_config().options().execution.max_spill_file_size_bytes.get(),
            queues: (0..consumers).map(|_| Mutex::new(DiskQueue::Unused)).collect(),
        }
    }

    /// Returns the batches that have been and will be spilled for `consumer`, in order. Returns
    /// them once, after the first has been spilled.
    pub(crate) fn reader(&self, consumer: usize) -> Option<SendableRecordBatchStream> {
        match &mut *self.queues[consumer].lock() {
            DiskQueue::Open(_, reader) => reader.take(),
            DiskQueue::Unused | DiskQueue::Closed => None,
        }
    }

    /// Removes the files of `consumer`.
    pub(crate) fn close(&self, consumer: usize) {
        *self.queues[consumer].lock() = DiskQueue::Closed;
    }

    fn write(&self, consumer: usize, batch: &RecordBatch) -> Result<()> {
        if !self.runtime.disk_manager.tmp_files_enabled() {
            let (bytes, held) = (batch.get_array_memory_size(), self.reservation.size());
            return Err(DataFusionError::ResourcesExhausted(format!(
                "cannot keep {bytes} more bytes for partition {consumer} of a RingRepartitionExec, which is slow: the \
                 exchange holds {held} bytes, and the disk manager is disabled; raise the memory limit or \
                 annulus.overflow_limit, or enable the disk manager"
            )));
        }
        let mut queue = self.queues[consumer].lock();
        if matches!(*queue, DiskQueue::Unused) {
            let (sink, reader) = spsc_channel(self.file_bytes, Arc::clone(&self.spill));
            *queue = DiskQueue::Open(sink, Some(reader));
        }
        match &*queue {
            DiskQueue::Open(sink, _) => sink.push_batch(batch),
            DiskQueue::Unused | DiskQueue::Closed => Ok(()),
        }
    }
}

impl Overflow for SessionOverflow {
    fn try_reserve(&self, bytes: usize) -> bool {
        let granted = self.reservation.try_grow(bytes).is_ok();
        if granted {
            self.peak.set_max(self.reservation.size());
        }
        granted
    }

    fn release(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    fn spill(&self, consumer: usize, batch: RecordBatch) -> Result<SpilledBatch, StopError> {
        self.write(consumer, &batch).map_err(into_stop)?;
        Ok(SpilledBatch(Box::new(NextOnDisk)))
    }
}
