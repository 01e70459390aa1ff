//! Sums, differences and products of decimals, in 64 bits where the values allow it.
//!
//! Arrow's kernels check each product of 128 bits for an overflow, and those of a sum whose sides have
//! different scales (`arrow-arith` 59.3, `decimal_op`). Few values need that: if both sides have 64 bits, the
//! product has 128. A batch with a value that has more is left to Arrow's kernel, with its errors.

use std::{
    fmt::{self, Display, Formatter},
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array},
    buffer::NullBuffer,
    compute::kernels::numeric::{add, mul, sub},
    datatypes::{DataType, Decimal128Type, FieldRef, Schema},
    record_batch::RecordBatch,
};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{ColumnarValue, Operator, interval_arithmetic::Interval, sort_properties::ExprProperties},
    physical_expr::{PhysicalExpr, expressions::BinaryExpr},
};

/// Returns an expression with the arithmetic of its decimals done here. It has the same values, types, and
/// errors.
///
/// # Errors
/// If an expression refuses its own children.
pub(crate) fn with_fast_decimals(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.transform_up(|node| {
        let fast = DecimalArithmetic::new(&node, schema)?;
        Ok(fast.map_or_else(|| Transformed::no(node), |fast| Transformed::yes(Arc::new(fast) as _)))
    });
    Ok(replaced?.data)
}

/// An addition, subtraction or multiplication of decimals of 128 bits.
#[derive(Debug, Clone, Eq)]
struct DecimalArithmetic {
    /// The expression that it stands for, which is asked about everything but values.
    stock: Arc<dyn PhysicalExpr>,
    operator: Operator,
}

// Derived, it would move the expression (rust-lang/rust#78808).
impl PartialEq for DecimalArithmetic {
    fn eq(&self, other: &Self) -> bool {
        self.stock.eq(&other.stock) && self.operator == other.operator
    }
}

impl Hash for DecimalArithmetic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stock.hash(state);
        self.operator.hash(state);
    }
}

impl DecimalArithmetic {
    /// Returns what stands for `expr`, if it is such an operation.
    fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let operator = *binary.op();
        if !matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply) {
            return Ok(None);
        }
        for side in [binary.left(), binary.right()] {
            if !matches!(side.data_type(schema)?, DataType::Decimal128(..)) {
                return Ok(None);
            }
        }
        Ok(Some(Self { stock: Arc::clone(expr), operator }))
    }

    /// As Arrow's kernel does it.
    fn by_arrow(&self, left: &ColumnarValue, right: &ColumnarValue) -> Result<ArrayRef> {
        let kernel = match self.operator {
            Operator::Plus => add,
            Operator::Minus => sub,
            _ => mul,
        };
        let scalar = ScalarValue::to_scalar;
        let answer = match (left, right) {
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => kernel(left, right),
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => kernel(left, &scalar(right)?),
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => kernel(&scalar(left)?, right),
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => kernel(&scalar(left)?, &scalar(right)?),
        };
        Ok(answer?)
    }

    /// Computes values of 64 bits. Returns nothing if there are others.
    fn in_64_bits(&self, left: &ColumnarValue, right: &ColumnarValue) -> Result<Option<ArrayRef>> {
        let (Some(a), Some(b)) = (Side::from_value(left), Side::from_value(right)) else { return Ok(None) };
        let nulls = NullBuffer::union(a.nulls(), b.nulls());
        let Some(values) = values(self.operator, a, b) else { return Ok(None) };
        let data_type = self.by_arrow(&empty(left), &empty(right))?.data_type().clone();
        let answer = Decimal128Array::new(values.into(), nulls).with_data_type(data_type);
        Ok(Some(Arc::new(answer)))
    }
}

impl Display for DecimalArithmetic {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.stock.fmt(f)
    }
}

impl PhysicalExpr for DecimalArithmetic {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.stock.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.stock.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.stock.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let [left, right] = self.stock.children()[..] else { return self.stock.evaluate(batch) };
        let (left, right) = (left.evaluate(batch)?, right.evaluate(batch)?);
        if let (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) = (&left, &right) {
            return self.stock.evaluate(batch);
        }
        let answer = self.in_64_bits(&left, &right)?;
        answer.map_or_else(|| self.by_arrow(&left, &right), Ok).map(ColumnarValue::Array)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.stock.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let stock = Arc::clone(&self.stock).with_new_children(children)?;
        Ok(Arc::new(Self { stock, operator: self.operator }))
    }

    fn evaluate_bounds(&self, children: &[&Interval]) -> Result<Interval> {
        self.stock.evaluate_bounds(children)
    }

    fn propagate_constraints(&self, interval: &Interval, children: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.stock.propagate_constraints(interval, children)
    }

    fn get_properties(&self, children: &[ExprProperties]) -> Result<ExprProperties> {
        self.stock.get_properties(children)
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.stock.fmt_sql(f)
    }
}

/// Returns a value of the same type without rows.
fn empty(value: &ColumnarValue) -> ColumnarValue {
    match value {
        ColumnarValue::Array(rows) => ColumnarValue::Array(rows.slice(0, 0)),
        constant => constant.clone(),
    }
}

/// One side of an operation.
#[derive(Clone, Copy)]
enum Side<'a> {
    Rows(&'a Decimal128Array),
    /// The same for all rows, and its scale.
    Constant(i128, i8),
}

impl<'a> Side<'a> {
    /// Returns a side unless it is null or no such decimal.
    fn from_value(value: &'a ColumnarValue) -> Option<Self> {
        match value {
            ColumnarValue::Array(rows) => rows.as_primitive_opt::<Decimal128Type>().map(Self::Rows),
            ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), _, scale)) => {
                Some(Self::Constant(*value, *scale))
            }
            ColumnarValue::Scalar(_) => None,
        }
    }

    fn scale(self) -> i8 {
        match self {
            Self::Rows(rows) => rows.scale(),
            Self::Constant(_, scale) => scale,
        }
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        match self {
            Self::Rows(rows) => rows.nulls(),
            Self::Constant(..) => None,
        }
    }
}

/// Returns the values for all rows, or nothing if a side has some of more than 64 bits.
fn values(operator: Operator, left: Side<'_>, right: Side<'_>) -> Option<Vec<i128>> {
    if operator == Operator::Multiply {
        return of_rows(left, right, |left, right| i128::from(left) * i128::from(right));
    }
    // Both sides get the larger scale. Products of 64 bits by 10^18 have at most 123, so their sum has no
    // overflow.
    let scale = left.scale().max(right.scale());
    let factor = |side: Side<'_>| {
        let digits = u32::try_from(i16::from(scale) - i16::from(side.scale())).ok()?;
        10_i64.checked_pow(digits).map(i128::from)
    };
    let (by_left, by_right) = (factor(left)?, factor(right)?);
    match operator {
        Operator::Plus => of_rows(left, right, |a, b| i128::from(a) * by_left + i128::from(b) * by_right),
        Operator::Minus => of_rows(left, right, |a, b| i128::from(a) * by_left - i128::from(b) * by_right),
        _ => None,
    }
}

fn of_rows(left: Side<'_>, right: Side<'_>, operate: impl Fn(i64, i64) -> i128) -> Option<Vec<i128>> {
    match (left, right) {
        (Side::Rows(left), Side::Rows(right)) if left.len() == right.len() => {
            of_pairs(left.values().iter().copied().zip(right.values().iter().copied()), operate)
        }
        (Side::Rows(left), Side::Constant(right, _)) => {
            of_pairs(left.values().iter().map(|&left| (left, right)), operate)
        }
        (Side::Constant(left, _), Side::Rows(right)) => {
            of_pairs(right.values().iter().map(|&right| (left, right)), operate)
        }
        _ => None,
    }
}

/// Operates on all pairs, without a branch for each.
fn of_pairs(
    pairs: impl ExactSizeIterator<Item = (i128, i128)>,
    operate: impl Fn(i64, i64) -> i128,
) -> Option<Vec<i128>> {
    // Zero for a value whose upper half only repeats its sign.
    let upper = |value: i128| (value >> 64) as i64 ^ ((value as i64) >> 63);
    let mut wide = 0;
    let values = pairs.map(|(left, right)| {
        wide |= upper(left) | upper(right);
        operate(left as i64, right as i64)
    });
    let values = values.collect();
    (wide == 0).then_some(values)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Values around the borders of 64 bits, small ones, and some of 128 bits.
    fn random(rng: &mut StdRng, wide: bool) -> Option<i128> {
        let borders = [i128::from(i64::MIN), i128::from(i64::MAX), 0, 1, -1];
        match rng.random_range(0..10) {
            0 => None,
            1..4 => Some(borders[rng.random_range(0..borders.len())]),
            4 if wide => Some(rng.random::<i128>() >> rng.random_range(0..64)),
            _ => Some(i128::from(rng.random_range(-100_000..100_000_i64))),
        }
    }

    fn decimals(rng: &mut StdRng, (precision, scale): (u8, i8), rows: usize, wide: bool) -> ArrayRef {
        let values: Decimal128Array = (0..rows).map(|_| random(rng, wide)).collect();
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    }

    #[test]
    fn values_types_and_errors_are_those_of_the_stock_expression() {
        let mut rng = StdRng::seed_from_u64(7);
        let (mut fast_ones, mut errors) = (0, 0);
        for case in 0..2000 {
            let types: [(u8, i8); 2] = std::array::from_fn(|_| {
                [(15, 2), (38, 0), (38, 37), (20, 20), (5, -3), (18, 9)][rng.random_range(0..6)]
            });
            let rows = rng.random_range(0..40);
            let columns = types.map(|of| decimals(&mut rng, of, rows, case % 3 == 0));
            let fields = [("a", 0), ("b", 1)].map(|(name, at)| Field::new(name, columns[at].data_type().clone(), true));
            let schema = Schema::new(fields.to_vec());
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns.to_vec()).unwrap();
            let (a, b) = (col("a", &schema).unwrap(), col("b", &schema).unwrap());
            let constant = lit(ScalarValue::Decimal128(random(&mut rng, false), types[1].0, types[1].1));
            let (left, right) = [(a.clone(), b), (a.clone(), constant.clone()), (constant, a)][case % 3].clone();
            let operator = [Operator::Plus, Operator::Minus, Operator::Multiply][rng.random_range(0..3)];
            let stock: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(left, operator, right));
            let Ok(expected_type) = stock.data_type(&schema) else { continue };
            let ours = with_fast_decimals(Arc::clone(&stock), &schema).unwrap();
            assert_eq!(ours.data_type(&schema).unwrap(), expected_type);
            assert!(ours.is::<DecimalArithmetic>());
            let evaluate = |expr: &Arc<dyn PhysicalExpr>| {
                let answer = expr.evaluate(&batch).and_then(|answer| answer.into_array(rows));
                answer.map_err(|error| error.to_string())
            };
            match (evaluate(&stock), evaluate(&ours)) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(&expected, &found, "case {case}: {stock}");
                    fast_ones += 1;
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(expected, found);
                    errors += 1;
                }
                (expected, found) => panic!("case {case}: {stock}: {expected:?}, but {found:?}"),
            }
        }
        assert!(fast_ones > 500 && errors > 50, "{fast_ones} answers, {errors} errors");
    }

    #[test]
    fn only_arithmetic_of_decimals_is_replaced() {
        let schema = Schema::new(vec![Field::new("i", DataType::Int64, true)]);
        let sum: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(col("i", &schema).unwrap(), Operator::Plus, lit(1_i64)));
        let same = with_fast_decimals(Arc::clone(&sum), &schema).unwrap();
        assert!(same.is::<BinaryExpr>() && same.to_string() == sum.to_string());
    }
}
