//! Compares two answers to a query.

use std::cmp::Ordering;

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Float64Type, SchemaRef},
    row::{RowConverter, Rows, SortField},
    util::display::array_value_to_string,
};

/// The relative difference allowed between floating-point values: sums depend on the order of their
/// terms.
const TOLERANCE: f64 = 1e-9;

/// The rows of a query, in order of arrival.
pub struct Answer(RecordBatch);

impl Answer {
    /// Concatenates the batches of a query.
    pub fn new(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        Ok(Self(concat_batches(schema, batches)?))
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Returns the first difference to `other`, or `None` if both have the same rows, in the same
    /// order by the columns `ordered_by`. Sorts both: O(n log n).
    pub fn difference(&self, other: &Self, ordered_by: &[usize]) -> Result<Option<String>> {
        let (left, right) = (&self.0, &other.0);
        let columns = |batch: &RecordBatch| -> Vec<_> {
            batch.schema().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if columns(left) != columns(right) {
            return Ok(Some(format!("columns {:?} and {:?}", columns(left), columns(right))));
        }
        if left.num_rows() != right.num_rows() {
            return Ok(Some(format!("{} rows and {} rows", left.num_rows(), right.num_rows())));
        }
        let keys = compare_rows(&left.project(ordered_by)?, &right.project(ordered_by)?, false)?;
        if keys.is_some() {
            return Ok(keys.map(|difference| format!("the order differs: {difference}")));
        }
        compare_rows(left, right, true)
    }
}

/// Compares rows one by one, after sorting both sides if `sorted`. Both have the same columns and
/// number of rows.
fn compare_rows(left: &RecordBatch, right: &RecordBatch, sorted: bool) -> Result<Option<String>> {
    let (is_float, is_exact): (Vec<_>, Vec<_>) =
        (0..left.num_columns()).partition(|column| left.column(*column).data_type().is_floating());
    let fields = is_exact.iter().map(|column| SortField::new(left.column(*column).data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let left_rows = SplitRows::new(&converter, left, &is_exact, &is_float)?;
    let right_rows = SplitRows::new(&converter, right, &is_exact, &is_float)?;
    let (mut left_order, mut right_order): (Vec<_>, Vec<_>) =
        ((0..left.num_rows()).collect(), (0..right.num_rows()).collect());
    if sorted {
        left_order.sort_by(|a, b| left_rows.compare(*a, *b));
        right_order.sort_by(|a, b| right_rows.compare(*a, *b));
    }
    for (a, b) in left_order.into_iter().zip(right_order) {
        if !left_rows.same(a, &right_rows, b) {
            return Ok(Some(format!("[{}] and [{}]", row_text(left, a)?, row_text(right, b)?)));
        }
    }
    Ok(None)
}

/// Rows split into columns that must be equal and floats that may differ a little. Sorting compares
/// the exact columns first, so that a small difference does not change the order.
struct SplitRows {
    exact: Option<Rows>,
    floats: Vec<ArrayRef>,
}

impl SplitRows {
    fn new(converter: &RowConverter, batch: &RecordBatch, exact: &[usize], floats: &[usize]) -> Result<Self> {
        let columns: Vec<_> = exact.iter().map(|column| batch.column(*column).clone()).collect();
        let rows = if columns.is_empty() { None } else { Some(converter.convert_columns(&columns)?) };
        let floats =
            floats.iter().map(|column| cast(batch.column(*column), &DataType::Float64)).collect::<Result<_, _>>()?;
        Ok(Self { exact: rows, floats })
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let exact = self.exact.as_ref().map_or(Ordering::Equal, |rows| rows.row(a).cmp(&rows.row(b)));
        self.floats.iter().fold(exact, |order, column| {
            order.then_with(|| {
                let (a, b) = (value(column, a), value(column, b));
                a.is_some().cmp(&b.is_some()).then(a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)))
            })
        })
    }

    fn same(&self, a: usize, other: &Self, b: usize) -> bool {
        let exact = match (&self.exact, &other.exact) {
            (Some(left), Some(right)) => left.row(a) == right.row(b),
            _ => true,
        };
        exact && self.floats.iter().zip(&other.floats).all(|(left, right)| close(value(left, a), value(right, b)))
    }
}

fn value(column: &ArrayRef, row: usize) -> Option<f64> {
    let column = column.as_primitive::<Float64Type>();
    column.is_valid(row).then(|| column.value(row))
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn row_text(batch: &RecordBatch, row: usize) -> Result<String> {
    let values: Result<Vec<_>, _> = batch.columns().iter().map(|column| array_value_to_string(column, row)).collect();
    Ok(values?.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn answer(names: &[Option<&str>], counts: &[i64], shares: &[Option<f64>]) -> Answer {
        let columns: [(&str, ArrayRef); 3] = [
            ("name", Arc::new(StringArray::from(names.to_vec()))),
            ("count", Arc::new(Int64Array::from(counts.to_vec()))),
            ("share", Arc::new(Float64Array::from(shares.to_vec()))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
        Answer(batch.expect("columns of one length"))
    }

    fn difference(left: &Answer, right: &Answer, ordered_by: &[usize]) -> Option<String> {
        left.difference(right, ordered_by).expect("comparable")
    }

    #[test]
    fn order_counts_only_in_the_columns_it_is_by() {
        let left = answer(&[Some("a"), Some("b")], &[1, 1], &[Some(0.5), None]);
        let right = answer(&[Some("b"), Some("a")], &[1, 1], &[None, Some(0.5)]);
        assert_eq!(difference(&left, &right, &[]), None);
        assert_eq!(difference(&left, &right, &[1]), None);
        let found = difference(&left, &right, &[0]).expect("another order");
        assert!(found.contains("order"), "{found}");
    }

    #[test]
    fn floats_may_differ_a_little() {
        let left = answer(&[Some("a"), None], &[1, 2], &[Some(0.1 + 0.2), Some(f64::NAN)]);
        let right = answer(&[None, Some("a")], &[2, 1], &[Some(f64::NAN), Some(0.3)]);
        assert_eq!(difference(&left, &right, &[]), None);
        let right = answer(&[None, Some("a")], &[2, 1], &[Some(f64::NAN), Some(0.300001)]);
        assert!(difference(&left, &right, &[]).is_some());
    }

    #[test]
    fn rows_are_a_multiset() {
        let left = answer(&[Some("a"), Some("a"), Some("b")], &[1; 3], &[None; 3]);
        let right = answer(&[Some("a"), Some("b"), Some("b")], &[1; 3], &[None; 3]);
        assert_eq!(difference(&left, &right, &[]), Some("[a, 1, ] and [b, 1, ]".into()));
    }

    #[test]
    fn nulls_values_counts_and_columns_differ() {
        let left = answer(&[None], &[1], &[None]);
        assert!(difference(&left, &answer(&[Some("")], &[1], &[None]), &[]).is_some());
        assert!(difference(&left, &answer(&[None], &[2], &[None]), &[]).is_some());
        assert!(difference(&left, &answer(&[None], &[1], &[Some(0.0)]), &[]).is_some());
        assert_eq!(difference(&left, &answer(&[], &[], &[]), &[]), Some("1 rows and 0 rows".into()));
        let fewer = Answer(left.0.project(&[0, 1]).expect("two columns"));
        assert!(difference(&left, &fewer, &[]).is_some());
    }

    #[test]
    fn floats_alone_are_compared() {
        let floats = |shares: &[Option<f64>]| {
            let all = answer(&vec![None; shares.len()], &vec![0; shares.len()], shares);
            Answer(all.0.project(&[2]).expect("the last column"))
        };
        assert_eq!(difference(&floats(&[Some(1.0), Some(2.0)]), &floats(&[Some(2.0), Some(1.0)]), &[]), None);
        assert!(difference(&floats(&[Some(1.0)]), &floats(&[Some(2.0)]), &[0]).is_some());
    }
}
