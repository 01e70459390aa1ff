//! The units that a dataset is read by.

use std::{
    fmt,
    iter::FusedIterator,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use annulus_parquet::SharedDictionary;
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{FieldRef, SchemaRef},
};
use parquet::file::metadata::ParquetMetaData;

use super::{BadRow, InputOptions};
use crate::{
    codes::{Codes, CodesLayout},
    error::DatasetError,
};

/// A part of a dataset that is read on its own. Any thread can read units, in any order. Reading a
/// unit again gives the same rows in the same order, except for standard input, which can be read
/// only once.
pub struct Unit {
    index: usize,
    part: Box<dyn Part>,
}

/// A part of a file, as its format supplies it.
pub(super) trait Part: Send + Sync {
    /// Returns the file's path.
    fn path(&self) -> &str;
    /// Returns the approximate size of the part in the file, in bytes; 0 if unknown.
    fn bytes(&self) -> u64;
    /// Returns the number of rows, if the file states it without being read.
    fn rows(&self) -> Option<u64> {
        None
    }
    /// Reads all columns, or those at `columns` of the dataset's schema, in that order.
    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError>;
    /// Returns whether a column can be read as codes of a dictionary.
    fn has_codes(&self, _column: usize, _dictionary: &SharedDictionary) -> bool {
        false
    }
    /// Reads all columns, those of `codes` as codes unless their dictionaries have stopped.
    fn read_codes(&self, codes: &Codes) -> Result<(CodesLayout, Batches), DatasetError> {
        Ok((CodesLayout::values(codes.len()), self.read(None)?))
    }
}

/// A file whose columns are known.
pub(super) trait Source {
    /// Returns the file's columns.
    fn schema(&self) -> SchemaRef;
    /// Returns for each column whether it is dictionary encoded throughout; `None` if the format
    /// does not record it.
    fn dictionary_columns(&self) -> Option<Vec<bool>> {
        None
    }
    /// Returns the columns that have one value throughout, which is not in the file, with that
    /// value.
    fn constants(&self) -> Vec<(FieldRef, ArrayRef)> {
        vec![]
    }
    /// Returns the metadata of a Parquet file.
    fn parquet_metadata(&self) -> Option<Arc<ParquetMetaData>> {
        None
    }
    /// Returns whether timestamps of 96 bits are read as the options say, not as the file's Arrow
    /// schema says; `None` if a Parquet file has none, or the format is another.
    fn coerces_int96(&self) -> Option<bool> {
        None
    }
    /// Returns the file's parts, whose batches have the columns of `schema`.
    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>>;
}

/// The files of a dataset, in their order.
pub(super) type Sources = Vec<Box<dyn Source>>;

/// Batches as a format decodes them.
pub(super) type Batches = Box<dyn Iterator<Item = Result<DecodedBatch, DatasetError>> + Send>;

/// The result of decoding a batch.
#[derive(Clone, Debug)]
pub struct DecodedBatch {
    /// The rows, with the dataset's schema; there may be none.
    pub batch: RecordBatch,
    /// The bytes of the file that were read for the batch. Those of all batches of a unit add up to
    /// about the unit's bytes.
    pub input_bytes: u64,
    /// The rows that could not be read, if they are not errors. `batch` has the others.
    pub bad: Vec<BadRow>,
}

impl Unit {
    pub(super) fn new(index: usize, part: Box<dyn Part>) -> Self {
        Self { index, part }
    }

    /// Returns the unit's position among the dataset's units.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the path of the unit's file.
    pub fn path(&self) -> &str {
        self.part.path()
    }

    /// Returns the approximate size of the unit in the file, in bytes; 0 if unknown.
    pub fn bytes(&self) -> u64 {
        self.part.bytes()
    }

    /// Returns the number of rows, if the file's metadata states it.
    pub fn rows(&self) -> Option<u64> {
        self.part.rows()
    }

    /// Begins to read the unit. It takes the memory of a batch and, for CSV and JSON, the bytes of
    /// the unit.
    ///
    /// # Errors
    /// If the file cannot be opened, or has changed since the dataset was opened.
    pub fn read(&self) -> Result<UnitReader, DatasetError> {
        self.reader(|part| part.read(None))
    }

    /// Like [`read`](Self::read), for some columns, in the given order.
    ///
    /// # Errors
    /// As there, or if a number is not below the number of columns.
    pub fn read_columns(&self, columns: &[usize]) -> Result<UnitReader, DatasetError> {
        self.reader(|part| part.read(Some(columns)))
    }

    /// Returns whether a column can be read as codes of a dictionary.
    pub(crate) fn has_codes(&self, column: usize, dictionary: &SharedDictionary) -> bool {
        self.part.has_codes(column, dictionary)
    }

    /// Like [`read`](Self::read), with codes in place of the values of some columns.
    pub(crate) fn read_codes(&self, codes: &Codes) -> Result<(CodesLayout, UnitReader), DatasetError> {
        let (layout, batches) = guard(self.part.path(), || self.part.read_codes(codes))?;
        Ok((layout, UnitReader { path: self.part.path().to_owned(), batches: Some(batches) }))
    }

    fn reader(&self, read: impl Fn(&dyn Part) -> Result<Batches, DatasetError>) -> Result<UnitReader, DatasetError> {
        let batches = guard(self.part.path(), || read(&*self.part))?;
        Ok(UnitReader { path: self.part.path().to_owned(), batches: Some(batches) })
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("index", &self.index).field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The batches of a unit. It ends with its first error.
pub struct UnitReader {
    path: String,
    batches: Option<Batches>,
}

impl Iterator for UnitReader {
    type Item = Result<DecodedBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.batches.as_mut()?;
        let next = guard(&self.path, || batches.next().transpose()).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next
    }
}

impl FusedIterator for UnitReader {}

impl fmt::Debug for UnitReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitReader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Runs a decoder, which may panic on damaged bytes. After an error, the decoder's state must not
/// be used again.
pub(super) fn guard<T>(path: &str, decode: impl FnOnce() -> Result<T, DatasetError>) -> Result<T, DatasetError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(DatasetError::corrupt(path, format!("it is damaged, and the decoder failed: {text}")))
    })
}
