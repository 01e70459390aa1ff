//! The operator.

use std::{fmt, sync::Arc};

use annulus_join::{JoinType, NearestSearch, Sides};
use arrow::datatypes::Schema;
use datafusion::{
    common::{
        JoinSide, Statistics, internal_datafusion_err, internal_err,
        stats::Precision,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    execution::TaskContext,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
        InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        joins::utils::ColumnIndex,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics},
        projection::{EmbeddedProjection, ProjectionExec, try_embed_projection},
    },
};
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    arriving::ArrivingSearch,
    build,
    condition::NearestCondition,
    method::Method,
    output::Layout,
    stream::{self, Shared},
};
use crate::{
    delegate,
    executions::{Executions, OutputPartition},
    join::{
        collect::threads,
        convert::joined,
        hash::BuildMetrics,
        morsels::RowsPlan,
        properties::{composed, of_left_side, write_projection},
    },
};

/// A join of each row of the left side with the rows of the right side that are nearest.
///
/// All partitions of the left side meet all rows of the right side, so neither side is repartitioned, and the
/// output has the left side's partitions and order. A right side that does not fit in memory is read from disk,
/// once or twice for as many rows of the left side as fit in memory.
#[derive(Debug)]
pub struct NearestJoinExec {
    inputs: Sides<Arc<dyn ExecutionPlan>>,
    condition: NearestCondition,
    method: Arc<Method>,
    /// The columns of the output, of those of both sides.
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    executions: Executions<Shared>,
}

impl NearestJoinExec {
    /// Returns the join of two inputs.
    ///
    /// # Errors
    /// If the expression cannot be evaluated with the columns of the inputs.
    pub fn try_new(inputs: Sides<Arc<dyn ExecutionPlan>>, condition: NearestCondition) -> Result<Self> {
        Self::build(inputs, condition, None)
    }

    fn build(
        inputs: Sides<Arc<dyn ExecutionPlan>>,
        condition: NearestCondition,
        projection: Option<Vec<usize>>,
    ) -> Result<Self> {
        let schemas = inputs.as_ref().map(|input| input.schema());
        let schema = Arc::new(joined(schemas.as_ref(), condition.keeps_left));
        let method = Arc::new(condition.method(&schema, schemas.left.fields().len())?);
        let properties = of_left_side(&inputs, &schema, projection.as_deref())?;
        let (metrics, executions) = (ExecutionPlanMetricsSet::new(), Executions::default());
        Ok(Self { inputs, condition, method, projection, properties, metrics, executions })
    }

    /// Returns the condition.
    pub fn condition(&self) -> &NearestCondition {
        &self.condition
    }

    /// Returns the columns of the output, of those of the left side and then of the right side; all if there
    /// is none.
    pub fn projection(&self) -> Option<&[usize]> {
        self.projection.as_deref()
    }

    /// Returns the columns of both sides.
    pub fn joined_schema(&self) -> Schema {
        joined(self.inputs.as_ref().map(|input| input.schema()).as_ref(), self.condition.keeps_left)
    }

    /// Returns whether all pairs of rows are compared: by the expression, or by products of vectors.
    pub fn compares_pairs(&self) -> bool {
        self.method.compares_pairs()
    }

    /// Returns the columns of the join, and the search for rows that arrive in parts.
    pub(in crate::join) fn arriving(&self) -> Result<(RowsPlan, Arc<dyn NearestSearch>)> {
        let schemas = self.inputs.as_ref().map(|input| input.schema());
        let left_columns = schemas.left.fields().len();
        let reads = collect_columns(&self.condition.by).into_iter().map(|column| match column.index() {
            index if index < left_columns => ColumnIndex { index, side: JoinSide::Left },
            index => ColumnIndex { index: index - left_columns, side: JoinSide::Right },
        });
        let kind = if self.condition.keeps_left { JoinType::Left } else { JoinType::Inner };
        let no_keys = |_| [].iter() as std::slice::Iter<'_, Arc<dyn PhysicalExpr>>;
        let output = (self.projection(), self.schema());
        let rows = RowsPlan::of_inputs(kind, &schemas, output, no_keys, &reads.collect::<Vec<_>>())?;
        let own = rows.sides.as_ref().map(|side| &side.schema);
        let moved = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = match column.index() {
                index if index < left_columns => rows.sides.left.place(index),
                index => rows.sides.right.place(index - left_columns).map(|place| own.left.fields().len() + place),
            };
            let place = place.ok_or_else(|| internal_datafusion_err!("column {column} is not read"))?;
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
        };
        let NearestCondition { by, order, k, keeps_left } = self.condition.clone();
        let condition = NearestCondition { by: by.transform(moved).data()?, order, k, keeps_left };
        let method = condition.method(&joined(own, keeps_left), own.left.fields().len())?;
        let schema = Arc::clone(own.right);
        Ok((rows, Arc::new(ArrivingSearch { method: Arc::new(method), k, schema })))
    }

    /// Returns the parts of the condition as `EXPLAIN` prints them.
    pub fn facts(&self) -> String {
        let NearestCondition { by, order, k, keeps_left } = &self.condition;
        let kind = if *keeps_left { "Left" } else { "Inner" };
        format!("type={kind}, k={k}, {order}={by}, method={}", self.method)
    }

    fn layout(&self) -> Result<Layout> {
        let joined = self.joined_schema();
        let all = || (0..joined.fields().len()).collect();
        let projection = self.projection.clone().unwrap_or_else(all);
        Layout::new(&joined, self.inputs.left.schema().fields().len(), &projection)
    }

    /// Returns the right side in the making, and the threads that have no partition.
    fn start(&self, context: &Arc<TaskContext>) -> Result<Shared> {
        let right = &self.inputs.right;
        let partitions = 0..right.output_partitioning().partition_count();
        let streams = partitions.map(|partition| right.execute(partition, Arc::clone(context)));
        let setup = build::Setup {
            method: Arc::clone(&self.method),
            schema: self.inputs.right.schema(),
            streams: streams.collect::<Result<_>>()?,
            context: Arc::clone(context),
            metrics: BuildMetrics::new(&self.metrics),
            files: SpillMetrics::new(&self.metrics, 0),
        };
        let spare = threads(context).saturating_sub(self.properties.partitioning.partition_count());
        let build = setup.start(Handle::try_current().is_ok());
        Ok(Shared { build, spare: Arc::new(Semaphore::new(spare)) })
    }
}

impl EmbeddedProjection for NearestJoinExec {
    fn with_projection(&self, projection: Option<Vec<usize>>) -> Result<Self> {
        let projection = composed(self.projection(), projection);
        Self::build(self.inputs.clone(), self.condition.clone(), projection)
    }
}

impl DisplayAs for NearestJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if let DisplayFormatType::TreeRender = format {
            let NearestCondition { by, order, k, keeps_left } = &self.condition;
            let kind = if *keeps_left { "Left" } else { "Inner" };
            return writeln!(f, "type={kind}\nk={k}\n{order}={by}\nmethod={}", self.method);
        }
        write!(f, "NearestJoinExec: {}", self.facts())?;
        write_projection(f, &self.joined_schema(), self.projection())
    }
}

impl ExecutionPlan for NearestJoinExec {
    delegate!(self.replace_children: with_new_children);

    fn name(&self) -> &'static str {
        "NearestJoinExec"
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
        visit(&self.condition.by)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("NearestJoinExec needs two children");
        };
        let (condition, projection) = (self.condition.clone(), self.projection.clone());
        Ok(Arc::new(Self::build(Sides { left, right }, condition, projection)?))
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution; 2])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // The right side is read whole, however it is partitioned.
        vec![true, false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // DataFusion would take the columns of a projection for those of all inputs.
        vec![self.projection.is_none(), false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let own = OutputPartition { index: partition, count: self.properties.partitioning.partition_count() };
        let (shared, ticket) = self.executions.share(own, &context, || self.start(&context))?;
        let setup = stream::Setup {
            method: Arc::clone(&self.method),
            k: self.condition.k,
            keeps_left: self.condition.keeps_left,
            layout: self.layout()?,
            shared,
            left: self.inputs.left.execute(partition, Arc::clone(&context))?,
            context,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(ticket.stream(setup.stream()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition), ChildStats::Skip]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(rows) = inputs[0].num_rows.get_value() {
            statistics.num_rows = Precision::Inexact(rows.saturating_mul(self.condition.k));
        }
        Ok(Arc::new(statistics))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.condition.keeps_left { CardinalityEffect::GreaterEqual } else { CardinalityEffect::Unknown }
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        try_embed_projection(projection, self)
    }
}
