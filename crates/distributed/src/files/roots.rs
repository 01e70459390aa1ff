//! Folders that queries may use.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use annulus_dataset::real_path;

/// Folders that queries may use, with all that is below them. Links in a path are resolved before it is
/// compared with them.
///
/// A user of the machine who can change links below these folders can redirect a query between the
/// check and the use.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    folders: Vec<PathBuf>,
    /// A folder whose own files are never used, and the files that its links lead to.
    keys: Vec<PathBuf>,
}

impl Roots {
    /// Returns roots that allow all files below these folders.
    ///
    /// # Errors
    /// If one does not exist or cannot be opened. The error names it.
    pub fn new(folders: &[PathBuf]) -> io::Result<Self> {
        let real = |folder: &PathBuf| {
            let found = folder.canonicalize().and_then(|real| fs::read_dir(&real).map(|_| real));
            found.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot open the folder '{}': {error}", folder.display()))
            })
        };
        Ok(Self { folders: folders.iter().map(real).collect::<io::Result<_>>()?, keys: Vec::new() })
    }

    /// Refuses the files directly in a folder: certificates and their keys.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn without_files_of(mut self, keys: &Path) -> io::Result<Self> {
        self.keys.push(keys.canonicalize()?);
        for entry in fs::read_dir(keys)? {
            // A link may lead nowhere.
            self.keys.extend(entry?.path().canonicalize());
        }
        Ok(self)
    }

    /// Returns whether there are no folders.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns whether a path may be used. It need not exist.
    pub(super) fn allow(&self, path: &Path) -> bool {
        let is_key = |real: &Path| self.keys.iter().any(|key| real == key || real.parent() == Some(key));
        let real = real_path(path);
        real.is_ok_and(|real| self.folders.iter().any(|folder| real.starts_with(folder)) && !is_key(&real))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_must_exist() {
        let error = Roots::new(&[PathBuf::from("/no/such/folder")]).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
