//! The files of a dataset against its manifest.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{MANIFEST_NAME, Manifest, OutputError, append::names_of_append, work_file::examine};

/// A check of a dataset's files that has not begun to read them.
#[derive(Debug)]
pub struct Verification {
    dir: PathBuf,
    /// What the manifest says of each file: its bytes, and its checksum.
    expected: BTreeMap<String, (u64, String)>,
    /// Folders of its files, from `dir`; empty for that itself.
    folders: Vec<String>,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Files that the manifest names.
    pub files: usize,
    /// Their bytes by the manifest.
    pub bytes: u64,
    /// The files that are not as the manifest says, by name.
    pub bad: Vec<BadFile>,
}

/// A file that is not as a manifest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadFile {
    /// Its name in the folder.
    pub name: String,
    /// What is wrong, as in "it is missing" without "it".
    pub reason: String,
}

impl Verification {
    /// Reads the manifest of a folder.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn begin(dir: &Path) -> Result<Self, OutputError> {
        let manifest = Manifest::read(&dir.join(MANIFEST_NAME))?;
        let entry = |(name, bytes, checksum): (&String, u64, &String)| (name.clone(), (bytes, checksum.clone()));
        let expected = manifest.sealed_files().map(entry).collect();
        let members = manifest.members().into_iter().map(|member| format!("{member}/"));
        let folders = [String::new()].into_iter().chain(members).collect();
        Ok(Self { dir: dir.to_owned(), expected, folders })
    }

    /// Bytes of all files by the manifest.
    pub fn bytes(&self) -> u64 {
        self.expected.values().map(|(bytes, _)| bytes).sum()
    }

    /// Reads every file; `read` is told how many bytes of the manifest's are done.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn run(&self, read: impl Fn(u64)) -> Result<Verified, OutputError> {
        let mut bad = self.extra()?;
        for (name, (bytes, checksum)) in &self.expected {
            let reason = match examine(&self.dir.join(name))? {
                None => Some("is missing".to_owned()),
                Some(found) if found.bytes != *bytes => Some(format!("has {} bytes, and had {bytes}", found.bytes)),
                Some(found) if found.checksum != *checksum => {
                    Some(format!("has checksum {}, and had {checksum}", found.checksum))
                }
                Some(_) => None,
            };
            bad.extend(reason.map(|reason| BadFile { name: name.clone(), reason }));
            read(*bytes);
        }
        bad.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Verified { files: self.expected.len(), bytes: self.bytes(), bad })
    }

    /// Files beside those of the manifest, but for hidden ones and those that an append is adding.
    fn extra(&self) -> Result<Vec<BadFile>, OutputError> {
        let (mut extra, added) = (vec![], names_of_append(&self.dir));
        for folder in &self.folders {
            let dir = self.dir.join(folder);
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                // Then its files are missing.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(OutputError::io("list", dir)(error)),
            };
            for entry in entries {
                let entry = entry.map_err(OutputError::io("list", &dir))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_ours = name.starts_with('.') || name == MANIFEST_NAME || entry.path().is_dir();
                let name = format!("{folder}{name}");
                if !is_ours && !self.expected.contains_key(&name) && !added.contains(&name) {
                    extra.push(BadFile { name, reason: format!("is not in {MANIFEST_NAME}") });
                }
            }
        }
        Ok(extra)
    }
}
