//! CSV and JSON: files of lines. A unit is a range of whole records, which are found in one pass.

mod batches;
mod borders;
mod csv;
mod exact;
mod json;
mod records;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    iter,
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

pub(super) use csv::open as open_csv;
pub(super) use json::open as open_json;
use records::{Scanner, Syntax};

/// Decodes records. One for each unit that is being read.
trait Decode: Send {
    /// The columns of its batches.
    fn schema(&self) -> &SchemaRef;

    /// `bytes` are whole records, each with its line end, and there are `records` of them. An error, after which this is
    /// still good to use, unless every one of them gives a row.
    fn decode(&mut self, bytes: &[u8], records: usize) -> Result<RecordBatch, ArrowError>;

    /// Why a single record cannot be decoded, and the column, where one can be blamed.
    fn diagnose(&self, record: &[u8]) -> (Option<String>, String);
}

/// What makes decoders for a file.
trait MakeDecode: Send + Sync {
    /// For the columns of `schema`, the dataset's or some of it, and batches of at most `rows` rows.
    fn decoder(&self, schema: SchemaRef, rows: usize) -> Result<Box<dyn Decode>, DatasetError>;
}

/// A file of records.
struct TextFile {
    path: String,
    borders: Borders,
    format: Box<dyn MakeDecode>,
    schema: SchemaRef,
    on_bad_row: BadRows,
    batch_rows: usize,
}

/// Where a file's records are.
#[derive(Clone, Copy, Debug)]
struct Body {
    syntax: Syntax,
    /// Behind a header and a byte order mark.
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
        let borders = Borders::new(file, body, options.unit_bytes);
        let units = borders.units();
        let file = Arc::new(Self {
            path: file.path.clone(),
            borders,
            format,
            schema: Arc::clone(schema),
            on_bad_row: options.on_bad_row,
            batch_rows: options.batch_rows.max(1),
        });
        (0..units).map(|unit| Box::new(Lines { file: Arc::clone(&file), unit }) as Box<dyn Part>).collect()
    }
}

struct Lines {
    file: Arc<TextFile>,
    unit: usize,
}

impl Part for Lines {
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        self.file.borders.bytes(self.unit)
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let schema = project(&self.file.schema, columns)?;
        let decoder = self.file.format.decoder(schema, self.file.batch_rows)?;
        let range = self.file.borders.range(self.unit)?;
        let mut bytes = read_range(&self.file.path, &range)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        Ok(Box::new(LineBatches::new(Arc::clone(&self.file), decoder, range.line, bytes)))
    }
}

fn read_range(path: &str, range: &Range) -> Result<Vec<u8>, DatasetError> {
    let wanted = range.end.saturating_sub(range.start);
    let mut bytes = Vec::with_capacity(wanted as usize + 1);
    let mut file = File::open(path).map_err(DatasetError::io("open", path))?;
    file.seek(SeekFrom::Start(range.start)).map_err(DatasetError::io("read", path))?;
    file.take(wanted).read_to_end(&mut bytes).map_err(DatasetError::io("read", path))?;
    if (bytes.len() as u64) < wanted {
        return Err(DatasetError::corrupt(path, "it has become shorter since it was opened"));
    }
    Ok(bytes)
}

/// The beginning of a file: what its columns are told by.
struct Head {
    bytes: Vec<u8>,
    /// Bytes of a byte order mark before them.
    mark: u64,
}

impl Head {
    fn read(file: &InputFile) -> Result<Self, DatasetError> {
        let mut bytes = read_range(&file.path, &Range { start: 0, end: file.bytes.min(HEAD_BYTES), line: 1 })?;
        if file.bytes <= HEAD_BYTES {
            bytes.push(b'\n');
        }
        let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        bytes.drain(..mark);
        Ok(Self { bytes, mark: mark as u64 })
    }

    /// The whole records in it, with their line ends.
    fn records(&self, syntax: Syntax) -> impl Iterator<Item = &[u8]> {
        let (mut scanner, mut rest) = (Scanner::new(syntax), &self.bytes[..]);
        iter::from_fn(move || {
            let (record, others) = rest.split_at(scanner.end_of_record(rest)?);
            rest = others;
            Some(record)
        })
    }
}

/// Lines of each of `files` files that types are inferred from: fewer where there are many.
fn infer_rows(options: &InputOptions, files: usize) -> usize {
    (options.infer_rows * FULL_INFER_FILES / files.max(FULL_INFER_FILES)).max(1)
}

const HEAD_BYTES: u64 = 1 << 20;
const FULL_INFER_FILES: usize = 64;

/// Line ends.
fn lines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
