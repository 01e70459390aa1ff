//! The logical node.

use std::{cmp::Ordering, fmt, sync::Arc};

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchemaRef, JoinType, plan_err},
    error::Result,
    logical_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema},
};
use serde::{Deserialize, Serialize};

use crate::join_nodes::{columns_by_side, without_moved};

/// The most neighbours of a row, as in Spark.
const MOST_NEIGHBOURS: usize = 100_000;

/// Which values of the expression are near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NearestOrder {
    /// Small ones.
    Distance,
    /// Large ones.
    Similarity,
}

/// A join of each row of `left` with the `k` nearest rows of `right`. The output has the columns of both.
///
/// Pairs of which the expression is null are not near. NaN is farther than any number. A row of `left`
/// without neighbours is left out, or joined with nulls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NearestJoin {
    pub(crate) left: Arc<LogicalPlan>,
    pub(crate) right: Arc<LogicalPlan>,
    by: Expr,
    order: NearestOrder,
    k: usize,
    keeps_left: bool,
    schema: DFSchemaRef,
}

impl NearestJoin {
    /// Returns the join of two plans. `by` is an expression over the columns of both. With `keeps_left`,
    /// rows of `left` without neighbours are joined with nulls.
    ///
    /// # Errors
    /// If `k` is 0 or more than 100,000, or the expression changes with each call or has values that
    /// cannot be ordered.
    pub fn try_new(
        left: LogicalPlan,
        right: LogicalPlan,
        by: Expr,
        order: NearestOrder,
        k: usize,
        keeps_left: bool,
    ) -> Result<Self> {
        if k == 0 || k > MOST_NEIGHBOURS {
            return plan_err!("NEAREST takes a number of rows from 1 to {MOST_NEIGHBOURS}, not {k}");
        }
        if by.is_volatile() {
            return plan_err!("the expression of NEAREST must not change its value with each call, as '{by}' does");
        }
        let joined = left.schema().join(right.schema())?;
        let data_type = by.get_type(&joined)?;
        if data_type.is_nested() || data_type == DataType::Null {
            return plan_err!(
                "the expression of NEAREST is of type {data_type}, which has no order: use a function that returns a \
                 number, such as array_distance(a, b)"
            );
        }
        let schema = output_schema(&left, &right, keeps_left)?;
        Ok(Self { left: Arc::new(left), right: Arc::new(right), by, order, k, keeps_left, schema })
    }

    /// Returns the same join of other inputs, which have the columns that it needs.
    ///
    /// # Errors
    /// If both have a column of the same name.
    pub(crate) fn with_inputs(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Self> {
        let schema = output_schema(&left, &right, self.keeps_left)?;
        Ok(Self { left: Arc::new(left), right: Arc::new(right), schema, ..self.clone() })
    }

    /// Returns the expression by which rows are near.
    pub fn by(&self) -> &Expr {
        &self.by
    }

    /// Returns which values of the expression are near.
    pub fn order(&self) -> NearestOrder {
        self.order
    }

    /// Returns the number of neighbours of each row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns whether rows without neighbours are joined with nulls.
    pub fn keeps_left(&self) -> bool {
        self.keeps_left
    }
}

fn output_schema(left: &LogicalPlan, right: &LogicalPlan, keeps_left: bool) -> Result<DFSchemaRef> {
    let kind = if keeps_left { JoinType::Left } else { JoinType::Inner };
    Ok(Arc::new(build_join_schema(left.schema(), right.schema(), &kind)?))
}

impl fmt::Display for NearestOrder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Distance => "distance",
            Self::Similarity => "similarity",
        })
    }
}

impl PartialOrd for NearestJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let key = |join: &Self| (join.by.clone(), join.order, join.k, join.keeps_left);
        let order = key(self).partial_cmp(&key(other))?;
        if order.is_ne() || self == other { Some(order) } else { None }
    }
}

impl UserDefinedLogicalNodeCore for NearestJoin {
    fn name(&self) -> &str {
        "NearestJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.by.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = if self.keeps_left { "Left" } else { "Inner" };
        write!(f, "NearestJoin: type={kind}, k={}, {}={}", self.k, self.order, self.by)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Ok([left, right]), Ok([by])) = (<[LogicalPlan; 2]>::try_from(inputs), <[Expr; 1]>::try_from(exprs)) else {
            return plan_err!("a NearestJoin has two inputs and an expression");
        };
        let right = without_moved(&left, right, &self.right);
        Ok(Self { by: by.unalias(), ..self.with_inputs(left, right)? })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // DataFusion adds those of the expressions.
        Some(columns_by_side(output_columns, self.left.schema().fields().len()))
    }
}
