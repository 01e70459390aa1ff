//! The operator.

use std::{fmt, sync::Arc};

use annulus_join::{Side, Sides};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::{
    common::{
        ColumnStatistics, Statistics, internal_err,
        stats::Precision,
        tree_node::{TreeNodeIterator, TreeNodeRecursion},
    },
    error::Result,
    execution::TaskContext,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
        InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        projection::{EmbeddedProjection, ProjectionExec, try_embed_projection},
    },
};
use tokio::runtime::Handle;

use super::{
    build::{self, BuildFuture},
    condition::AsOfCondition,
    layout::Layout,
    metrics::Metrics,
    stream,
};
use crate::{
    delegate,
    executions::{Executions, OutputPartition},
    join::{
        convert::joined,
        properties::{composed, of_left_side, write_projection},
    },
};

/// A join of each row of the left side with the row of the right side that is nearest in time, among those
/// with equal keys. A row without one gets nulls, or is left out by an inner join. Rows of which a key or the
/// time is null have none.
///
/// All partitions of the left side are looked up in one index of the right side, so neither side is
/// repartitioned, and the output has the left side's partitions and order. If both sides are partitioned by
/// the keys, each partition can have an index of its own instead. A right side that does not fit in memory is
/// sorted on disk, and so are the partitions of the left side then.
#[derive(Debug)]
pub struct AsOfJoinExec {
    inputs: Sides<Arc<dyn ExecutionPlan>>,
    condition: Arc<AsOfCondition>,
    is_partitioned: bool,
    /// The columns of the output, of those of both sides.
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<(Metrics, Option<BuildFuture>)>,
}

impl AsOfJoinExec {
    /// Returns the join of two inputs. With `is_partitioned`, each partition of the left side only meets
    /// the one of the right side with the same number.
    ///
    /// # Errors
    /// If the types of a pair of expressions differ or cannot be compared.
    pub fn try_new(
        inputs: Sides<Arc<dyn ExecutionPlan>>,
        condition: AsOfCondition,
        is_partitioned: bool,
    ) -> Result<Self> {
        Self::build(inputs, Arc::new(condition), is_partitioned, None)
    }

    fn build(
        inputs: Sides<Arc<dyn ExecutionPlan>>,
        condition: Arc<AsOfCondition>,
        is_partitioned: bool,
        projection: Option<Vec<usize>>,
    ) -> Result<Self> {
        let schemas = inputs.as_ref().map(|input| input.schema());
        condition.keys(schemas.as_ref().map(AsRef::as_ref))?;
        let schema = Arc::new(joined(schemas.as_ref(), condition.keeps_left));
        let properties = of_left_side(&inputs, &schema, projection.as_deref())?;
        let (metrics, executions) = (ExecutionPlanMetricsSet::new(), Executions::default());
        Ok(Self { inputs, condition, is_partitioned, projection, properties, metrics, executions })
    }

    /// Returns the condition.
    pub fn condition(&self) -> &AsOfCondition {
        &self.condition
    }

    /// Returns whether each partition has an index of its own.
    pub fn is_partitioned(&self) -> bool {
        self.is_partitioned
    }

    /// Returns the columns of the output, of those of the left side and then of the right side; all if there
    /// is none.
    pub fn projection(&self) -> Option<&[usize]> {
        self.projection.as_deref()
    }

    /// Returns the columns of both sides, those of the right side nullable unless the join is an inner one.
    pub fn joined_schema(&self) -> Schema {
        joined(self.schemas().as_ref(), self.condition.keeps_left)
    }

    fn schemas(&self) -> Sides<SchemaRef> {
        self.inputs.as_ref().map(|input| input.schema())
    }

    fn layout(&self) -> Result<Layout> {
        let schemas = self.schemas();
        let all = || (0..schemas.left.fields().len() + schemas.right.fields().len()).collect();
        let projection = self.projection.clone().unwrap_or_else(all);
        Layout::new(schemas.as_ref(), &projection, &self.condition)
    }

    /// Returns the right side in the making, of one of its partitions or of all.
    fn start(&self, partition: Option<usize>, metrics: &Metrics, context: &Arc<TaskContext>) -> Result<BuildFuture> {
        let right = &self.inputs.right;
        let partitions = match partition {
            Some(partition) => partition..partition + 1,
            None => 0..right.output_partitioning().partition_count(),
        };
        let streams = partitions.map(|partition| right.execute(partition, Arc::clone(context)));
        let setup = build::Setup {
            condition: Arc::clone(&self.condition),
            schemas: self.schemas(),
            streams: streams.collect::<Result<_>>()?,
            columns: self.layout()?.right_columns(),
            context: Arc::clone(context),
            metrics: metrics.clone(),
        };
        Ok(setup.start(partition.is_none() && Handle::try_current().is_ok()))
    }
}

impl EmbeddedProjection for AsOfJoinExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let projection = composed(self.projection(), projection);
        Self::build(self.inputs.clone(), Arc::clone(&self.condition), self.is_partitioned, projection)
    }
}

impl DisplayAs for AsOfJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let condition = &self.condition;
        let on: Vec<_> = condition.on.iter().map(|pair| format!("({}, {})", pair.left, pair.right)).collect();
        let times = format!("{} {} {}", condition.times.left, condition.operator(), condition.times.right);
        let kind = if condition.keeps_left { "Left" } else { "Inner" };
        if let DisplayFormatType::TreeRender = format {
            return writeln!(f, "type={kind}\non={}\nmatch={times}", on.join(", "));
        }
        let mode = if self.is_partitioned { "mode=Partitioned, " } else { "" };
        write!(f, "AsOfJoinExec: type={kind}, {mode}on=[{}], match={times}", on.join(", "))?;
        if let Some(bounds) = &condition.bounds {
            write!(f, ", bounds={bounds}")?;
        }
        write_projection(f, &self.joined_schema(), self.projection())
    }
}

impl ExecutionPlan for AsOfJoinExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "AsOfJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inputs.left, &self.inputs.right]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let AsOfCondition { on, times, bounds, .. } = self.condition.as_ref();
        let exprs = on.iter().chain([times]).flat_map(|pair| [&pair.left, &pair.right]).chain(bounds);
        exprs.apply_until_stop(visit)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("AsOfJoinExec needs two children");
        };
        let (condition, projection) = (Arc::clone(&self.condition), self.projection.clone());
        Ok(Arc::new(Self::build(Sides { left, right }, condition, self.is_partitioned, projection)?))
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        if !self.is_partitioned {
            return InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution; 2]);
        }
        let keys = Sides::from_fn(|side: Side| -> Vec<_> {
            self.condition.on.iter().map(|pair| Arc::clone(&pair[side])).collect()
        });
        let distribution = |keys: Vec<_>| {
            if keys.is_empty() { Distribution::SinglePartition } else { Distribution::KeyPartitioned(keys) }
        };
        InputDistributionRequirements::co_partitioned(keys.map(distribution).into_array().to_vec())
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // The right side is read whole, however it is partitioned.
        vec![true, self.is_partitioned]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // DataFusion would take the columns of a projection for those of all inputs.
        vec![self.projection.is_none(), false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = OutputPartition { index: partition, count: self.properties.partitioning.partition_count() };
        let start = || {
            let metrics = Metrics::new(&self.metrics);
            let all = if self.is_partitioned { None } else { Some(self.start(None, &metrics, &context)?) };
            Ok((metrics, all))
        };
        let ((metrics, all), ticket) = self.executions.share(own, &context, start)?;
        let build = all.map_or_else(|| self.start(Some(partition), &metrics, &context), Ok)?;
        let setup = stream::Setup {
            condition: Arc::clone(&self.condition),
            schemas: self.schemas(),
            layout: self.layout()?,
            build,
            left: self.inputs.left.execute(partition, Arc::clone(&context))?,
            is_ordered: self.inputs.left.output_ordering().is_some(),
            context,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(ticket.stream(setup.stream(self.schema())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition), ChildStats::Skip]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = inputs[0].as_ref().clone().to_inexact();
        if self.condition.keeps_left {
            statistics.num_rows = inputs[0].num_rows;
        }
        let right = self.inputs.right.schema().fields().len();
        statistics.column_statistics.extend((0..right).map(|_| ColumnStatistics::new_unknown()));
        if let Some(projection) = &self.projection {
            let columns = projection.iter().map(|&index| statistics.column_statistics[index].clone());
            statistics.column_statistics = columns.collect();
        }
        statistics.total_byte_size = Precision::Absent;
        Ok(Arc::new(statistics))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.condition.keeps_left { CardinalityEffect::Equal } else { CardinalityEffect::LowerEqual }
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        try_embed_projection(projection, self)
    }
}
