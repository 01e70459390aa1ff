//! CSV and JSON: files of records. A unit is a range of whole records, which are found in one pass.
//! For a compressed file, or one that is not UTF-8, a unit is the whole file.

mod batches;
mod borders;
mod csv;
mod dialect;
mod empties;
mod json;
mod records;
mod sample;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    sync::Arc,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef, error::ArrowError};

use super::{
    BadRows, InputOptions,
    paths::InputFile,
    schema::project,
    unit::{Batches, Part},
};
use crate::error::DatasetError;

use batches::LineBatches;
use borders::{Borders, Range};

pub(super) use csv::{CsvFiles, open as open_csv};
pub(super) use json::open as open_json;
use records::Syntax;
use sample::{Head, infer_rows, windows};
use stream::Stream;

/// Decodes records. Each unit that is being read has one.
trait Decode: Send {
    /// Returns the columns of the batches.
    fn schema(&self) -> &SchemaRef;

    /// Decodes `bytes`, which are `records` whole records, each with its line end. Returns an error
    /// unless every record gives a row. The decoder can be used again after an error.
    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError>;

    /// Returns why a single record cannot be decoded, and the column with the reason, if there is
    /// one.
    fn diagnose(&self, record: &[u8]) -> (Option<String>, String);
}

/// Makes decoders for a file.
trait MakeDecode: Send + Sync {
    /// Returns a decoder for the columns of `schema`, which are some or all of the dataset's, and
    /// for batches of at most `rows` rows.
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError>;
}

/// A file of records.
struct TextFile {
    file: InputFile,
    syntax: Syntax,
    format: Box<dyn MakeDecode>,
    schema: SchemaRef,
    on_bad_row: BadRows,
    batch_rows: usize,
}

/// The position of a file's records.
#[derive(Clone, Copy, Debug)]
struct Body {
    syntax: Syntax,
    /// The first byte after a byte order mark and a header.
    start: u64,
    /// The line at `start`, from 1.
    line: u64,
}

impl TextFile {
    fn parts(
        file: &InputFile,
        body: Body,
        format: Box<dyn MakeDecode>,
        schema: &SchemaRef,
        options: &InputOptions,
    ) -> Vec<Box<dyn Part>> {
        let text = Arc::new(Self {
            file: file.clone(),
            syntax: body.syntax,
            format,
            schema: Arc::clone(schema),
            on_bad_row: options.on_bad_row,
            batch_rows: options.batch_rows.max(1),
        });
        if file.is_stream() {
            return vec![Box::new(Stream::new(text, body, options.unit_bytes))];
        }
        let borders = Arc::new(Borders::new(file, body, options.unit_bytes));
        let lines = |unit| Lines { file: Arc::clone(&text), borders: Arc::clone(&borders), unit };
        (0..borders.units()).map(|unit| Box::new(lines(unit)) as Box<dyn Part>).collect()
    }
}

struct Lines {
    file: Arc<TextFile>,
    borders: Arc<Borders>,
    unit: usize,
}

impl Part for Lines {
    fn path(&self) -> &str {
        &self.file.file.path
    }

    fn bytes(&self) -> u64 {
        self.borders.bytes(self.unit)
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let schema = project(&self.file.schema, columns)?;
        let decoder = self.file.format.decoder(schema, self.file.batch_rows)?;
        let range = self.borders.range(self.unit)?;
        let mut bytes = read_range(&self.file.file, &range)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        Ok(Box::new(LineBatches::new(Arc::clone(&self.file), decoder, range.line, bytes)))
    }
}

fn read_range(input: &InputFile, range: &Range) -> Result<Vec<u8>, DatasetError> {
    let wanted = range.end.saturating_sub(range.start);
    let mut bytes = Vec::with_capacity(wanted as usize + 1);
    let path = &input.path;
    let mut file = File::open(&input.place).map_err(DatasetError::io("open", path))?;
    file.seek(SeekFrom::Start(range.start)).map_err(DatasetError::io("read", path))?;
    file.take(wanted).read_to_end(&mut bytes).map_err(DatasetError::io("read", path))?;
    if (bytes.len() as u64) < wanted {
        return Err(DatasetError::corrupt(path, "it has become shorter since it was opened"));
    }
    Ok(bytes)
}

/// Returns the number of line ends.
fn lines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
