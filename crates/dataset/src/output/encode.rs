//! One file being encoded, in any of the formats.

use std::io::BufWriter;

use arrow::{array::RecordBatch, ipc::writer::FileWriter, json::LineDelimitedWriter};

use super::{
    OutputError,
    csv::CsvWriter,
    format::Encoding,
    json::json_writer,
    pages::PagesWriter,
    parquet::ParquetFile,
    publish::Folder,
    work_file::{FileSeal, WorkFile},
};
use crate::codes::BatchCodes;

/// A file that is being written.
pub(crate) enum Encoder {
    Parquet(Box<ParquetFile>),
    Ipc(Box<FileWriter<BufWriter<WorkFile>>>),
    Pages(Box<PagesWriter>),
    Csv(CsvWriter<BufWriter<WorkFile>>),
    Json(Box<LineDelimitedWriter<BufWriter<WorkFile>>>),
}

/// The buffer for the small pieces that lines consist of.
const TEXT_BUFFER_BYTES: usize = 32 << 10;
/// The buffer for the small pieces between message bodies. Bodies are written directly.
const IPC_BUFFER_BYTES: usize = 8 << 10;

impl Encoder {
    /// Begins the file `name` in the work folder, for rows of a partition.
    pub(crate) fn create(
        folder: &Folder,
        name: &str,
        partition: usize,
        encoding: &Encoding,
    ) -> Result<Self, OutputError> {
        let file = WorkFile::create(folder, name)?;
        let path = file.path().to_owned();
        match encoding {
            Encoding::Parquet(encoding) => {
                let writer = ParquetFile::try_new(file, encoding);
                Ok(Self::Parquet(Box::new(writer.map_err(|error| parquet_error(&path, error))?)))
            }
            Encoding::Ipc { schema, options } => {
                let file = BufWriter::with_capacity(IPC_BUFFER_BYTES, file);
                let writer = FileWriter::try_new_with_options(file, schema, options.clone());
                Ok(Self::Ipc(Box::new(writer.map_err(|error| arrow_error(&path, error))?)))
            }
            Encoding::Csv { schema } => {
                let file = BufWriter::with_capacity(TEXT_BUFFER_BYTES, file);
                Ok(Self::Csv(CsvWriter::new(file, b',', schema).map_err(|error| arrow_error(&path, error))?))
            }
            Encoding::Json { .. } => {
                Ok(Self::Json(Box::new(json_writer(BufWriter::with_capacity(TEXT_BUFFER_BYTES, file)))))
            }
            Encoding::Pages(encoding) => Ok(Self::Pages(Box::new(PagesWriter::create(encoding, file, partition)?))),
        }
    }

    /// Adds rows. Those of a Parquet file may have codes, and need no other types before.
    pub(crate) fn write(&mut self, batch: &RecordBatch, coded: Option<BatchCodes<'_>>) -> Result<(), OutputError> {
        match self {
            Self::Parquet(writer) => {
                writer.write(batch, coded).map_err(|error| parquet_error(writer.inner().path(), error))
            }
            Self::Ipc(writer) => {
                writer.write(batch).map_err(|error| arrow_error(writer.get_ref().get_ref().path(), error))
            }
            Self::Pages(writer) => writer.write(batch),
            Self::Csv(writer) => {
                writer.write(batch).map_err(|error| arrow_error(writer.sink().get_ref().path(), error))
            }
            Self::Json(writer) => {
                writer.write(batch).map_err(|error| arrow_error(writer.get_ref().get_ref().path(), error))
            }
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Parquet(writer) => writer.memory(),
            Self::Ipc(_) => IPC_BUFFER_BYTES,
            Self::Pages(writer) => writer.memory(),
            Self::Csv(_) | Self::Json(_) => TEXT_BUFFER_BYTES,
        }
    }

    /// Returns the approximate size in bytes that the file would have if it ended here.
    pub(crate) fn size_estimate(&self) -> u64 {
        match self {
            Self::Parquet(writer) => writer.size_estimate() as u64,
            Self::Ipc(writer) => writer.get_ref().get_ref().bytes(),
            Self::Pages(writer) => writer.size_estimate(),
            Self::Csv(writer) => writer.sink().get_ref().bytes(),
            Self::Json(writer) => writer.get_ref().get_ref().bytes(),
        }
    }

    /// Writes out the rows held in memory, as far as the format allows.
    pub(crate) fn relieve(&mut self) -> Result<(), OutputError> {
        match self {
            Self::Parquet(writer) => writer.flush().map_err(|error| parquet_error(writer.inner().path(), error)),
            Self::Ipc(_) | Self::Pages(_) | Self::Csv(_) | Self::Json(_) => Ok(()),
        }
    }

    /// Ends the file, and seals it.
    pub(crate) fn finish(self) -> Result<FileSeal, OutputError> {
        match self {
            Self::Parquet(mut writer) => {
                let ended = writer.finish();
                ended.map_err(|error| parquet_error(writer.inner().path(), error))?;
                // Taking the file out of the writer would flush it too, but would turn the system's
                // error into text.
                let flushed = writer.sync();
                flushed.map_err(OutputError::io("write", writer.inner().path()))?;
                writer.inner_mut().seal()
            }
            Self::Ipc(mut writer) => {
                let path = writer.get_ref().get_ref().path().to_owned();
                writer.finish().map_err(|error| arrow_error(&path, error))?;
                seal(writer.into_inner().map_err(|error| arrow_error(&path, error))?)
            }
            Self::Csv(writer) => seal(writer.into_inner()),
            Self::Json(mut writer) => {
                let path = writer.get_ref().get_ref().path().to_owned();
                writer.finish().map_err(|error| arrow_error(&path, error))?;
                seal(writer.into_inner())
            }
            Self::Pages(writer) => writer.finish(),
        }
    }
}

/// Writes out the content of a buffer, and seals the file.
fn seal(file: BufWriter<WorkFile>) -> Result<FileSeal, OutputError> {
    let path = file.get_ref().path().to_owned();
    file.into_inner().map_err(|error| OutputError::io("write", path)(error.into_error()))?.seal()
}

/// Returns the file system's error within an error of Parquet, if there is one: it suggests a
/// remedy.
pub(crate) fn parquet_error(path: &std::path::Path, error: parquet::errors::ParquetError) -> OutputError {
    use parquet::errors::ParquetError;
    match error {
        ParquetError::External(error) => match error.downcast::<std::io::Error>() {
            Ok(error) => OutputError::io("write", path)(*error),
            Err(error) => OutputError::Encode { path: path.to_owned(), message: error.to_string() },
        },
        error => OutputError::Encode { path: path.to_owned(), message: error.to_string() },
    }
}

pub(crate) fn arrow_error(path: &std::path::Path, error: arrow::error::ArrowError) -> OutputError {
    use arrow::error::ArrowError;
    match error {
        ArrowError::IoError(_, error) => OutputError::io("write", path)(error),
        error => OutputError::Encode { path: path.to_owned(), message: error.to_string() },
    }
}
