//! The values of the expression as distances that are compared: the smallest is the nearest.

use annulus_join::{NearestLists, Neighbour};
use arrow::{
    array::{Array, ArrayRef, AsArray, make_array},
    compute::{SortOptions, cast},
    datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type, IntervalUnit, UInt64Type},
    row::{RowConverter, SortField},
};
use datafusion::error::Result;

use crate::nearest::NearestOrder;

/// The lists of the nearest rows of a chunk.
pub(super) enum Lists {
    /// Distances are numbers of at most 64 bits.
    Words(NearestLists<u64>),
    /// Distances are bytes that sort like the values.
    Bytes(NearestLists<Box<[u8]>>),
}

impl Lists {
    /// Returns empty lists for values of a type.
    pub(super) fn new(data_type: &DataType, rows: usize, k: usize) -> Self {
        if word_type(data_type).is_some() {
            Self::Words(NearestLists::new(rows, k))
        } else {
            Self::Bytes(NearestLists::new(rows, k))
        }
    }

    /// Offers rows of the right side to the list of a left row. `values` has the expression of each, and
    /// `ties` decides between equal ones. `first` is the number of the first of these rows.
    ///
    /// # Errors
    /// If the values cannot be compared.
    pub(super) fn offer(
        &mut self,
        left: usize,
        values: &ArrayRef,
        order: NearestOrder,
        ties: &[u64],
        first: u32,
    ) -> Result<()> {
        let rows = (first..).zip(ties).enumerate().filter(|(index, _)| values.is_valid(*index));
        match self {
            Self::Words(lists) => {
                let words = words(values, order)?;
                for (index, (row, &tie)) in rows {
                    lists.offer(left, Neighbour { distance: words[index], tie, row });
                }
            }
            Self::Bytes(lists) => {
                let options = SortOptions { descending: order == NearestOrder::Similarity, nulls_first: false };
                let field = SortField::new_with_options(values.data_type().clone(), options);
                let bytes = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(values))?;
                for (index, (row, &tie)) in rows {
                    let distance = bytes.row(index);
                    if lists.farthest(left).is_none_or(|farthest| distance.as_ref() <= &*farthest.distance) {
                        lists.offer(left, Neighbour { distance: distance.as_ref().into(), tie, row });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the numbers of the nearest right rows of a left row, the nearest first.
    pub(super) fn sorted(&mut self, left: usize) -> Vec<u32> {
        match self {
            Self::Words(lists) => lists.sort(left).iter().map(|neighbour| neighbour.row).collect(),
            Self::Bytes(lists) => lists.sort(left).iter().map(|neighbour| neighbour.row).collect(),
        }
    }
}

/// Returns the type of 64 bits that values of a type are compared as, if there is one.
fn word_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match data_type {
        Boolean | UInt8 | UInt16 | UInt32 | UInt64 => UInt64,
        Int8
        | Int16
        | Int32
        | Int64
        | Date32
        | Date64
        | Time32(_)
        | Time64(_)
        | Timestamp(..)
        | Duration(_)
        | Decimal32(..)
        | Decimal64(..)
        | Interval(IntervalUnit::YearMonth) => Int64,
        Float16 | Float32 | Float64 => Float64,
        _ => return None,
    })
}

/// Returns values as distances. Those of null are arbitrary.
fn words(values: &ArrayRef, order: NearestOrder) -> Result<Vec<u64>> {
    let turned = |word: u64| if order == NearestOrder::Similarity { !word } else { word };
    let word_type = word_type(values.data_type()).unwrap_or(DataType::Null);
    let values = if word_type == DataType::Int64 { &integers(values)? } else { values };
    let values = cast(values, &word_type)?;
    Ok(match word_type {
        DataType::UInt64 => numbers::<UInt64Type>(&values, turned),
        DataType::Int64 => numbers::<Int64Type>(&values, |value| turned(value as u64 ^ (1 << 63))),
        // NaN is the farthest, in either order.
        _ => numbers::<Float64Type>(&values, |value| match value.is_nan() {
            true => u64::MAX,
            false => turned(float_word(value)),
        }),
    })
}

/// Returns the values of a type that is stored as an integer as integers.
fn integers(values: &ArrayRef) -> Result<ArrayRef> {
    let stored = match values.data_type().primitive_width() {
        Some(8) => DataType::Int64,
        Some(4) => DataType::Int32,
        _ => return Ok(ArrayRef::clone(values)),
    };
    Ok(make_array(values.to_data().into_builder().data_type(stored).build()?))
}

fn numbers<T: ArrowPrimitiveType>(values: &ArrayRef, word: impl Fn(T::Native) -> u64) -> Vec<u64> {
    values.as_primitive::<T>().values().iter().map(|&value| word(value)).collect()
}

/// Returns a number in the order of the values of a float; the two zeros are one.
fn float_word(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_order_of_floats() {
        let floats = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, 0.0, 1e-300, 2.0, f64::INFINITY];
        assert!(floats.is_sorted_by_key(|&value| float_word(value)));
        assert_eq!(float_word(-0.0), float_word(0.0));
    }
}
