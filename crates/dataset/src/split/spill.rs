//! Spills rows to disk when they are to be sorted or memory cannot keep all output files open.
//!
//! Rows become tuples on pages. All workers fill the pages together, and full pages go to one file.
//! Rows larger than a page go to another file.

use std::{
    fs::{self, File},
    path::PathBuf,
    sync::Arc,
};

use annulus_pages::{
    codec::{ROW_FORMAT, RowCodec},
    file::{FileError, FileHeader, PageFileReader, PageFileWriter},
    memory::Pool,
    page::{MIN_PAGE_BYTES, Page, PageLayout, PageShape, PayloadSize},
    partition::{PageOrder, PageSink, Stores, Writer, partition_writers, variable_writer_bytes},
    tuples::TupleBatch,
};
use annulus_rows::partition::{Modulo, Target};
use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::SchemaRef,
};
use parking_lot::Mutex;

use super::large_rows::LargeRows;
use crate::error::{DatasetError, OutputError};

/// The largest page: larger ones are not written faster.
const MAX_PAGE_BYTES: usize = 256 << 10;
/// The pages that a worker may hold besides each slot's current one: one that it writes to, one on
/// its way to the file, and one left over because another worker's page came first.
const PAGES_PER_WORKER: usize = 3;
/// The most rows in a batch that is read back.
const READ_ROWS: usize = 8192;
/// The bytes of pages that are read at once, rounded down to whole pages, but at least one.
const READ_BYTES: usize = 2 << 20;

/// The spill's files while rows arrive.
pub(super) struct Spill {
    codec: RowCodec,
    shape: PageShape,
    path: PathBuf,
    out: Arc<PageFileSink>,
    large: Mutex<LargeRows>,
    /// The writers that no worker has taken.
    writers: Mutex<Vec<Writer<Arc<PageFileSink>>>>,
}

/// One worker's writer.
pub(super) struct SpillWriter<'a> {
    spill: &'a Spill,
    writer: Writer<Arc<PageFileSink>>,
    tuples: TupleBatch,
    rows: Vec<u32>,
    targets: Vec<Target>,
}

/// The spill's files after the last row has arrived.
pub(super) struct SpilledRows {
    codec: RowCodec,
    path: PathBuf,
    large: LargeRows,
    bytes: u64,
}

/// One thread's reader of the files.
pub(super) struct SpillReader<'a> {
    spilled: &'a SpilledRows,
    pages: PageFileReader<File>,
    buffers: Vec<Vec<u8>>,
}

/// The sink of full pages.
struct PageFileSink {
    path: PathBuf,
    state: Mutex<PageFileState>,
}

struct PageFileState {
    file: Option<PageFileWriter<File>>,
    error: Option<FileError>,
}

impl Spill {
    /// Returns the least memory, in bytes, that pages and workers' buffers take.
    pub(super) fn least_bytes(slots: usize, workers: usize) -> usize {
        (slots + PAGES_PER_WORKER * workers) * MIN_PAGE_BYTES + workers * variable_writer_bytes(slots)
    }

    /// Creates the files, at the paths that `folder` gives to their names, for rows of `schema`.
    /// `workers` workers write them to `slots` slots, with pages in about `memory_bytes` of memory.
    pub(super) fn create(
        folder: impl Fn(&str) -> PathBuf,
        schema: &SchemaRef,
        slots: usize,
        workers: usize,
        memory_bytes: usize,
    ) -> Result<Self, DatasetError> {
        let codec = RowCodec::new(schema.clone())?;
        let pages = slots + PAGES_PER_WORKER * workers;
        let page_bytes = (memory_bytes / pages).clamp(MIN_PAGE_BYTES, MAX_PAGE_BYTES) / MIN_PAGE_BYTES * MIN_PAGE_BYTES;
        // Rows of a fixed size are written as variable ones too. A worker then claims only the room
        // that its rows need, and these pages suffice.
        let shape = PageShape::new(page_bytes, PageLayout::Slotted, PayloadSize::Variable)?;
        let (path, large) = (folder("spill.pages"), folder("spill.large"));
        let file = File::create(&path).map_err(OutputError::io("create", &path))?;
        let header = FileHeader { shape, partitions: slots as u32, row_format: ROW_FORMAT, schema: schema.clone() };
        let file = PageFileWriter::new(file, header).map_err(|error| failed(&path, error))?;
        let state = Mutex::new(PageFileState { file: Some(file), error: None });
        let out = Arc::new(PageFileSink { path: path.clone(), state });
        let pool =
            Pool::new(page_bytes, pages * page_bytes).map_err(OutputError::io("make room for pages of", &path))?;
        let writers = partition_writers(
            Modulo::new(slots),
            workers,
            shape,
            pool,
            Stores::Cached,
            PageOrder::Completed,
            Arc::clone(&out),
        )?;
        let large = Mutex::new(LargeRows::create(large, slots)?);
        Ok(Self { codec, shape, path, out, large, writers: Mutex::new(writers) })
    }

    /// Returns a worker's writer, or `None` if all are taken.
    pub(super) fn writer(&self) -> Option<SpillWriter<'_>> {
        let writer = self.writers.lock().pop()?;
        Some(SpillWriter { spill: self, writer, tuples: TupleBatch::default(), rows: Vec::new(), targets: Vec::new() })
    }

    /// Ends the files. All writers must have finished.
    pub(super) fn seal(self) -> Result<SpilledRows, DatasetError> {
        // Finish the writers that no worker took.
        for writer in self.writers.into_inner() {
            writer.finish()?;
        }
        self.out.check()?;
        let mut bytes = 0;
        if let Some(file) = self.out.state.lock().file.take() {
            bytes = file.pages() as u64 * self.shape.page_bytes() as u64;
            file.finish().map_err(|error| failed(&self.path, error))?;
        }
        let mut large = self.large.into_inner();
        large.seal()?;
        bytes += large.bytes();
        Ok(SpilledRows { codec: self.codec, path: self.path, large, bytes })
    }
}

impl SpillWriter<'_> {
    /// Adds the rows of a batch to the slots in `targets`, except those of slots that `skip`
    /// accepts.
    pub(super) fn append(
        &mut self,
        batch: &RecordBatch,
        targets: &[Target],
        skip: impl Fn(usize) -> bool,
    ) -> Result<(), DatasetError> {
        self.rows.clear();
        self.rows.extend((0..targets.len() as u32).filter(|&row| !skip(targets[row as usize].into())));
        self.encode(batch)?;
        let most = self.spill.shape.most_payload();
        let large = |ends: &[u32]| (ends[1] - ends[0]) as usize > most;
        if self.tuples.offsets.windows(2).any(large) {
            let row_sizes = self.tuples.offsets.windows(2);
            let (large, small): (Vec<_>, Vec<_>) = self.rows.iter().zip(row_sizes).partition(|(_, ends)| large(ends));
            let rows = |of: Vec<(&u32, _)>| of.into_iter().map(|(&row, _)| row).collect::<Vec<_>>();
            let (large, small) = (rows(large), rows(small));
            for row in large {
                let one = take_record_batch(batch, &UInt32Array::from(vec![row]))?;
                self.spill.large.lock().append(targets[row as usize].into(), &one)?;
            }
            self.rows = small;
            self.encode(batch)?;
        }
        self.targets.clear();
        self.targets.extend(self.rows.iter().map(|&row| targets[row as usize]));
        // The keys are never read.
        self.tuples.keys.clear();
        self.tuples.keys.resize(self.rows.len(), 0);
        let written = self.writer.write_to(&self.tuples.tuples(PayloadSize::Variable)?, &self.targets);
        self.spill.out.check()?;
        Ok(written?)
    }

    /// Finishes writing: no more rows follow.
    pub(super) fn finish(self) -> Result<(), DatasetError> {
        let finished = self.writer.finish();
        self.spill.out.check()?;
        Ok(finished?)
    }

    /// Encodes `rows` of the batch into `tuples`, with each row's offset.
    fn encode(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        // Encoding a whole batch takes half the time of encoding chosen rows.
        let chosen = (self.rows.len() < batch.num_rows()).then_some(&self.rows[..]);
        self.spill.codec.encode(batch, chosen, &mut self.tuples)?;
        if let PayloadSize::Fixed(bytes) = self.spill.codec.payload_size() {
            self.tuples.offsets.clear();
            self.tuples.offsets.extend((0..=self.rows.len() as u32).map(|row| row * bytes));
        }
        Ok(())
    }
}

impl SpilledRows {
    /// Returns the number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Opens a reader.
    pub(super) fn reader(&self) -> Result<SpillReader<'_>, DatasetError> {
        let file = File::open(&self.path).map_err(OutputError::io("read", &self.path))?;
        let pages = PageFileReader::open(file).map_err(|error| failed(&self.path, error))?;
        Ok(SpillReader { spilled: self, pages, buffers: Vec::new() })
    }
}

impl Drop for SpilledRows {
    fn drop(&mut self) {
        // The output files that are written last may need the room. If this fails, the files go
        // with their folder.
        let _ = fs::remove_file(&self.path).and_then(|()| fs::remove_file(self.large.path()));
    }
}

impl SpillReader<'_> {
    /// Hands the rows of a slot to `take`, in batches.
    pub(super) fn read(
        &mut self,
        slot: usize,
        mut take: impl FnMut(RecordBatch) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let spilled = self.spilled;
        let numbers = self.pages.pages_of(slot as u32).to_vec();
        let at_once = (READ_BYTES / self.pages.header().shape.page_bytes()).max(1);
        self.buffers.resize_with(at_once, Vec::new);
        for numbers in numbers.chunks(at_once) {
            let mut pages = Vec::with_capacity(numbers.len());
            for (&number, buffer) in numbers.iter().zip(&mut self.buffers) {
                let page = self.pages.read(number as usize, buffer);
                pages.push(page.map_err(|error| failed(&spilled.path, error))?);
            }
            let payloads = pages.iter().flat_map(|page| page.tuples().map(|(_, payload)| payload));
            for batch in spilled.codec.batches(payloads, READ_ROWS) {
                take(batch?)?;
            }
        }
        spilled.large.read(slot, &mut take)
    }
}

impl PageFileSink {
    /// Returns an error if a page could not be written.
    fn check(&self) -> Result<(), DatasetError> {
        self.state.lock().error.take().map_or(Ok(()), |error| Err(failed(&self.path, error)))
    }
}

impl PageSink for PageFileSink {
    fn take(&self, _partition: usize, mut page: Page) {
        let state = &mut *self.state.lock();
        if let Some(file) = &mut state.file
            && let Err(error) = file.write(&mut page)
        {
            // Later pages are dropped too. The workers see the error at their next check.
            state.file = None;
            state.error = Some(error);
        }
    }
}

fn failed(path: &std::path::Path, error: FileError) -> DatasetError {
    match error {
        FileError::Io(error) => OutputError::io("write or read", path)(error).into(),
        other => DatasetError::corrupt(&path.display().to_string(), other),
    }
}
