//! Rules that replace the sinks of a plan, which run before all others.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    datasource::sink::{DataSink, DataSinkExec},
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::ExecutionPlan,
};

/// Adds a rule to those of a session, as the first one, unless it is there.
pub(crate) fn install_first(
    rule: impl PhysicalOptimizerRule + Send + Sync + 'static,
    rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) {
    if !rules.iter().any(|known| known.name() == rule.name()) {
        rules.insert(0, Arc::new(rule));
    }
}

/// Returns a plan with the sinks that `sink_for` returns for the operators that have others.
///
/// # Errors
/// Those of `sink_for`.
pub(crate) fn replace_sinks<S: DataSink + 'static>(
    plan: Arc<dyn ExecutionPlan>,
    sink_for: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Option<S>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replace = |plan: Arc<dyn ExecutionPlan>| {
        let Some(exec) = plan.downcast_ref::<DataSinkExec>() else { return Ok(Transformed::no(plan)) };
        let Some(sink) = sink_for(&plan)? else { return Ok(Transformed::no(plan)) };
        let (input, order) = (Arc::clone(exec.input()), exec.sort_order().clone());
        Ok(Transformed::yes(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)) as _))
    };
    Ok(plan.transform_up(replace)?.data)
}

/// Returns the sink of an operator; `None` for an operator that has none.
pub(crate) fn sink_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&dyn DataSink> {
    plan.downcast_ref::<DataSinkExec>().map(DataSinkExec::sink)
}
