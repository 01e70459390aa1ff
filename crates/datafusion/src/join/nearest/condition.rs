//! The condition of a nearest-rows join.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::{error::Result, physical_expr::PhysicalExpr};

use super::method::Method;
use crate::nearest::NearestOrder;

/// The condition of a nearest-rows join.
#[derive(Clone, Debug)]
pub struct NearestCondition {
    /// The expression by which rows are near, over the columns of the left side, then those of the right side.
    pub by: Arc<dyn PhysicalExpr>,
    /// Which values of it are near.
    pub order: NearestOrder,
    /// The number of neighbours of each row, from 1.
    pub k: usize,
    /// Whether rows of the left side without neighbours are joined with nulls.
    pub keeps_left: bool,
}

impl NearestCondition {
    /// Returns how the nearest rows are found. `joined` has the columns of both sides, of which the first
    /// `left_columns` are the left side's.
    ///
    /// # Errors
    /// If the expression cannot be evaluated with such columns.
    pub(super) fn method(&self, joined: &Schema, left_columns: usize) -> Result<Method> {
        Method::new(&self.by, self.order, joined, left_columns)
    }
}
