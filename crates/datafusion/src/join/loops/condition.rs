//! The condition of a join, with the columns of one row as constants.

use std::{collections::HashSet, sync::Arc};

use annulus_join::{FilterColumn, JoinError, LoopCondition, MatchingRows, RowCondition, Side, Sides};
use arrow::array::{Array, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::{
    common::{
        ScalarValue,
        cast::as_boolean_array,
        internal_datafusion_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{ColumnarValue, Operator},
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, LikeExpr},
        utils::collect_columns,
    },
    physical_plan::joins::utils::JoinFilter,
};

use super::pair_expr::{OneRow, PairExpr};
use crate::{
    error::into_join,
    join::{convert::side, morsels::RowsPlan},
};

/// A condition over columns of both sides.
#[derive(Debug)]
pub(in crate::join) struct PairCondition {
    expr: PairExpr,
    /// The side that patterns are made of, if it is one.
    patterns: Option<Side>,
}

impl PairCondition {
    /// Returns the condition of a filter on what `rows` reads.
    ///
    /// # Errors
    /// If the filter reads a column that is not read.
    pub(in crate::join) fn from_filter(filter: &JoinFilter, rows: &RowsPlan) -> Result<Self> {
        let mut columns: Sides<Vec<usize>> = Sides::default();
        let places = filter.column_indices().iter().map(|column| {
            let side: Option<Side> = side(column.side);
            let place = side.and_then(|side| Some((side, rows.sides[side].place(column.index)?)));
            let (side, place) = place.ok_or_else(|| internal_datafusion_err!("a filter reads a mark"))?;
            columns[side].push(place);
            Ok(FilterColumn { side, index: columns[side].len() - 1 })
        });
        let places: Vec<_> = places.collect::<Result<_>>()?;
        let (expr, schema) = (Arc::clone(filter.expression()), Arc::clone(filter.schema()));
        let patterns = pattern_side(&expr, &places)?;
        Ok(Self { expr: PairExpr { expr, places, schema, columns }, patterns })
    }
}

impl LoopCondition for PairCondition {
    fn columns(&self, side: Side) -> &[usize] {
        &self.expr.columns[side]
    }

    fn prefers(&self) -> Option<Side> {
        self.patterns
    }

    fn of_rows(&self, one: Side, rows: &RecordBatch) -> Result<Box<dyn RowCondition>, JoinError> {
        Ok(Box::new(self.expr.of_one_row(one, rows).map_err(into_join)?))
    }
}

impl RowCondition for OneRow {
    fn keep(&mut self, row: usize, others: &RecordBatch) -> Result<MatchingRows, JoinError> {
        let mut kept = Vec::new();
        let evaluated = self.evaluate(row, others, |rows, values| {
            kept.push((rows, matching(values)?));
            Ok(())
        });
        evaluated.map_err(into_join)?;
        if kept.len() == 1 {
            return Ok(kept.remove(0).1);
        }
        let mut all = BooleanBufferBuilder::new(others.num_rows());
        for (rows, piece) in kept {
            match piece {
                MatchingRows::All => all.append_n(rows, true),
                MatchingRows::None => all.append_n(rows, false),
                MatchingRows::Some(some) => all.append_buffer(&match some.nulls() {
                    Some(nulls) => some.values() & nulls.inner(),
                    None => some.values().clone(),
                }),
            }
        }
        Ok(MatchingRows::Some(BooleanArray::new(all.finish(), None)))
    }
}

fn matching(values: ColumnarValue) -> Result<MatchingRows> {
    Ok(match values {
        ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => MatchingRows::All,
        ColumnarValue::Scalar(_) => MatchingRows::None,
        ColumnarValue::Array(kept) => MatchingRows::Some(as_boolean_array(&kept)?.clone()),
    })
}

/// Returns the side whose columns all patterns of an expression have, and the other has none in them.
fn pattern_side(expr: &Arc<dyn PhysicalExpr>, places: &[FilterColumn]) -> Result<Option<Side>> {
    let mut sides = HashSet::new();
    expr.apply(|part| {
        let pattern = match (part.downcast_ref::<LikeExpr>(), part.downcast_ref::<BinaryExpr>()) {
            (Some(like), _) => Some(like.pattern()),
            (_, Some(binary)) if is_regex(binary.op()) => Some(binary.right()),
            _ => None,
        };
        for column in pattern.into_iter().flat_map(collect_columns) {
            sides.extend(places.get(column.index()).map(|place| place.side));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(if sides.len() == 1 { sides.into_iter().next() } else { None })
}

fn is_regex(op: &Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    #[test]
    fn patterns_are_of_one_side_or_of_none() {
        let places = [Side::Left, Side::Right].map(|side| FilterColumn { side, index: 0 });
        let column = |index| Arc::new(Column::new("c", index)) as Arc<dyn PhysicalExpr>;
        let like = |text, pattern| Arc::new(LikeExpr::new(false, false, text, pattern)) as Arc<dyn PhysicalExpr>;
        let binary = |left, op, right| Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>;
        let both = binary(column(0), Operator::StringConcat, column(1));
        for (expr, expected) in [
            (like(column(0), column(1)), Some(Side::Right)),
            (like(column(1), column(0)), Some(Side::Left)),
            (binary(column(0), Operator::RegexMatch, column(1)), Some(Side::Right)),
            (binary(like(column(0), column(1)), Operator::And, like(column(1), column(0))), None),
            (like(column(0), both), None),
            (binary(column(0), Operator::Lt, column(1)), None),
        ] {
            assert_eq!(pattern_side(&expr, &places).unwrap(), expected, "{expr}");
        }
    }
}
