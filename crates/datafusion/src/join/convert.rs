//! DataFusion's terms in those of `annulus-join`.

use std::sync::Arc;

use annulus_join::{FilterColumn, JoinError, JoinType, PairFilter, Side};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::{
    common::{self, JoinSide},
    physical_expr::PhysicalExpr,
    physical_plan::joins::utils::JoinFilter,
};

use crate::error::into_join;

/// Returns a join type of `annulus-join`.
pub(super) fn join_type(join: common::JoinType) -> JoinType {
    match join {
        common::JoinType::Inner => JoinType::Inner,
        common::JoinType::Left => JoinType::Left,
        common::JoinType::Right => JoinType::Right,
        common::JoinType::Full => JoinType::Full,
        common::JoinType::LeftSemi => JoinType::LeftSemi,
        common::JoinType::RightSemi => JoinType::RightSemi,
        common::JoinType::LeftAnti => JoinType::LeftAnti,
        common::JoinType::RightAnti => JoinType::RightAnti,
        common::JoinType::LeftMark => JoinType::LeftMark,
        common::JoinType::RightMark => JoinType::RightMark,
    }
}

/// Returns the side, unless it is that of a mark.
pub(super) fn side(side: JoinSide) -> Option<Side> {
    match side {
        JoinSide::Left => Some(Side::Left),
        JoinSide::Right => Some(Side::Right),
        JoinSide::None => None,
    }
}

/// A filter on pairs that a physical expression evaluates.
#[derive(Debug)]
pub(super) struct ExprFilter {
    columns: Vec<FilterColumn>,
    expr: Arc<dyn PhysicalExpr>,
}

impl ExprFilter {
    /// Returns the filter, whose columns are numbered as `place` says.
    pub(super) fn new(filter: &JoinFilter, place: impl Fn(Side, usize) -> usize) -> Self {
        let column =
            |column: &JoinSide, index| side(*column).map(|side| FilterColumn { side, index: place(side, index) });
        let columns = filter.column_indices().iter().filter_map(|found| column(&found.side, found.index)).collect();
        Self { columns, expr: Arc::clone(filter.expression()) }
    }
}

impl PairFilter for ExprFilter {
    fn columns(&self) -> &[FilterColumn] {
        &self.columns
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        let kept = self.expr.evaluate(candidates).and_then(|kept| kept.into_array(candidates.num_rows()));
        Ok(kept.map_err(into_join)?.as_boolean().clone())
    }
}
