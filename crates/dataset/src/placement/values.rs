//! Checks which columns' values can name folders.

use arrow::datatypes::{DataType, Schema};

use super::{
    KeyHasher,
    hash::{key_columns, value_type},
};
use crate::{
    column_list::columns_text,
    error::{DatasetError, DatasetOption},
    folder_name::can_name_folders,
    folder_types::CAST,
};

/// Returns a hasher that gives rows of the same folder the same hash. Without dictionaries, that is
/// the hash of older versions, whose runs can be resumed.
pub(super) fn hasher(schema: &Schema, keys: &[String]) -> Result<KeyHasher, DatasetError> {
    KeyHasher::with_types(schema, keys, |own| match own {
        DataType::Dictionary(..) => value_type(own),
        own => own.clone(),
    })
}

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
        } else if !can_name_folders(data_type) {
            format!("values of type {data_type} cannot name folders; {CAST}")
        } else {
            continue;
        };
        return Err(DatasetError::Key { column: key.clone(), reason });
    }
    if columns.len() == schema.fields().len() {
        return Err(DatasetError::Config {
            option: DatasetOption::ByValue,
            value: format!("given with all columns as keys ({})", columns_text(keys)),
            remedy: format!("no column is left for the files; leave one out of {}", DatasetOption::By),
        });
    }
    Ok(())
}
