//! Writes a dataset: files by slot, which get their final names when they are complete. The memory
//! of open files is limited.
//!
//! ```text
//! write(slot, batch) -> slot.rs -> encode.rs -> work folder
//!                          |                        | finish(slot)
//!                          |                        +-> journal.rs, then final names (publish.rs)
//!                          |                                 ... complete() -> manifest
//!                          +-- memory.rs: the largest files are relieved when all hold too much
//! ```
//! A [`WholeDataset`] (whole.rs) shows nothing before everything is finished. A run that appends
//! (append.rs) shows all of its files together, at the end.

mod append;
mod collection;
mod csv;
mod differences;
mod encode;
mod format;
mod journal;
mod json;
mod keys;
mod manifest;
pub(crate) mod memory;
mod offsets;
mod open;
mod own;
mod pages;
mod parquet;
mod publish;
mod quarantine;
mod slot;
mod types;
mod values;
mod verify;
mod whole;
mod work_file;

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use append::names_of_append;
pub use collection::Collection;
pub use csv::CsvWriter;
pub(crate) use format::Encoding;
pub use json::json_writer;
pub(crate) use keys::value_text;
pub use offsets::with_whole_offsets;
pub use open::{ExistingPolicy, OutputOptions, can_resume};
pub(crate) use open::{OpenOutcome, OutputSpec, is_unfinished};
pub use pages::DEFAULT_PAGE_BYTES;
pub(crate) use slot::Slot;
pub use types::{cast_to, for_arrow, for_parquet, for_parquet_writer, with_plain_text};
pub use verify::{BadFile, Verification, VerificationReport};
pub use whole::{SealedDataset, WholeDataset, remove_dataset};

use append::Columns;
use journal::{Entry, Journal};
use memory::Ledger;
use publish::Folder;
use quarantine::Quarantine;
use slot::{Common, SlotWriter};

use crate::{
    bad_rows::BadRow,
    codes::BatchCodes,
    error::OutputError,
    manifest::{
        Compression, FileEntry, HotKeyEntry, MANIFEST_VERSION, Manifest, OutputFormat, PartitionEntry, Settings,
    },
};

/// The number of finished slots that are published together, so that the journal and the folder are
/// synced to disk once for many.
const PUBLISH_SLOTS: usize = 64;
/// Slots with this many bytes are published without waiting for more.
const PUBLISH_BYTES: u64 = 64 << 20;

/// An output folder that takes rows. Any number of threads may write. Writers to the same slot wait
/// for each other.
pub(crate) struct Output {
    folder: Folder,
    common: Common,
    settings: Settings,
    columns: Columns,
    /// The dataset that the files are added to, if the run appends.
    base: Option<Manifest>,
    slots: Vec<Slot>,
    writers: Vec<Mutex<SlotWriter>>,
    ledger: Ledger,
    whole: bool,
    finished: Mutex<FinishedSlots>,
    quarantine: Mutex<Quarantine>,
}

struct FinishedSlots {
    journal: Journal,
    /// Entries whose files are sealed, in the work folder.
    waiting: Vec<Entry>,
    waiting_bytes: u64,
    /// Entries in the journal, whose files have their final names unless a rename failed.
    published: Vec<Entry>,
}

impl Output {
    /// Makes room for the files of `most` values, which may then be open at once. They take up to `memory_bytes`.
    pub(crate) fn keep_values_open(&mut self, most: usize, memory_bytes: usize) {
        self.ledger = Ledger::new(memory_bytes, most, self.floor_bytes()).with_others(self.slots.len());
        self.writers.extend((0..most).map(|_| Mutex::new(SlotWriter::of_value(self.slots[0]))));
    }

    /// Begins the open value with a number, whose rows belong to a slot.
    pub(crate) fn begin_value(&self, value: usize, slot: usize) {
        *self.writer(self.slots.len() + value) = SlotWriter::of_value(self.slots[slot]);
    }

    /// Adds rows to the file of an open value, as [`write`](Self::write) does.
    pub(crate) fn write_value(
        &self,
        value: usize,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<(), OutputError> {
        self.write(self.slots.len() + value, batch, coded)
    }

    /// Ends the files of an open value, which become files of its slot.
    pub(crate) fn seal_value(&self, value: usize) -> Result<(), OutputError> {
        let number = self.slots.len() + value;
        let mut writer = self.writer(number);
        let files = writer.finish(&self.common)?;
        let slot = writer.slot().partition;
        drop(writer);
        self.ledger.set(number, 0);
        self.writer(slot).adopt(files);
        Ok(())
    }

    /// Halves the memory that open files may take.
    pub(crate) fn halve_memory(&self) {
        self.ledger.halve();
    }

    /// Adds rows to a slot's file, with codes in some columns if `coded`. Writes out the largest files if all
    /// together hold too much memory.
    pub(crate) fn write(
        &self,
        slot: usize,
        batch: &RecordBatch,
        coded: Option<BatchCodes<'_>>,
    ) -> Result<(), OutputError> {
        {
            let mut writer = self.writer(slot);
            writer.write(&self.folder, &self.common, batch, coded)?;
            self.ledger.set(slot, writer.memory());
            if self.whole {
                // Each thread has a file of its own, and waits for no other's.
                if self.ledger.exceeds_share(slot) {
                    writer.relieve()?;
                    self.ledger.set(slot, writer.memory());
                }
                return Ok(());
            }
        }
        while let Some(largest) = self.ledger.excess() {
            let mut writer = self.writer(largest);
            let before = writer.memory();
            writer.relieve()?;
            self.ledger.set(largest, writer.memory());
            if writer.memory() >= before {
                // No more memory can be freed: closed row groups need the rest.
                break;
            }
        }
        Ok(())
    }

    /// Ends a slot's files. They get their final names now or with later ones.
    pub(crate) fn finish(&self, slot: usize) -> Result<(), OutputError> {
        let mut writer = self.writer(slot);
        let files = writer.finish(&self.common)?;
        self.ledger.set(slot, 0);
        drop(writer);
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut finished = self.finished();
        finished.waiting.push(Entry { slot, files });
        finished.waiting_bytes += bytes;
        if !self.whole && (finished.waiting.len() >= PUBLISH_SLOTS || finished.waiting_bytes >= PUBLISH_BYTES) {
            finished.publish(&self.folder, self.base.is_some())?;
        }
        Ok(())
    }

    /// Adds rows that could not be read to the quarantine file.
    pub(crate) fn quarantine(&self, bad: &[BadRow]) -> Result<(), OutputError> {
        self.quarantine.lock().write(&self.folder, bad)
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the slot with a number.
    pub(crate) fn slot(&self, slot: usize) -> Slot {
        self.slots[slot]
    }

    /// Returns the least memory, in bytes, with which keeping a file open is worthwhile.
    pub(crate) fn floor_bytes(&self) -> usize {
        self.common.encoding.floor_bytes()
    }

    /// Returns the encoding of the files.
    pub(crate) fn encoding(&self) -> &Encoding {
        &self.common.encoding
    }

    /// Returns the path of a file that is removed when the run ends.
    pub(crate) fn scratch_path(&self, name: &str) -> std::path::PathBuf {
        self.folder.work_path(name)
    }

    /// Publishes the waiting slots, and writes the manifest. All slots must be finished.
    pub(crate) fn complete(self, rows_bad: u64, hot_keys: Vec<HotKeyEntry>) -> Result<Manifest, OutputError> {
        let mut finished = self.finished.into_inner();
        finished.publish(&self.folder, self.base.is_some())?;
        let quarantine = self.quarantine.into_inner();
        let quarantine = quarantine.finish(&self.folder)?;
        let name = quarantine.iter().map(|file| file.name.as_str());
        if self.base.is_some() {
            self.folder.add(name)?
        } else {
            self.folder.publish(name)?
        }
        let partitions = match self.common.folders {
            Some(_) => partitions_by_folder(finished.published.into_iter().flat_map(|entry| entry.files)),
            None => partitions_of(&self.slots, finished.published),
        };
        let run = Manifest {
            version: MANIFEST_VERSION,
            settings: self.settings,
            columns: self.columns.of_files,
            folder_columns: self.columns.of_folders,
            rows: partitions.iter().map(|partition| partition.rows).sum(),
            rows_bad,
            bytes: partitions.iter().map(|partition| partition.bytes).sum(),
            quarantine,
            partitions,
            hot_keys,
            appends: Vec::new(),
        };
        let manifest = match self.base {
            None => run,
            Some(base) => {
                self.folder.publish_added(run.file_names())?;
                append::with_run(base, run)
            }
        };
        manifest.store(&self.folder)?;
        self.folder.dismantle()?;
        Ok(manifest)
    }

    /// Gives up: publishes the finished files, and removes the rest, including files that could not
    /// get their names. The journal stays if it lists any slot.
    pub(crate) fn abandon(self) -> Result<(), OutputError> {
        drop(self.writers);
        let mut finished = self.finished.into_inner();
        let published = finished.publish(&self.folder, self.base.is_some());
        if finished.published.is_empty() {
            // No file has its final name.
            return published.and(self.folder.dismantle());
        }
        published.and(self.folder.remove_work())
    }

    /// Gives up, and removes everything.
    pub(crate) fn discard(self) -> Result<(), OutputError> {
        drop(self.writers);
        self.folder.dismantle()
    }

    fn writer(&self, slot: usize) -> MutexGuard<'_, SlotWriter> {
        self.writers[slot].lock()
    }

    fn finished(&self) -> MutexGuard<'_, FinishedSlots> {
        self.finished.lock()
    }
}

impl FinishedSlots {
    /// Publishes the waiting entries: first in the journal, then by name, so that a file under a
    /// final name is always known. The files of a run that appends get their names when all are
    /// complete.
    fn publish(&mut self, folder: &Folder, appends: bool) -> Result<(), OutputError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.journal.append(&self.waiting)?;
        // Whether the renames succeed or not, these entries are in the journal, and must not be
        // added twice.
        let before = self.published.len();
        self.published.append(&mut self.waiting);
        self.waiting_bytes = 0;
        let names = self.published[before..].iter().flat_map(|entry| &entry.files).map(|file| file.name.as_str());
        if appends { folder.add(names) } else { folder.publish(names) }
    }
}

/// Returns all partitions in order, with the files of all their slots.
fn partitions_of(slots: &[Slot], mut entries: Vec<Entry>) -> Vec<PartitionEntry> {
    let count = slots.iter().map(|slot| slot.partition + 1).max().unwrap_or(0);
    let mut partitions: Vec<PartitionEntry> =
        (0..count).map(|partition| PartitionEntry { partition, rows: 0, bytes: 0, files: Vec::new() }).collect();
    entries.sort_by_key(|entry| entry.slot);
    for Entry { slot, files } in entries {
        let partition = &mut partitions[slots[slot].partition];
        partition.rows += files.iter().map(|file| file.rows).sum::<u64>();
        partition.bytes += files.iter().map(|file| file.bytes).sum::<u64>();
        partition.files.extend(files);
    }
    partitions
}

/// Returns a partition for each folder, in the order of the folders' names.
fn partitions_by_folder(files: impl Iterator<Item = FileEntry>) -> Vec<PartitionEntry> {
    let mut folders = BTreeMap::<String, PartitionEntry>::new();
    for file in files {
        let folder = file.name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let empty = PartitionEntry { partition: 0, rows: 0, bytes: 0, files: Vec::new() };
        let partition = folders.entry(folder).or_insert(empty);
        partition.rows += file.rows;
        partition.bytes += file.bytes;
        partition.files.push(file);
    }
    let numbered = |(number, partition)| PartitionEntry { partition: number, ..partition };
    folders.into_values().enumerate().map(numbered).collect()
}
