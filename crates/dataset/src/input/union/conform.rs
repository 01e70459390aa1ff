//! Casts columns to wider types, without loss.

use std::sync::Arc;

use super::wider::item_of;
use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, Float64Array, GenericListArray, MapArray,
        OffsetSizeTrait, PrimitiveArray, StructArray, new_null_array,
    },
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, FieldRef, Fields, Int64Type, UInt64Type},
    error::ArrowError,
    util::display::FormatOptions,
};

/// A value that its type does not hold is an error, not null.
const EXACT: CastOptions<'_> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// Returns the values of `array` as those of a [wider](super::wider::wider) type.
///
/// # Errors
/// If the type does not hold a value: an integer that no float equals, or a time beyond the range
/// of a finer unit.
pub(super) fn conform(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{Dictionary, Float64, Int64, Map, Null, RunEndEncoded, Struct, UInt64};
    let from = array.data_type();
    match (from, to) {
        _ if from == to => Ok(Arc::clone(array)),
        (Null, _) => Ok(new_null_array(to, array.len())),
        (Dictionary(_, values), _) => conform(&cast_with_options(array, values, &EXACT)?, to),
        (RunEndEncoded(_, values), _) => conform(&cast_with_options(array, values.data_type(), &EXACT)?, to),
        (Struct(_), Struct(fields)) => conform_struct(array.as_struct(), fields),
        (Map(..), Map(entries, sorted)) => conform_map(array.as_map(), entries, *sorted),
        (Int64, Float64) => floats(array.as_primitive::<Int64Type>(), |integer| (integer as f64, integer.into())),
        (UInt64, Float64) => floats(array.as_primitive::<UInt64Type>(), |integer| (integer as f64, integer.into())),
        _ => match (item_of(from), item_of(to)) {
            (Some(own), Some(_)) => conform_list(array, own, to),
            _ => cast_with_options(array, to, &EXACT),
        },
    }
}

/// Returns the floats that equal 64-bit integers. `both` returns the nearest float, and the integer.
fn floats<T: ArrowPrimitiveType>(
    integers: &PrimitiveArray<T>,
    both: fn(T::Native) -> (f64, i128),
) -> Result<ArrayRef, ArrowError> {
    let floats: Float64Array = integers.try_unary(|integer| {
        let (float, whole) = both(integer);
        if float as i128 == whole {
            Ok(float)
        } else {
            Err(ArrowError::CastError(format!("no value of type Float64 equals {whole}")))
        }
    })?;
    Ok(Arc::new(floats))
}

fn conform_struct(array: &StructArray, fields: &Fields) -> Result<ArrayRef, ArrowError> {
    let column = |field: &FieldRef| match array.column_by_name(field.name()) {
        Some(column) => conform(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), array.len())),
    };
    let columns = fields.iter().map(column).collect::<Result<_, _>>()?;
    let nulls = array.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?))
}

fn conform_map(array: &MapArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError("the entries of a map are not a struct".to_owned()));
    };
    let columns = array.entries().columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| conform(column, field.data_type())).collect::<Result<_, _>>()?;
    let values = StructArray::try_new(fields.clone(), columns, None)?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, nulls, sorted)?))
}

/// Returns the lists, with items of type `own`, in the layout and with the items of `to`.
fn conform_list(array: &ArrayRef, own: &FieldRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let layout = |to: DataType| cast_with_options(array, &to, &EXACT);
    match to {
        DataType::List(item) => lists::<i32>(&layout(DataType::List(Arc::clone(own)))?, item),
        DataType::LargeList(item) => lists::<i64>(&layout(DataType::LargeList(Arc::clone(own)))?, item),
        DataType::FixedSizeList(item, length) => {
            let array = layout(DataType::FixedSizeList(Arc::clone(own), *length))?;
            let array = array.as_fixed_size_list();
            let (values, nulls) = (conform(array.values(), item.data_type())?, array.nulls().cloned());
            let (item, rows) = (Arc::clone(item), array.len());
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, *length, values, nulls, rows)?))
        }
        _ => cast_with_options(array, to, &EXACT),
    }
}

fn lists<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let array = array.as_list::<O>();
    let (values, nulls) = (conform(array.values(), item.data_type())?, array.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), array.offsets().clone(), values, nulls)?))
}
