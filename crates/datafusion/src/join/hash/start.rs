//! Starts an execution: one table for all partitions, or one for each.

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::TaskContext,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties,
        joins::{HashJoinExec, PartitionMode},
        metrics::ExecutionPlanMetricsSet,
    },
};
use tokio::runtime::Handle;

use super::{
    build::{BuildFuture, Setup},
    layout::Layout,
    metrics::BuildMetrics,
    spill::{Concurrency, Metrics, SpillContext},
};
use crate::join::key_filter::{Publisher, has_filters_from_above};

/// What the partitions of one execution share.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) layout: Arc<Layout>,
    tables: Tables,
}

#[derive(Clone, Debug)]
enum Tables {
    /// One for all partitions.
    One(BuildFuture),
    /// One for each partition, which only that one waits for.
    Each { metrics: Arc<Metrics>, build: BuildMetrics },
}

impl Execution {
    /// Starts to read the build side, unless each partition has its own.
    ///
    /// # Errors
    /// If a child cannot be executed.
    pub(super) fn start(
        stock: &HashJoinExec,
        metrics: &ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let layout = Arc::new(Layout::new(stock)?);
        let (spill_metrics, build) = (Arc::new(Metrics::new(metrics)), BuildMetrics::new(metrics));
        let tables = if stock.mode == PartitionMode::Partitioned {
            Tables::Each { metrics: spill_metrics, build }
        } else {
            let left = stock.left();
            let partitions = 0..left.output_partitioning().partition_count();
            let streams = partitions.map(|partition| left.execute(partition, Arc::clone(context)));
            let probing = stock.right().output_partitioning().partition_count();
            let output = Arc::new(layout.output(context.session_config().batch_size())?);
            let spill = SpillContext::new(
                context,
                Arc::clone(&layout),
                output,
                Concurrency::of_streams(probing),
                spill_metrics,
            );
            let streams = streams.collect::<Result<_>>()?;
            let publisher = Publisher::new(stock, context.session_config().options())?;
            let setup = Setup { spill: Arc::new(spill), streams, publisher, metrics: build };
            Tables::One(setup.start(starts_now(left)?))
        };
        Ok(Self { layout, tables })
    }

    /// Returns the table that a partition probes, in the making.
    ///
    /// # Errors
    /// If the build side cannot be executed.
    pub(super) fn table(
        &self,
        stock: &HashJoinExec,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<BuildFuture> {
        let (metrics, build) = match &self.tables {
            Tables::One(building) => return Ok(building.clone()),
            Tables::Each { metrics, build } => (Arc::clone(metrics), build.clone()),
        };
        let left = stock.left();
        let at_once = left.output_partitioning().partition_count().min(context.session_config().target_partitions());
        let output = Arc::new(self.layout.output(context.session_config().batch_size())?);
        let spill =
            SpillContext::new(context, Arc::clone(&self.layout), output, Concurrency::of_tables(at_once), metrics);
        let streams = vec![left.execute(partition, Arc::clone(context))?];
        let setup = Setup { spill: Arc::new(spill), streams, publisher: None, metrics: build };
        // Partitions that are asked for later than others are not in memory before.
        Ok(setup.start(false))
    }
}

/// Returns whether a build side is read as soon as the plan is executed. Then those of a chain of
/// joins are read at once, and a thread that has read its part of one goes on with another. Not if a
/// scan of it waits for the keys of a join above, and not outside a runtime, where a task cannot run.
fn starts_now(build: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(Handle::try_current().is_ok() && !has_filters_from_above(build)?)
}
