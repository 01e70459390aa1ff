//! The least and the greatest key of a file.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray, UInt32Array, downcast_primitive_array, make_comparator},
    compute::{SortOptions, cast, max, min, take},
    datatypes::{DataType, Int64Type},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

use crate::manifest::KeyEntry;

/// The range of one key column over the batches observed.
#[derive(Debug, Default)]
pub(crate) struct KeyRange {
    /// The least and the greatest value; `None` as long as all values were null.
    bounds: Option<(ArrayRef, ArrayRef)>,
    nulls: u64,
    /// Whether Arrow cannot order the type.
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

    /// Returns the range as the manifest stores it; `None` if the values have no order, or no text.
    pub(crate) fn entry(&self, column: &str) -> Option<KeyEntry> {
        if self.unordered {
            return None;
        }
        let (min, max) = match &self.bounds {
            Some((low, high)) => (Some(value_text(low)?), Some(value_text(high)?)),
            None => (None, None),
        };
        Some(KeyEntry { column: column.to_owned(), min, max, nulls: self.nulls })
    }
}

/// Returns the least and the greatest value that is not null. There must be one.
fn bounds_of(values: &ArrayRef) -> Result<(ArrayRef, ArrayRef), ArrowError> {
    fn primitive<T: arrow::datatypes::ArrowNumericType>(values: &PrimitiveArray<T>) -> Option<(ArrayRef, ArrayRef)> {
        let one = |value: T::Native| -> ArrayRef {
            let one = PrimitiveArray::<T>::from_value(value, 1);
            Arc::new(one.with_data_type(values.data_type().clone()))
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
    Ok((copied(values, low)?, copied(values, high)?))
}

/// Returns the value of a row in memory that it does not share with other rows. So it does not keep
/// its batch or dictionary alive.
fn copied(values: &ArrayRef, row: usize) -> Result<ArrayRef, ArrowError> {
    let mut one = take(values, &UInt32Array::from(vec![row as u32]), None)?;
    if let DataType::Dictionary(_, value_type) = values.data_type() {
        one = cast(&one, value_type)?;
    }
    Ok(match one.data_type() {
        DataType::Utf8View => Arc::new(one.as_string_view().gc()),
        DataType::BinaryView => Arc::new(one.as_binary_view().gc()),
        _ => one,
    })
}

fn is_less(a: &ArrayRef, b: &ArrayRef) -> Result<bool, ArrowError> {
    Ok(make_comparator(a, b, SortOptions::default())?(0, 0).is_lt())
}

/// Returns the first value as text. Dates and times outside the calendar's range, often an
/// "infinity", become the numbers that they are stored as.
pub(crate) fn value_text(one: &ArrayRef) -> Option<String> {
    // Otherwise, the text of an error within a nested value would be taken for the value's.
    let options = FormatOptions::default().with_null("null").with_display_error(false);
    let shown = ArrayFormatter::try_new(one, &options).and_then(|shown| shown.value(0).try_to_string());
    shown.ok().or_else(|| {
        let number = cast(one, &DataType::Int64).ok()?;
        Some(number.as_primitive_opt::<Int64Type>()?.value(0).to_string())
    })
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Date32Array, DictionaryArray, StringViewArray, StructArray, TimestampMicrosecondArray},
        datatypes::{Field, Int32Type},
    };

    use super::*;

    fn entry_of(values: ArrayRef) -> Option<KeyEntry> {
        let mut range = KeyRange::default();
        range.observe(&values).unwrap();
        range.entry("k")
    }

    #[test]
    fn what_cannot_be_shown_is_a_number_or_left_out() {
        let odd_zone = TimestampMicrosecondArray::from(vec![5, -7]).with_timezone("Nowhere/At_All");
        let entry = entry_of(Arc::new(odd_zone)).unwrap();
        assert_eq!((entry.min.as_deref(), entry.max.as_deref()), (Some("-7"), Some("5")));

        let days: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX]));
        let field = Arc::new(Field::new("day", DataType::Date32, false));
        assert_eq!(entry_of(Arc::new(StructArray::from(vec![(field, days)]))), None);
    }

    #[test]
    fn a_range_keeps_no_more_than_its_values() {
        let words: Vec<String> = (0..10_000).map(|word| format!("a word of some length, the {word:05}th")).collect();
        let dictionary: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&words));
        let of_views = dictionary.with_values(views.clone());
        for values in [Arc::new(dictionary) as ArrayRef, Arc::new(of_views), views] {
            let mut range = KeyRange::default();
            range.observe(&values).unwrap();
            let (low, high) = range.bounds.as_ref().unwrap();
            let kept = low.get_array_memory_size() + high.get_array_memory_size();
            assert!(kept < 2000, "{kept} bytes of {}", values.data_type());
            let entry = range.entry("k").unwrap();
            assert_eq!((entry.min.as_ref(), entry.max.as_ref()), (words.first(), words.last()));
        }
    }
}
