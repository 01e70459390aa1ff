//! The choice of plans whose partitions run a few at a time.

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    error::Result,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, repartition::RepartitionExec,
        union::InterleaveExec,
    },
};

use super::{
    is_shipped,
    regions::{feeding, is_by_key, partitions},
};
use crate::{
    exec::InTurnExec,
    table::{is_declared, scanned_bytes},
};

/// Returns a plan with [`InTurnExec`] above operators that read more partitions of partitioned
/// tables than the session's target partitions, and need no exchange. So only that many partitions
/// are in memory at a time.
pub(super) fn optimize(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let choice = Choice { at_a_time: config.execution.target_partitions, collects: !is_shipped(config) };
    insert(plan, Requirement::default(), choice)
}

/// How partitions run in turn.
#[derive(Clone, Copy, Debug)]
struct Choice {
    at_a_time: usize,
    /// Whether operators that collect an input can be among those that run in turn. Stages on workers are planned
    /// after this rule, and change the partitions of some of these operators.
    collects: bool,
}

/// What the operators above need of a plan.
#[derive(Clone, Copy, Debug, Default)]
struct Requirement {
    /// Its partitions as they are.
    partitions: bool,
    /// The order of its rows.
    order: bool,
}

/// Inserts the operator above `plan` if it can stand there, or below.
fn insert(plan: Arc<dyn ExecutionPlan>, need: Requirement, choice: Choice) -> Result<Arc<dyn ExecutionPlan>> {
    let is_free = !need.partitions && !need.order;
    if is_free && partitions(&plan) > choice.at_a_time && stands_alone(&plan, choice) && groups_by_key(&plan) {
        let mut weights = Vec::new();
        add_weights(&plan, &mut weights);
        return Ok(Arc::new(InTurnExec::new(collected(plan, choice)?, choice.at_a_time, &weights)));
    }
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan);
    }
    let requirements = plan.input_distribution_requirements();
    let (orders, keeps_order) = (plan.required_input_ordering(), plan.maintains_input_order());
    let exchanges = plan.is::<RepartitionExec>();
    let below = requirements.per_child_distributions().zip(&children).enumerate().map(|(index, (required, child))| {
        // A union puts its inputs' partitions beside each other, an interleave reads them together.
        let passes_on = !exchanges && partitions(child) == partitions(&plan);
        let below = Requirement {
            partitions: is_by_key(required) || plan.is::<InterleaveExec>() || need.partitions && passes_on,
            order: orders[index].is_some() || need.order && keeps_order[index],
        };
        insert(Arc::clone(child), below, choice)
    });
    let below = below.collect::<Result<Vec<_>>>()?;
    with_children(&plan, below)
}

/// Inserts the operator into what `plan` and the operators that feed it collect once for all of
/// their partitions.
fn collected(plan: Arc<dyn ExecutionPlan>, choice: Choice) -> Result<Arc<dyn ExecutionPlan>> {
    let feeding: Vec<_> = feeding(&plan).into_iter().cloned().collect();
    let below = plan.children().into_iter().map(|child| {
        if feeding.iter().any(|fed| Arc::ptr_eq(fed, child)) {
            collected(Arc::clone(child), choice)
        } else {
            insert(Arc::clone(child), Requirement::default(), choice)
        }
    });
    let below = below.collect::<Result<Vec<_>>>()?;
    with_children(&plan, below)
}

/// Returns `plan` with other children, unless they are the same.
fn with_children(plan: &Arc<dyn ExecutionPlan>, below: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    if below.iter().zip(plan.children()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(plan));
    }
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(below, recompute)
}

/// Adds the bytes that each partition of `plan` reads of partitioned tables to `weights`.
fn add_weights(plan: &Arc<dyn ExecutionPlan>, weights: &mut Vec<u64>) {
    let declared = scanned_bytes(plan.as_ref()).filter(|_| is_declared(plan.as_ref()));
    for (partition, bytes) in declared.into_iter().flatten().enumerate() {
        weights.resize(weights.len().max(partition + 1), 0);
        weights[partition] += bytes;
    }
    feeding(plan).into_iter().for_each(|child| add_weights(child, weights));
}

/// Returns whether each partition of `plan` reads one partition of tables that are partitioned, and
/// otherwise only what is collected once for all.
fn stands_alone(plan: &Arc<dyn ExecutionPlan>, choice: Choice) -> bool {
    if is_declared(plan.as_ref()) {
        return true;
    }
    let feeding = feeding(plan);
    let collected = |child: &&Arc<dyn ExecutionPlan>| choice.collects && partitions(child) == 1;
    !feeding.is_empty()
        && feeding.iter().all(|child| stands_alone(child, choice))
        && plan.children().iter().all(|child| collected(child) || feeding.iter().any(|fed| Arc::ptr_eq(fed, child)))
}

/// Returns whether an operator of `plan` relies on equal keys being in one partition.
fn groups_by_key(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let requirements = plan.input_distribution_requirements();
    requirements.per_child_distributions().any(is_by_key) || feeding(plan).into_iter().any(groups_by_key)
}
