//! The predicates that are evaluated on pairs.

use std::sync::Arc;

use datafusion::{error::Result, physical_expr::PhysicalExpr, physical_plan::joins::utils::JoinFilter};

use crate::join::convert::with_own_columns;

/// Returns the filter of a predicate over some of the columns of `filter`. It reads no others.
///
/// # Errors
/// If a column does not exist.
pub(in crate::join) fn narrowed(filter: &JoinFilter, predicate: &Arc<dyn PhysicalExpr>) -> Result<JoinFilter> {
    let (expr, used) = with_own_columns(predicate)?;
    let schema = filter.schema().project(&used)?;
    let places = used.iter().map(|&column| filter.column_indices()[column].clone()).collect();
    Ok(JoinFilter::new(expr, places, Arc::new(schema)))
}
