//! Page files: rows on sealed pages, as `annulus_pages` defines both.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use annulus_pages::{
    PagesError,
    codec::{CodecError, ROW_FORMAT, RowCodec},
    file::{FileError, FileHeader, PageFileWriter},
    memory::{Heap, PageMemory},
    page::{HEADER_BYTES, MAX_PAGE_BYTES, PageBuilder, PageLayout, PageShape, PayloadSize, SLOT_BYTES},
    tuples::TupleBatch,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    OutputError,
    work_file::{FileSeal, WorkFile},
};
use crate::error::DatasetOption;

/// The default size of pages in bytes.
pub const DEFAULT_PAGE_BYTES: usize = 64 << 10;
/// The number of rows that are encoded at a time. They stay in the cache until they are on the
/// page.
const ENCODE_ROWS: usize = 1024;
/// The key of all tuples. It is unused, because a file has rows of one partition.
const NO_KEY: u32 = 0;

/// The settings that all page files of a dataset share.
pub(crate) struct PagesEncoding {
    pub(crate) header: FileHeader,
    codec: RowCodec,
    heap: Heap,
}

impl PagesEncoding {
    /// Returns the settings that the files share, for rows of `schema` in `partitions` partitions.
    pub(crate) fn new(schema: &SchemaRef, page_bytes: usize, partitions: usize) -> Result<Self, String> {
        let codec = RowCodec::new(schema.clone()).map_err(|error| error.to_string())?;
        let payload = codec.payload_size();
        let layout = if payload == PayloadSize::Variable { PageLayout::Slotted } else { PageLayout::Compact };
        let shape = PageShape::new(page_bytes, layout, payload)
            .map_err(|error| format!("{error} ({})", DatasetOption::PageSize))?;
        let header =
            FileHeader { shape, partitions: partitions as u32, row_format: ROW_FORMAT, schema: schema.clone() };
        Ok(Self { header, codec, heap: Heap::new(page_bytes) })
    }
}

/// A page file that is being written.
pub(crate) struct PagesWriter {
    encoding: Arc<PagesEncoding>,
    path: PathBuf,
    file: PageFileWriter<WorkFile>,
    partition: u32,
    page: Option<PageBuilder>,
    rows: u64,
}

impl PagesWriter {
    /// Begins a file with rows of one partition.
    pub(crate) fn create(encoding: &Arc<PagesEncoding>, file: WorkFile, partition: usize) -> Result<Self, OutputError> {
        let path = file.path().to_owned();
        let file = PageFileWriter::new(file, encoding.header.clone()).map_err(|error| file_error(&path, error))?;
        Ok(Self { encoding: encoding.clone(), path, file, partition: partition as u32, page: None, rows: 0 })
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), OutputError> {
        let encoding = Arc::clone(&self.encoding);
        let mut tuples = TupleBatch::default();
        for start in (0..batch.num_rows()).step_by(ENCODE_ROWS) {
            let part = batch.slice(start, ENCODE_ROWS.min(batch.num_rows() - start));
            encoding.codec.encode(&part, None, &mut tuples).map_err(|error| self.encode_error(&error))?;
            tuples.keys.resize(part.num_rows(), NO_KEY);
            let rows = tuples.tuples(encoding.codec.payload_size()).map_err(|error| self.page_error(error))?;
            for row in 0..rows.len() {
                self.push(rows.payload(row))?;
            }
        }
        Ok(())
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        if self.page.is_some() { self.page_bytes() } else { 0 }
    }

    /// Returns the bytes of all pages, including the current one.
    pub(crate) fn size_estimate(&self) -> u64 {
        ((self.file.pages() + usize::from(self.page.is_some())) * self.page_bytes()) as u64
    }

    /// Ends the file, and seals it.
    pub(crate) fn finish(mut self) -> Result<FileSeal, OutputError> {
        self.write_page()?;
        self.file.finish().map_err(|error| file_error(&self.path, error))?.seal()
    }

    fn push(&mut self, payload: &[u8]) -> Result<(), OutputError> {
        loop {
            let page = match &mut self.page {
                Some(page) => page,
                None => {
                    let (block, shape) = (self.encoding.heap.take(), self.encoding.header.shape);
                    let page = block.and_then(|block| PageBuilder::new(block, shape));
                    self.page.insert(page.map_err(|error| encode_error(&self.path, &error))?)
                }
            };
            if page.push(NO_KEY, payload).map_err(|error| self.page_error(error))? {
                self.rows += 1;
                return Ok(());
            }
            self.write_page()?;
        }
    }

    fn write_page(&mut self) -> Result<(), OutputError> {
        let Some(page) = self.page.take() else { return Ok(()) };
        let mut page = page.complete(self.partition, self.file.pages() as u32);
        self.file.write(&mut page).map_err(|error| file_error(&self.path, error))
    }

    fn page_bytes(&self) -> usize {
        self.encoding.header.shape.page_bytes()
    }

    fn encode_error(&self, error: &CodecError) -> OutputError {
        encode_error(&self.path, error)
    }

    fn page_error(&self, error: PagesError) -> OutputError {
        match error {
            PagesError::TupleTooLarge { payload_bytes, most } => OutputError::RowTooLarge {
                path: self.path.clone(),
                row: self.rows,
                bytes: payload_bytes,
                most,
                remedy: remedy_for(payload_bytes),
            },
            error => encode_error(&self.path, &error),
        }
    }
}

/// Returns what to do about a row of `row_bytes` bytes.
fn remedy_for(row_bytes: usize) -> String {
    let overwrite = DatasetOption::Overwrite;
    match (row_bytes + HEADER_BYTES + SLOT_BYTES).next_power_of_two() {
        page_bytes if page_bytes <= MAX_PAGE_BYTES => {
            format!("start again with {} {}K or more, and {overwrite}", DatasetOption::PageSize, page_bytes >> 10)
        }
        _ => format!("no page is large enough; choose another {}, and {overwrite}", DatasetOption::Format),
    }
}

fn file_error(path: &Path, error: FileError) -> OutputError {
    match error {
        FileError::Io(error) => OutputError::io("write", path)(error),
        error => encode_error(path, &error),
    }
}

fn encode_error(path: &Path, error: &dyn std::error::Error) -> OutputError {
    OutputError::Encode { path: path.to_owned(), message: error.to_string() }
}
