//! The nearest rows on a line.
//!
//! The right values are sorted once. The nearest ones of a left value are on both sides of its place, and
//! the distance grows with each step. A rounded distance may stay the same for many steps: the least ties
//! of such a stretch are found in a tree.

mod coordinate;
mod sorted;

use arrow::{array::Array, datatypes::DataType, error::ArrowError};

pub(super) use coordinate::NAN;
use sorted::SortedValues;

use super::NearestLists;
use crate::{
    error::JoinError,
    merge::words::{Kind, shape},
    pace::Pace,
};

/// The right rows of a nearest-rows join whose distance is `abs(left - right)`. Any number of threads may
/// search it.
///
/// The values are whole numbers, decimals, dates, times, timestamps or durations of at most 64 bits, or
/// floats of 32 or 64 bits. The word of a distance, as [`Neighbour::distance`](crate::Neighbour::distance)
/// has it, is
/// - of whole numbers, the exact distance. It does not overflow, as an expression in the numbers' own type
///   may: the caller decides whether that is the distance that it needs.
/// - of floats, the bits of the distance, which is computed and rounded in the floats' type. A distance
///   that is not a number is farther than all numbers, and its word is that of a NaN without a sign.
///
/// ```
/// use annulus_join::{LineIndex, NearestLists};
/// use arrow::array::Float64Array;
///
/// let right = Float64Array::from(vec![Some(1.0), None, Some(4.0), Some(5.5)]);
/// let index = LineIndex::try_new(&right, &[0; 4], 0, 1)?;
/// let mut lists = NearestLists::new(2, 2);
/// index.nearest(&Float64Array::from(vec![4.5, 0.0]), &mut lists, &mut || Ok(()))?;
/// let rows: Vec<_> = lists.sort(0).iter().map(|near| (near.row, f64::from_bits(near.distance))).collect();
/// assert_eq!(rows, [(2, 0.5), (3, 1.0)]);
/// # Ok::<(), annulus_join::JoinError>(())
/// ```
#[derive(Debug)]
pub struct LineIndex {
    data_type: DataType,
    values: TypedValues,
}

#[derive(Debug)]
enum TypedValues {
    /// The words of whole numbers.
    Whole(SortedValues<u64>),
    Single(SortedValues<f32>),
    Double(SortedValues<f64>),
}

impl LineIndex {
    /// Prepares right rows, which have the numbers from `first_row` on. A null is not a candidate. `ties` has
    /// a number for each row, which decides between rows of equal distance.
    ///
    /// O(rows * log(rows)) on `threads` threads. Takes 20 bytes a row and at most 4 more, and up to 56 a row
    /// while it runs.
    ///
    /// # Errors
    /// [`JoinError::KeyUnsupported`] if the values have another type; [`JoinError::Arrow`] if there is not
    /// one tie for each; [`JoinError::TooManyRows`] if a row's number takes more than 32 bits.
    pub fn try_new(values: &dyn Array, ties: &[u64], first_row: u32, threads: usize) -> Result<Self, JoinError> {
        check_rows(values.len(), ties, first_row)?;
        let data_type = values.data_type().clone();
        let values = match &data_type {
            DataType::Float32 => TypedValues::Single(SortedValues::new(values, ties, first_row, threads)),
            DataType::Float64 => TypedValues::Double(SortedValues::new(values, ties, first_row, threads)),
            whole if is_whole(whole) => TypedValues::Whole(SortedValues::new(values, ties, first_row, threads)),
            _ => return Err(JoinError::KeyUnsupported { index: 0, data_type }),
        };
        Ok(Self { data_type, values })
    }

    /// Returns the memory that the index takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.values {
            TypedValues::Whole(values) => values.memory_bytes(),
            TypedValues::Single(values) => values.memory_bytes(),
            TypedValues::Double(values) => values.memory_bytes(),
        }
    }

    /// Offers right rows to the lists of left rows, one list for each row of `left`. The lists end up as
    /// if all rows of this index had been offered. They may have rows of other indexes, and get none of
    /// this one that are farther. The list of a null stays as it is.
    ///
    /// O(log(rows) + k * log(k)) for a left row, and O(k * log(k)) if left rows are in order. Calls `check`
    /// first, and then every few milliseconds.
    ///
    /// # Errors
    /// [`JoinError::KeyTypes`] if the left values have another type than the right ones;
    /// [`JoinError::Arrow`] if there is not one list for each; any error of `check`, after which the lists
    /// lack rows.
    pub fn nearest(
        &self,
        left: &dyn Array,
        lists: &mut NearestLists<u64>,
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        if *left.data_type() != self.data_type {
            let (build, probe) = (self.data_type.clone(), left.data_type().clone());
            return Err(JoinError::KeyTypes { index: 0, build, probe });
        }
        check_lists(left.len(), lists)?;
        let pace = &mut Pace::new(check);
        match &self.values {
            TypedValues::Whole(values) => values.nearest(left, lists, pace),
            TypedValues::Single(values) => values.nearest(left, lists, pace),
            TypedValues::Double(values) => values.nearest(left, lists, pace),
        }
    }
}

/// Returns whether values of a type are whole numbers that a line may have.
fn is_whole(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Boolean | DataType::Interval(_))
        && shape(data_type).is_some_and(|(bits, kind)| bits <= 64 && kind != Kind::Float)
}

/// Checks the ties and the numbers of right rows.
pub(super) fn check_rows(rows: usize, ties: &[u64], first_row: u32) -> Result<(), JoinError> {
    if ties.len() != rows {
        let message = format!("{rows} rows but {} ties; each row needs one", ties.len());
        return Err(ArrowError::InvalidArgumentError(message).into());
    }
    if rows > (u32::MAX - first_row) as usize {
        return Err(JoinError::TooManyRows { rows: first_row as usize + rows });
    }
    Ok(())
}

/// Checks that there is a list for each left row.
pub(super) fn check_lists(rows: usize, lists: &NearestLists<u64>) -> Result<(), JoinError> {
    if lists.rows() != rows {
        let message = format!("{rows} left rows but {} lists; each row needs one", lists.rows());
        return Err(ArrowError::InvalidArgumentError(message).into());
    }
    Ok(())
}
