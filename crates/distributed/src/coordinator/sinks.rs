//! The place of an operator that may run what is below it again: below the operators that write.

use std::sync::Arc;

use datafusion::{
    datasource::sink::DataSinkExec,
    error::Result,
    logical_expr::LogicalPlan,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
};

use crate::results::WriteExec;

/// Returns whether an operator writes the rows of its input in the process of the coordinator.
fn is_sink(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<DataSinkExec>() || plan.downcast_ref::<WriteExec>().is_some_and(WriteExec::gathers)
}

/// Returns whether a statement writes.
pub(super) fn writes(logical: &LogicalPlan) -> bool {
    matches!(logical, LogicalPlan::Copy(_) | LogicalPlan::Dml(_))
}

/// Returns the rows of a query, or those that a statement writes; `None` if workers write them.
pub(super) fn rows_of<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
) -> Option<&'a Arc<dyn ExecutionPlan>> {
    match (writes(logical), is_sink(plan)) {
        (false, _) => Some(plan),
        (true, true) => plan.children().into_iter().next(),
        (true, false) => None,
    }
}

/// Returns `plan` with other `rows` at the place of [`rows_of`].
///
/// # Errors
/// If the operator that writes refuses them.
pub(super) fn with_rows(
    plan: &Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    rows: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match writes(logical) {
        false => Ok(rows),
        true => Arc::clone(plan)
            .replace_children(vec![rows], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)),
    }
}
