//! Decoding of dictionaries: each distinct cell becomes a value.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, DictionaryArray, PrimitiveArray, downcast_integer},
    buffer::NullBuffer,
    datatypes::{ArrowDictionaryKeyType, ArrowNativeType, DataType},
};

use super::builder::Builder;
use crate::codec::{CodecError, layout::Kind};

pub(super) fn dictionary(
    kind: &Kind,
    values: &DataType,
    data_type: &DataType,
    cells: &[&[u8]],
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let (keys, distinct) = intern(cells, nulls.as_ref());
    let mut builder = Builder::new(kind, values, distinct.len());
    match builder {
        Builder::Bytes(..) | Builder::Cells(_) => builder.append_cells(&distinct),
        _ => builder.append_fixed(&distinct, 0, distinct.first().map_or(0, |cell| cell.len())),
    }
    let values = builder.finish_as(kind, values, name, None)?;
    macro_rules! with_key {
        ($key:ty) => {
            keyed::<$key>(&keys, values, nulls, name)
        };
    }
    match data_type {
        DataType::Dictionary(keys, _) => downcast_integer! {
            keys.as_ref() => (with_key),
            _ => unreachable!("a dictionary's keys are integers")
        },
        _ => unreachable!("a dictionary"),
    }
}

/// Numbers the distinct cells that are not null. Returns each row's number, and the distinct cells.
fn intern<'a>(cells: &[&'a [u8]], nulls: Option<&NullBuffer>) -> (Vec<usize>, Vec<&'a [u8]>) {
    let mut distinct = Vec::new();
    let mut numbers = HashMap::new();
    let mut number = |(row, &cell): (usize, &&'a [u8])| {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return 0;
        }
        *numbers.entry(cell).or_insert_with(|| {
            distinct.push(cell);
            distinct.len() - 1
        })
    };
    let keys = cells.iter().enumerate().map(&mut number).collect();
    (keys, distinct)
}

fn keyed<K: ArrowDictionaryKeyType>(
    keys: &[usize],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    name: &str,
) -> Result<ArrayRef, CodecError> {
    let key = |&key: &usize| K::Native::from_usize(key);
    let keys: Option<Vec<K::Native>> = keys.iter().map(key).collect();
    let keys = keys.ok_or_else(|| CodecError::TooLarge { column: name.to_owned() })?;
    let keys = PrimitiveArray::<K>::new(keys.into(), nulls);
    let array = DictionaryArray::try_new(keys, values)
        .map_err(|error| CodecError::Invalid { column: name.to_owned(), what: error.to_string() })?;
    Ok(Arc::new(array))
}
