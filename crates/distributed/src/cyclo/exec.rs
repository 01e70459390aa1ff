//! The operator.

mod plan;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use annulus_datafusion::{CycloJoin, executions::Executions};
use annulus_join::{Side, Sides};
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, Partitioning},
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
        empty::EmptyExec,
        execution_plan::{Boundedness, EmissionType},
        joins::NestedLoopJoinExec,
        metrics::ExecutionPlanMetricsSet,
    },
};
use datafusion_distributed::{DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedTaskContext};
use datafusion_proto::bytes::physical_plan_to_bytes;
use tokio::{runtime::Handle, sync::mpsc};
use url::Url;

use super::{
    input::Input,
    kept::Resident,
    key_filter::FilterSizes,
    metrics::RunMetrics,
    output::Running,
    run::{Leaving, Run},
};
use crate::resident::ResidentScanExec;

/// A join around a ring of workers.
///
/// Each task of a stage has a part of both sides. The rows of its left side stay; those of its right
/// side visit the tasks one after the other (the cyclo-join paper, section IV). Each task outputs what
/// it finds. It takes no more memory than the pool of its worker grants: stationary rows that do not
/// fit go to disk in parts, and the others go around once for each part.
///
/// It contains the stock operator that it replaced, over the same children, which answers the
/// optimizer's questions and is never executed.
pub struct CycloJoinExec {
    stock: Arc<NestedLoopJoinExec>,
    join: Arc<CycloJoin>,
    place: Place,
    why: Arc<str>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<Arc<Running>>,
}

/// Which join it is, and where its tasks meet.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// What no other join of a plan has.
    pub(crate) id: String,
    /// The worker at which the tasks meet.
    pub(crate) meeting_at: Url,
    /// The number of workers, which is that of the tasks.
    pub(crate) workers: usize,
    /// What is known for a filter of keys.
    pub(crate) filter: Option<FilterSizes>,
}

impl CycloJoinExec {
    /// Returns the operator that replaces `stock`, if it can.
    ///
    /// # Errors
    /// If the stock operator is invalid.
    pub(crate) fn try_new(
        stock: Arc<NestedLoopJoinExec>,
        place: Place,
        why: impl Into<Arc<str>>,
    ) -> Result<Option<Self>> {
        let Some(join) = CycloJoin::of(&stock)? else { return Ok(None) };
        let partitions = [stock.left(), stock.right()].map(|side| side.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(stock.schema()),
            Partitioning::UnknownPartitioning(partitions.into_iter().max().unwrap_or(1)),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Ok(Some(Self {
            stock,
            join: Arc::new(join),
            place,
            why: why.into(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            executions: Executions::default(),
        }))
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the reason for the choice, as `EXPLAIN` prints it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the join without its inputs, but with their columns.
    ///
    /// # Errors
    /// If DataFusion cannot encode it.
    pub(crate) fn encoded(&self) -> Result<Vec<u8>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        let empty = stock.children().into_iter().map(|child| Arc::new(EmptyExec::new(child.schema())) as _).collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(physical_plan_to_bytes(stock.replace_children(empty, options)?)?.to_vec())
    }

    /// Starts a task's part in the join.
    fn start(&self, context: &Arc<TaskContext>) -> Result<Arc<Running>> {
        let Ok(runtime) = Handle::try_current() else { return exec_err!("a join needs a runtime of tokio") };
        let leaving = Leaving::default();
        let sides = Sides { left: self.stock.left(), right: self.stock.right() };
        let Sides { left, right } = Sides::try_from_fn(|side: Side| {
            let partitions = sides[side].output_partitioning().partition_count();
            let streams = (0..partitions).map(|partition| sides[side].execute(partition, Arc::clone(context)));
            let streams = streams.collect::<Result<_>>()?;
            Ok::<_, DataFusionError>(Input { streams, runtime: runtime.clone(), leaving: leaving.token.clone() })
        })?;
        let task = DistributedTaskContext::from_ctx(context);
        let resident = self.stock.left().downcast_ref::<ResidentScanExec>().and_then(|scan| {
            let share = scan.own_share(context)?;
            let mut purpose = self.encoded().ok()?;
            // Columns of equal names and types may be others of the table.
            purpose.extend(format!("{:?}", scan.projection()).into_bytes());
            Some(Resident { share, projection: scan.projection().cloned(), purpose })
        });
        let partitions = self.properties.partitioning.partition_count();
        let (output, batches) = mpsc::channel(2 * partitions);
        let outcome = Arc::new(OnceLock::new());
        let run = Run {
            join: Arc::clone(&self.join),
            id: self.place.id.clone(),
            meeting_at: self.place.meeting_at.clone(),
            filter: self.place.filter,
            index: task.task_index,
            count: task.task_count,
            is_resident: self.stock.left().is::<ResidentScanExec>(),
            resident,
            stationary: left,
            rotating: right,
            output,
            outcome: Arc::clone(&outcome),
            leaving: leaving.clone(),
            context: Arc::clone(context),
            runtime,
            metrics: RunMetrics::new(&self.metrics),
        };
        thread::Builder::new().name("cyclo-join".to_owned()).spawn(move || run.run())?;
        Ok(Arc::new(Running::new(batches, outcome, leaving)))
    }
}

/// Lets a join run on all workers.
pub(crate) fn on_all_workers(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let join = event.plan.downcast_ref::<CycloJoinExec>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(join.place.workers)))
}

impl fmt::Debug for CycloJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycloJoinExec").field("stock", &self.stock).field("place", &self.place).finish_non_exhaustive()
    }
}
