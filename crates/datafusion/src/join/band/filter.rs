//! The predicates that are evaluated on pairs.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::Schema;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
    physical_plan::joins::utils::JoinFilter,
};

/// Returns the filter of a predicate over some of the columns of `filter`. It reads no others.
///
/// # Errors
/// If a column does not exist.
pub(in crate::join) fn narrowed(filter: &JoinFilter, predicate: &Arc<dyn PhysicalExpr>) -> Result<JoinFilter> {
    let mut used: Vec<usize> = collect_columns(predicate).iter().map(Column::index).collect();
    used.sort_unstable();
    used.dedup();
    let schema: Schema = filter.schema().project(&used)?;
    let places = used.iter().map(|&column| filter.column_indices()[column].clone()).collect();
    let new_places: HashMap<usize, usize> = used.into_iter().enumerate().map(|(new, old)| (old, new)).collect();
    let moved = Arc::clone(predicate).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let moved = Column::new(column.name(), new_places[&column.index()]);
        Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
    })?;
    Ok(JoinFilter::new(moved.data, places, Arc::new(schema)))
}
