//! What the logical nodes of joins have in common.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;

/// Returns the new right side of these joins without a filter that was moved to both sides.
///
/// DataFusion 55.2 moves a predicate without columns, such as random() < 0.1, to all inputs of a node. It holds
/// or does not for the rows of the output, which are those of the left side. `before` is the right side before.
pub(crate) fn without_moved(left: &LogicalPlan, right: LogicalPlan, before: &Arc<LogicalPlan>) -> LogicalPlan {
    match (left, right) {
        (LogicalPlan::Filter(moved), LogicalPlan::Filter(filter))
            if filter.predicate == moved.predicate
                && filter.predicate.column_refs().is_empty()
                && filter.input == *before =>
        {
            Arc::unwrap_or_clone(filter.input)
        }
        (_, right) => right,
    }
}

/// Returns the columns of each side, of the columns of a join whose first `left_columns` are the left side's.
pub(crate) fn columns_by_side(columns: &[usize], left_columns: usize) -> Vec<Vec<usize>> {
    let (left, right): (Vec<usize>, Vec<usize>) = columns.iter().partition(|&&index| index < left_columns);
    vec![left, right.into_iter().map(|index| index - left_columns).collect()]
}
