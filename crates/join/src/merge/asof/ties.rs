//! Rows of the right side with equal keys and equal times.

use std::{cmp::Ordering, sync::OnceLock};

use arrow::{
    array::{Array, DynComparator, RecordBatch, make_comparator},
    compute::{SortOptions, concat},
    error::ArrowError,
};

use crate::{error::JoinError, key::one_zero, merge::words::Word};

/// Decides which of the rows with equal keys and equal times counts.
pub(super) struct Ties<'a> {
    batches: &'a [RecordBatch],
    /// A comparison of each column of all batches, once one is needed.
    comparators: OnceLock<Result<Vec<DynComparator>, ArrowError>>,
}

impl<'a> Ties<'a> {
    /// Decides between the rows of these batches, which are numbered through all of them.
    pub(super) fn new(batches: &'a [RecordBatch]) -> Self {
        Self { batches, comparators: OnceLock::new() }
    }

    /// Puts the greatest row of equal times in both their first and their last place, where searches
    /// end.
    pub(super) fn settle<W: Word>(&self, times: &[W], rows: &mut [u32]) -> Result<(), JoinError> {
        let mut start = 0;
        while start < times.len() {
            let equal = times[start + 1..].iter().take_while(|&&time| time == times[start]).count();
            let end = start + equal;
            if equal > 0 {
                let comparators = self.comparators()?;
                let mut greatest = rows[start];
                for &row in &rows[start + 1..=end] {
                    if compare(comparators, row, greatest).is_gt() {
                        greatest = row;
                    }
                }
                (rows[start], rows[end]) = (greatest, greatest);
            }
            start = end + 1;
        }
        Ok(())
    }

    fn comparators(&self) -> Result<&[DynComparator], JoinError> {
        let comparators = self.comparators.get_or_init(|| {
            let options = SortOptions { descending: false, nulls_first: true };
            let columns = self.batches.first().map_or(0, RecordBatch::num_columns);
            let column = |index| {
                let columns: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(index).as_ref()).collect();
                concat(&columns)
            };
            let columns = (0..columns).map(column).collect::<Result<Vec<_>, _>>()?;
            // The two zeros only decide where all else is equal. Arrow does not order maps, for example: such
            // columns decide nothing.
            let floats = columns.iter().filter(|column| column.data_type().is_floating()).cloned();
            let columns = columns.iter().map(one_zero).chain(floats);
            Ok(columns.filter_map(|column| make_comparator(&column, &column, options).ok()).collect())
        });
        let failed = |error: &ArrowError| ArrowError::ComputeError(error.to_string()).into();
        comparators.as_deref().map_err(failed)
    }
}

/// Compares two rows. Of those that no column tells apart the later one is greater.
fn compare(comparators: &[DynComparator], a: u32, b: u32) -> Ordering {
    let mut orders = comparators.iter().map(|compare| compare(a as usize, b as usize));
    orders.find(|order| order.is_ne()).unwrap_or_else(|| a.cmp(&b))
}
