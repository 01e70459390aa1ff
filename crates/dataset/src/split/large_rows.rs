//! Rows on disk that are larger than the spill's pages, in one block each.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use arrow::{
    array::RecordBatch,
    error::ArrowError,
    ipc::{reader::StreamReader, writer::StreamWriter},
};

use crate::error::{DatasetError, OutputError};

/// A file of blocks, each an Arrow IPC stream with rows of one slot.
pub(super) struct LargeRows {
    path: PathBuf,
    out: BufWriter<File>,
    end: u64,
    /// The offsets of each slot's blocks.
    blocks: Vec<Vec<u64>>,
}

impl LargeRows {
    /// Creates the file, for `slots` slots.
    pub(super) fn create(path: PathBuf, slots: usize) -> Result<Self, DatasetError> {
        let file = File::create(&path).map_err(OutputError::io("create", &path))?;
        Ok(Self { path, out: BufWriter::with_capacity(1 << 20, file), end: 0, blocks: vec![Vec::new(); slots] })
    }

    fn failed(&self) -> impl FnOnce(ArrowError) -> DatasetError {
        |error| match error {
            ArrowError::IoError(_, error) => OutputError::io("write", &self.path)(error).into(),
            error => error.into(),
        }
    }

    /// Adds rows of a slot.
    pub(super) fn append(&mut self, slot: usize, batch: &RecordBatch) -> Result<(), DatasetError> {
        let mut out = CountingWriter { out: &mut self.out, bytes: 0 };
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

    /// Ends the file: no more rows follow.
    pub(super) fn seal(&mut self) -> Result<(), DatasetError> {
        Ok(self.out.flush().map_err(OutputError::io("write", &self.path))?)
    }

    /// Hands the rows of a slot to `take`, after [`seal`](Self::seal).
    pub(super) fn read(
        &self,
        slot: usize,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        if self.blocks[slot].is_empty() {
            return Ok(());
        }
        let mut file = File::open(&self.path).map_err(OutputError::io("read", &self.path))?;
        for &at in &self.blocks[slot] {
            file.seek(SeekFrom::Start(at)).map_err(OutputError::io("read", &self.path))?;
            for batch in StreamReader::try_new(BufReader::with_capacity(16 << 10, &file), None)? {
                take(batch?)?;
            }
        }
        Ok(())
    }

    /// Returns the file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.end
    }
}

struct CountingWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
