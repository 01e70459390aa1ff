//! Regions of a plan: the operators between exchanges, where partition `p` of the output needs only
//! partition `p` of the scans.

use std::sync::Arc;

use datafusion::{
    error::Result,
    physical_plan::{
        ChildSatisfactionOptions, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, StatisticsArgs,
        repartition::RepartitionExec, statistics::StatisticsContext,
    },
};

use crate::table::is_declared;

/// The largest number of partitions of a table into which another input is repartitioned, unless it
/// is the number of target partitions. Each partition has batches that are being filled.
const MOST_PARTITIONS: usize = 256;

/// Returns the number of output partitions.
pub(super) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

/// Returns whether an operator with this requirement needs rows of equal keys in one partition.
pub(super) fn is_by_key(requirement: &Distribution) -> bool {
    // A deprecated variant means the same.
    !matches!(requirement, Distribution::UnspecifiedDistribution | Distribution::SinglePartition)
}

/// Returns the children of `node` whose partition `p` feeds its partition `p`. The other children are
/// collected or repartitioned.
pub(super) fn feeding(node: &Arc<dyn ExecutionPlan>) -> Vec<&Arc<dyn ExecutionPlan>> {
    if node.is::<RepartitionExec>() {
        return Vec::new();
    }
    let requirements = node.input_distribution_requirements();
    let children = node.children().into_iter().zip(requirements.per_child_distributions());
    let feeds = |child: &Arc<dyn ExecutionPlan>, requirement: &Distribution| {
        !matches!(requirement, Distribution::SinglePartition) && partitions(child) == partitions(node)
    };
    children.filter(|(child, requirement)| feeds(child, requirement)).map(|(child, _)| child).collect()
}

/// Returns whether a scan that declares its table's partitioning feeds the partitions of `plan`.
pub(super) fn reads_declared(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_declared(plan.as_ref()) || feeding(plan).into_iter().any(reads_declared)
}

/// Returns the indexes of the children that `node` requires to be partitioned by a key.
pub(super) fn keyed(node: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
    let requirements = node.input_distribution_requirements();
    let by_key = requirements.per_child_distributions().enumerate().filter(|(_, required)| is_by_key(required));
    by_key.map(|(child, _)| child).collect()
}

/// Returns whether `input` has the partitioning that `node` requires of the child with this index. With
/// `subset`, a partitioning by a part of the required keys counts as well.
pub(super) fn satisfies(
    node: &Arc<dyn ExecutionPlan>,
    child: usize,
    input: &Arc<dyn ExecutionPlan>,
    subset: bool,
) -> Result<bool> {
    let options = ChildSatisfactionOptions::new().with_allow_subset(subset);
    let requirements = node.input_distribution_requirements();
    Ok(partitions(input) > 1 && requirements.child_satisfaction(child, input.as_ref(), options)?.is_satisfied())
}

/// Returns the index of the input whose partitioning is kept; the other inputs are repartitioned to
/// match. All `inputs` belong to one operator and are partitioned by its keys. The function chooses the
/// input with the most rows, by statistics. It returns `None` if no input has hash partitions into
/// which another input can be repartitioned.
pub(super) fn kept(inputs: &[&Arc<dyn ExecutionPlan>], targets: usize) -> Option<usize> {
    let statistics = StatisticsContext::new();
    let rows = |input: &Arc<dyn ExecutionPlan>| {
        let found = statistics.compute(input.as_ref(), &StatisticsArgs::new()).ok();
        found.and_then(|found| found.num_rows.get_value().copied()).unwrap_or_default()
    };
    let can_be = |input: &Arc<dyn ExecutionPlan>| {
        matches!(input.output_partitioning(), Partitioning::Hash(..))
            && (partitions(input) == targets || partitions(input) <= MOST_PARTITIONS)
    };
    let candidates = inputs.iter().enumerate().filter(|(_, input)| can_be(input));
    candidates.max_by_key(|(_, input)| (rows(input), partitions(input))).map(|(place, _)| place)
}

/// Returns whether partitions with one number have the same keys in all inputs. Each input is
/// partitioned by the keys of the operator.
pub(super) fn are_alike(inputs: &[&Arc<dyn ExecutionPlan>]) -> bool {
    let Some((first, others)) = inputs.split_first() else { return true };
    others.iter().all(|other| match (first.output_partitioning(), other.output_partitioning()) {
        (Partitioning::Hash(_, first), Partitioning::Hash(_, other)) => first == other,
        (Partitioning::Range(first), Partitioning::Range(other)) => first.split_points() == other.split_points(),
        _ => false,
    })
}
