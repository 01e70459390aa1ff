//! The manifest: the files of a finished dataset. It is written last, so a folder with a manifest is
//! complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use arrow::datatypes::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::{
    OutputError,
    collection::is_member_name,
    publish::{Folder, checked_names},
    work_file::examine,
};

/// The name of the manifest below its folder. Its folder is hidden, so pyarrow, Spark and DataFusion
/// do not take it for data. It has no extension, so globs such as `*/*.json` do not match it.
pub const MANIFEST_NAME: &str = ".annulus/manifest";
/// The name that older versions gave the manifest. It is read if there is no other one.
pub const OLD_MANIFEST_NAME: &str = "manifest.json";
/// The version of manifests that this crate writes and reads.
pub const MANIFEST_VERSION: u32 = 1;

/// The settings of a job by name: everything that decides which rows go to which file.
pub type Settings = BTreeMap<String, String>;

/// The manifest of a finished dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version, [`MANIFEST_VERSION`].
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

/// A hot key: one with many rows in comparison with an average partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotKeyEntry {
    /// The values of the key columns as text, separated by commas, and cut after 200 characters.
    pub key: String,
    /// The key's partition.
    pub partition: usize,
    /// The number of extra files that its rows are spread over; 0 if they are in the partition's
    /// own.
    pub files: usize,
    /// The least number of its rows. It is exact for keys that were spread. For others it is
    /// estimated from one row in 32, and wrong in one of ten thousand cases.
    pub rows_min: u64,
    /// The greatest number of its rows, with the precision of `rows_min`.
    pub rows_max: u64,
}

/// A column of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// The name.
    pub name: String,
    /// The Arrow type.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether the column may have nulls.
    pub nullable: bool,
}

/// A partition of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionEntry {
    /// The partition's number, from 0.
    pub partition: usize,
    /// The number of rows of all its files.
    pub rows: u64,
    /// The bytes of all its files.
    pub bytes: u64,
    /// The files of the partition, in the order in which they were written.
    pub files: Vec<FileEntry>,
}

/// A file of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The name in the dataset's folder. It includes the folders that values name.
    pub name: String,
    /// The number of the extra file for hot keys, from 1; `None` for the partition's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<usize>,
    /// The number of rows.
    pub rows: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// `xxh64:` and the XXH64 of the bytes, with seed 0, in hexadecimal.
    pub checksum: String,
    /// The least and the greatest value of each key column. Keys whose values have no order, or no
    /// text, are left out.
    pub keys: Vec<KeyEntry>,
}

/// The range of a key column in a file, as text. A date or time that cannot be written as one is
/// the number that Arrow stores: 2147483647 for the last `Date32`. That happens if it is outside
/// the calendar's range, or its time zone is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// The column's name.
    pub column: String,
    /// The smallest value; `None` if all are null.
    pub min: Option<String>,
    /// The largest value; `None` if all are null.
    pub max: Option<String>,
    /// The number of nulls.
    pub nulls: u64,
}

/// A file that belongs to no partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainFileEntry {
    /// The name in the folder.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// The checksum; see [`FileEntry::checksum`].
    pub checksum: String,
}

impl Manifest {
    /// Returns the manifest in a folder, if it has one.
    pub(crate) fn load(folder: &Folder) -> Result<Option<Self>, OutputError> {
        match Self::read(&Self::path_in(folder.dir())) {
            Err(OutputError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the manifest in the file `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, OutputError> {
        let text = fs::read(path).map_err(OutputError::io("read", path))?;
        let damaged = |message: String| OutputError::Damaged { path: path.to_owned(), message };
        match serde_json::from_slice::<Self>(&text) {
            Ok(manifest) if manifest.version == MANIFEST_VERSION => {
                checked_names(manifest.file_names()).map_err(damaged)?;
                Ok(manifest)
            }
            Ok(manifest) => Err(damaged(format!("its version is {}, not {MANIFEST_VERSION}", manifest.version))),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    /// Returns the manifest in `dir`, if it can be read. Another file may have its name.
    pub(crate) fn find_in(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path_in(dir)).ok()?).ok()
    }

    /// Returns the path of the manifest of the dataset in `dir`, or the path that it would have.
    pub fn path_in(dir: &Path) -> PathBuf {
        let (path, old) = (dir.join(MANIFEST_NAME), dir.join(OLD_MANIFEST_NAME));
        if !path.exists() && old.exists() { old } else { path }
    }

    /// Returns the names of the manifests in `dir`. There are two if a run that appended was killed
    /// before it could remove one of an older version.
    pub(super) fn names_in(dir: &Path) -> Vec<&'static str> {
        let is_manifest =
            |name: &&str| fs::read(dir.join(name)).is_ok_and(|text| serde_json::from_slice::<Self>(&text).is_ok());
        [MANIFEST_NAME, OLD_MANIFEST_NAME].into_iter().filter(is_manifest).collect()
    }

    /// Returns a file that is missing or has another length than before, and what is wrong with it.
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

    /// Writes the manifest, as a whole or not at all.
    pub(crate) fn store(&self, folder: &Folder) -> Result<(), OutputError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| OutputError::Damaged { path: MANIFEST_NAME.into(), message: error.to_string() })?;
        text.push(b'\n');
        let old = Self::names_in(folder.dir()).into_iter().filter(|name| *name != MANIFEST_NAME);
        let old: Vec<_> = old.collect();
        folder.write_whole(MANIFEST_NAME, &text)?;
        folder.remove(old)
    }

    /// Returns the number of rows that the first run read, good and bad.
    pub(super) fn first_rows_in(&self) -> u64 {
        let appended: u64 = self.appends.iter().map(|append| append.rows + append.rows_bad).sum();
        (self.rows + self.rows_bad).saturating_sub(appended)
    }

    /// Returns whether all files are there with the content that they had. Reads every file.
    pub(crate) fn is_whole(&self, folder: &Folder) -> Result<bool, OutputError> {
        for (name, bytes, checksum) in self.sealed_files() {
            let found = examine(&folder.final_path(name))?;
            if !found.is_some_and(|found| found.bytes == bytes && found.checksum == *checksum) {
                return Ok(false);
            }
        }
        Ok(true)
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
    pub(super) fn sealed_files(&self) -> impl Iterator<Item = (&String, u64, &String)> {
        let files = self.partitions.iter().flat_map(|partition| &partition.files);
        let files = files.map(|file| (&file.name, file.bytes, &file.checksum));
        let plain = self.quarantine.iter().chain(self.appends.iter().filter_map(|append| append.quarantine.as_ref()));
        files.chain(plain.map(|file| (&file.name, file.bytes, &file.checksum)))
    }
}

/// Returns the columns of `schema` as a manifest lists them.
pub(crate) fn columns_of(schema: &Schema) -> Vec<ColumnEntry> {
    schema.fields().iter().map(|field| column_of(field)).collect()
}

/// Returns a column as a manifest lists it.
pub(crate) fn column_of(field: &Field) -> ColumnEntry {
    ColumnEntry { name: field.name().clone(), data_type: field.data_type().to_string(), nullable: field.is_nullable() }
}
