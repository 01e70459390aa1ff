//! Checks which columns' values can name folders.

use arrow::datatypes::{DataType, Schema};

use super::hash::key_columns;
use crate::error::DatasetError;

/// Checks that the columns `keys` can name folders, so that other engines read the same values from
/// the names. Checks also that other columns are left for the files.
pub(super) fn check(schema: &Schema, keys: &[String]) -> Result<(), DatasetError> {
    let columns = key_columns(schema, keys)?;
    for (number, (key, &column)) in keys.iter().zip(&columns).enumerate() {
        let data_type = schema.field(column).data_type();
        let reason = if key.is_empty() || key.starts_with(['.', '_']) {
            "readers ignore folders with such names; rename the column".to_owned()
        } else if columns[..number].contains(&column) {
            "it is named twice; name it once".to_owned()
        } else if !has_exact_text(data_type) {
            format!("values of type {data_type} cannot name folders; choose integers, texts, dates, times or decimals")
        } else {
            continue;
        };
        return Err(DatasetError::Key { column: key.clone(), reason });
    }
    if columns.len() == schema.fields().len() {
        return Err(DatasetError::Config {
            option: "by_value",
            value: format!("given with all columns as keys ({})", keys.join(",")),
            remedy: "no column is left for the files; leave one out of `by`".to_owned(),
        });
    }
    Ok(())
}

/// Returns whether different values have different texts, and equal values the same.
fn has_exact_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_exact_text(values),
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        other => other.is_integer() || other.is_decimal(),
    }
}
