//! Folders that are named by the values of their rows, as Hive names them: `year=2013/month=1`. The
//! files have the other columns.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::partition,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use parquet::errors::ParquetError;

use super::slot::Slot;
use crate::{codes::BatchCodes, folder_name::folder_name};

/// Determines the folder of a row.
#[derive(Debug)]
pub(crate) struct ValueFolders {
    /// The names and positions of the key columns.
    keys: Vec<(String, usize)>,
    /// The positions of the other columns.
    others: Vec<usize>,
    schema: SchemaRef,
}

impl ValueFolders {
    /// Returns the folders by `keys`: the names and positions of key columns of `schema`.
    pub(crate) fn new(schema: &SchemaRef, keys: &[(String, usize)]) -> Self {
        let is_key = |column: &usize| keys.iter().any(|(_, key)| key == column);
        let others: Vec<usize> = (0..schema.fields().len()).filter(|column| !is_key(column)).collect();
        let fields: Vec<_> = others.iter().map(|&column| schema.fields()[column].clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Self { keys: keys.to_vec(), others, schema }
    }

    /// Returns the columns of the files.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the positions of the files' columns among all columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.others
    }

    /// Returns the runs of rows with equal values.
    pub(crate) fn runs(&self, batch: &RecordBatch) -> Result<Vec<Range<usize>>, ArrowError> {
        let keys: Vec<ArrayRef> = self.keys.iter().map(|&(_, column)| batch.column(column).clone()).collect();
        Ok(partition(&keys)?.ranges())
    }

    /// Returns the folder of the first row.
    pub(crate) fn folder(&self, batch: &RecordBatch, coded: Option<BatchCodes<'_>>) -> Result<String, ParquetError> {
        let value = |&(_, column): &(String, usize)| {
            let key = batch.column(column).slice(0, 1);
            coded.map_or_else(|| Ok(ArrayRef::clone(&key)), |coded| coded.values(column, &key))
        };
        let values = self.keys.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        Ok(folder_name(self.keys.iter().map(|(name, _)| name.as_str()).zip(&values)))
    }

    /// Returns the columns of a batch that are in the files.
    pub(crate) fn others(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        batch.project(&self.others)
    }
}

/// Names the files of a slot, in one folder after the other.
#[derive(Debug, Default)]
pub(super) struct FolderFiles {
    folder: String,
    files: usize,
    /// The numbers of files of earlier folders, if rows of these may still come.
    earlier: Option<HashMap<String, usize>>,
}

impl FolderFiles {
    /// Returns the files of a writer that can return to earlier folders.
    pub(super) fn returning() -> Self {
        Self { earlier: Some(HashMap::new()), ..Self::default() }
    }

    /// Switches to a folder, and returns whether it differs from the last one or has no file yet.
    pub(super) fn enter(&mut self, folder: String) -> bool {
        let is_other = self.files == 0 || self.folder != folder;
        if is_other {
            let before = std::mem::replace(&mut self.folder, folder);
            let files = std::mem::take(&mut self.files);
            if let Some(earlier) = &mut self.earlier {
                self.files = earlier.remove(&self.folder).unwrap_or(0);
                earlier.insert(before, files);
            }
        }
        is_other
    }

    /// Returns the name of the folder's next file, which ends with `end`.
    pub(super) fn next_name(&mut self, end: &str) -> String {
        let stem = Slot { partition: self.files, hot: None }.stem();
        self.files += 1;
        format!("{}/{stem}{end}", self.folder)
    }
}
