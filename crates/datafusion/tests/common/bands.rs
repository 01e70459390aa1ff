//! Joins on a band of the second columns.

use std::sync::Arc;

use annulus_datafusion::BandJoinExec;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::{
    common::{JoinSide, JoinType, ScalarValue},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
    },
    physical_plan::{
        ExecutionPlan,
        joins::{
            NestedLoopJoinExec,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};

/// An expression of a plan.
pub type Expr = Arc<dyn PhysicalExpr>;

/// Returns `left op right`.
pub fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// Returns a constant.
pub fn number(value: i64) -> Expr {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

/// Returns a join on the second columns: `l BETWEEN r - below AND r + above`, and `rest`.
pub fn stock(
    (left, right): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
    kind: JoinType,
    (below, above): (i64, i64),
    rest: Option<Expr>,
) -> Arc<NestedLoopJoinExec> {
    let (l, r): (Expr, Expr) = (Arc::new(Column::new("l", 0)), Arc::new(Column::new("r", 1)));
    let low = binary(Arc::clone(&l), Operator::GtEq, binary(Arc::clone(&r), Operator::Minus, number(below)));
    let high = binary(l, Operator::LtEq, binary(r, Operator::Plus, number(above)));
    let both = binary(low, Operator::And, high);
    let condition = match rest {
        Some(rest) => binary(both, Operator::And, rest),
        None => both,
    };
    let places = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 1, side });
    let fields = ["l", "r"].map(|name| Field::new(name, DataType::Int64, false));
    let filter = JoinFilter::new(condition, places.to_vec(), Arc::new(Schema::new(fields.to_vec())));
    Arc::new(NestedLoopJoinExec::try_new(left, right, Some(filter), &kind, None).unwrap())
}

/// Returns our join on the second columns: `l BETWEEN r - 1 AND r + 2`.
pub fn band(sides: (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>), kind: JoinType) -> Arc<BandJoinExec> {
    Arc::new(BandJoinExec::try_new(&stock(sides, kind, (1, 2), None), "a test").unwrap().unwrap())
}
