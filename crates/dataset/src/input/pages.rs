//! Page files with rows: a unit is a run of pages.

use std::{fs::File, ops::Range, sync::Arc};

use annulus_pages::{
    codec::{CodecError, ROW_FORMAT, RowCodec},
    file::{FileError, FileHeader, PageFileReader},
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    InputOptions,
    paths::InputFile,
    schema::{Projection, project},
    unit::{Batches, DecodedBatch, Part, Source, guard},
};
use crate::error::DatasetError;

/// A unit has pages of this many bytes together, or one page.
const UNIT_BYTES: usize = 16 << 20;
/// The bytes of pages that are decoded at once.
const READ_BYTES: usize = 1 << 20;

/// A file whose header and index have been read.
pub(super) struct PageFile {
    path: String,
    place: String,
    header: FileHeader,
    pages: usize,
    codec: RowCodec,
}

impl PageFile {
    /// Reads the header and the index.
    pub(super) fn open(file: &InputFile) -> Result<Self, DatasetError> {
        let (path, place) = (file.path.clone(), file.place.clone());
        guard(&file.path, || {
            let reader = reader(&place)?;
            let header = reader.header().clone();
            if header.row_format != ROW_FORMAT {
                let reason = format!(
                    "its tuples have format {}, which does not hold rows; write it as a dataset of page files",
                    header.row_format
                );
                return Err(DatasetError::corrupt(&path, reason));
            }
            let codec = RowCodec::new(header.schema.clone()).map_err(|error| DatasetError::corrupt(&path, error))?;
            Ok(Self { path, place, header, pages: reader.pages(), codec })
        })
    }

    fn page_bytes(&self) -> usize {
        self.header.shape.page_bytes()
    }
}

impl Source for PageFile {
    fn schema(&self) -> SchemaRef {
        self.header.schema.clone()
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let (file, batch_rows): (Arc<Self>, usize) = (Arc::from(self), options.batch_rows);
        let each = (UNIT_BYTES / file.page_bytes()).max(1);
        let part = |start: usize| -> Box<dyn Part> {
            let run = start..(start + each).min(file.pages);
            Box::new(Run { file: Arc::clone(&file), run, schema: Arc::clone(schema), batch_rows })
        };
        (0..file.pages).step_by(each).map(part).collect()
    }
}

/// Consecutive pages.
struct Run {
    file: Arc<PageFile>,
    run: Range<usize>,
    schema: SchemaRef,
    batch_rows: usize,
}

impl Part for Run {
    fn path(&self) -> &str {
        &self.file.path
    }

    fn bytes(&self) -> u64 {
        (self.run.len() * self.file.page_bytes()) as u64
    }

    fn read(&self, columns: Option<&[usize]>) -> Result<Batches, DatasetError> {
        let file = Arc::clone(&self.file);
        let schema = project(&self.schema, columns)?;
        let projection = Projection::new(file.header.schema.fields().iter().map(|field| field.name()), &schema);
        let mut reader = reader(&file.place)?;
        if *reader.header() != file.header || reader.pages() != file.pages {
            return Err(DatasetError::corrupt(&file.path, "it has changed since the run began; start again"));
        }
        let at_once = (READ_BYTES / file.page_bytes()).max(1);
        let (mut run, batch_rows, mut buffers) = (self.run.clone(), self.batch_rows, vec![Vec::new(); at_once]);
        // The rows of some pages, with the last batch first.
        let mut decoded: Vec<RecordBatch> = Vec::new();
        Ok(Box::new(std::iter::from_fn(move || {
            let mut input_bytes = 0;
            while decoded.is_empty() {
                let pages: Vec<usize> = run.by_ref().take(at_once).collect();
                if pages.is_empty() {
                    return None;
                }
                match decode(&mut reader, &file, &pages, &mut buffers, batch_rows) {
                    Ok(batches) => decoded = batches,
                    Err(error) => return Some(Err(error)),
                }
                decoded.reverse();
                input_bytes += (pages.len() * file.page_bytes()) as u64;
            }
            let batch = projection.apply(&decoded.pop()?).map_err(DatasetError::from);
            Some(batch.map(|batch| DecodedBatch { batch, input_bytes, bad: vec![] }))
        })))
    }
}

/// Returns the rows of these pages, in their order.
fn decode(
    reader: &mut PageFileReader<File>,
    file: &PageFile,
    pages: &[usize],
    buffers: &mut [Vec<u8>],
    batch_rows: usize,
) -> Result<Vec<RecordBatch>, DatasetError> {
    let mut read = Vec::with_capacity(pages.len());
    for (&page, buffer) in pages.iter().zip(buffers) {
        read.push(reader.read(page, buffer).map_err(|error| failed(&file.path, error))?);
    }
    let payloads = read.iter().flat_map(|page| page.tuples().map(|(_, payload)| payload));
    let batches: Result<Vec<_>, CodecError> = file.codec.batches(payloads, batch_rows).collect();
    batches.map_err(|error| {
        let (first, last) = (pages[0], pages[pages.len() - 1]);
        DatasetError::corrupt(&file.path, format!("pages {first} to {last}: {error}"))
    })
}

fn reader(path: &str) -> Result<PageFileReader<File>, DatasetError> {
    let file = File::open(path).map_err(DatasetError::io("open", path))?;
    PageFileReader::open(file).map_err(|error| failed(path, error))
}

fn failed(path: &str, error: FileError) -> DatasetError {
    match error {
        FileError::Io(error) => DatasetError::io("read", path)(error),
        error => DatasetError::corrupt(path, error),
    }
}
