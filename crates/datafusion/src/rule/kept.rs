//! Partitions of tables that are kept where DataFusion would exchange into other ones.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::{PhysicalOptimizerRule, sanity_checker::SanityCheckPlan},
    physical_plan::{
        ChildrenPropertiesMode, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
        ReplaceChildrenOptions, repartition::RepartitionExec,
    },
};

use super::regions::{kept, keyed, partitions, reads_declared, satisfies};

/// Returns a plan that keeps the partitions of a table on one side of a join, if only the other
/// side needs an exchange.
///
/// DataFusion exchanges both sides into its target partitions if the table's are not as many. Here,
/// the other side is exchanged into the table's partitions.
pub(super) fn optimize(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let targets = config.execution.target_partitions;
    let rewritten = Arc::clone(&plan).transform_up(|node| keep(node, targets));
    // An operator that reads several inputs together may not accept what is below it now.
    let checked = rewritten
        .and_then(|new| if new.transformed { SanityCheckPlan::new().optimize(new.data, config) } else { Ok(new.data) });
    Ok(checked.unwrap_or_else(|error| {
        log::debug!("both sides of joins with partitioned tables are exchanged: {error}");
        plan
    }))
}

/// Exchanges the inputs of `node` into the partitions of a table that one of them reads, unless all
/// are alike already.
fn keep(node: Arc<dyn ExecutionPlan>, targets: usize) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let keyed = keyed(&node);
    if keyed.len() < 2 {
        return Ok(Transformed::no(node));
    }
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    let is_alike = keyed.iter().all(|&child| partitions(&inputs[child]) == partitions(&inputs[keyed[0]]));
    let mut tables = Vec::new();
    for &child in &keyed {
        let input = below_exchange(&inputs[child]).unwrap_or(&inputs[child]);
        if reads_declared(input) && satisfies(&node, child, input, false)? {
            tables.push((child, Arc::clone(input)));
        }
    }
    let candidates: Vec<_> = tables.iter().map(|(_, input)| input).collect();
    let Some(place) = kept(&candidates, targets) else { return Ok(Transformed::no(node)) };
    let (of_table, table) = &tables[place];
    if is_alike && Arc::ptr_eq(table, &inputs[*of_table]) {
        return Ok(Transformed::no(node));
    }
    let into = partitions(table);
    let is_hashed = |input: &Arc<dyn ExecutionPlan>| matches!(input.output_partitioning(), Partitioning::Hash(..));
    let requirements = node.input_distribution_requirements();
    for &child in &keyed {
        let table =
            tables.iter().find(|(place, input)| *place == child && is_hashed(input) && partitions(input) == into);
        inputs[child] = match (table, requirements.child_distribution(child)) {
            (Some((_, table)), _) => Arc::clone(table),
            (None, Some(required)) => exchanged(&inputs[child], required, into)?,
            (None, None) => return Ok(Transformed::no(node)),
        };
    }
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(inputs, recompute).map(Transformed::yes)
}

/// Returns the input of an exchange by hash that keeps no order.
fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let exchange = plan.downcast_ref::<RepartitionExec>()?;
    (matches!(exchange.partitioning(), Partitioning::Hash(..)) && !exchange.preserve_order()).then(|| exchange.input())
}

/// Returns the plan exchanged into partitions by the required key, in place of an exchange that is
/// there.
fn exchanged(plan: &Arc<dyn ExecutionPlan>, required: &Distribution, into: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let input = Arc::clone(below_exchange(plan).unwrap_or(plan));
    Ok(Arc::new(RepartitionExec::try_new(input, required.clone().create_partitioning(into))?))
}
