//! Sorts the rows of one slot in bounded memory: writes sorted runs to disk, and merges them.
//!
//! ```text
//! batches -> held until they are too many -> sorted -> run on disk  } merged, a few runs at a time,
//!                                             ... and further runs  } until one pass is left
//! ```
//! Rows that fit into memory are sorted there, without a run.

mod merge;
mod run;

use std::path::PathBuf;

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::{SortOptions, interleave_record_batch},
    datatypes::Schema,
    row::{RowConverter, Rows, SortField},
};

use self::{merge::merge, run::Run};
use crate::{
    error::{DatasetError, DatasetOption},
    manifest::SortColumn,
};

/// The number of runs that are merged at a time.
const FAN_IN: usize = 16;
/// The most rows in a batch that is sorted or merged.
const BATCH_ROWS: usize = 8192;
/// A batch of a run may take a sorter's memory divided by this. A merge holds two batches of each
/// run.
const BATCH_SHARE: usize = 2 * FAN_IN;

/// A consumer of batches, one after the other.
type Take<'a> = dyn FnMut(RecordBatch) -> Result<(), DatasetError> + 'a;

/// The order that rows are sorted in.
#[derive(Debug)]
pub(super) struct Order {
    columns: Vec<usize>,
    converter: RowConverter,
}

impl Order {
    /// Returns the order by the columns at `groups`, so that rows with equal values are adjacent,
    /// and then by `sort_by`.
    ///
    /// # Errors
    /// If a column does not exist, or its values have no order.
    pub(super) fn new(schema: &Schema, groups: &[usize], sort_by: &[SortColumn]) -> Result<Self, DatasetError> {
        let mut columns = groups.to_vec();
        let mut options = vec![SortOptions::default(); groups.len()];
        for SortColumn { column, descending } in sort_by {
            let place = schema.index_of(column).map_err(|_| {
                let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                refused(column, &format!("there is no such column; choose among {}", names.join(", ")))
            })?;
            columns.push(place);
            options.push(SortOptions { descending: *descending, nulls_first: *descending });
        }
        let of = |(&column, options): (&usize, SortOptions)| {
            SortField::new_with_options(schema.field(column).data_type().clone(), options)
        };
        let fields = columns.iter().zip(options).map(of).collect();
        let converter = RowConverter::new(fields).map_err(|error| {
            let names: Vec<_> = columns.iter().map(|&column| schema.field(column).name().as_str()).collect();
            refused(&names.join(","), &format!("values have no order: {error}; choose other columns"))
        })?;
        Ok(Self { columns, converter })
    }

    /// Returns the rows of a batch as keys that compare in this order.
    fn keys(&self, batch: &RecordBatch) -> Result<Rows, DatasetError> {
        let columns: Vec<ArrayRef> = self.columns.iter().map(|&column| batch.column(column).clone()).collect();
        Ok(self.converter.convert_columns(&columns)?)
    }
}

/// Takes rows in any order, and returns them sorted.
pub(super) struct Sorter<'a> {
    order: &'a Order,
    /// Returns the path of the run with the given number.
    path: &'a dyn Fn(usize) -> PathBuf,
    memory_bytes: usize,
    held: Vec<RecordBatch>,
    held_bytes: usize,
    runs: Vec<Run>,
    runs_written: usize,
    bytes_written: u64,
}

impl<'a> Sorter<'a> {
    /// Returns a sorter that holds about `memory_bytes` bytes of rows. While it sorts or merges
    /// them, it takes about as much again.
    pub(super) fn new(order: &'a Order, memory_bytes: usize, path: &'a dyn Fn(usize) -> PathBuf) -> Self {
        let (held, runs) = (Vec::new(), Vec::new());
        Self { order, path, memory_bytes, held, held_bytes: 0, runs, runs_written: 0, bytes_written: 0 }
    }

    /// Adds rows.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<(), DatasetError> {
        self.held_bytes += batch.columns().iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        self.held.push(batch);
        if self.held_bytes >= self.memory_bytes { self.write_held() } else { Ok(()) }
    }

    /// Hands all rows to `take`, sorted, and returns the bytes written to runs.
    pub(super) fn finish(mut self, take: &mut Take<'_>) -> Result<u64, DatasetError> {
        if self.runs.is_empty() {
            self.hand_over(BATCH_ROWS, take)?;
            return Ok(0);
        }
        self.write_held()?;
        while self.runs.len() > FAN_IN {
            let some: Vec<Run> = self.runs.drain(..FAN_IN).collect();
            let rows = some.iter().map(Run::batch_rows).min().unwrap_or(1);
            let merged =
                Run::write((self.path)(self.runs_written), rows, |write| merge(self.order, &some, rows, write))?;
            self.keep(merged);
        }
        let rows = self.runs.iter().map(Run::batch_rows).min().unwrap_or(1);
        merge(self.order, &self.runs, (rows * FAN_IN).min(BATCH_ROWS), take)?;
        Ok(self.bytes_written)
    }

    /// Writes the held rows to a run.
    fn write_held(&mut self) -> Result<(), DatasetError> {
        let rows: usize = self.held.iter().map(RecordBatch::num_rows).sum();
        if rows == 0 {
            return Ok(());
        }
        let row_bytes = (self.held_bytes / rows).max(1);
        let batch_rows = (self.memory_bytes / BATCH_SHARE / row_bytes).clamp(1, BATCH_ROWS);
        let path = (self.path)(self.runs_written);
        let run = Run::write(path, batch_rows, |write| self.hand_over(batch_rows, write))?;
        self.keep(run);
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }

    fn keep(&mut self, run: Run) {
        self.runs_written += 1;
        self.bytes_written += run.bytes();
        self.runs.push(run);
    }

    /// Hands the held rows to `take`, sorted.
    fn hand_over(&self, batch_rows: usize, take: &mut Take<'_>) -> Result<(), DatasetError> {
        let keys = self.held.iter().map(|batch| self.order.keys(batch)).collect::<Result<Vec<_>, _>>()?;
        let rows_of = |(number, batch): (usize, &RecordBatch)| (0..batch.num_rows()).map(move |row| (number, row));
        let mut rows: Vec<(usize, usize)> = self.held.iter().enumerate().flat_map(rows_of).collect();
        rows.sort_unstable_by(|a, b| keys[a.0].row(a.1).cmp(&keys[b.0].row(b.1)));
        let batches: Vec<&RecordBatch> = self.held.iter().collect();
        rows.chunks(batch_rows).try_for_each(|rows| take(interleave_record_batch(&batches, rows)?))
    }
}

fn refused(column: &str, reason: &str) -> DatasetError {
    DatasetError::Config { option: DatasetOption::SortBy, value: format!("'{column}'"), remedy: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Ordering, sync::Arc};

    use arrow::{
        array::{ArrayRef, Int32Array, StringArray, StringViewArray},
        datatypes::{DataType, Field, SchemaRef},
    };

    use super::*;

    type Rows = Vec<(Option<i32>, String, i32)>;

    fn schema() -> SchemaRef {
        let field = |name, of| Field::new(name, of, true);
        let fields = vec![field("a", DataType::Int32), field("b", DataType::Utf8View), field("n", DataType::Int32)];
        Arc::new(Schema::new([fields, vec![field("ballast", DataType::Utf8)]].concat()))
    }

    fn batch(rows: &[(Option<i32>, String, i32)]) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.0))),
            Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| &row.1))),
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.2))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| "x".repeat(row.2 as usize % 50)))),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    /// Returns rows in no order, many of which are equal in `a` and `b`.
    fn rows(count: i32) -> Rows {
        let scattered = |number: i32| number.wrapping_mul(0x9E37_79B9_u32 as i32).rotate_left(13);
        let a = |number| Some(scattered(number) % 7).filter(|a| *a != 3);
        (0..count)
            .map(|number| (a(number), format!("a text that is not inlined {}", scattered(number) % 5), number))
            .collect()
    }

    /// Returns the output of a sorter with `memory_bytes` bytes of memory, and the number of bytes
    /// that it wrote.
    fn sorted(rows: &Rows, memory_bytes: usize, sort_by: &[&str]) -> (Rows, u64) {
        let folder = tempfile::tempdir().unwrap();
        let sort_by: Vec<SortColumn> = sort_by.iter().map(|column| column.parse().unwrap()).collect();
        let order = Order::new(&schema(), &[], &sort_by).unwrap();
        let path = |run: usize| folder.path().join(run.to_string());
        let mut sorter = Sorter::new(&order, memory_bytes, &path);
        rows.chunks(37).for_each(|rows| sorter.push(batch(rows)).unwrap());
        let mut found = Rows::new();
        let bytes = sorter.finish(&mut |batch| {
            let column = |place: usize| batch.column(place).clone();
            let (a, b, n) = (column(0), column(1), column(2));
            let (a, b, n) = (
                a.as_any().downcast_ref::<Int32Array>().unwrap(),
                b.as_any().downcast_ref::<StringViewArray>().unwrap(),
                n.as_any().downcast_ref::<Int32Array>().unwrap(),
            );
            found.extend(
                (0..batch.num_rows()).map(|row| (a.iter().nth(row).unwrap(), b.value(row).to_owned(), n.value(row))),
            );
            Ok(())
        });
        let bytes = bytes.unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "runs are left");
        (found, bytes)
    }

    /// Compares by `a`, ascending with nulls last, then by `n`, descending.
    fn by_a_and_falling_n(x: &(Option<i32>, String, i32), y: &(Option<i32>, String, i32)) -> Ordering {
        let a = |row: &(Option<i32>, String, i32)| (row.0.is_none(), row.0);
        a(x).cmp(&a(y)).then(y.2.cmp(&x.2))
    }

    #[test]
    fn rows_are_sorted_within_memory_and_beyond_it() {
        let rows = rows(5000);
        let mut expected = rows.clone();
        expected.sort_by(by_a_and_falling_n);
        let (found, bytes) = sorted(&rows, usize::MAX, &["a", "n:desc"]);
        assert!(found == expected && bytes == 0);
        // One pass over a few runs, and several passes over many.
        for memory_bytes in [200_000, 10_000, 1] {
            let (found, bytes) = sorted(&rows, memory_bytes, &["a:asc", "n:desc"]);
            assert!(found == expected && bytes > 0, "{memory_bytes}");
        }
        expected.sort_by(|x, y| (y.0.is_none(), y.0, &x.1, x.2).cmp(&(x.0.is_none(), x.0, &y.1, y.2)));
        assert!(sorted(&rows, 10_000, &["a:desc", "b", "n"]).0 == expected);
        assert_eq!(sorted(&Rows::new(), 10_000, &["a"]), (Rows::new(), 0));
    }

    #[test]
    fn columns_that_cannot_be_sorted_by_are_refused() {
        let refused = |column: &str| {
            let sort_by: SortColumn = column.parse().unwrap();
            Order::new(&schema(), &[], &[sort_by]).unwrap_err().to_string()
        };
        assert!(refused("no:desc").contains("'no'") && refused("no").contains("a, b, n, ballast"));
        assert!(refused("a:up").contains("'a:up'"));
    }
}
