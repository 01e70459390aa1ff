//! What joins promise of their output.

use std::{fmt, sync::Arc};

use annulus_join::{Side, Sides};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::{
    common::JoinType,
    error::Result,
    physical_expr::{
        EquivalenceProperties,
        equivalence::{AcrossPartitions, ProjectionMapping, join_equivalence_properties},
    },
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        joins::{
            HashJoinExec, NestedLoopJoinExec, PartitionMode,
            utils::{JoinOnRef, build_join_schema},
        },
    },
};

/// A join, of which each partition of the output reads one of the right side.
pub(in crate::join) struct JoinShape<'a> {
    pub(super) left: &'a Arc<dyn ExecutionPlan>,
    pub(super) right: &'a Arc<dyn ExecutionPlan>,
    pub(super) kind: JoinType,
    pub(super) on: JoinOnRef<'a>,
    pub(super) projection: Option<&'a [usize]>,
    /// Whether the output has the order of the right side.
    pub(super) keeps_order: bool,
    /// Whether each partition of the output reads one of the left side, too. Else it reads all.
    pub(super) is_partitioned: bool,
}

impl<'a> From<&'a HashJoinExec> for JoinShape<'a> {
    fn from(stock: &'a HashJoinExec) -> Self {
        Self {
            left: stock.left(),
            right: stock.right(),
            kind: *stock.join_type(),
            on: stock.on(),
            projection: stock.projection.as_deref(),
            keeps_order: stock.maintains_input_order()[1],
            is_partitioned: *stock.partition_mode() == PartitionMode::Partitioned,
        }
    }
}

impl<'a> From<&'a NestedLoopJoinExec> for JoinShape<'a> {
    /// Returns what is known of a join without equal keys, whose output is in no order.
    fn from(stock: &'a NestedLoopJoinExec) -> Self {
        let (left, right, kind) = (stock.left(), stock.right(), *stock.join_type());
        let projection = stock.projection().as_deref();
        Self { left, right, kind, on: &[], projection, keeps_order: false, is_partitioned: false }
    }
}

impl JoinShape<'_> {
    /// Returns the input of a side.
    pub(in crate::join) fn input(&self, side: Side) -> &Arc<dyn ExecutionPlan> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// Returns the properties of the output: those that the `stock` operator promises, without
    /// those that only hold if the left side has one partition, or is read in its order.
    ///
    /// # Errors
    /// If the columns are not those of the inputs.
    pub(super) fn properties(&self, stock: &Arc<PlanProperties>) -> Result<Arc<PlanProperties>> {
        let mut properties = Arc::clone(stock);
        if self.promises_less() {
            Arc::make_mut(&mut properties).set_eq_properties(self.equivalences()?);
        }
        Ok(properties)
    }

    fn promises_less(&self) -> bool {
        let left = self.left.equivalence_properties();
        let differs = |expr: &AcrossPartitions| *expr == AcrossPartitions::Heterogeneous;
        !left.oeq_class().is_empty()
            || !self.keeps_order && !self.right.equivalence_properties().oeq_class().is_empty()
            || !self.reads_one() && left.constants().iter().any(|constant| differs(&constant.across_partitions))
    }

    /// Returns whether each partition of the output reads one partition of the left side.
    fn reads_one(&self) -> bool {
        self.is_partitioned || self.left.output_partitioning().partition_count() == 1
    }

    /// Does what DataFusion's joins do, without the order of the left side.
    fn equivalences(&self) -> Result<EquivalenceProperties> {
        let mut left = self.left.equivalence_properties().clone();
        left.clear_orderings();
        if !self.reads_one() {
            left.clear_per_partition_constants();
        }
        let right = self.right.equivalence_properties().clone();
        let (schema, _) = build_join_schema(&self.left.schema(), &self.right.schema(), &self.kind);
        let (schema, keeps) = (Arc::new(schema), [false, self.keeps_order]);
        let all = join_equivalence_properties(left, right, &self.kind, Arc::clone(&schema), &keeps, None, self.on)?;
        let Some(projection) = self.projection else { return Ok(all) };
        let mapping = ProjectionMapping::from_indices(projection, &schema)?;
        Ok(all.project(&mapping, Arc::new(schema.project(projection)?)))
    }
}

/// Returns the properties of a join whose output has the partitions and the order of the left side, and which reads
/// the right side whole. `joined` has the columns of both, of which `projection` are output.
///
/// # Errors
/// If the columns are not those of the inputs.
pub(super) fn of_left_side(
    inputs: &Sides<Arc<dyn ExecutionPlan>>,
    joined: &SchemaRef,
    projection: Option<&[usize]>,
) -> Result<Arc<PlanProperties>> {
    let left = &inputs.left;
    let mut equivalences = EquivalenceProperties::new(Arc::clone(joined));
    // The columns of the left side have the same indices.
    equivalences.add_equivalence_group(left.equivalence_properties().eq_group().clone())?;
    equivalences.add_orderings(left.equivalence_properties().oeq_class().iter().cloned());
    let mut partitioning = left.output_partitioning().clone();
    if let Some(projection) = projection {
        let mapping = ProjectionMapping::from_indices(projection, joined)?;
        partitioning = partitioning.project(&mapping, &equivalences);
        equivalences = equivalences.project(&mapping, Arc::new(joined.project(projection)?));
    }
    let boundedness = match inputs.right.boundedness() {
        Boundedness::Unbounded { .. } => Boundedness::Unbounded { requires_infinite_memory: true },
        Boundedness::Bounded => left.boundedness(),
    };
    Ok(Arc::new(PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, boundedness)))
}

/// Returns the columns of a join's own output that `of_own` names, by their indices among all columns of both sides.
pub(super) fn composed(own: Option<&[usize]>, of_own: Option<Vec<usize>>) -> Option<Vec<usize>> {
    match (own, of_own) {
        (Some(own), Some(of_own)) => Some(of_own.into_iter().map(|index| own[index]).collect()),
        (own, None) => own.map(<[usize]>::to_vec),
        (None, of_own) => of_own,
    }
}

/// Writes the columns that a join outputs, of those of both sides, unless it outputs all.
pub(super) fn write_projection(f: &mut fmt::Formatter, joined: &Schema, projection: Option<&[usize]>) -> fmt::Result {
    let Some(projection) = projection else { return Ok(()) };
    let names = projection.iter().map(|&index| format!("{}@{index}", joined.field(index).name()));
    write!(f, ", projection=[{}]", names.collect::<Vec<_>>().join(", "))
}
