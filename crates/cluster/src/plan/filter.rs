//! The rest of a condition, evaluated by DataFusion.

use std::sync::Arc;

use annulus_join::{FilterColumn, JoinError, PairFilter};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::physical_expr::PhysicalExpr;

/// A predicate over columns of both sides.
#[derive(Debug)]
pub(super) struct Predicate {
    pub(super) columns: Vec<FilterColumn>,
    pub(super) expr: Arc<dyn PhysicalExpr>,
}

impl PairFilter for Predicate {
    fn columns(&self) -> &[FilterColumn] {
        &self.columns
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let outside = |error| JoinError::Outside(Box::new(error));
        let kept = self.expr.evaluate(candidates).map_err(outside)?;
        let kept = kept.into_array(candidates.num_rows()).map_err(outside)?;
        let kept = kept.as_boolean_opt().cloned();
        kept.ok_or_else(|| JoinError::Outside(format!("'{}' must be true or false", self.expr).into()))
    }
}
