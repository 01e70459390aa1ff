//! The manifest: the files of a finished dataset. It is written last, so a folder with a manifest is
//! complete.

mod entries;
mod format;
mod placement;
mod settings;
mod sort_column;
mod version_1;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use entries::{ColumnEntry, FileEntry, HotKeyEntry, KeyEntry, PartitionEntry, PlainFileEntry};
pub(crate) use entries::{column_of, columns_of};
pub use format::{Compression, OutputFormat};
pub use placement::PlacementRule;
pub(crate) use settings::list_text;
pub use settings::{JoinKey, JoinSettings, KeyType, PartitionSettings, Settings, SpreadKey};
pub use sort_column::SortColumn;

use crate::{
    error::{DatasetError, OutputError},
    file_names::{MANIFEST_NAME, OLD_MANIFEST_NAME, checked_names, is_member_name},
};

/// The version of the manifests that this crate writes. It reads those of version 1 as well.
pub const MANIFEST_VERSION: u32 = 2;

/// The manifest of a finished dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version: [`MANIFEST_VERSION`] or 1.
    pub version: u32,
    /// The settings of the first run. A run that resumes or appends compares them.
    pub settings: Settings,
    /// The columns of every file.
    pub columns: Vec<ColumnEntry>,
    /// The columns whose values name the folders of the files, which do not contain them. Empty
    /// without such folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folder_columns: Vec<ColumnEntry>,
    /// The number of rows of all partitions.
    pub rows: u64,
    /// The number of rows of the inputs that could not be read.
    pub rows_bad: u64,
    /// The bytes of all files of the partitions.
    pub bytes: u64,
    /// The file of the rows that could not be read, if they were kept.
    pub quarantine: Option<PlainFileEntry>,
    /// All partitions. Those without rows have no file.
    pub partitions: Vec<PartitionEntry>,
    /// The keys with many rows, in descending order of rows. Only those of the first run; empty if
    /// rows are placed in turn or by value.
    #[serde(default)]
    pub hot_keys: Vec<HotKeyEntry>,
    /// The appends to the dataset, the oldest first. The numbers above include theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub appends: Vec<AppendEntry>,
}

/// A run that appended to a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendEntry {
    /// The settings of the run; see [`Manifest::settings`].
    pub settings: Settings,
    /// The rows that the run added.
    pub rows: u64,
    /// The rows of its inputs that could not be read.
    pub rows_bad: u64,
    /// The bytes of the files that it added.
    pub bytes: u64,
    /// The number of those files.
    pub files: usize,
    /// The file of the rows that could not be read, if it was asked for.
    pub quarantine: Option<PlainFileEntry>,
    /// The keys with many rows among those that the run added.
    pub hot_keys: Vec<HotKeyEntry>,
}

impl Manifest {
    /// Returns the manifest in the file `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, OutputError> {
        let text = fs::read(path).map_err(OutputError::io("read", path))?;
        let damaged = |message: String| OutputError::Damaged { path: path.to_owned(), message };
        match Self::parse(&text) {
            Ok(manifest) if manifest.is_known() => {
                checked_names(manifest.file_names()).map_err(damaged)?;
                Ok(manifest)
            }
            Ok(manifest) => {
                Err(damaged(format!("its version is {}, expected 1 to {MANIFEST_VERSION}", manifest.version)))
            }
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    /// Parses a manifest, of any version that has the same fields.
    fn parse(text: &[u8]) -> serde_json::Result<Self> {
        let mut manifest: Self = serde_json::from_slice(text)?;
        let columns: Vec<String> = manifest.all_columns().map(|column| column.name.clone()).collect();
        manifest.settings.resolve(&columns);
        manifest.appends.iter_mut().for_each(|append| append.settings.resolve(&columns));
        Ok(manifest)
    }

    /// Returns whether this version of the crate can read the manifest.
    pub(crate) fn is_known(&self) -> bool {
        (1..=MANIFEST_VERSION).contains(&self.version)
    }

    /// Iterates over the columns of the files and of the folders.
    pub(crate) fn all_columns(&self) -> impl Iterator<Item = &ColumnEntry> {
        self.columns.iter().chain(&self.folder_columns)
    }

    /// Returns the manifest in `dir`, if it can be read. Another file may have its name.
    pub(crate) fn find_in(dir: &Path) -> Option<Self> {
        Self::parse(&fs::read(Self::path_in(dir)).ok()?).ok()
    }

    /// Returns the manifest in `dir`, if there is one.
    ///
    /// # Errors
    /// If it is damaged. A file of its old name may be another one.
    pub(crate) fn read_in(dir: &Path) -> Result<Option<Self>, DatasetError> {
        let path = dir.join(MANIFEST_NAME);
        let Ok(text) = fs::read(&path) else { return Ok(Self::find_in(dir)) };
        Self::parse(&text).map(Some).map_err(|error| {
            let reason = format!("it is damaged ({error}); restore it, or remove it to read the files as they are");
            DatasetError::corrupt(&path.display().to_string(), reason)
        })
    }

    /// Returns the path of the manifest of the dataset in `dir`, or the path that it would have.
    pub fn path_in(dir: &Path) -> PathBuf {
        let (path, old) = (dir.join(MANIFEST_NAME), dir.join(OLD_MANIFEST_NAME));
        if !path.exists() && old.exists() { old } else { path }
    }

    /// Returns the names of the manifests in `dir`. There are two if a run that appended was killed
    /// before it could remove one of an older version.
    pub(crate) fn names_in(dir: &Path) -> Vec<&'static str> {
        let is_manifest = |name: &&str| fs::read(dir.join(name)).is_ok_and(|text| Self::parse(&text).is_ok());
        [MANIFEST_NAME, OLD_MANIFEST_NAME].into_iter().filter(is_manifest).collect()
    }

    /// Returns a file that is missing or has another length than before, and the difference.
    pub(crate) fn missing_in(&self, folder: &Path) -> Option<(PathBuf, String)> {
        let manifest = Self::path_in(folder);
        let manifest = manifest.strip_prefix(folder).unwrap_or(&manifest).display();
        let files = self.partitions.iter().flat_map(|partition| &partition.files).map(|file| (&file.name, file.bytes));
        let mut paths = files.map(|(name, bytes)| (folder.join(name), bytes));
        paths.find_map(|(path, bytes)| {
            let wrong = match fs::metadata(&path) {
                Ok(metadata) if metadata.len() == bytes => return None,
                Ok(metadata) => format!("it has {} bytes, but {bytes} according to {manifest}", metadata.len()),
                Err(error) => format!("{manifest} names it, and {error}"),
            };
            let remedy = format!("write the dataset again, or remove {manifest} to read the files as they are");
            Some((path, format!("{wrong}; {remedy}")))
        })
    }

    /// Returns the number of rows that the first run read, good and bad.
    pub(crate) fn first_rows_in(&self) -> u64 {
        let appended: u64 = self.appends.iter().map(|append| append.rows + append.rows_bad).sum();
        (self.rows + self.rows_bad).saturating_sub(appended)
    }

    /// Returns the folders of the members of a [`Collection`](crate::Collection), which hold the
    /// files; empty for other datasets.
    pub fn members(&self) -> BTreeSet<&str> {
        let folders = self.file_names().filter_map(|name| name.split_once('/')).map(|(folder, _)| folder);
        folders.filter(|folder| is_member_name(folder)).collect()
    }

    /// Iterates over the names of all files except the manifest.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.sealed_files().map(|(name, ..)| name.as_str())
    }

    /// Iterates over name, bytes and checksum of every file except the manifest.
    pub(crate) fn sealed_files(&self) -> impl Iterator<Item = (&String, u64, &String)> {
        let files = self.partitions.iter().flat_map(|partition| &partition.files);
        let files = files.map(|file| (&file.name, file.bytes, &file.checksum));
        let plain = self.quarantine.iter().chain(self.appends.iter().filter_map(|append| append.quarantine.as_ref()));
        files.chain(plain.map(|file| (&file.name, file.bytes, &file.checksum)))
    }
}
