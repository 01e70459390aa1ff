//! The least and the greatest key of a file.

use arrow::{
    array::{Array, ArrayRef, PrimitiveArray, UInt32Array, downcast_primitive_array, make_comparator},
    compute::{SortOptions, max, min, take},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::manifest::KeyEntry;

/// The range of one key column over the batches seen.
#[derive(Debug, Default)]
pub(crate) struct KeyRange {
    /// One value each; none as long as all were null.
    bounds: Option<(ArrayRef, ArrayRef)>,
    nulls: u64,
    /// Arrow cannot order the type.
    unordered: bool,
}

impl KeyRange {
    /// Takes a batch's values into account. O(rows).
    pub(crate) fn observe(&mut self, values: &ArrayRef) -> Result<(), ArrowError> {
        let nulls = values.logical_null_count();
        self.nulls += nulls as u64;
        if nulls == values.len() || self.unordered {
            return Ok(());
        }
        let (low, high) = match bounds_of(values) {
            Ok(bounds) => bounds,
            Err(ArrowError::NotYetImplemented(_) | ArrowError::InvalidArgumentError(_)) => {
                (self.unordered, self.bounds) = (true, None);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.bounds = Some(match self.bounds.take() {
            None => (low, high),
            Some((old_low, old_high)) => {
                let low = if is_less(&low, &old_low)? { low } else { old_low };
                let high = if is_less(&old_high, &high)? { high } else { old_high };
                (low, high)
            }
        });
        Ok(())
    }

    /// As the manifest has it; `None` if the values have no order.
    pub(crate) fn entry(&self, column: &str) -> Result<Option<KeyEntry>, ArrowError> {
        if self.unordered {
            return Ok(None);
        }
        let (min, max) = match &self.bounds {
            Some((low, high)) => (Some(text(low)?), Some(text(high)?)),
            None => (None, None),
        };
        Ok(Some(KeyEntry { column: column.to_owned(), min, max, nulls: self.nulls }))
    }
}

/// The least and the greatest value that is not null, of which there is one.
fn bounds_of(values: &ArrayRef) -> Result<(ArrayRef, ArrayRef), ArrowError> {
    fn primitive<T: arrow::datatypes::ArrowNumericType>(values: &PrimitiveArray<T>) -> Option<(ArrayRef, ArrayRef)> {
        let one = |value: T::Native| -> ArrayRef {
            let one = PrimitiveArray::<T>::from_value(value, 1);
            std::sync::Arc::new(one.with_data_type(values.data_type().clone()))
        };
        Some((one(min(values)?), one(max(values)?)))
    }
    let bounds = downcast_primitive_array!(
        values => primitive(values),
        _ => None
    );
    match bounds {
        Some(bounds) => Ok(bounds),
        None => compared_bounds(values),
    }
}

fn compared_bounds(values: &ArrayRef) -> Result<(ArrayRef, ArrayRef), ArrowError> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let nulls = values.logical_nulls();
    let mut valid = (0..values.len()).filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
    let first = valid.next().unwrap_or(0);
    let (low, high) = valid.fold((first, first), |(low, high), row| {
        (if compare(row, low).is_lt() { row } else { low }, if compare(row, high).is_gt() { row } else { high })
    });
    // Copied: the batch must not be kept for the sake of a value.
    let one = |row: usize| take(values, &UInt32Array::from(vec![row as u32]), None);
    Ok((one(low)?, one(high)?))
}

fn is_less(a: &ArrayRef, b: &ArrayRef) -> Result<bool, ArrowError> {
    Ok(make_comparator(a, b, SortOptions::default())?(0, 0).is_lt())
}

fn text(one: &ArrayRef) -> Result<String, ArrowError> {
    let options = FormatOptions::default();
    ArrayFormatter::try_new(one, &options)?.value(0).try_to_string()
}
