//! The types of the columns that folders' names have, as a dataset records them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use arrow::datatypes::{DataType, Schema};
use serde::{Deserialize, Serialize};

use crate::{
    error::DatasetError,
    folder_name::can_name_folders,
    manifest::{ColumnEntry, Manifest, column_of},
};

/// The name of the record of a folder without a manifest. Its folder is hidden, and it has no
/// extension, as that of a manifest.
pub const FOLDER_TYPES_NAME: &str = ".annulus/folders";

/// The types of the columns in the names of folders below a folder. It is written where files are
/// added without a manifest, so that all of its folders' values have these types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderTypes {
    version: u32,
    columns: Vec<ColumnEntry>,
}

/// The version of records that this crate writes and reads.
const VERSION: u32 = 1;

impl FolderTypes {
    /// Returns the record for the columns `keys` of `schema`, the outermost folder's first.
    ///
    /// # Errors
    /// If a column does not exist, or its values cannot name folders.
    pub fn new(schema: &Schema, keys: &[String]) -> Result<Self, DatasetError> {
        let column = |key: &String| {
            let refused = |reason| DatasetError::Key { column: key.clone(), reason };
            let field = schema.field_with_name(key).map_err(|_| refused("there is no such column".to_owned()))?;
            let data_type = field.data_type();
            if can_name_folders(data_type) {
                return Ok(column_of(field));
            }
            Err(refused(format!("values of type {data_type} cannot name folders; {CAST}")))
        };
        Ok(Self { version: VERSION, columns: keys.iter().map(column).collect::<Result<_, _>>()? })
    }

    /// Returns the record that `text` is; `None` if it is none, or one of another version.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|found: &Self| found.version == VERSION)
    }

    /// Returns the record as a text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the first column that has another name or type in `other`, with both types.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (own, others) = (&self.columns, &other.columns);
        if own.len() != others.len() {
            return Some(format!("{} columns name folders, but {} there", own.len(), others.len()));
        }
        let is_same = |(own, other): &(&ColumnEntry, &ColumnEntry)| {
            own.name == other.name && type_of(own).as_ref().map(as_read) == type_of(other).as_ref().map(as_read)
        };
        let (own, other) = own.iter().zip(others).find(|pair| !is_same(pair))?;
        let [own, other] = [own, other].map(|column| format!("'{}' {}", column.name, column.data_type));
        Some(format!("column {own} is {other} there"))
    }
}

/// The remedy if values of a type cannot name folders.
pub(crate) const CAST: &str =
    "choose integers, texts, dates, timestamps, booleans or decimals, or cast it to one of them in a query";

/// Returns the type of views of texts for all texts: they are one type, in other layouts.
pub(crate) fn as_read(data_type: &DataType) -> DataType {
    if data_type.is_string() { DataType::Utf8View } else { data_type.clone() }
}

fn type_of(column: &ColumnEntry) -> Option<DataType> {
    column.data_type.parse().ok()
}

/// The recorded types of a dataset's folders.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FolderRecord {
    /// The file that records them.
    pub(crate) path: PathBuf,
    /// The columns, by name.
    pub(crate) columns: Vec<(String, DataType)>,
}

impl FolderRecord {
    /// Returns the types that the manifest in `dir` records or, if there is none, its record of folders.
    pub(crate) fn find_in(dir: &Path) -> Option<Self> {
        match Manifest::find_in(dir) {
            Some(manifest) => Self::of_manifest(dir, &manifest),
            None => {
                let path = dir.join(FOLDER_TYPES_NAME);
                let found = FolderTypes::parse(&fs::read(&path).ok()?)?;
                Self::new(path, &found.columns)
            }
        }
    }

    /// Returns the types that a dataset's manifest records; `None` if no values name its folders.
    pub(crate) fn of_manifest(dir: &Path, manifest: &Manifest) -> Option<Self> {
        Self::new(Manifest::path_in(dir), &manifest.folder_columns)
    }

    fn new(path: PathBuf, columns: &[ColumnEntry]) -> Option<Self> {
        let columns = columns.iter().filter_map(|column| Some((column.name.clone(), type_of(column)?)));
        let columns: Vec<_> = columns.collect();
        (!columns.is_empty()).then_some(Self { path, columns })
    }

    /// Returns the type of a column, if it is recorded.
    pub(crate) fn type_of(&self, column: &str) -> Option<&DataType> {
        self.columns.iter().find(|(name, _)| name == column).map(|(_, data_type)| data_type)
    }
}
