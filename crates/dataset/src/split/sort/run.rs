//! A temporary file of sorted rows. Dropping its handle removes it.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use arrow::{
    array::RecordBatch,
    error::ArrowError,
    ipc::{reader::StreamReader, writer::StreamWriter},
};

use super::Take;
use crate::error::{DatasetError, OutputError};

/// A sorted run: an Arrow IPC stream in a file, which is removed on drop.
pub(super) struct Run {
    path: PathBuf,
    batch_rows: usize,
    bytes: u64,
}

/// Reads the batches of a run.
pub(super) struct RunReader {
    stream: StreamReader<BufReader<File>>,
    path: PathBuf,
}

impl Run {
    /// Writes a file of the batches that `fill` hands over. There must be at least one, and each
    /// has at most `batch_rows` rows.
    pub(super) fn write(
        path: PathBuf,
        batch_rows: usize,
        fill: impl FnOnce(&mut Take<'_>) -> Result<(), DatasetError>,
    ) -> Result<Self, DatasetError> {
        let file = File::create_new(&path).map_err(OutputError::io("create", &path))?;
        // From here on, dropping `run` removes the file.
        let mut run = Self { path, batch_rows, bytes: 0 };
        let mut file = Some(BufWriter::new(file));
        let mut stream = None;
        fill(&mut |batch| {
            let mut add = || -> Result<(), ArrowError> {
                let stream = match file.take() {
                    Some(file) => stream.insert(StreamWriter::try_new(file, batch.schema_ref())?),
                    None => stream.as_mut().expect("the stream has taken the file"),
                };
                stream.write(&batch)
            };
            add().map_err(|error| failed(&run.path, error))
        })?;
        let Some(mut stream) = stream else { return Ok(run) };
        let end = stream.finish().and_then(|()| Ok(stream.get_mut().flush()?));
        end.map_err(|error| failed(&run.path, error))?;
        run.bytes = fs::metadata(&run.path).map_err(OutputError::io("read", &run.path))?.len();
        Ok(run)
    }

    /// Returns the most rows that a batch has.
    pub(super) fn batch_rows(&self) -> usize {
        self.batch_rows
    }

    /// Returns the length of the file in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a reader that begins at the first row.
    pub(super) fn reader(&self) -> Result<RunReader, DatasetError> {
        let path = self.path.clone();
        let file = File::open(&path).map_err(OutputError::io("read", &path))?;
        let stream = StreamReader::try_new(BufReader::new(file), None).map_err(|error| failed(&path, error))?;
        Ok(RunReader { stream, path })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // If the file cannot be removed, it goes with the work folder.
        fs::remove_file(&self.path).ok();
    }
}

impl RunReader {
    /// Returns the next batch, or `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, DatasetError> {
        self.stream.next().transpose().map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: ArrowError) -> DatasetError {
    match error {
        ArrowError::IoError(_, error) => OutputError::io("write or read", path)(error).into(),
        error => error.into(),
    }
}
