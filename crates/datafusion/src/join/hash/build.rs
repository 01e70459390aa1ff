//! The build side: read by a task for each of its partitions, then clustered and put into one table
//! by all threads.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use annulus_join::{BuildSide, HashConfig, Output, Partitions, SideRows};
use datafusion::{
    common::runtime::SpawnedTask,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, memory_pool::MemoryReservation},
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use super::{
    layout::{BUILD, Layout},
    metrics::BuildMetrics,
};
use crate::{
    error::from_join,
    join::{
        collect::{collect, ended, no_memory},
        key_filter::Publisher,
    },
};

/// The most partitions that the build side is clustered into before its table is built. More take
/// more than one pass.
const MOST_PARTITIONS: usize = 1 << 9;

/// The build side, ready to be probed, and what the probing streams share.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) side: BuildSide,
    pub(super) rows: SideRows,
    /// The probing streams that have not come to their end.
    probing: AtomicUsize,
    pub(super) seen: Seen,
    _memory: MemoryReservation,
}

/// What a null-aware anti join must know of the whole probe side.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) rows: AtomicBool,
    pub(super) null_key: AtomicBool,
}

/// The build side, for each of the streams that wait for it.
pub(super) type Building = Shared<BoxFuture<'static, Result<Arc<Built>, Arc<DataFusionError>>>>;

/// What is needed to build.
pub(super) struct Setup {
    pub(super) layout: Arc<Layout>,
    pub(super) output: Arc<Output>,
    pub(super) streams: Vec<SendableRecordBatchStream>,
    pub(super) reservation: MemoryReservation,
    /// The number of streams that will probe.
    pub(super) probing: usize,
    pub(super) publisher: Option<Publisher>,
    pub(super) metrics: BuildMetrics,
}

impl Setup {
    /// Returns the build side in the making. It starts now, in a task, or when it is first polled.
    /// Dropping it ends the task.
    pub(super) fn start(self, now: bool) -> Building {
        let build = self.build();
        let build = if now { ended(SpawnedTask::spawn(build)).left_future() } else { build.right_future() };
        build.map(|built| built.map(Arc::new).map_err(Arc::new)).boxed().shared()
    }

    async fn build(self) -> Result<Built> {
        let Self { layout, output, streams, reservation, probing, publisher, metrics } = self;
        let batches = collect(streams, &reservation).await?;
        let _timer = metrics.time.timer();
        let side = &layout.sides[BUILD];
        let batches = batches.iter().map(|batch| side.read(batch)).collect::<Result<Vec<_>>>()?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        let partitions = Partitions::at_least(Partitions::for_rows(rows).count().min(MOST_PARTITIONS));
        // While the rows are clustered they take their memory again.
        let before = reservation.size();
        reservation.try_grow(before).map_err(no_memory)?;
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
        let config = HashConfig::new(partitions).with_threads(threads).with_dense(true);
        let side = BuildSide::prepare(layout.keys(BUILD)?, batches, &config).map_err(from_join)?;
        reservation.try_resize(side.memory_bytes()).map_err(no_memory)?;
        if let Some(publisher) = publisher {
            publisher.publish(&side, &layout.sides[BUILD].key_columns(side.batch()))?;
        }
        metrics.rows.add(rows);
        metrics.memory.set(side.memory_bytes());
        let rows = output.build_rows(side.batch()).map_err(from_join)?;
        Ok(Built { side, rows, probing: AtomicUsize::new(probing), seen: Seen::default(), _memory: reservation })
    }
}

impl Built {
    /// Notes that a stream has probed all of its rows. Returns the rows of the build side that this
    /// stream must look through for those that are output alone: all for the last stream.
    pub(super) fn finish_probing(&self) -> Range<usize> {
        // Each stream must see the match bits of all others.
        let is_last = self.probing.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last { 0..self.side.batch().num_rows() } else { 0..0 }
    }

    /// Decides for a null-aware anti join, after all streams have probed, about the rows with null
    /// keys: they are output only if the probe side has no rows. Returns false if no row is output,
    /// because the probe side has a null key.
    pub(super) fn settle_nulls(&self) -> bool {
        if self.seen.null_key.load(Ordering::Relaxed) {
            return false;
        }
        if self.seen.rows.load(Ordering::Relaxed)
            && let Some(matched) = self.rows.matched()
        {
            self.side.nulls().for_each(|row| matched.set(row));
        }
        true
    }
}
