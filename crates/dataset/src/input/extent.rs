//! Estimates the size and the order of a dataset before it is read.

use arrow::{
    array::{Array, RecordBatch},
    error::ArrowError,
    row::{OwnedRow, RowConverter, SortField},
};

use super::{Dataset, Unit};
use crate::error::DatasetError;

/// The most units that are read.
const UNITS: usize = 4;

/// The estimated number of rows of a dataset, and their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of rows. It is exact if every file states it, as Parquet files do.
    pub rows: u64,
    /// The bytes of all rows as batches, estimated from a few of them.
    pub bytes: u64,
}

impl Dataset {
    /// Estimates the size of the columns at `columns` from the first batches of up to four units.
    ///
    /// # Errors
    /// If a unit cannot be read.
    pub fn extent(&self, columns: &[usize]) -> Result<Extent, DatasetError> {
        let told = self.units.iter().map(Unit::rows).sum::<Option<u64>>();
        let (mut rows, mut bytes, mut file_bytes) = (0, 0, 0);
        for unit in self.spread_units() {
            let Some(decoded) = unit.read_columns(columns)?.next().transpose()? else { continue };
            rows += decoded.batch.num_rows() as u64;
            bytes += decoded.batch.get_array_memory_size() as u64;
            file_bytes += decoded.input_bytes;
        }
        let scaled =
            |part: u64, of: u64, whole: u64| (u128::from(part) * u128::from(whole) / u128::from(of.max(1))) as u64;
        let rows_in_all = told.unwrap_or_else(|| scaled(rows, file_bytes, self.total_bytes));
        Ok(Extent { rows: rows_in_all, bytes: scaled(bytes, rows, rows_in_all) })
    }

    /// Returns whether rows appear to be in ascending order of the columns at `columns`, as one
    /// key: those of the first batches of up to four units are, in each and from one to the next.
    /// Rows with a null in these columns are skipped.
    ///
    /// # Errors
    /// If a unit cannot be read.
    pub fn appears_sorted(&self, columns: &[usize]) -> Result<bool, DatasetError> {
        let mut last = None;
        for unit in self.spread_units() {
            let Some(decoded) = unit.read_columns(columns)?.next().transpose()? else { continue };
            // Columns of a type without an order are not sorted.
            if !continues(&decoded.batch, &mut last).unwrap_or(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns up to four units, spread over the dataset, in order.
    fn spread_units(&self) -> impl Iterator<Item = &Unit> {
        let looked_at = UNITS.min(self.units.len());
        (0..looked_at).map(move |place| &self.units[place * self.units.len() / looked_at])
    }
}

/// Returns whether the rows of a batch are in ascending order, and begin with at least `last`,
/// which becomes the last row.
fn continues(batch: &RecordBatch, last: &mut Option<OwnedRow>) -> Result<bool, ArrowError> {
    let fields = batch.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(batch.columns())?;
    let has_null = |row: usize| batch.columns().iter().any(|column| column.is_null(row));
    let mut rows = (0..batch.num_rows()).filter(|&row| !has_null(row)).map(|row| rows.row(row)).peekable();
    let follows = match (&last, rows.peek()) {
        (Some(last), Some(first)) => last.row() <= *first,
        _ => true,
    };
    let mut end = None;
    let ascends = rows.inspect(|row| end = Some(*row)).is_sorted();
    *last = end.map(|row| row.owned()).or(last.take());
    Ok(follows && ascends)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::InputOptions;

    #[test]
    fn an_order_is_found_within_files_and_across_them() {
        let folder = tempfile::tempdir().unwrap();
        let sorted = |files: &[&str]| {
            for (number, rows) in files.iter().enumerate() {
                fs::write(folder.path().join(format!("{number}.csv")), format!("a,b\n{rows}\n")).unwrap();
            }
            let dataset =
                Dataset::open(&[folder.path().to_str().unwrap().to_owned()], &InputOptions::default()).unwrap();
            [&[0][..], &[1], &[0, 1], &[1, 0]].map(|columns| dataset.appears_sorted(columns).unwrap())
        };
        assert_eq!(sorted(&["1,x\n2,y\n,a", "2,z\n3,z"]), [true, false, true, true]);
        // Each file is sorted by itself.
        assert_eq!(sorted(&["1,x\n5,y", "4,z\n6,z"]), [false, true, false, true]);
        assert_eq!(sorted(&["2,x\n1,x", "3,z\n3,z"]), [false, true, false, false]);
    }
}
