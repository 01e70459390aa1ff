//! The session's memory pool and disk, as the exchange sees them.

use std::sync::Arc;

use annulus_exchange::{
    error::StopError,
    overflow::{Overflow, SpilledBatch},
};
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

/// One reservation for the exchange, and for each consumer a queue on disk.
///
/// A queue gives batches back in the order in which they were written, so what the exchange carries for a spilled batch
/// is only the news that the next one of that queue has its turn.
pub(crate) struct SessionOverflow {
    reservation: MemoryReservation,
    peak: Gauge,
    runtime: Arc<RuntimeEnv>,
    /// Locked while a batch is written, because each queue is for one writer at a time. `None`: nobody reads any more.
    queues: Vec<Mutex<Option<SpillPoolSink>>>,
}

/// What the exchange carries for a spilled batch.
struct NextOnDisk;

impl SessionOverflow {
    /// Overflow within the session's memory pool, and the reading end of each consumer's queue.
    pub(crate) fn new(
        context: &TaskContext,
        spill: Vec<SpillManager>,
        peak: Gauge,
    ) -> (Arc<Self>, Vec<SendableRecordBatchStream>) {
        let consumer = MemoryConsumer::new(format!("RingRepartitionExec[{}]", spill.len())).with_can_spill(true);
        let file_bytes = context.session_config().options().execution.max_spill_file_size_bytes.get();
        let queue = |manager| {
            let (sink, reader) = spsc_channel(file_bytes, Arc::new(manager));
            (Mutex::new(Some(sink)), reader)
        };
        let (queues, readers) = spill.into_iter().map(queue).unzip();
        let reservation = consumer.register(context.memory_pool());
        (Arc::new(Self { reservation, peak, runtime: context.runtime_env(), queues }), readers)
    }

    /// Removes the files of `consumer`, which reads no more.
    pub(crate) fn close(&self, consumer: usize) {
        *self.queues[consumer].lock() = None;
    }

    fn write(&self, consumer: usize, batch: &RecordBatch) -> Result<()> {
        if !self.runtime.disk_manager.tmp_files_enabled() {
            let (bytes, held) = (batch.get_array_memory_size(), self.reservation.size());
            return Err(DataFusionError::ResourcesExhausted(format!(
                "partition {consumer} of a RingRepartitionExec is slow: {bytes} bytes more for it do not fit beside the \
                 {held} that the exchange holds, and there is no disk to spill to; raise the memory limit or \
                 annulus.overflow_limit, or enable the disk manager"
            )));
        }
        match &*self.queues[consumer].lock() {
            Some(queue) => queue.push_batch(batch),
            None => Ok(()),
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
