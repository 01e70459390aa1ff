//! The values of the expression as distances that are compared: the smallest is the nearest.

use annulus_join::{NearestLists, Neighbour, distance_word};
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
    Words { lists: NearestLists<u64>, order: NearestOrder },
    /// Distances are bytes that sort like the values.
    Bytes { lists: NearestLists<Box<[u8]>>, converter: RowConverter },
}

impl Lists {
    /// Returns empty lists for values of a type.
    ///
    /// # Errors
    /// If the values have no order.
    pub(super) fn new(data_type: &DataType, order: NearestOrder, rows: usize, k: usize) -> Result<Self> {
        if word_type(data_type).is_some() {
            return Ok(Self::Words { lists: NearestLists::new(rows, k), order });
        }
        let options = SortOptions { descending: order == NearestOrder::Similarity, nulls_first: false };
        let field = SortField::new_with_options(data_type.clone(), options);
        Ok(Self::Bytes { lists: NearestLists::new(rows, k), converter: RowConverter::new(vec![field])? })
    }

    /// Offers rows of the right side to the list of a left row. `values` has the expression of each, and
    /// `ties` decides between equal ones. `first` is the number of the first of these rows.
    ///
    /// # Errors
    /// If the values cannot be compared.
    pub(super) fn offer(&mut self, left: usize, values: &ArrayRef, ties: &[u64], first: u32) -> Result<()> {
        let rows = (first..).zip(ties).enumerate().filter(|(index, _)| values.is_valid(*index));
        match self {
            Self::Words { lists, order } => {
                let words = words(values, *order)?;
                for (index, (row, &tie)) in rows {
                    lists.offer(left, Neighbour { distance: words[index], tie, row });
                }
            }
            Self::Bytes { lists, converter } => {
                let bytes = converter.convert_columns(std::slice::from_ref(values))?;
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

    /// Appends the numbers of all right rows in the lists, from `first` on, in any order.
    pub(super) fn append_rows(&self, first: u32, rows: &mut Vec<u32>) {
        fn append<D: Ord + Clone + Default>(lists: &NearestLists<D>, first: u32, rows: &mut Vec<u32>) {
            for left in 0..lists.rows() {
                rows.extend(lists.list(left).iter().map(|neighbour| neighbour.row).filter(|&row| row >= first));
            }
        }
        match self {
            Self::Words { lists, .. } => append(lists, first, rows),
            Self::Bytes { lists, .. } => append(lists, first, rows),
        }
    }

    /// Returns the memory of the lists in bytes, without that of long distances.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Words { lists, .. } => lists.rows() * lists.k() * size_of::<Neighbour<u64>>(),
            Self::Bytes { lists, .. } => lists.rows() * lists.k() * size_of::<Neighbour<Box<[u8]>>>(),
        }
    }

    /// Appends the numbers of the nearest right rows of a left row, the nearest first.
    pub(super) fn append_sorted(&mut self, left: usize, rows: &mut Vec<Option<u32>>) {
        match self {
            Self::Words { lists, .. } => rows.extend(lists.sort(left).iter().map(|neighbour| Some(neighbour.row))),
            Self::Bytes { lists, .. } => rows.extend(lists.sort(left).iter().map(|neighbour| Some(neighbour.row))),
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
        _ => numbers::<Float64Type>(&values, |value| match order {
            NearestOrder::Distance => distance_word(value),
            NearestOrder::Similarity => distance_word(-value),
        }),
    })
}

/// Returns the values of a type that is stored as an integer as integers.
fn integers(values: &ArrayRef) -> Result<ArrayRef> {
    let stored = match values.data_type().primitive_width() {
        _ if values.data_type().is_integer() => return Ok(ArrayRef::clone(values)),
        Some(8) => DataType::Int64,
        Some(4) => DataType::Int32,
        _ => return Ok(ArrayRef::clone(values)),
    };
    Ok(make_array(values.to_data().into_builder().data_type(stored).build()?))
}

fn numbers<T: ArrowPrimitiveType>(values: &ArrayRef, word: impl Fn(T::Native) -> u64) -> Vec<u64> {
    values.as_primitive::<T>().values().iter().map(|&value| word(value)).collect()
}
