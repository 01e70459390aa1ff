//! The entries of a manifest: columns, partitions, files and hot keys.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use serde::{Deserialize, Serialize};

use crate::column_types::with_fields;

/// A hot key: one with many rows in comparison with an average partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotKeyEntry {
    /// The values of the key columns as text, separated by commas, and cut after 200 characters.
    pub key: String,
    /// The key's partition.
    pub partition: usize,
    /// The number of extra files that its rows are spread over; 0 if they are in the partition's
    /// own.
    pub files: usize,
    /// The least number of its rows. It is exact for keys that were spread. For others it is
    /// estimated from one row in 32, and wrong in one of ten thousand cases.
    pub rows_min: u64,
    /// The greatest number of its rows, with the precision of `rows_min`.
    pub rows_max: u64,
}

/// A column of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// The name.
    pub name: String,
    /// The Arrow type.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether the column may have nulls.
    pub nullable: bool,
}

/// A partition of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionEntry {
    /// The partition's number, from 0.
    pub partition: usize,
    /// The number of rows of all its files.
    pub rows: u64,
    /// The bytes of all its files.
    pub bytes: u64,
    /// The files of the partition, in the order in which they were written.
    pub files: Vec<FileEntry>,
}

/// A file of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The name in the dataset's folder. It includes the folders that values name.
    pub name: String,
    /// The number of the extra file for hot keys, from 1; `None` for the partition's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<usize>,
    /// The number of rows.
    pub rows: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// `xxh64:` and the XXH64 of the bytes, with seed 0, in hexadecimal.
    pub checksum: String,
    /// The least and the greatest value of each key column. Keys whose values have no order, or no
    /// text, are left out.
    pub keys: Vec<KeyEntry>,
}

/// The range of a key column in a file, as text. A date or time that cannot be written as one is
/// the number that Arrow stores: 2147483647 for the last `Date32`. That happens if it is outside
/// the calendar's range, or its time zone is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// The column's name.
    pub column: String,
    /// The smallest value; `None` if all are null.
    pub min: Option<String>,
    /// The largest value; `None` if all are null.
    pub max: Option<String>,
    /// The number of nulls.
    pub nulls: u64,
}

/// A file that belongs to no partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainFileEntry {
    /// The name in the folder.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// The checksum; see [`FileEntry::checksum`].
    pub checksum: String,
}

/// Returns the columns of `schema` as a manifest lists them.
pub(crate) fn columns_of(schema: &Schema) -> Vec<ColumnEntry> {
    schema.fields().iter().map(|field| column_of(field)).collect()
}

/// Returns a column as a manifest lists it.
pub(crate) fn column_of(field: &Field) -> ColumnEntry {
    let data_type = without_metadata(field.data_type()).to_string();
    ColumnEntry { name: field.name().clone(), data_type, nullable: field.is_nullable() }
}

/// Returns a type whose fields have no metadata. Arrow reads no type from a name with metadata.
fn without_metadata(data_type: &DataType) -> DataType {
    let mut plain = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::new(field.name(), without_metadata(field.data_type()), field.is_nullable()))
    };
    with_fields(data_type, &mut plain).unwrap_or_else(|| data_type.clone())
}
