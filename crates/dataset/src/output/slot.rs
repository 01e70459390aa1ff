//! The files of one slot: a partition, or a hot key's share of one.

use std::path::Path;

use arrow::array::{Array, ArrayRef, RecordBatch};

use super::{
    FileEntry, OutputError, OutputFormat,
    encode::{Encoder, arrow_error, parquet_error},
    format::Encoding,
    keys::KeyRange,
    publish::Folder,
    values::{FolderFiles, ValueFolders},
    work_file::FileSeal,
};
use crate::codes::BatchCodes;

/// The identity of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The partition, from 0.
    pub partition: usize,
    /// The number of the extra file for hot keys, from 1; `None` for the partition's own file.
    pub hot: Option<usize>,
}

impl Slot {
    /// Returns the start of the names of the slot's files, such as `part-00007` or
    /// `part-00007.hot-1`.
    pub fn stem(self) -> String {
        let Self { partition, hot } = self;
        hot.map_or_else(|| format!("part-{partition:05}"), |hot| format!("part-{partition:05}.hot-{hot}"))
    }

    fn file_name(self, number: usize, common: &Common) -> String {
        let (stem, end) = (self.stem(), common.file_end());
        if number == 1 { format!("{stem}{end}") } else { format!("{stem}-{number:05}{end}") }
    }
}

/// The settings that the files of all slots share.
pub(crate) struct Common {
    pub(crate) format: OutputFormat,
    pub(crate) encoding: Encoding,
    /// The size in bytes at which a file is ended and the next one begun.
    pub(crate) max_file_bytes: u64,
    /// The names and positions of the key columns.
    pub(crate) keys: Vec<(String, usize)>,
    /// The folders, if values name them. Rows of one value are then adjacent.
    pub(crate) folders: Option<ValueFolders>,
    /// The number of the append that writes the files; `None` for the first run.
    pub(crate) append: Option<usize>,
}

impl Common {
    /// Returns the end of a file's name: `.parquet`, or `.append-1.parquet`.
    fn file_end(&self) -> String {
        let extension = self.format.extension();
        self.append.map_or_else(|| format!(".{extension}"), |append| format!(".append-{append}.{extension}"))
    }
}

/// Writes a slot's rows to files in the work folder, one after the other.
pub(crate) struct SlotWriter {
    slot: Slot,
    open: Option<OpenFile>,
    files: Vec<FileEntry>,
    folder: FolderFiles,
    failed: bool,
}

struct OpenFile {
    encoder: Encoder,
    name: String,
    rows: u64,
    keys: Vec<KeyRange>,
}

impl SlotWriter {
    pub(crate) fn new(slot: Slot) -> Self {
        Self { slot, open: None, files: Vec::new(), folder: FolderFiles::default(), failed: false }
    }

    /// Returns the writer of one value's rows of a slot, in any order. It can return to a folder: two values may have
    /// the same hash, and thus the same writer.
    pub(crate) fn of_value(slot: Slot) -> Self {
        Self { folder: FolderFiles::returning(), ..Self::new(slot) }
    }

    /// Returns the slot.
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// Adds complete files, which another writer has written to folders of this slot.
    pub(crate) fn adopt(&mut self, files: Vec<FileEntry>) {
        self.files.extend(files);
    }

    /// Adds rows, with codes in some columns if `coded`. An empty batch creates a file too, unless values name folders.
    pub(crate) fn write(
        &mut self,
        folder: &Folder,
        common: &Common,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<(), OutputError> {
        self.attempt(|writer| {
            let Some(folders) = &common.folders else { return writer.add(folder, common, batch, coded) };
            let slot = writer.slot.stem();
            let failed = |error| arrow_error(Path::new(&slot), error);
            for rows in folders.runs(batch).map_err(failed)? {
                let rows = batch.slice(rows.start, rows.len());
                let name = folders.folder(&rows, coded).map_err(|error| parquet_error(Path::new(&slot), error))?;
                if writer.folder.enter(name) {
                    writer.seal(common)?;
                }
                writer.add(folder, common, &rows, coded)?;
            }
            Ok(())
        })
    }

    fn add(
        &mut self,
        folder: &Folder,
        common: &Common,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<(), OutputError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let name = match &common.folders {
                    Some(_) => self.folder.next_name(&common.file_end()),
                    None => self.slot.file_name(self.files.len() + 1, common),
                };
                self.open.insert(OpenFile::create(folder, common, self.slot.partition, name)?)
            }
        };
        open.write(common, batch, coded)?;
        if open.encoder.size_estimate() >= common.max_file_bytes {
            self.seal(common)?;
        }
        Ok(())
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.encoder.memory())
    }

    /// Writes out the rows held in memory, as far as the format allows.
    pub(crate) fn relieve(&mut self) -> Result<(), OutputError> {
        self.attempt(|writer| writer.open.as_mut().map_or(Ok(()), |open| open.encoder.relieve()))
    }

    /// Ends the last file, and returns all files. They are complete in the work folder.
    pub(crate) fn finish(&mut self, common: &Common) -> Result<Vec<FileEntry>, OutputError> {
        self.attempt(|writer| {
            writer.seal(common)?;
            Ok(std::mem::take(&mut writer.files))
        })
    }

    /// Runs `act`, unless an earlier call failed. Otherwise another thread would report a
    /// consequence of the error in place of its reason.
    fn attempt<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, OutputError>) -> Result<T, OutputError> {
        if self.failed {
            return Err(OutputError::Broken(self.slot.stem()));
        }
        let done = act(self);
        self.failed = done.is_err();
        done
    }

    fn seal(&mut self, common: &Common) -> Result<(), OutputError> {
        let Some(OpenFile { encoder, name, rows, keys }) = self.open.take() else { return Ok(()) };
        let sealed = encoder.finish()?;
        let keys = keys.iter().zip(&common.keys).filter_map(|(range, (column, _))| range.entry(column)).collect();
        let FileSeal { bytes, checksum } = sealed;
        self.files.push(FileEntry { name, hot: self.slot.hot, rows, bytes, checksum, keys });
        Ok(())
    }
}

impl OpenFile {
    fn create(folder: &Folder, common: &Common, partition: usize, name: String) -> Result<Self, OutputError> {
        let encoder = Encoder::create(folder, &name, partition, &common.encoding)?;
        let keys = common.keys.iter().map(|_| KeyRange::default()).collect();
        Ok(Self { encoder, name, rows: 0, keys })
    }

    fn write(
        &mut self,
        common: &Common,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<(), OutputError> {
        let failed = |error| arrow_error(Path::new(&self.name), error);
        for (range, &(_, column)) in self.keys.iter_mut().zip(&common.keys) {
            let mut key = ArrayRef::clone(batch.column(column));
            if common.folders.is_some() {
                // All rows have the same key.
                key = if key.logical_null_count() > 0 { key } else { key.slice(0, 1) };
                let values = coded.map_or_else(|| Ok(ArrayRef::clone(&key)), |coded| coded.values(column, &key));
                key = values.map_err(|error| parquet_error(Path::new(&self.name), error))?;
            }
            range.observe(&key).map_err(failed)?;
        }
        let of_file = common.folders.as_ref().map(|folders| folders.others(batch)).transpose().map_err(failed)?;
        let coded = match &common.folders {
            Some(folders) => coded.map(|coded| coded.project(folders.columns())),
            None => coded,
        };
        match (&common.encoding, of_file.as_ref().unwrap_or(batch)) {
            // The columns of the dataset that are not codes become those of the file there.
            (Encoding::Parquet(_), rows) => self.encoder.write(rows, coded)?,
            (encoding, rows) => self.encoder.write(&encoding.adapt(rows).map_err(failed)?, None)?,
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }
}
