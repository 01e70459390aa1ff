//! Opening a dataset.

use arrow::datatypes::SchemaRef;

use super::{Format, InputOptions, Unit, parquet::ParquetFile, paths, schema};
use crate::error::DatasetError;

/// Files that are read as one table.
#[derive(Debug)]
pub struct Dataset {
    /// The columns of every batch.
    pub schema: SchemaRef,
    /// What it is read by. All units together have all rows, each once.
    pub units: Vec<Unit>,
    /// Bytes of the files; 0 for standard input.
    pub total_bytes: u64,
    /// What the files tell about how to write their columns.
    pub hints: ColumnHints,
    /// Names what was opened: each file's absolute path, size and time of change, and the options that decide about its
    /// rows. Equal fingerprints give equal units and rows. `None` for standard input, which cannot be read again.
    pub fingerprint: Option<String>,
}

/// What files tell about how to write their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnHints {
    dictionary: Vec<bool>,
}

impl ColumnHints {
    /// Whether the column was dictionary encoded throughout, so that it pays to try; `None` where the format does not tell.
    pub fn dictionary(&self, column: usize) -> Option<bool> {
        self.dictionary.get(column).copied()
    }
}

impl Dataset {
    /// Finds the files and reads as much of each as its schema needs.
    ///
    /// An input is a file, a folder (all files of known formats below it; names that begin with `.` or `_` are passed over),
    /// a glob, or `-` for an Arrow IPC stream on standard input.
    ///
    /// # Errors
    /// If an input names no file, a file cannot be read, or the files do not have the same columns.
    pub fn open(inputs: &[String], options: &InputOptions) -> Result<Self, DatasetError> {
        let files = paths::files(inputs, options.format)?;
        let mut opened = vec![];
        for file in &files {
            match file.format {
                Format::Parquet => opened.push(ParquetFile::open(file)?),
                other => {
                    return Err(DatasetError::UnknownFormat {
                        path: format!("{} ({other})", file.path),
                        remedy: "only Parquet files are read so far",
                    });
                }
            }
        }
        let schemas: Vec<_> =
            files.iter().zip(&opened).map(|(file, opened)| (file.path.clone(), opened.schema())).collect();
        let schema = schema::unify(&schemas)?;
        let mut dictionary = vec![true; schema.fields().len()];
        for file in &opened {
            let (file_schema, columns) = (file.schema(), file.dictionary_columns());
            for (column, field) in schema.fields().iter().enumerate() {
                dictionary[column] &= file_schema.index_of(field.name()).is_ok_and(|place| columns[place]);
            }
        }
        let parts = opened.into_iter().flat_map(|file| file.parts(&schema, options.batch_rows.max(1)));
        let units = parts.enumerate().map(|(index, part)| Unit::new(index, part)).collect();
        Ok(Self {
            units,
            total_bytes: files.iter().map(|file| file.bytes).sum(),
            hints: ColumnHints { dictionary },
            fingerprint: Some(files.iter().map(|file| format!("{}\n", file.fingerprint)).collect()),
            schema,
        })
    }
}
