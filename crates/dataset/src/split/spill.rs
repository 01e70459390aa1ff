//! Rows on disk until their file's turn comes, for more files than memory can keep open.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Seek, SeekFrom, Write},
    path::PathBuf,
};

use arrow::{
    array::RecordBatch,
    error::ArrowError,
    ipc::{reader::StreamReader, writer::StreamWriter},
};

use crate::{error::DatasetError, output::OutputError};

/// Batches of a slot as they are read back.
pub(crate) type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, DatasetError>> + 'a>;

/// Keeps rows by slot. One for each worker while rows arrive; any thread reads when no more do.
pub(crate) trait Spill: Send + Sync {
    /// Adds rows of a slot.
    fn append(&mut self, slot: usize, batch: &RecordBatch) -> Result<(), DatasetError>;

    /// No more rows follow.
    fn seal(&mut self) -> Result<(), DatasetError>;

    /// The rows of a slot, after [`seal`](Self::seal).
    fn read(&self, slot: usize) -> Result<Batches<'_>, DatasetError>;

    /// Bytes written.
    fn bytes(&self) -> u64;
}

/// A file of blocks, each an Arrow IPC stream with rows of one slot.
pub(crate) struct RunFile {
    path: PathBuf,
    out: BufWriter<File>,
    end: u64,
    /// Where each slot's blocks begin.
    blocks: Vec<Vec<u64>>,
}

impl RunFile {
    /// Begins a file, for so many slots.
    pub(crate) fn create(path: PathBuf, slots: usize) -> Result<Self, DatasetError> {
        let file = File::create(&path).map_err(OutputError::io("create", &path))?;
        Ok(Self { path, out: BufWriter::with_capacity(1 << 20, file), end: 0, blocks: vec![Vec::new(); slots] })
    }

    fn failed(&self) -> impl FnOnce(ArrowError) -> DatasetError {
        |error| match error {
            ArrowError::IoError(_, error) => OutputError::io("write", &self.path)(error).into(),
            error => error.into(),
        }
    }
}

impl Spill for RunFile {
    fn append(&mut self, slot: usize, batch: &RecordBatch) -> Result<(), DatasetError> {
        let mut out = Counted { out: &mut self.out, bytes: 0 };
        let mut write = || -> Result<(), ArrowError> {
            let mut stream = StreamWriter::try_new(&mut out, batch.schema_ref())?;
            stream.write(batch)?;
            stream.finish()
        };
        let written = write();
        let bytes = out.bytes;
        written.map_err(self.failed())?;
        self.blocks[slot].push(self.end);
        self.end += bytes;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), DatasetError> {
        Ok(self.out.flush().map_err(OutputError::io("write", &self.path))?)
    }

    fn read(&self, slot: usize) -> Result<Batches<'_>, DatasetError> {
        let file = File::open(&self.path).map_err(OutputError::io("read", &self.path))?;
        let read_block = move |&at: &u64| {
            let mut file = &file;
            file.seek(SeekFrom::Start(at)).map_err(OutputError::io("read", &self.path))?;
            // A block is one batch, and ends itself.
            let mut stream = StreamReader::try_new(BufReader::with_capacity(16 << 10, file), None)?;
            let batch = stream.next().transpose()?;
            batch.ok_or_else(|| DatasetError::corrupt(&self.path.display().to_string(), "a spilled block has no rows"))
        };
        Ok(Box::new(self.blocks[slot].iter().map(read_block)))
    }

    fn bytes(&self) -> u64 {
        self.end
    }
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
