//! Scans that declare a partitioning which nothing uses.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        union::{InterleaveExec, UnionExec, can_interleave},
    },
};

use super::regions::{are_alike, feeding, kept, keyed, partitions, satisfies};
use crate::table::{is_declared, undeclared};

/// Returns a plan whose scans of partitioned tables declare nothing if no operator above uses their
/// partitioning.
///
/// A declared partitioning fixes the number of a scan's partitions and their files. Without it,
/// DataFusion divides the files among its target partitions.
pub(super) fn optimize(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let mut used = HashSet::new();
    // The same scans are in both plans.
    interleaved(&plan, config)?.apply(|node| {
        for child in users(node, config)? {
            mark(node.children()[child], config, &mut used)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let targets = config.execution.target_partitions;
    let unused = |node: Arc<dyn ExecutionPlan>| {
        if is_declared(node.as_ref()) && !used.contains(&address(&node)) {
            undeclared(&node, targets).map(Transformed::yes)
        } else {
            Ok(Transformed::no(node))
        }
    };
    Ok(plan.transform_up(unused)?.data)
}

/// Returns a plan whose scans declare no ranges. `datafusion-distributed` refuses to divide such a scan
/// among tasks.
pub(super) fn without_ranges(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let targets = config.execution.target_partitions;
    let plain = |node: Arc<dyn ExecutionPlan>| {
        let has_ranges = matches!(node.output_partitioning(), Partitioning::Range(_));
        if has_ranges && is_declared(node.as_ref()) {
            undeclared(&node, targets).map(Transformed::yes)
        } else {
            Ok(Transformed::no(node))
        }
    };
    Ok(plan.transform_up(plain)?.data)
}

/// Returns the plan as DataFusion makes it where unions have inputs of the same partitioning: it
/// interleaves them, which keeps it.
fn interleaved(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    if config.optimizer.prefer_existing_union {
        return Ok(Arc::clone(plan));
    }
    let interleave = |node: Arc<dyn ExecutionPlan>| {
        let inputs: Vec<_> = node.children().into_iter().cloned().collect();
        if node.is::<UnionExec>() && can_interleave(inputs.iter()) {
            Ok(Transformed::yes(Arc::new(InterleaveExec::try_new(inputs)?) as _))
        } else {
            Ok(Transformed::no(node))
        }
    };
    Ok(Arc::clone(plan).transform_up(interleave)?.data)
}

/// Returns the address of a node, which is its identity in one plan.
fn address(node: &Arc<dyn ExecutionPlan>) -> *const () {
    Arc::as_ptr(node).cast()
}

/// Adds the scans to `used` whose partitioning reaches the output of `plan`.
fn mark(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions, used: &mut HashSet<*const ()>) -> Result<()> {
    if is_declared(plan.as_ref()) {
        used.insert(address(plan));
    }
    let (keyed, users, children) = (keyed(plan), users(plan, config)?, plan.children());
    // What an operator exchanges does not reach its output.
    let exchanged = |child: &Arc<dyn ExecutionPlan>| {
        keyed.iter().any(|place| Arc::ptr_eq(children[*place], child) && !users.contains(place))
    };
    feeding(plan).into_iter().filter(|child| !exchanged(child)).try_for_each(|child| mark(child, config, used))
}

/// Returns the children of `node`, by position, whose partitioning by key it can use as it is.
fn users(node: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Vec<usize>> {
    let (keyed, children) = (keyed(node), node.children());
    let mut satisfied = Vec::new();
    for &child in &keyed {
        let input = children[child];
        // Operators with several inputs need exactly the keys that they name.
        let subset = keyed.len() == 1 && partitions(input) >= config.optimizer.subset_repartition_threshold;
        if satisfies(node, child, input, subset)? {
            satisfied.push(child);
        }
    }
    let inputs: Vec<_> = satisfied.iter().map(|&child| children[child]).collect();
    if satisfied.len() == keyed.len() && are_alike(&inputs) {
        return Ok(satisfied);
    }
    let kept = kept(&inputs, config.execution.target_partitions);
    Ok(kept.map(|place| satisfied[place]).into_iter().collect())
}
