//! The rest of a condition, evaluated by DataFusion.

use std::sync::Arc;

use annulus_join::{FilterColumn, JoinError, PairFilter};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::physical_expr::PhysicalExpr;

use super::sql::reason;
use crate::error::ClusterError;

/// A predicate over columns of both sides.
#[derive(Debug)]
pub(super) struct Predicate {
    pub(super) columns: Vec<FilterColumn>,
    pub(super) expr: Arc<dyn PhysicalExpr>,
    /// The predicate as SQL, for errors.
    pub(super) text: String,
}

impl PairFilter for Predicate {
    fn columns(&self) -> &[FilterColumn] {
        &self.columns
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let failed =
            |reason: String| JoinError::Outside(Box::new(ClusterError::Condition { text: self.text.clone(), reason }));
        let kept = self.expr.evaluate(candidates).and_then(|kept| kept.into_array(candidates.num_rows()));
        let kept = kept.map_err(|error| failed(reason(&error)))?;
        kept.as_boolean_opt().cloned().ok_or_else(|| failed("it must be true or false".to_owned()))
    }
}
