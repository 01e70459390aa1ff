//! Compares two answers to a query.

use std::{borrow::Cow, cmp::Ordering, ops::Range};

use annulus_terminal::units::counted;
use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Float64Type, SchemaRef},
    row::{RowConverter, Rows, SortField},
    util::display::array_value_to_string,
};
use serde::Serialize;

/// The relative difference allowed between floating-point values: sums depend on the order of their
/// terms.
const TOLERANCE: f64 = 1e-9;

/// The order and the rows of an answer that the query determines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Order {
    /// The columns by which the answer is ordered, by position. Rows with equal values in them may
    /// come in any order.
    pub by: Cow<'static, [usize]>,
    /// What the query cuts off, among rows that may be equal in these columns. Which of them are
    /// left is not determined.
    pub cut: Option<RowLimit>,
}

/// The `LIMIT` and `OFFSET` of a query.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RowLimit {
    pub limit: usize,
    pub offset: usize,
}

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
    /// order as far as `order` determines it. Sorts both: O(n log n).
    ///
    /// At a cut, of the rows that are equal to the last one (or, with an offset, to the first one)
    /// in the columns of the order, only these columns are compared.
    pub fn difference(&self, other: &Self, order: &Order) -> Result<Option<String>> {
        let (left, right) = (&self.0, &other.0);
        let columns = |batch: &RecordBatch| -> Vec<_> {
            batch.schema().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if columns(left) != columns(right) {
            return Ok(Some(format!("columns {:?} and {:?}", columns(left), columns(right))));
        }
        if left.num_rows() != right.num_rows() {
            let rows = |batch: &RecordBatch| counted(batch.num_rows() as u64, "row");
            return Ok(Some(format!("{} and {}", rows(left), rows(right))));
        }
        let keys = compare_rows(&left.project(&order.by)?, &right.project(&order.by)?, false)?;
        if keys.is_some() {
            return Ok(keys.map(|difference| format!("the order differs: {difference}")));
        }
        let sure = determined(&left.project(&order.by)?, order)?;
        let within = |batch: &RecordBatch| batch.slice(sure.start, sure.len());
        compare_rows(&within(left), &within(right), true)
    }
}

/// Returns the rows, by position, that are in every answer with these `keys`: all but those that a
/// cut chose among equal ones.
fn determined(keys: &RecordBatch, order: &Order) -> Result<Range<usize>> {
    let all = 0..keys.num_rows();
    let Some(cut) = order.cut.filter(|_| !all.is_empty()) else { return Ok(all) };
    let rows = SplitRows::split(keys)?;
    let last = all.end - 1;
    let start = match cut.offset {
        0 => 0,
        _ => all.clone().find(|row| !rows.same(0, &rows, *row)).unwrap_or(all.end),
    };
    let end = match all.end < cut.limit {
        true => all.end,
        false => all.rev().find(|row| !rows.same(last, &rows, *row)).map_or(0, |row| row + 1),
    };
    Ok(start..end.max(start))
}

/// Compares rows one by one, after sorting both sides if `sorted`. Both have the same columns and
/// number of rows.
fn compare_rows(left: &RecordBatch, right: &RecordBatch, sorted: bool) -> Result<Option<String>> {
    let (is_exact, is_float) = split_columns(left);
    let converter = converter(left, &is_exact)?;
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

/// Returns the columns that must be equal, and the floats.
fn split_columns(batch: &RecordBatch) -> (Vec<usize>, Vec<usize>) {
    (0..batch.num_columns()).partition(|column| !batch.column(*column).data_type().is_floating())
}

fn converter(batch: &RecordBatch, columns: &[usize]) -> Result<RowConverter> {
    let field = |column: &usize| SortField::new(batch.column(*column).data_type().clone());
    Ok(RowConverter::new(columns.iter().map(field).collect())?)
}

/// Rows split into columns that must be equal and floats that may differ a little. Sorting compares
/// the exact columns first, so that a small difference does not change the order.
struct SplitRows {
    exact: Option<Rows>,
    floats: Vec<ArrayRef>,
}

impl SplitRows {
    /// Splits the rows of a batch that is compared with itself.
    fn split(batch: &RecordBatch) -> Result<Self> {
        let (exact, floats) = split_columns(batch);
        Self::new(&converter(batch, &exact)?, batch, &exact, &floats)
    }

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
mod tests;
