//! Checking the files of a dataset against its manifest.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Manifest, OutputError, append::names_of_append, open::is_unfinished, work_file::examine};
use crate::file_names::{MANIFEST_NAME, OLD_MANIFEST_NAME};

/// A check of a dataset's files, which [`run`](Self::run) carries out.
///
/// ```no_run
/// use std::path::Path;
///
/// use annulus_dataset::Verification;
///
/// let verified = Verification::begin(Path::new("parts"))?.run(|_bytes| {})?;
/// for file in &verified.bad {
///     println!("'{}' {}", file.name, file.reason);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Verification {
    dir: PathBuf,
    /// The bytes and checksum of each file, according to the manifest.
    expected: BTreeMap<String, (u64, String)>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// The number of files that the manifest names.
    pub files: usize,
    /// The bytes of these files, according to the manifest.
    pub bytes: u64,
    /// The files that differ from the manifest, by name.
    pub bad: Vec<BadFile>,
}

/// A file that differs from the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadFile {
    /// The name in the folder.
    pub name: String,
    /// The difference, such as `is missing`.
    pub reason: String,
}

impl Verification {
    /// Reads the manifest in the folder `dir`.
    ///
    /// # Errors
    /// If the manifest is missing or damaged, or the dataset is not finished.
    pub fn begin(dir: &Path) -> Result<Self, OutputError> {
        if is_unfinished(dir) {
            return Err(OutputError::Unfinished(dir.to_owned()));
        }
        let manifest = Manifest::read(&Manifest::path_in(dir))?;
        let entry = |(name, bytes, checksum): (&String, u64, &String)| (name.clone(), (bytes, checksum.clone()));
        Ok(Self { dir: dir.to_owned(), expected: manifest.sealed_files().map(entry).collect() })
    }

    /// Returns the bytes of all files, according to the manifest.
    pub fn bytes(&self) -> u64 {
        self.expected.values().map(|(bytes, _)| bytes).sum()
    }

    /// Reads every file. After each file, calls `read` with its bytes according to the manifest.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn run(&self, read: impl Fn(u64)) -> Result<VerificationReport, OutputError> {
        let mut bad = self.extra()?;
        for (name, (bytes, checksum)) in &self.expected {
            let reason = match examine(&self.dir.join(name))? {
                None => Some("is missing".to_owned()),
                Some(found) if found.bytes != *bytes => Some(format!("has {} bytes, but had {bytes}", found.bytes)),
                Some(found) if found.checksum != *checksum => {
                    Some(format!("has checksum {}, but had {checksum}", found.checksum))
                }
                Some(_) => None,
            };
            bad.extend(reason.map(|reason| BadFile { name: name.clone(), reason }));
            read(*bytes);
        }
        bad.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(VerificationReport { files: self.expected.len(), bytes: self.bytes(), bad })
    }

    /// Returns the files below the folder that are not in the manifest, except hidden files and
    /// those that an append is adding.
    fn extra(&self) -> Result<Vec<BadFile>, OutputError> {
        let (mut extra, added) = (vec![], names_of_append(&self.dir));
        // Folders to list: their names below `dir`, each with a '/' at its end.
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let dir = self.dir.join(&folder);
            for entry in fs::read_dir(&dir).map_err(OutputError::io("list", &dir))? {
                let entry = entry.map_err(OutputError::io("list", &dir))?;
                let file_name = entry.file_name().to_string_lossy().into_owned();
                let name = format!("{folder}{file_name}");
                if file_name.starts_with('.') || file_name == OLD_MANIFEST_NAME {
                    continue;
                }
                if entry.file_type().map_err(OutputError::io("examine", entry.path()))?.is_dir() {
                    folders.push(name + "/");
                } else if !self.expected.contains_key(&name) && !added.contains(&name) {
                    extra.push(BadFile { name, reason: format!("is not in {MANIFEST_NAME}") });
                }
            }
        }
        Ok(extra)
    }
}
