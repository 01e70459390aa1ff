//! Targets by binary search in split points.

use std::fmt;

use arrow::{
    array::{Array, ArrayRef},
    compute::SortOptions,
    error::ArrowError,
    row::{RowConverter, Rows as SortKeys, SortField},
};

use super::{MAX_CONSUMERS, Target};
use crate::error::RowsError;

/// Consumers by key range. Consumer `i` has the keys at or after split point `i - 1` and before
/// split point `i`, in the given ordering; so there is one consumer more than split points.
pub struct RangePartitioner {
    converter: RowConverter,
    splits: SortKeys,
    keys: SortKeys,
}

impl RangePartitioner {
    /// `splits` has one column per key, with ascending split points as rows, and `options` the
    /// ordering of each.
    ///
    /// # Errors
    /// If there is no key column, columns differ in length, the points do not ascend strictly,
    /// there are too many of them, or Arrow cannot order a key's type.
    pub fn try_new(splits: &[ArrayRef], options: &[SortOptions]) -> Result<Self, RowsError> {
        let wrong = |value: &str, remedy| RowsError::Config { option: "split_points", value: value.into(), remedy };
        let rows = splits.first().map_or(0, |column| column.len());
        if splits.is_empty() || splits.len() != options.len() || splits.iter().any(|column| column.len() != rows) {
            return Err(wrong("misshapen", "give one column and one sort option per key, of equal length"));
        }
        if rows >= MAX_CONSUMERS {
            return Err(wrong("too many", "choose at most 65535 split points"));
        }
        let field = |(column, options): (&ArrayRef, &SortOptions)| {
            SortField::new_with_options(column.data_type().clone(), *options)
        };
        let converter = RowConverter::new(splits.iter().zip(options).map(field).collect())?;
        let splits = converter.convert_columns(splits)?;
        if (1..rows).any(|row| splits.row(row - 1) >= splits.row(row)) {
            return Err(wrong("unordered", "sort the split points by the keys' ordering, without duplicates"));
        }
        let keys = converter.empty_rows(0, 0);
        Ok(Self { converter, splits, keys })
    }

    /// Number of consumers.
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
