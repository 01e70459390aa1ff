//! Folders that are named by the values of their rows, as Hive names them: `year=2013/month=1`. The
//! files have the other columns.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::partition,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};

use super::slot::Slot;
use crate::folder_name::folder_name;

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

    /// Returns the position of a file's column among all columns.
    pub(crate) fn column(&self, of_file: usize) -> usize {
        self.others[of_file]
    }

    /// Returns the runs of rows with equal values.
    pub(crate) fn runs(&self, batch: &RecordBatch) -> Result<Vec<Range<usize>>, ArrowError> {
        let keys: Vec<ArrayRef> = self.keys.iter().map(|&(_, column)| batch.column(column).clone()).collect();
        Ok(partition(&keys)?.ranges())
    }

    /// Returns the folder of a row.
    pub(crate) fn folder(&self, batch: &RecordBatch, row: usize) -> String {
        let values: Vec<ArrayRef> = self.keys.iter().map(|(_, column)| batch.column(*column).slice(row, 1)).collect();
        folder_name(self.keys.iter().map(|(name, _)| name.as_str()).zip(&values))
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
}

impl FolderFiles {
    /// Switches to a folder, and returns whether it differs from the last one or has no file yet.
    pub(super) fn enter(&mut self, folder: String) -> bool {
        let is_other = self.files == 0 || self.folder != folder;
        if is_other {
            *self = Self { folder, files: 0 };
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
