//! How plans use partitions: parts of a plan in which partition `p` of the output needs only
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

/// The most partitions of a table into which another input is exchanged if they are not as many as
/// the target partitions: each has batches that are being filled.
const MOST_PARTITIONS: usize = 256;

/// Returns the number of output partitions.
pub(super) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

/// Returns whether an operator with this requirement relies on equal keys being in one partition.
pub(super) fn is_by_key(requirement: &Distribution) -> bool {
    // A deprecated variant means the same.
    !matches!(requirement, Distribution::UnspecifiedDistribution | Distribution::SinglePartition)
}

/// Returns the children of `node` whose partition `p` feeds its partition `p`. Others are collected
/// or exchanged.
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

/// Returns the children that `node` requires to be partitioned by a key, by their positions.
pub(super) fn keyed(node: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
    let requirements = node.input_distribution_requirements();
    let by_key = requirements.per_child_distributions().enumerate().filter(|(_, required)| is_by_key(required));
    by_key.map(|(child, _)| child).collect()
}

/// Returns whether `input` is partitioned as `node` requires of the child at this position; with
/// `subset`, also if by a part of the required keys.
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

/// Of inputs of one operator, all partitioned by its keys, returns the one whose partitions are
/// kept, as a position: others are exchanged if theirs differ. It is the one with most rows, as far
/// as statistics tell. `None` if none has partitions by hash that another input can be exchanged
/// into.
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

/// Returns whether matching partitions of all inputs have equal keys, if each is partitioned by the
/// keys of its operator.
pub(super) fn are_alike(inputs: &[&Arc<dyn ExecutionPlan>]) -> bool {
    let Some((first, others)) = inputs.split_first() else { return true };
    others.iter().all(|other| match (first.output_partitioning(), other.output_partitioning()) {
        (Partitioning::Hash(_, first), Partitioning::Hash(_, other)) => first == other,
        (Partitioning::Range(first), Partitioning::Range(other)) => first.split_points() == other.split_points(),
        _ => false,
    })
}
