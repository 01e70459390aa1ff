//! Begins, resumes, replaces or appends to a dataset in a folder.

use std::path::{Path, PathBuf};

use arrow::datatypes::{DataType, SchemaRef};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{
    Compression, DEFAULT_PAGE_BYTES, FinishedSlots, Manifest, Output, OutputError, OutputFormat, Quarantine, Settings,
    Slot,
    append::{self, AppendStart, Columns},
    collection::remove_members,
    differences::same_settings,
    format::Encoding,
    journal::{Journal, JournalContent, known_files},
    memory::Ledger,
    partitions_by_folder,
    publish::Folder,
    slot::{Common, SlotWriter},
    values::ValueFolders,
};
use crate::{
    error::DatasetOption,
    file_names::{QUARANTINE_NAME, journal_path, quarantine_name},
    manifest::{column_of, columns_of},
};

/// Where a dataset goes, and how it is written. [`new`](Self::new) gives the defaults, whose fields
/// can then be set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputOptions {
    /// The folder of the dataset, which is created if it does not exist.
    pub dir: PathBuf,
    /// The format of the files.
    pub format: OutputFormat,
    /// The compression of the files' content.
    pub compression: Compression,
    /// The size in bytes at which a file is ended, and a further one begun; `None` for one file.
    pub max_file_bytes: Option<u64>,
    /// The size of the pages of page files in bytes: a multiple of 4 KiB from 4 KiB to 64 MiB. A
    /// row must fit on a page.
    pub page_bytes: usize,
    /// Whether files are synced to disk before they get their final names, so that they survive a
    /// power failure. Otherwise a run that resumes detects damaged files by their checksums.
    pub sync: bool,
    /// The policy if the folder has a dataset.
    pub existing: ExistingPolicy,
}

impl OutputOptions {
    /// Returns the defaults of the format: one file per partition, no sync, and a dataset in the
    /// folder is an error.
    pub fn new(dir: impl Into<PathBuf>, format: OutputFormat) -> Self {
        Self {
            dir: dir.into(),
            format,
            compression: format.default_compression(),
            max_file_bytes: None,
            page_bytes: DEFAULT_PAGE_BYTES,
            sync: false,
            existing: ExistingPolicy::default(),
        }
    }
}

/// The policy of a run whose folder has a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ExistingPolicy {
    /// The run fails.
    #[default]
    Refuse,
    /// The dataset's files are removed. If the folder has other files, that is an error, and
    /// nothing is removed.
    Overwrite,
    /// Finished partitions are kept, if they are of the same job and whole. An unfinished append to
    /// a finished dataset stays as it is.
    Resume,
    /// The run's files are added to it. It must be complete and have the same format, placement,
    /// keys, number of partitions, order and columns. What another append has left unfinished is
    /// removed.
    Append,
    /// As `Append`, but the finished partitions of an unfinished append of the same job are kept.
    /// If the first run or an append was the same job, nothing is added.
    ResumeAppend,
}

impl ExistingPolicy {
    /// Returns whether finished partitions of an earlier run are kept.
    pub fn resumes(self) -> bool {
        matches!(self, Self::Resume | Self::ResumeAppend)
    }

    /// Returns whether the run adds to a dataset.
    pub fn appends(self) -> bool {
        matches!(self, Self::Append | Self::ResumeAppend)
    }

    /// Returns how to start again without what an earlier run has left, as errors put it.
    pub(crate) fn start_again(self) -> String {
        match self.appends() {
            true => format!("leave {} out to start the append again", DatasetOption::Resume),
            false => format!("start again with {}", DatasetOption::Overwrite),
        }
    }
}

/// The specification of an output.
pub(crate) struct OutputSpec<'a> {
    pub(crate) options: &'a OutputOptions,
    pub(crate) settings: Settings,
    pub(crate) schema: SchemaRef,
    /// The names and positions of the key columns.
    pub(crate) keys: Vec<(String, usize)>,
    pub(crate) slots: Vec<Slot>,
    /// The memory of all open files, in bytes.
    pub(crate) writers_bytes: usize,
    /// Whether a column of Parquet files begins with a dictionary.
    pub(crate) dictionary: &'a dyn Fn(usize) -> bool,
    /// The types that the keys are hashed with, if rows are hash-partitioned and the key columns are
    /// stored in the files.
    pub(crate) hashed: Option<&'a [DataType]>,
    /// Whether the values of the key columns name folders.
    pub(crate) by_value: bool,
    /// Whether no file gets its final name before all are finished.
    pub(crate) whole: bool,
}

/// The result of opening an output.
pub(crate) enum OpenOutcome {
    /// Rows are to be written.
    Writing {
        output: Box<Output>,
        /// The number of rows of each slot that is finished already.
        kept: Vec<Option<u64>>,
        /// The number of partitions, and of hot keys' shares, in these slots.
        kept_count: usize,
    },
    /// The folder's dataset contains this run already, and is undamaged.
    Complete {
        manifest: Box<Manifest>,
        /// The number of rows that the run read, good and bad.
        rows_in: u64,
    },
}

impl Output {
    /// Locks the folder and prepares it.
    ///
    /// # Errors
    /// If the folder holds what `existing` does not allow, another run uses it, or the file system
    /// refuses.
    pub(crate) fn open(spec: OutputSpec<'_>) -> Result<OpenOutcome, OutputError> {
        let OutputOptions { dir, format, max_file_bytes, sync, existing, .. } = spec.options.clone();
        let partitions = spec.slots.iter().map(|slot| slot.partition + 1).max().unwrap_or(0);
        let folders = spec.by_value.then(|| ValueFolders::new(&spec.schema, &spec.keys));
        let encoding = match &folders {
            None => Encoding::try_new(spec.options, &spec.schema, partitions, spec.dictionary)?,
            Some(folders) => Encoding::try_new(spec.options, folders.schema(), partitions, |column| {
                (spec.dictionary)(folders.columns()[column])
            })?,
        };
        let named = spec.keys.iter().filter(|_| spec.by_value);
        let folder_columns = named.map(|&(_, column)| column_of(spec.schema.field(column))).collect();
        let columns = Columns { of_files: columns_of(encoding.schema()), of_folders: folder_columns };
        let folder = Folder::lock(&dir, sync)?;
        let mut settings = spec.settings;
        if let (Some(hashed), Some(own)) = (spec.hashed, settings.partition_mut()) {
            own.key_types = append::key_types(hashed, encoding.schema(), &spec.keys);
        }
        let found = if existing.appends() {
            append::begin(&folder, existing, &mut settings, &columns).map(ExistingRun::from)
        } else {
            find(&folder, existing, &settings, &columns, spec.whole)
        };
        let (base, recorded) = match found {
            Ok(ExistingRun::Complete(manifest, rows_in)) => {
                return Ok(OpenOutcome::Complete { manifest: manifest.into(), rows_in });
            }
            Ok(ExistingRun::Recorded(base, recorded)) => (base, recorded),
            Err(error) => {
                folder.leave_untouched();
                return Err(error);
            }
        };
        let entries = recorded.map_or(Ok(Vec::new()), |recorded| recorded.keep_whole(&folder))?;
        let entries: Vec<_> = entries.into_iter().filter(|entry| entry.slot < spec.slots.len()).collect();
        let journal = Journal::create(&folder, &settings, &entries)?;
        folder.clear_work()?;
        let mut kept = vec![None; spec.slots.len()];
        for entry in &entries {
            kept[entry.slot] = Some(entry.files.iter().map(|file| file.rows).sum());
        }
        let kept_count = match &folders {
            Some(_) => partitions_by_folder(entries.iter().flat_map(|entry| entry.files.clone())).len(),
            None => entries.len(),
        };
        let max_file_bytes = max_file_bytes.unwrap_or(u64::MAX);
        let append = base.as_ref().map(|base| base.appends.len() + 1);
        let ledger = Ledger::new(spec.writers_bytes, spec.slots.len(), encoding.floor_bytes());
        let output = Self {
            folder,
            common: Common { format, encoding, max_file_bytes, keys: spec.keys, folders, append },
            settings,
            columns,
            base,
            writers: spec.slots.iter().map(|&slot| Mutex::new(SlotWriter::new(slot))).collect(),
            ledger,
            slots: spec.slots,
            whole: spec.whole,
            finished: Mutex::new(FinishedSlots { journal, waiting: Vec::new(), waiting_bytes: 0, published: entries }),
            quarantine: Mutex::new(Quarantine::new(append)),
        };
        Ok(OpenOutcome::Writing { output: Box::new(output), kept, kept_count })
    }
}

/// Returns whether a folder has a dataset whose first run has not finished.
pub(crate) fn is_unfinished(dir: &Path) -> bool {
    journal_path(dir).exists() && !Manifest::path_in(dir).exists()
}

/// Returns whether an unfinished run has left finished partitions in a folder. [`ExistingPolicy::Resume`]
/// keeps them or, if they are of an append, [`ExistingPolicy::ResumeAppend`].
pub fn can_resume(dir: &Path) -> bool {
    journal_path(dir).exists()
}

enum ExistingRun {
    /// The dataset that contains this run already, and the number of rows that the run read.
    Complete(Manifest, u64),
    /// The dataset that files are added to, if the run appends, and the record of an unfinished
    /// run, if there is one to resume.
    Recorded(Option<Manifest>, Option<JournalContent>),
}

impl From<AppendStart> for ExistingRun {
    fn from(begun: AppendStart) -> Self {
        match begun {
            AppendStart::Complete(manifest, rows_in) => Self::Complete(manifest, rows_in),
            AppendStart::Adding(base, recorded) => Self::Recorded(Some(base), recorded),
        }
    }
}

/// Returns the state of the folder, after removing the files to overwrite.
fn find(
    folder: &Folder,
    existing: ExistingPolicy,
    settings: &Settings,
    columns: &Columns,
    whole: bool,
) -> Result<ExistingRun, OutputError> {
    let path = || folder.dir().to_owned();
    let taken = |state, remedy| Err(OutputError::Taken { path: path(), state, remedy });
    let overwrite = DatasetOption::Overwrite;
    if existing == ExistingPolicy::Overwrite {
        refuse_foreign(folder, known(folder)?)?;
        return remove_known(folder).map(|()| ExistingRun::Recorded(None, None));
    }
    if let Some(manifest) = Manifest::load(folder)? {
        if existing == ExistingPolicy::Refuse {
            return taken("a finished dataset", to_replace());
        }
        same_settings(folder.dir(), existing, settings, &manifest.settings)?;
        if manifest.is_whole(folder)? {
            append::leave(folder, &manifest)?;
            let rows_in = manifest.first_rows_in();
            return Ok(ExistingRun::Complete(manifest, rows_in));
        }
        return taken("a finished dataset with damaged files", format!("{overwrite} to write it again"));
    }
    let recorded = JournalContent::load(folder)?;
    // A run that was killed before it finished anything leaves nothing to resume.
    let Some(mut recorded) =
        recorded.filter(|recorded| existing == ExistingPolicy::Resume || !recorded.entries.is_empty())
    else {
        return refuse_foreign(folder, Vec::new()).map(|()| ExistingRun::Recorded(None, None));
    };
    if existing == ExistingPolicy::Refuse {
        // A dataset that appears as a whole cannot be resumed.
        let remedy = match whole {
            true => to_replace(),
            false => format!("{} to continue it, or {overwrite} to start again", DatasetOption::Resume),
        };
        return taken("an unfinished dataset", remedy);
    }
    recorded.settings.resolve(&columns.names());
    same_settings(folder.dir(), existing, settings, &recorded.settings)?;
    // The file may have got its name just before the run was killed, and is written again.
    folder.remove([QUARANTINE_NAME])?;
    refuse_foreign(folder, recorded.file_names())?;
    Ok(ExistingRun::Recorded(None, Some(recorded)))
}

/// Returns the remedy for a folder that holds a whole dataset.
pub(super) fn to_replace() -> String {
    format!("{} to replace it", DatasetOption::Overwrite)
}

/// Returns the names that a dataset has in its folder, finished or not. Of a damaged journal, only
/// the readable lines count.
pub(super) fn known(folder: &Folder) -> Result<Vec<String>, OutputError> {
    let mut names = Vec::new();
    if let Some(files) = known_files(&folder.journal_path())? {
        names.extend(files);
        names.push(QUARANTINE_NAME.to_owned());
    }
    if let Some(manifest) = Manifest::load(folder)? {
        names.push(quarantine_name(Some(manifest.appends.len() + 1)));
        names.extend(manifest.file_names().chain(manifest.members()).map(str::to_owned));
        names.extend(Manifest::names_in(folder.dir()).into_iter().map(str::to_owned));
    }
    Ok(names)
}

/// Removes a dataset, finished or not, if all of it may go.
pub(super) fn remove_known(folder: &Folder) -> Result<(), OutputError> {
    if Manifest::load(folder)?.is_some_and(|manifest| !manifest.members().is_empty()) {
        return remove_members(folder);
    }
    remove_files(folder)
}

/// Removes the files of a dataset, finished or not. The manifest and the journal go last, because
/// they name the files.
pub(super) fn remove_files(folder: &Folder) -> Result<(), OutputError> {
    if let Some(files) = known_files(&folder.journal_path())? {
        folder.remove(files.iter().map(String::as_str))?;
        folder.remove([QUARANTINE_NAME])?;
    }
    folder.remove_added()?;
    if let Some(manifest) = Manifest::load(folder)? {
        folder.remove([quarantine_name(Some(manifest.appends.len() + 1)).as_str()])?;
        folder.remove(manifest.file_names())?;
        folder.remove(Manifest::names_in(folder.dir()))?;
    }
    Ok(())
}

pub(super) fn refuse_foreign(folder: &Folder, known: Vec<String>) -> Result<(), OutputError> {
    match folder.visible_but(&known)? {
        Some(file) => Err(OutputError::Foreign { path: folder.dir().to_owned(), file }),
        None => Ok(()),
    }
}
