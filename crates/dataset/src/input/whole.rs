//! Files that are one unit each.

use arrow::datatypes::SchemaRef;

use super::{
    paths::InputFile,
    schema::project,
    unit::{Batches, Part},
};
use crate::error::DatasetError;

/// A file that is read as one unit. `read` opens it, and returns batches with the columns of the
/// schema that it gets.
pub(super) struct WholeFile<R> {
    pub(super) file: InputFile,
    /// All columns of the dataset.
    pub(super) schema: SchemaRef,
    pub(super) read: R,
}

impl<R> Part for WholeFile<R>
where
    R: Fn(&InputFile, &SchemaRef) -> Result<Batches, DatasetError> + Send + Sync,
{
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        self.file.bytes
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        (self.read)(&self.file, &project(&self.schema, columns)?)
    }
}
