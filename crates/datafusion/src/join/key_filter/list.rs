//! The keys of a small build side, one by one.

use std::{collections::BTreeMap, sync::Arc};

use annulus_rows::rows_bytes;
use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    compute::{cast, take},
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use datafusion::{config::ConfigOptions, error::Result};

/// The rows whose keys are looked at before it is known whether there are too many.
const PIECE_ROWS: usize = 512;

/// The limits of a list of keys: those of DataFusion's hash join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    bytes: usize,
    values: usize,
}

impl Limits {
    pub(super) fn new(options: &ConfigOptions) -> Self {
        let options = &options.optimizer;
        Self {
            bytes: options.hash_join_inlist_pushdown_max_size,
            values: options.hash_join_inlist_pushdown_max_distinct_values,
        }
    }

    /// Returns the different values of a key column without null, in ascending order; or nothing if
    /// there are none, too many, or more rows than are worth looking at.
    ///
    /// # Errors
    /// If a kernel fails.
    pub(super) fn list(self, keys: &ArrayRef) -> Result<Option<ArrayRef>> {
        if !can_list(keys.data_type()) || self.bytes == 0 || bytes(keys)? > self.bytes {
            return Ok(None);
        }
        let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
        // Each value as bytes in its order, and a row that has it.
        let mut values: BTreeMap<Box<[u8]>, u32> = BTreeMap::new();
        for start in (0..keys.len()).step_by(PIECE_ROWS) {
            let piece = keys.slice(start, PIECE_ROWS.min(keys.len() - start));
            let (nulls, rows) = (piece.logical_nulls(), converter.convert_columns(&[piece])?);
            for (row, at) in rows.iter().zip(0..) {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) || values.contains_key(row.data()) {
                    continue;
                }
                if values.len() == self.values {
                    return Ok(None);
                }
                values.insert(row.data().into(), (start + at) as u32);
            }
        }
        if values.is_empty() {
            return Ok(None);
        }
        let list = take(keys, &UInt32Array::from_iter_values(values.into_values()), None)?;
        Ok(Some(match list.data_type() {
            DataType::Dictionary(_, value) => cast(&list, value)?,
            _ => list,
        }))
    }
}

/// Returns whether a value of this type equals all that a join takes for equal, and no others: 0.0
/// and -0.0 are equal for a join, and not in a list.
fn can_list(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => can_list(value),
        DataType::Boolean | DataType::Interval(_) => *data_type == DataType::Boolean,
        _ => {
            data_type.is_integer()
                || data_type.is_temporal()
                || data_type.is_decimal()
                || data_type.is_string()
                || data_type.is_binary()
        }
    }
}

/// Returns the memory that the keys take. Views count with the values that they refer to.
fn bytes(keys: &ArrayRef) -> Result<usize> {
    Ok(rows_bytes(&RecordBatch::try_from_iter_with_nullable([("key", Arc::clone(keys), true)])?))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{
            AsArray, BooleanArray, DictionaryArray, Float64Array, Int64Array, IntervalDayTimeArray, StringArray,
            StringViewArray,
        },
        datatypes::{Int8Type, Int64Type},
    };

    use super::*;

    const LIMITS: Limits = Limits { bytes: 1 << 16, values: 3 };

    fn list(keys: impl Array + 'static) -> Option<ArrayRef> {
        LIMITS.list(&(Arc::new(keys) as ArrayRef)).unwrap()
    }

    #[test]
    fn a_list_has_each_value_once_in_order_and_no_null() {
        let numbers = Int64Array::from_iter((0..2000).map(|row| (row % 4 > 0).then_some(-(row % 4))));
        assert_eq!(list(numbers).unwrap().as_primitive::<Int64Type>().values(), &[-3, -2, -1]);
        let texts = list(StringViewArray::from(vec![Some("long enough to be elsewhere"), None, Some("b")])).unwrap();
        assert_eq!(texts.as_string_view().iter().flatten().collect::<Vec<_>>(), ["b", "long enough to be elsewhere"]);
        assert!(list(BooleanArray::from(vec![true, false])).is_some_and(|list| list.len() == 2));
    }

    #[test]
    fn values_of_a_dictionary_are_listed_as_such() {
        let keys: DictionaryArray<Int8Type> = [Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        assert_eq!(list(keys).unwrap().as_string::<i32>(), &StringArray::from(vec!["a", "b"]));
    }

    #[test]
    fn there_is_no_list_of_many_values_or_rows_or_none() {
        assert!(list(Int64Array::from_iter_values(0..4)).is_none());
        assert!(list(Int64Array::from_iter_values((0..10_000).map(|_| 1))).is_none());
        assert!(list(Int64Array::from(vec![None, None])).is_none() && list(Int64Array::from_iter_values([])).is_none());
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(Limits { bytes: 0, ..LIMITS }.list(&keys).unwrap().is_none());
        assert!(Limits { values: 0, ..LIMITS }.list(&keys).unwrap().is_none());
    }

    #[test]
    fn types_that_a_join_compares_in_another_way_are_not_listed() {
        assert!(list(Float64Array::from(vec![0.0])).is_none());
        assert!(list(IntervalDayTimeArray::from(vec![None])).is_none());
    }
}
