//! What a coordinator tells the workers about a hash join: they know no statistics of its inputs.
//!
//! It travels with the plan, in the metadata of the schema of the join's filter. No operator reads it.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, utils::JoinFilter},
    },
};

/// The key of the metadata. Its value is the reason for sorting both sides.
const SORT: &str = "annulus.sort_sides";

/// Attaches the reason for sorting that `why` returns to each hash join that has one.
///
/// # Errors
/// If `why` fails, or DataFusion refuses a plan.
pub(super) fn attach(
    plan: Arc<dyn ExecutionPlan>,
    why: impl Fn(&HashJoinExec) -> Result<Option<String>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let advised = plan.transform_up(|node| {
        let Some(stock) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
        let (Some(filter), Some(why)) = (stock.filter(), why(stock)?) else { return Ok(Transformed::no(node)) };
        let mut metadata = filter.schema().metadata().clone();
        metadata.insert(SORT.to_owned(), why);
        let schema = Schema::new_with_metadata(filter.schema().fields().clone(), metadata);
        let (expression, columns) = (Arc::clone(filter.expression()), filter.column_indices().to_vec());
        let filter = JoinFilter::new(expression, columns, Arc::new(schema));
        stock.builder().with_filter(Some(filter)).build_exec().map(Transformed::yes)
    })?;
    Ok(advised.data)
}

/// Returns the reason for sorting that a coordinator has attached to the filter of a hash join.
pub(super) fn attached_to(filter: &JoinFilter) -> Option<&str> {
    filter.schema().metadata().get(SORT).map(String::as_str)
}
