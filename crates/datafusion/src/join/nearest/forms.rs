//! The forms of expressions for which there is an index.

use std::sync::Arc;

use annulus_join::{PlaneFormula, Side, Sides, VectorMetric};
use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, Column, Literal},
        utils::collect_columns,
    },
};

use crate::{
    join::similarity::{vector_argument, vector_metric},
    nearest::NearestOrder,
};

type Expr = Arc<dyn PhysicalExpr>;

/// An expression of each side, over its own columns.
pub(super) type SideExprs = Sides<Expr>;

/// What an expression computes.
#[derive(Debug)]
pub(super) enum Form {
    /// `abs(left - right)`.
    Line(SideExprs),
    /// The distance of two points, or its square.
    Plane { xs: SideExprs, ys: SideExprs, formula: PlaneFormula },
    /// A function of two vectors.
    Vectors { vectors: SideExprs, metric: VectorMetric },
}

impl Form {
    /// Returns the form of an expression over the columns of both sides. The first `left_columns` of them are
    /// the left side's. Returns `None` if no index evaluates such an expression.
    ///
    /// # Errors
    /// If the expression is invalid.
    pub(super) fn from_expr(
        by: &Expr,
        order: NearestOrder,
        joined: &Schema,
        left_columns: usize,
    ) -> Result<Option<Self>> {
        let reader = Reader { joined, left_columns };
        if let Some(vectors) = reader.vectors(by, order)? {
            return Ok(Some(vectors));
        }
        if order == NearestOrder::Similarity {
            return Ok(None);
        }
        if let Some([inside]) = arguments(by, &["abs"])
            && let Some(sides) = reader.difference(inside)?
        {
            return Ok(reader.has_index(&sides)?.then_some(Self::Line(sides)));
        }
        let (sum, formula) = match arguments(by, &["sqrt"]) {
            Some([sum]) => (sum, PlaneFormula::Euclidean),
            _ => (by, PlaneFormula::Squared),
        };
        let Some((x, y)) = operands(sum, Operator::Plus) else { return Ok(None) };
        let (Some(xs), Some(ys)) = (reader.square(x)?, reader.square(y)?) else { return Ok(None) };
        Ok(Some(Self::Plane { xs, ys, formula }))
    }

    /// Returns the name that `EXPLAIN` shows.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Line(_) => "line",
            Self::Plane { .. } => "plane",
            Self::Vectors { .. } => "vectors",
        }
    }
}

/// Reads expressions over the columns of both sides.
struct Reader<'a> {
    joined: &'a Schema,
    left_columns: usize,
}

impl Reader<'_> {
    /// Returns the function of two vectors that an expression is, if the order is that of its metric.
    fn vectors(&self, by: &Expr, order: NearestOrder) -> Result<Option<Form>> {
        let Some(function) = by.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
        let (Some(metric), [a, b]) = (vector_metric(function.fun().name()), function.args()) else { return Ok(None) };
        let (Some(a), Some(b)) = (vector_argument(a, self.joined), vector_argument(b, self.joined)) else {
            return Ok(None);
        };
        if metric.is_similarity() != (order == NearestOrder::Similarity) {
            return Ok(None);
        }
        Ok(self.sides(&a, &b)?.map(|vectors| Form::Vectors { vectors, metric }))
    }

    /// Returns the sides of a difference of an expression of the left side and one of the right side.
    fn difference(&self, expr: &Expr) -> Result<Option<SideExprs>> {
        let Some((first, second)) = operands(expr, Operator::Minus) else { return Ok(None) };
        self.sides(first, second)
    }

    /// Returns two expressions by the side whose columns they have; `None` if they are not of one side each.
    fn sides(&self, first: &Expr, second: &Expr) -> Result<Option<SideExprs>> {
        let (left, right) = match (self.side(first), self.side(second)) {
            (Some(Side::Left), Some(Side::Right)) => (first, second),
            (Some(Side::Right), Some(Side::Left)) => (second, first),
            _ => return Ok(None),
        };
        Ok(Some(Sides { left: Arc::clone(left), right: self.of_right(right)? }))
    }

    /// Returns the sides of the difference of which an expression is the square.
    fn square(&self, expr: &Expr) -> Result<Option<SideExprs>> {
        let base = match (operands(expr, Operator::Multiply), arguments(expr, &["power", "pow"])) {
            (Some((a, b)), _) if a == b => a,
            (_, Some([base, exponent])) if is_two(exponent) => base,
            _ => return Ok(None),
        };
        let is_double = base.data_type(self.joined)? == DataType::Float64;
        if is_double { self.difference(base) } else { Ok(None) }
    }

    /// Returns whether an index takes the types of two expressions.
    fn has_index(&self, sides: &SideExprs) -> Result<bool> {
        let left = sides.left.data_type(self.joined)?;
        Ok(left.is_integer() || matches!(left, DataType::Float32 | DataType::Float64))
    }

    /// Returns the side whose columns an expression has.
    fn side(&self, expr: &Expr) -> Option<Side> {
        let columns = collect_columns(expr);
        let is_left = |column: &Column| column.index() < self.left_columns;
        match (columns.is_empty(), columns.iter().all(is_left), columns.iter().any(is_left)) {
            (false, true, _) => Some(Side::Left),
            (false, _, false) => Some(Side::Right),
            _ => None,
        }
    }

    /// Returns an expression with columns of the right side as it has them itself.
    fn of_right(&self, expr: &Expr) -> Result<Expr> {
        let moved = |expr: Expr| match expr.downcast_ref::<Column>() {
            Some(column) => {
                let own = Column::new(column.name(), column.index().saturating_sub(self.left_columns));
                Ok(Transformed::yes(Arc::new(own) as Expr))
            }
            None => Ok(Transformed::no(expr)),
        };
        Arc::clone(expr).transform(moved).data()
    }
}

fn operands(expr: &Expr, op: Operator) -> Option<(&Expr, &Expr)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    (*binary.op() == op).then(|| (binary.left(), binary.right()))
}

fn arguments<'a>(expr: &'a Expr, names: &[&str]) -> Option<&'a [Expr]> {
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    names.contains(&function.fun().name()).then(|| function.args())
}

fn is_two(expr: &Expr) -> bool {
    let value = expr.downcast_ref::<Literal>().map(Literal::value);
    matches!(value, Some(ScalarValue::Float64(Some(2.0)) | ScalarValue::Int64(Some(2))))
}
