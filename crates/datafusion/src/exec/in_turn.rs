//! The operator that runs many partitions a few at a time.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Statistics, internal_err, tree_node::TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
        ReplaceChildrenOptions, SendableRecordBatchStream, StatisticsArgs,
        execution_plan::CardinalityEffect,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{TryStreamExt, stream};

use crate::{
    context::with_options,
    delegate,
    executions::{Executions, OutputPartition},
    table::order_in_task,
};

/// Runs the partitions of its input a few at a time, and returns their rows in fewer partitions.
///
/// ```text
/// input partitions    5  1  6  2      0  7  3  4      by their weights, the heaviest first
///                      \ |  | /        \ |  | /
/// output partitions       0               1
/// ```
/// A partition that has ended is dropped before the next is started. So memory holds no more hash
/// tables than there are output partitions. A rule inserts the operator above joins and groupings
/// that need no exchange.
///
/// Which input partitions an output has is fixed with the plan, so outputs share nothing. Hash
/// joins below make no dynamic filters: for those, they wait until each partition has read its
/// build side.
#[derive(Debug)]
pub struct InTurnExec {
    input: Arc<dyn ExecutionPlan>,
    /// The input partitions of each output, in the order in which they run.
    turns: Vec<Arc<[usize]>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The contexts of the input.
    contexts: Executions<Arc<TaskContext>>,
}

impl InTurnExec {
    /// Returns a plan of the partitions of `input`, of which at most `at_a_time` run at once; at
    /// least one does. Outputs get partitions of about the same weight in all. `weights` are those
    /// of the input's partitions, such as their bytes; where some are missing, they count as 0.
    pub fn new(input: Arc<dyn ExecutionPlan>, at_a_time: usize, weights: &[u64]) -> Self {
        let partitions = input.output_partitioning().partition_count();
        Self::with_turns(input, turns(partitions, at_a_time, weights))
    }

    /// Returns a plan whose outputs have these partitions of `input`, in this order.
    ///
    /// # Errors
    /// If they are not all partitions of the input, each once.
    pub fn from_turns(input: Arc<dyn ExecutionPlan>, turns: Vec<Vec<usize>>) -> Result<Self> {
        let mut all: Vec<usize> = turns.iter().flatten().copied().collect();
        all.sort_unstable();
        if !all.into_iter().eq(0..input.output_partitioning().partition_count()) {
            return internal_err!("the partitions that run in turn are not those of the input");
        }
        Ok(Self::with_turns(input, turns.into_iter().map(Arc::from).collect()))
    }

    /// Returns a plan with as many outputs for a stage of several tasks, of which each has rows of its [own
    /// partitions](crate::task_of_partition) alone: they are dealt out evenly.
    pub fn for_tasks(&self, tasks: usize) -> Self {
        let (partitions, outputs) = (self.input.output_partitioning().partition_count(), self.turns.len());
        let turns = (0..outputs).map(|output| {
            let is_own = |partition: &usize| order_in_task(*partition, tasks) % outputs == output;
            (0..partitions).filter(is_own).collect()
        });
        Self::with_turns(Arc::clone(&self.input), turns.collect())
    }

    /// Returns the partitions of the input of each output.
    pub fn turns(&self) -> &[Arc<[usize]>] {
        &self.turns
    }

    fn with_turns(input: Arc<dyn ExecutionPlan>, turns: Vec<Arc<[usize]>>) -> Self {
        // As where partitions are coalesced: what holds within each holds no more.
        let mut equivalences = input.equivalence_properties().clone();
        equivalences.clear_orderings();
        equivalences.clear_per_partition_constants();
        let partitioning = Partitioning::UnknownPartitioning(turns.len());
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness())
                .with_scheduling_type(input.properties().scheduling_type);
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Self { input, turns, properties, metrics, contexts: Executions::default() }
    }
}

/// Deals partitions out to `outputs` outputs: each goes to the one with the least weight so far,
/// the heaviest partition first.
fn turns(partitions: usize, outputs: usize, weights: &[u64]) -> Vec<Arc<[usize]>> {
    let weight = |partition: usize| weights.get(partition).copied().unwrap_or_default();
    let mut heaviest: Vec<usize> = (0..partitions).collect();
    heaviest.sort_by_key(|&partition| std::cmp::Reverse(weight(partition)));
    let mut turns = vec![(0, Vec::new()); outputs.clamp(1, partitions.max(1))];
    for partition in heaviest {
        // Partitions without weight take turns as well.
        let least = turns.iter_mut().min_by_key(|(sum, given)| (*sum, given.len()));
        let (sum, given) = least.expect("at least one output");
        *sum += u128::from(weight(partition));
        given.push(partition);
    }
    turns.into_iter().map(|(_, given)| given.into()).collect()
}

impl DisplayAs for InTurnExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (partitions, at_a_time) = (self.input.output_partitioning().partition_count(), self.turns.len());
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "partitions={partitions}\nat_a_time={at_a_time}"),
            _ => write!(f, "InTurnExec: partitions={partitions}, at_a_time={at_a_time}"),
        }
    }
}

impl ExecutionPlan for InTurnExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &str {
        "InTurnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true)
                if input.output_partitioning().partition_count()
                    == self.input.output_partitioning().partition_count() =>
            {
                Ok(Arc::new(Self::with_turns(input, self.turns.clone())))
            }
            _ => internal_err!("InTurnExec needs one child with the partitions that it has dealt out"),
        }
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let change = |options: &mut ConfigOptions| options.optimizer.enable_join_dynamic_filter_pushdown = false;
        // One for all partitions: operators below know an execution by its context.
        let outer = context;
        let own = OutputPartition { index: partition, count: self.turns.len() };
        let (context, ticket) = self.contexts.share(own, &outer, || Ok(with_options(&outer, change)))?;
        let Some(turns) = self.turns.get(partition).cloned() else {
            return internal_err!("partition {partition} of {} does not exist", self.turns.len());
        };
        let input = Arc::clone(&self.input);
        let started = (0..turns.len()).map(move |turn| input.execute(turns[turn], Arc::clone(&context)));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::iter(started).try_flatten().map_ok(move |batch| batch.record_output(&metrics));
        Ok(ticket.stream(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&inputs[0]),
            // Which partitions an output gets is not known before it runs.
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[test]
    fn partitions_are_dealt_out_by_weight() {
        let dealt = |partitions, outputs, weights: &[u64]| {
            turns(partitions, outputs, weights).iter().map(|turns| turns.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(dealt(5, 2, &[1, 9, 3, 3, 2]), [vec![1], vec![2, 3, 4, 0]]);
        assert_eq!(dealt(5, 2, &[]), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(dealt(2, 5, &[0, u64::MAX]), [vec![1], vec![0]]);
        assert_eq!(dealt(3, 0, &[1]), [vec![0, 1, 2]]);
    }

    #[test]
    fn outputs_have_partitions_of_all_tasks() {
        let input = Arc::new(EmptyExec::new(Arc::new(Schema::empty())).with_partitions(7));
        let dealt = |tasks| {
            let in_turn = InTurnExec::new(Arc::clone(&input) as _, 2, &[]).for_tasks(tasks);
            in_turn.turns().iter().map(|turns| turns.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(dealt(1), [vec![0, 2, 4, 6], vec![1, 3, 5]]);
        assert_eq!(dealt(3), [vec![0, 1, 2, 6], vec![3, 4, 5]]);
        let turns = |turns| InTurnExec::from_turns(Arc::clone(&input) as _, turns);
        assert!(turns(vec![vec![6, 1, 2], vec![3, 4], vec![], vec![5, 0]]).is_ok());
        for wrong in [vec![vec![0, 1, 2, 3, 4, 5]], vec![vec![0, 1, 2, 3], vec![3, 4, 5, 6]], vec![(0..8).collect()]] {
            assert!(turns(wrong).is_err());
        }
    }
}
