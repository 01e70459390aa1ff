//! Adding a run's files to a finished dataset.
//!
//! ```text
//! finish(slot) -> journal.rs -> DIR/.annulus/added/     slot by slot
//! complete()   -> final names, beside the dataset's files -> manifest, which lists both
//! ```
//! The dataset's own files and its manifest stay as they are until the new manifest replaces the
//! old one. Readers of a dataset read only the files in its manifest, so a killed run changes
//! nothing for them. New file names contain the number of the append, so no file is replaced.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use arrow::datatypes::{DataType, Schema};

use super::{
    ExistingPolicy, MANIFEST_VERSION, Manifest, OutputError, Settings,
    differences::{difference, same_settings},
    journal::{JournalContent, known_files},
    partitions_by_folder,
    publish::Folder,
};
use crate::{
    column_types::view_of,
    error::DatasetOption,
    file_names::{journal_path, quarantine_name},
    manifest::{AppendEntry, ColumnEntry, KeyType},
};

/// The setting with the types of the keys that the files store as another type; see [`key_types`].
const KEY_TYPES: &str = "key_types";

/// The setting with the rule by which rows are placed.
const PLACEMENT: &str = "placement";

/// The settings that an append shares with the dataset: they decide where a row goes, and what the
/// files are.
const COMMON: [&str; 6] = ["format", PLACEMENT, "by", "into", "sort_by", KEY_TYPES];

/// The remedy that gives a column of the inputs another type.
fn give_type() -> String {
    let types = DatasetOption::Types;
    format!("give it that type: {types} for CSV and JSON, arrow_cast in a query for files that store types")
}

/// The columns that an append writes.
pub(super) struct Columns {
    /// The columns of the files.
    pub(super) of_files: Vec<ColumnEntry>,
    /// The columns whose values name folders.
    pub(super) of_folders: Vec<ColumnEntry>,
}

impl Columns {
    /// Returns the names of all columns.
    pub(super) fn names(&self) -> Vec<String> {
        self.of_files.iter().chain(&self.of_folders).map(|column| column.name.clone()).collect()
    }
}

/// The state in which an append begins.
pub(super) enum AppendStart {
    /// The dataset contains this run already. Has the dataset, and the number of rows that the run
    /// read.
    Complete(Manifest, u64),
    /// Rows are to be added to this dataset. Has the record of an unfinished run of the same
    /// append, if there is one.
    Adding(Manifest, Option<JournalContent>),
}

/// Checks that the run fits the dataset in the folder, numbers the append in `settings`, and
/// removes what another append has left unfinished.
///
/// # Errors
/// If there is no complete dataset, the run does not fit it, or the file system refuses.
pub(super) fn begin(
    folder: &Folder,
    existing: ExistingPolicy,
    settings: &mut Settings,
    columns: &Columns,
) -> Result<AppendStart, OutputError> {
    let dir = || folder.dir().to_owned();
    let Some(base) = Manifest::load(folder)? else { return Err(OutputError::NothingToAppendTo(dir())) };
    check(folder.dir(), settings, columns, &base)?;
    if let Some((path, message)) = base.missing_in(folder.dir()) {
        return Err(OutputError::Incomplete { path, message });
    }
    let number = base.appends.len() + 1;
    if let Some(own) = settings.partition_mut() {
        own.append = Some(number);
    }
    if existing.resumes() {
        let mut recorded = unfinished(folder, &base);
        if let Some(recorded) = &mut recorded {
            recorded.settings.resolve(&columns.names());
        }
        let goes_on = recorded.as_ref().is_some_and(|recorded| recorded.settings == *settings);
        if let Some(rows_in) = rows_of_run(&base, settings).filter(|_| !goes_on) {
            if !base.is_whole(folder)? {
                let (path, message) = (dir(), "files are damaged".to_owned());
                return Err(OutputError::Incomplete { path, message });
            }
            leave(folder, &base)?;
            return Ok(AppendStart::Complete(base, rows_in));
        }
        if let Some(recorded) = recorded {
            same_settings(folder.dir(), existing, settings, &recorded.settings)?;
            folder.remove_of_append([quarantine_name(Some(number)).as_str()])?;
            return Ok(AppendStart::Adding(base, Some(recorded)));
        }
    }
    remove_unfinished(folder, &base)?;
    Ok(AppendStart::Adding(base, None))
}

/// Leaves the folder of a dataset to which nothing is added. An unfinished append stays, with all
/// hidden files, so that it can be resumed. Otherwise all hidden files are removed.
pub(super) fn leave(folder: &Folder, base: &Manifest) -> Result<(), OutputError> {
    if unfinished(folder, base).is_some() {
        return Ok(());
    }
    remove_unfinished(folder, base)?;
    folder.dismantle()
}

/// Removes what an append has left, whether its files have their final names or not, as far as its
/// journal can be read. The dataset's own files stay.
fn remove_unfinished(folder: &Folder, base: &Manifest) -> Result<(), OutputError> {
    let own: HashSet<&str> = base.file_names().collect();
    let left = known_files(&folder.journal_path())?.unwrap_or_default();
    let left = left.into_iter().chain([quarantine_name(Some(base.appends.len() + 1))]);
    let left: Vec<String> = left.filter(|name| !own.contains(name.as_str())).collect();
    folder.remove(left.iter().map(String::as_str))?;
    folder.remove_added()
}

/// Returns the record of an unfinished run of the dataset's next append. A journal that cannot be
/// read, or that names files of the dataset, is ignored.
fn unfinished(folder: &Folder, base: &Manifest) -> Option<JournalContent> {
    let recorded = JournalContent::load(folder).ok().flatten()?;
    let own: HashSet<&str> = base.file_names().collect();
    let is_ours = recorded.settings.append() == Some(base.appends.len() + 1);
    (is_ours && recorded.file_names().iter().all(|name| !own.contains(name.as_str()))).then_some(recorded)
}

/// Returns the number of rows that the run of `settings` read, if it is the first run or an append
/// of the dataset.
fn rows_of_run(base: &Manifest, settings: &Settings) -> Option<u64> {
    let append = base.appends.iter().rev().find(|append| is_same_run(settings, &append.settings));
    let first = || is_same_run(settings, &base.settings).then(|| base.first_rows_in());
    append.map(|append| append.rows + append.rows_bad).or_else(first)
}

/// Returns whether two runs are the same, apart from the number of the append.
fn is_same_run(now: &Settings, before: &Settings) -> bool {
    now.without_append() == before.without_append()
}

/// Returns an error if a run's files cannot be added to those of the dataset.
fn check(dir: &Path, settings: &Settings, columns: &Columns, base: &Manifest) -> Result<(), OutputError> {
    let path = || dir.to_owned();
    let of_files = mismatch(&columns.of_files, &base.columns);
    let mismatch = of_files.or_else(|| mismatch(&columns.of_folders, &base.folder_columns));
    let same_folders = columns.of_folders.len() == base.folder_columns.len();
    if let Some(key) = base.settings.ambiguous_key() {
        return Err(OutputError::AppendColumns { path: path(), mismatch: ambiguous(key) });
    }
    let is_alike = settings
        .partition()
        .zip(base.settings.partition())
        .is_some_and(|(now, there)| now.placement.is_like(&there.placement, now.has_texts(&columns.of_files)));
    let common = COMMON.into_iter().filter(|&setting| setting != PLACEMENT || !is_alike);
    // If a key's type differs, the placement may differ too. The error about the type is more
    // helpful.
    let is_of_types = |setting: &str| setting == KEY_TYPES || setting == PLACEMENT && same_folders;
    match (difference(&settings.to_texts(), &base.settings.to_texts(), common), mismatch) {
        (Some((setting, now, there)), mismatch) if !(is_of_types(&setting) && mismatch.is_some()) => {
            Err(differs(path(), setting, now, there))
        }
        (_, Some(mismatch)) => Err(OutputError::AppendColumns { path: path(), mismatch }),
        (_, None) => Ok(()),
    }
}

/// Returns the error for a dataset whose manifest does not name its key columns.
fn ambiguous(key: &str) -> String {
    format!("a column has a comma in its name, so the key '{key}' of the dataset is ambiguous; partition it again")
}

/// Returns the error for a setting in which the run differs from the dataset.
fn differs(path: PathBuf, setting: String, now: String, there: String) -> OutputError {
    if setting != KEY_TYPES {
        return OutputError::AppendDiffers { path, setting, now, there };
    }
    let mismatch = format!(
        "equal keys would be in two partitions: the types of keys that the files store as another type are {now}, but \
         {there} in the dataset; where a key's type differs from the dataset's, {}",
        give_type()
    );
    OutputError::AppendColumns { path, mismatch }
}

/// Returns the keys that are hashed as another type than the files' types tell, with that type, like
/// `Utf8View` for a dictionary. The files' types tell views for texts if texts are hashed as views.
pub(super) fn key_types(hashed: &[DataType], files: &Schema, keys: &[(String, usize)]) -> Vec<KeyType> {
    let has_views = hashed.iter().any(|hashed| matches!(hashed, DataType::Utf8View | DataType::BinaryView));
    let other = |(place, (hashed, (name, column))): (usize, (&DataType, &(String, usize)))| {
        let stored = files.field(*column).data_type();
        let told = view_of(stored).filter(|_| has_views).unwrap_or_else(|| stored.clone());
        let is_other = hashed_as(place, hashed) != hashed_as(place, &told);
        is_other.then(|| KeyType { column: name.clone(), data_type: hashed.to_string() })
    };
    hashed.iter().zip(keys).enumerate().filter_map(other).collect()
}

/// Returns the type that hashes like type `own`. A dictionary hashes like its values if it is the
/// first key. After other keys, it does only if its values are texts or bytes.
fn hashed_as(place: usize, own: &DataType) -> &DataType {
    use DataType::*;
    match own {
        Dictionary(_, values) if place == 0 || matches!(**values, Utf8 | LargeUtf8 | Binary | LargeBinary) => values,
        own => own,
    }
}

/// Returns the first difference between the columns of a run and those of a dataset. Nullability is
/// not compared.
fn mismatch(now: &[ColumnEntry], there: &[ColumnEntry]) -> Option<String> {
    for (place, there) in there.iter().enumerate() {
        let Some(now) = now.get(place) else {
            return Some(format!("the inputs have no column '{}'; give them the columns of the dataset", there.name));
        };
        if now.name != there.name {
            return Some(format!(
                "column {} is '{}', but '{}' in the dataset; give the inputs the same columns in the same order",
                place + 1,
                now.name,
                there.name
            ));
        }
        if plain(&now.data_type) != plain(&there.data_type) {
            return Some(format!(
                "column '{}' is {}, but {} in the dataset; {}",
                now.name,
                now.data_type,
                there.data_type,
                give_type()
            ));
        }
    }
    let more = now.get(there.len())?;
    Some(format!("the dataset has no column '{}'; leave it out of the inputs", more.name))
}

/// Returns the name of a type with plain text and bytes in place of views, which files store alike.
fn plain(data_type: &str) -> String {
    data_type.replace("Utf8View", "Utf8").replace("BinaryView", "Binary")
}

/// Returns the manifest of a dataset together with the run that was added to it.
pub(super) fn with_run(base: Manifest, run: Manifest) -> Manifest {
    let files = run.partitions.iter().map(|partition| partition.files.len()).sum();
    let Manifest { settings, rows, rows_bad, bytes, quarantine, hot_keys, .. } = run;
    let mut both = Manifest {
        version: MANIFEST_VERSION,
        columns: either_nullable(base.columns, &run.columns),
        folder_columns: either_nullable(base.folder_columns, &run.folder_columns),
        rows: base.rows + rows,
        rows_bad: base.rows_bad + rows_bad,
        bytes: base.bytes + bytes,
        ..base
    };
    if both.folder_columns.is_empty() {
        for (partition, new) in both.partitions.iter_mut().zip(run.partitions) {
            partition.rows += new.rows;
            partition.bytes += new.bytes;
            partition.files.extend(new.files);
        }
    } else {
        let all = both.partitions.into_iter().chain(run.partitions);
        both.partitions = partitions_by_folder(all.flat_map(|partition| partition.files));
    }
    both.appends.push(AppendEntry { settings, rows, rows_bad, bytes, files, quarantine, hot_keys });
    both
}

fn either_nullable(base: Vec<ColumnEntry>, run: &[ColumnEntry]) -> Vec<ColumnEntry> {
    let both = |(base, run): (ColumnEntry, &ColumnEntry)| {
        let nullable = base.nullable || run.nullable;
        ColumnEntry { nullable, ..base }
    };
    base.into_iter().zip(run).map(both).collect()
}

/// Returns the names that an append to the dataset in `dir` is giving to files, or has given since
/// the caller read the manifest. They are not foreign files.
pub(crate) fn names_of_append(dir: &Path) -> HashSet<String> {
    let recorded = JournalContent::read(&journal_path(dir)).ok().flatten();
    let append = recorded.as_ref().and_then(|recorded| recorded.settings.append());
    let recorded = recorded.filter(|_| append.is_some());
    let mut names: HashSet<String> = recorded.iter().flat_map(JournalContent::file_names).collect();
    names.extend(append.map(|number| quarantine_name(Some(number))));
    // The manifest is read after the journal: an append that ends meanwhile writes the manifest
    // before it removes the journal.
    if let Some(manifest) = Manifest::find_in(dir) {
        names.extend(manifest.file_names().map(str::to_owned));
    }
    names
}
