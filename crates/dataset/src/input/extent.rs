//! Estimates the size of a dataset before it is read.

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
        let looked_at = UNITS.min(self.units.len());
        for place in 0..looked_at {
            let unit = &self.units[place * self.units.len() / looked_at];
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
}
