//! The operator of a join around a ring.

mod plan;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use annulus_datafusion::{DescribedJoin, PairMethod, executions::Executions};
use annulus_join::{Side, Sides};
use datafusion::{
    common::{exec_err, internal_err},
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, Partitioning},
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
        empty::EmptyExec,
        execution_plan::{Boundedness, EmissionType},
        metrics::ExecutionPlanMetricsSet,
    },
};
use datafusion_distributed::{DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedTaskContext};
use datafusion_proto::{
    bytes::physical_plan_to_bytes_with_extension_codec,
    physical_plan::{DefaultPhysicalExtensionCodec, PhysicalExtensionCodec},
};
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    input::Input,
    key_filter::FilterSizes,
    metrics::RunMetrics,
    output::RunningJoin,
    resident::ResidentSide,
    stationary::StationaryInput,
    task::{RingTask, TaskSetup},
};
use crate::resident::ResidentScanExec;

/// A join around a ring of workers.
///
/// Each task of a stage has a part of both sides. The left side is stationary; the right side rotates: its
/// fragments visit the tasks one after the other (the cyclo-join paper, section IV). Each task outputs the
/// pairs that it finds. It takes no more memory than the pool of its worker grants: stationary rows that do
/// not fit go to disk in parts, and the rotating side makes a revolution for each part.
///
/// It contains the operator that it replaced, over the same children, which answers the optimizer's questions
/// and is never executed: a `NestedLoopJoinExec` or a [`NearestJoinExec`](annulus_datafusion::NearestJoinExec).
pub struct CycloJoinExec {
    stock: Arc<dyn ExecutionPlan>,
    join: Arc<DescribedJoin>,
    ring: RingPlan,
    why: Arc<str>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<Arc<RunningJoin>>,
}

/// The ring of a join, as the coordinator plans it.
#[derive(Clone, Debug)]
pub(crate) struct RingPlan {
    /// Unique to the join in all plans.
    pub(crate) id: String,
    /// The worker at which the tasks meet.
    pub(crate) meeting_at: Url,
    /// The number of workers. There is a task on each.
    pub(crate) workers: usize,
    /// The sizes by which tasks choose a filter of keys, if they are known.
    pub(crate) filter: Option<FilterSizes>,
}

impl CycloJoinExec {
    /// Returns the operator that replaces `stock`, if it can.
    ///
    /// # Errors
    /// If the stock operator is invalid.
    pub(crate) fn try_new(
        stock: Arc<dyn ExecutionPlan>,
        ring: RingPlan,
        why: impl Into<Arc<str>>,
    ) -> Result<Option<Self>> {
        let Some(join) = DescribedJoin::from_node(&stock)? else { return Ok(None) };
        let partitions = stock.children().into_iter().map(|side| side.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(stock.schema()),
            Partitioning::UnknownPartitioning(partitions.max().unwrap_or(1)),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Ok(Some(Self {
            stock,
            join: Arc::new(join),
            ring,
            why: why.into(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Executions::default(),
        }))
    }

    pub(crate) fn ring(&self) -> &RingPlan {
        &self.ring
    }

    /// Returns the reason for the choice, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the join without its inputs, but with their columns.
    ///
    /// # Errors
    /// If DataFusion cannot encode it.
    pub(crate) fn encoded(&self, codec: &dyn PhysicalExtensionCodec) -> Result<Vec<u8>> {
        let empty =
            self.stock.children().into_iter().map(|child| Arc::new(EmptyExec::new(child.schema())) as _).collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let stock = Arc::clone(&self.stock).replace_children(empty, options)?;
        Ok(physical_plan_to_bytes_with_extension_codec(stock, codec)?.to_vec())
    }

    /// Starts a task of the join.
    fn start(&self, context: &Arc<TaskContext>) -> Result<Arc<RunningJoin>> {
        let Ok(runtime) = Handle::try_current() else { return exec_err!("a join needs a runtime of tokio") };
        let cancel = CancellationToken::new();
        let [left, right] = self.stock.children()[..] else { return internal_err!("a join needs two children") };
        let sides = Sides { left, right };
        let Sides { left, right } = Sides::try_from_fn(|side: Side| {
            let partitions = sides[side].output_partitioning().partition_count();
            let streams = (0..partitions).map(|partition| sides[side].execute(partition, Arc::clone(context)));
            let streams = streams.collect::<Result<_>>()?;
            Ok::<_, DataFusionError>(Input { streams, runtime: runtime.clone(), cancel: cancel.clone() })
        })?;
        let task = DistributedTaskContext::from_ctx(context);
        let scan = sides.left.downcast_ref::<ResidentScanExec>();
        // Lists of the nearest rows belong to one join.
        let scan = scan.filter(|_| !matches!(self.join.method(), PairMethod::Nearest(_)));
        let resident = scan.and_then(|scan| {
            let share = scan.own_share(context)?;
            let mut join = self.encoded(&DefaultPhysicalExtensionCodec {}).ok()?;
            // Columns of equal names and types may be others of the table.
            join.extend(format!("{:?}", scan.projection()).into_bytes());
            Some(ResidentSide { share, projection: scan.projection().cloned(), join })
        });
        let partitions = self.properties.partitioning.partition_count();
        let (output, batches) = mpsc::channel(2 * partitions);
        let outcome = Arc::new(OnceLock::new());
        let setup = TaskSetup {
            join: Arc::clone(&self.join),
            ring: self.ring.clone(),
            index: task.task_index,
            count: task.task_count,
            is_resident: scan.is_some(),
            cancel: cancel.clone(),
            context: Arc::clone(context),
            runtime,
            metrics: RunMetrics::new(&self.metrics),
        };
        let stationary = StationaryInput { input: left, resident };
        let task = RingTask { setup, stationary, rotating: right, output, outcome: Arc::clone(&outcome) };
        thread::Builder::new().name("cyclo-join".to_owned()).spawn(move || task.run())?;
        Ok(Arc::new(RunningJoin::new(batches, outcome, cancel)))
    }
}

/// Sets the number of tasks of a stage with such a join to the number of workers.
pub(crate) fn on_all_workers(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let join = event.plan.downcast_ref::<CycloJoinExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(join.ring.workers)))
}

impl fmt::Debug for CycloJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycloJoinExec").field("stock", &self.stock).field("ring", &self.ring).finish_non_exhaustive()
    }
}
