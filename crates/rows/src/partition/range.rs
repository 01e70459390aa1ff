//! Targets of rows by binary search in split points.

use std::fmt;

use arrow::{
    array::{Array, ArrayRef},
    compute::SortOptions,
    error::ArrowError,
    row::{RowConverter, Rows as SortKeys, SortField},
};

use super::{MAX_CONSUMERS, Target};
use crate::error::RowsError;

/// A partitioner by ranges of keys.
///
/// Consumer `i` has the keys at or after split point `i - 1` and before split point `i`, in the
/// given order. So there is one consumer more than there are split points.
///
/// ```
/// use std::sync::Arc;
///
/// use annulus_rows::partition::RangePartitioner;
/// use arrow::array::{ArrayRef, Int64Array};
///
/// let splits: ArrayRef = Arc::new(Int64Array::from(vec![10, 20]));
/// let mut ranges = RangePartitioner::try_new(&[splits], &[Default::default()])?;
/// let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 10, 99]));
/// let mut targets = vec![];
/// ranges.targets(&[keys], &mut targets)?;
/// assert_eq!(targets, [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RangePartitioner {
    converter: RowConverter,
    splits: SortKeys,
    keys: SortKeys,
}

impl RangePartitioner {
    /// Creates a partitioner. `splits` has a column for each key, whose rows are the split points
    /// in ascending order. `options` has the order of each key.
    ///
    /// # Errors
    /// [`RowsError::SplitPoints`] if there is no key column, columns differ in length, the points
    /// do not ascend strictly, or there are too many. [`RowsError::Arrow`] if Arrow cannot
    /// order a key's type.
    pub fn try_new(splits: &[ArrayRef], options: &[SortOptions]) -> Result<Self, RowsError> {
        let rows = splits.first().map_or(0, |column| column.len());
        if splits.is_empty() || splits.len() != options.len() || splits.iter().any(|column| column.len() != rows) {
            return Err(RowsError::SplitPoints("give one column and one sort option for each key, of equal length"));
        }
        if rows >= MAX_CONSUMERS {
            return Err(RowsError::SplitPoints("choose at most 65535"));
        }
        let field = |(column, options): (&ArrayRef, &SortOptions)| {
            SortField::new_with_options(column.data_type().clone(), *options)
        };
        let converter = RowConverter::new(splits.iter().zip(options).map(field).collect())?;
        let splits = converter.convert_columns(splits)?;
        if (1..rows).any(|row| splits.row(row - 1) >= splits.row(row)) {
            return Err(RowsError::SplitPoints("sort them in the order of the keys, without duplicates"));
        }
        let keys = converter.empty_rows(0, 0);
        Ok(Self { converter, splits, keys })
    }

    /// Returns the number of consumers.
    pub fn consumers(&self) -> usize {
        self.splits.num_rows() + 1
    }

    /// Writes the target of each row of the key columns to `targets`. O(rows * log(consumers))
    /// comparisons.
    ///
    /// # Errors
    /// If the columns do not have the types of the split points.
    pub fn targets(&mut self, keys: &[ArrayRef], targets: &mut Vec<Target>) -> Result<(), ArrowError> {
        self.keys.clear();
        self.converter.append(&mut self.keys, keys)?;
        targets.clear();
        let splits = &self.splits;
        targets.extend(self.keys.iter().map(|key| {
            let (mut low, mut high) = (0, splits.num_rows());
            while low < high {
                let middle = low.midpoint(high);
                if splits.row(middle) <= key { low = middle + 1 } else { high = middle }
            }
            low as Target
        }));
        Ok(())
    }
}

impl fmt::Debug for RangePartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangePartitioner").field("consumers", &self.consumers()).finish_non_exhaustive()
    }
}
