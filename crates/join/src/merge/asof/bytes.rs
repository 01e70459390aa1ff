//! Keys and times as bytes, for sides that are sorted and merged where they do not fit in memory.

use arrow::{
    array::{Array, ArrayRef, BinaryArray},
    buffer::NullBuffer,
    compute::SortOptions,
    datatypes::DataType,
    row::{RowConverter, SortField},
};

use super::AsOfComparison;
use crate::{error::JoinError, key::one_zero};

/// The encoder of equal keys and times as bytes that sort like them.
#[derive(Debug)]
pub struct AsOfBytes {
    /// None without equal keys.
    equal: Option<RowConverter>,
    time: RowConverter,
}

impl AsOfBytes {
    /// Returns the encoder for these types. The bytes of times ascend in the order in which partners
    /// come into reach of the left side's rows: later times first if partners are the later ones.
    ///
    /// # Errors
    /// If Arrow's row format does not know a type.
    pub fn try_new(equal: &[DataType], time: &DataType, comparison: AsOfComparison) -> Result<Self, JoinError> {
        let descending = matches!(comparison, AsOfComparison::AtOrBefore | AsOfComparison::Before);
        let options = SortOptions { descending, nulls_first: true };
        let fields = equal.iter().cloned().map(SortField::new).collect();
        let equal = if equal.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        Ok(Self { equal, time: RowConverter::new(vec![SortField::new_with_options(time.clone(), options)])? })
    }

    /// Returns the bytes of the equal keys and of the time of each row; both are null if one of its keys
    /// is, so that it has no partner. `columns` are the equal keys, then the time.
    ///
    /// # Errors
    /// If the columns have other types, or more than 2 GiB.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<[BinaryArray; 2], JoinError> {
        let columns: Vec<ArrayRef> = columns.iter().map(one_zero).collect();
        let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
        let nulls = NullBuffer::union_many(nulls.iter().map(Option::as_ref));
        let (equal, time) = columns.split_at(columns.len().saturating_sub(1));
        let time = self.time.convert_columns(time)?.try_into_binary()?;
        let equal = match &self.equal {
            Some(converter) => converter.convert_columns(equal)?.try_into_binary()?,
            None => BinaryArray::from_iter_values((0..time.len()).map(|_| b"")),
        };
        let with_nulls = |bytes: BinaryArray| {
            let (offsets, values, _) = bytes.into_parts();
            BinaryArray::try_new(offsets, values, nulls.clone())
        };
        Ok([with_nulls(equal)?, with_nulls(time)?])
    }
}

impl AsOfComparison {
    /// Returns whether a row of the right side comes into reach of one of the left side with the same
    /// key, by the [bytes](AsOfBytes) of their times.
    pub fn reaches(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Self::AtOrAfter | Self::AtOrBefore => right <= left,
            Self::After | Self::Before => right < left,
        }
    }
}
