//! Reads and writes the manifest of a locked folder.

use std::io;

use super::{publish::Folder, work_file::examine};
use crate::{error::OutputError, file_names::MANIFEST_NAME, manifest::Manifest};

impl Manifest {
    /// Returns the manifest in a folder, if it has one.
    pub(crate) fn load(folder: &Folder) -> Result<Option<Self>, OutputError> {
        match Self::read(&Self::path_in(folder.dir())) {
            Err(OutputError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
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
}
