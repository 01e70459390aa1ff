//! The files of a join: the rows of a part in pieces, as an Arrow stream on the session's disk. A
//! file goes when its last owner is dropped, however that comes about.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use annulus_rows::rows_bytes;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    config::SpillCompression,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext, runtime_env::RuntimeEnv, spill_file::SpillFile},
    physical_plan::{EmptyRecordBatchStream, SpillManager},
};

use super::metrics::Metrics;

/// Makes and reads the files with these columns.
pub(super) struct Files {
    runtime: Arc<RuntimeEnv>,
    compression: SpillCompression,
    schema: SchemaRef,
    metrics: Arc<Metrics>,
    manager: OnceLock<Arc<SpillManager>>,
}

/// A file that is written. Nothing is on disk before the first piece.
pub(super) struct Writer {
    manager: Arc<SpillManager>,
    write: Option<Write>,
    pieces: Vec<Piece>,
}

/// Appends a batch, or ends the file and returns it.
type Write = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send>;

/// A complete file.
#[derive(Clone, Default)]
pub(super) struct SpilledRows {
    /// None without rows.
    file: Option<Arc<dyn SpillFile>>,
    pub(super) pieces: Arc<[Piece]>,
}

/// A batch in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) rows: usize,
    /// The memory that the rows take.
    pub(super) bytes: usize,
}

impl Files {
    pub(super) fn new(context: &TaskContext, schema: SchemaRef, metrics: Arc<Metrics>) -> Self {
        let compression = context.session_config().spill_compression();
        Self { runtime: context.runtime_env(), compression, schema, metrics, manager: OnceLock::new() }
    }

    /// Returns the makers of files with other columns, for the same join.
    pub(super) fn with_schema(&self, schema: SchemaRef) -> Self {
        let (runtime, metrics) = (Arc::clone(&self.runtime), Arc::clone(&self.metrics));
        Self { runtime, compression: self.compression, schema, metrics, manager: OnceLock::new() }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn manager(&self) -> &Arc<SpillManager> {
        self.manager.get_or_init(|| {
            let (runtime, metrics) = (Arc::clone(&self.runtime), self.metrics.files());
            let manager = SpillManager::new(runtime, metrics, Arc::clone(&self.schema));
            Arc::new(manager.with_compression_type(self.compression))
        })
    }

    pub(super) fn create(&self) -> Writer {
        Writer { manager: Arc::clone(self.manager()), write: None, pieces: Vec::new() }
    }

    /// Returns the batches of a file, in their order.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn read(&self, spooled: &SpilledRows) -> Result<SendableRecordBatchStream> {
        match &spooled.file {
            Some(file) => self.manager().read_spill_as_stream_unbuffered(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema)))),
        }
    }
}

impl Writer {
    /// Appends a batch.
    ///
    /// # Errors
    /// If the disk is full, or the limit of the session is reached.
    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let write = match &mut self.write {
            Some(write) => write,
            empty => {
                let mut file = self.manager.create_in_progress_file("a hash join").map_err(no_disk)?;
                empty.insert(Box::new(move |batch| match batch {
                    Some(batch) => file.append_batch(batch).map(|_| None),
                    None => file.finish(),
                }))
            }
        };
        write(Some(batch)).map_err(no_disk)?;
        self.pieces.push(Piece { rows: batch.num_rows(), bytes: rows_bytes(batch) });
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub(super) fn finish(self) -> Result<SpilledRows> {
        let file = match self.write {
            Some(mut write) => write(None).map_err(no_disk)?,
            None => None,
        };
        Ok(SpilledRows { file, pieces: self.pieces.into() })
    }
}

impl SpilledRows {
    pub(super) fn rows(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SpilledRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpilledRows").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

/// Returns the error for a disk that does not take the rows.
fn no_disk(error: DataFusionError) -> DataFusionError {
    let root = error.find_root().to_string();
    // The number is that of Linux and macOS; the library for temporary files hides the kind.
    let remedy = if root.contains("(os error 24)") {
        "allow more open files (ulimit -n)"
    } else {
        "free disk space, set datafusion.runtime.temp_directory to a folder on another disk"
    };
    DataFusionError::ResourcesExhausted(format!(
        "a hash join has more rows than fit in memory, and cannot write them to disk; {remedy}, or allow more \
         memory: {root}"
    ))
}
