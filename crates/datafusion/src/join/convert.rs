//! DataFusion's terms in those of `annulus-join`.

use std::sync::Arc;

use annulus_join::{Comparison, FilterColumn, JoinError, JoinType, PairFilter, Side, Sides};
use arrow::{
    array::{AsArray, BooleanArray, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{
    common::{
        self, JoinSide,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::Operator,
    physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns},
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

/// Returns a comparison by order, if the operator is one.
pub(super) fn comparison(op: Operator) -> Option<Comparison> {
    match op {
        Operator::Lt => Some(Comparison::Less),
        Operator::LtEq => Some(Comparison::LessOrEqual),
        Operator::Gt => Some(Comparison::Greater),
        Operator::GtEq => Some(Comparison::GreaterOrEqual),
        _ => None,
    }
}

/// Returns the columns of both sides, those of the right side nullable if rows of the left side may have no
/// partner.
pub(super) fn joined(schemas: Sides<&SchemaRef>, keeps_left: bool) -> Schema {
    let right = schemas.right.fields().iter().map(|field| match keeps_left {
        true => Arc::new(field.as_ref().clone().with_nullable(true)),
        false => Arc::clone(field),
    });
    Schema::new(schemas.left.fields().iter().cloned().chain(right).collect::<Vec<_>>())
}

/// Returns the column with this index, of the columns of both sides.
pub(super) fn side_column(index: usize, left_columns: usize) -> FilterColumn {
    match index.checked_sub(left_columns) {
        None => FilterColumn { side: Side::Left, index },
        Some(index) => FilterColumn { side: Side::Right, index },
    }
}

/// Returns an expression over the columns that it reads alone, and the indices that these had, ascending.
///
/// # Errors
/// If a part of the expression cannot be replaced.
pub(super) fn with_own_columns(expr: &Arc<dyn PhysicalExpr>) -> Result<(Arc<dyn PhysicalExpr>, Vec<usize>)> {
    let mut indices: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
    indices.sort_unstable();
    indices.dedup();
    let place = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let place = indices.partition_point(|&index| index < column.index());
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
    };
    let expr = Arc::clone(expr).transform(place).data()?;
    Ok((expr, indices))
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
