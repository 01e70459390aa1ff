//! Inputs of windows, which promise on a worker the order that the coordinator knows.
//!
//! A coordinator leaves a column out of a sort if it has one value only, as after a filter on it. A
//! stage that reads from another one does not know that: what a plan promises of its columns stays
//! behind at the boundary of stages. A window that is partitioned by the column would then refuse its
//! input. Here, the column is added to the sort, which changes no order; or the boundary promises it
//! again.

use std::{fmt, sync::Arc};

use annulus_datafusion::delegate;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    physical_expr::{ConstExpr, LexOrdering, PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
        ReplaceChildrenOptions,
        sorts::sort::SortExec,
        windows::{BoundedWindowAggExec, WindowAggExec, get_ordered_partition_by_indices},
    },
};
use datafusion_distributed::NetworkBoundaryExt;

/// Returns the plan, in which inputs of windows promise the order that their windows need.
///
/// # Errors
/// If DataFusion refuses a plan.
pub(crate) fn restore_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let restore = |node: Arc<dyn ExecutionPlan>| {
        let Some(keys) = sorted_keys(&node).filter(|keys| !keys.is_empty()) else { return Ok(Transformed::no(node)) };
        let [input] = node.children()[..] else { return Ok(Transformed::no(node)) };
        let known = get_ordered_partition_by_indices(&keys, input)?;
        if known.len() == keys.len() {
            return Ok(Transformed::no(node));
        }
        let input = match input.downcast_ref::<SortExec>() {
            Some(sort) if sort.fetch().is_none() => sorted_by_all(sort, &keys)?,
            _ if input.is_network_boundary() => {
                let unknown = keys.iter().enumerate().filter(|(index, _)| !known.contains(index));
                PromisingExec::promise(Arc::clone(input), unknown.map(|(_, key)| Arc::clone(key)))?
            }
            _ => return Ok(Transformed::no(node)),
        };
        node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
            .map(Transformed::yes)
    };
    Ok(plan.transform_up(restore)?.data)
}

/// Returns the keys of the partitions of a window that needs its input in their order.
fn sorted_keys(node: &Arc<dyn ExecutionPlan>) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let windows = match node.downcast_ref::<BoundedWindowAggExec>() {
        Some(bounded) if bounded.input_order_mode == InputOrderMode::Sorted => bounded.window_expr(),
        Some(_) => return None,
        None => node.downcast_ref::<WindowAggExec>()?.window_expr(),
    };
    Some(windows.first()?.partition_by().to_vec())
}

/// Returns the sort with all of the keys: those that it lacks follow the last one of those that it
/// begins with.
fn sorted_by_all(sort: &SortExec, keys: &[Arc<dyn PhysicalExpr>]) -> Result<Arc<dyn ExecutionPlan>> {
    let mut order: Vec<PhysicalSortExpr> = sort.expr().iter().cloned().collect();
    let place = order.iter().take_while(|by| keys.contains(&by.expr)).count();
    let lacks = keys.iter().filter(|key| !order.iter().any(|by| by.expr.eq(*key)));
    let lacks: Vec<_> = lacks.map(|key| PhysicalSortExpr::new_default(Arc::clone(key))).collect();
    order.splice(place..place, lacks);
    let Some(order) = LexOrdering::new(order) else { return Ok(Arc::new(sort.clone())) };
    let partitions = sort.preserve_partitioning();
    Ok(Arc::new(SortExec::new(order, Arc::clone(sort.input())).with_preserve_partitioning(partitions)))
}

/// A boundary of stages that promises of some columns that each has one value only.
#[derive(Debug)]
struct PromisingExec {
    inner: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl PromisingExec {
    fn promise(
        inner: Arc<dyn ExecutionPlan>,
        constants: impl Iterator<Item = Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut properties = Arc::clone(inner.properties());
        let mut equivalences = properties.equivalence_properties().clone();
        equivalences.add_constants(constants.map(ConstExpr::from))?;
        Arc::make_mut(&mut properties).set_eq_properties(equivalences);
        Ok(Arc::new(Self { inner, properties }))
    }

    /// Returns the operator over another boundary, with the same promises.
    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { inner, properties: Arc::clone(&self.properties) }))
    }
}

impl DisplayAs for PromisingExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for PromisingExec {
    // A downcast finds the boundary: the operator stands for it.
    delegate!(self.inner: name, downcast_delegate, children, apply_expressions, execute, metrics);
    delegate!(self.rewrap(self.inner): replace_children);
    delegate!(self.replace_children: with_new_children);

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
}
