//! The folders that joins may read and write on a node.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use annulus_dataset::{input_root, real_path};

use crate::error::ClusterError;

/// The folders of a node that joins may read and write. Links in a path are resolved before the
/// path is compared with the folders.
///
/// A user of the node who can change links below these folders can redirect a join between the
/// check and the use.
#[derive(Clone, Debug)]
pub struct Access {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// The folder of certificates and keys, whose own files are never inputs.
    certificates: PathBuf,
}

impl Access {
    /// Allows joins to read files below the folders of `read`, and to write below those of `write`.
    /// Files directly in `certificates` are never read.
    ///
    /// # Errors
    /// If no folder is given to read from or to write to, or one does not exist.
    pub fn new(read: &[PathBuf], write: &[PathBuf], certificates: &Path) -> Result<Self, ClusterError> {
        let real = |option: &'static str, folders: &[PathBuf]| {
            if folders.is_empty() {
                let reason = "expected at least one folder; joins can use only these".to_owned();
                return Err(ClusterError::Option { option, reason });
            }
            let real = |folder: &PathBuf| {
                let found = folder.canonicalize().and_then(|real| fs::read_dir(&real).map(|_| real));
                found.map_err(|error| ClusterError::Option {
                    option,
                    reason: format!("cannot open the folder '{}': {error}", folder.display()),
                })
            };
            folders.iter().map(real).collect()
        };
        let (read, write) = (real("allow_read", read)?, real("allow_write", write)?);
        Ok(Self { read, write, certificates: certificates.canonicalize().unwrap_or_else(|_| certificates.to_owned()) })
    }

    /// Checks the paths of inputs. The error does not reveal whether a refused path exists or where
    /// it leads.
    ///
    /// # Errors
    /// If a path is relative, leads out of the folders, or has `..` after a wildcard.
    pub(crate) fn check_inputs(&self, inputs: &[String]) -> Result<(), ClusterError> {
        inputs.iter().try_for_each(|input| {
            let path = Path::new(input);
            let root = input_root(input);
            let climbs = path.components().skip(root.components().count()).any(|part| part == Component::ParentDir);
            if path.is_absolute() && !climbs && is_below(&self.read, &root) {
                Ok(())
            } else {
                Err(refused("read", path))
            }
        })
    }

    /// Checks a file that an input has expanded to.
    ///
    /// # Errors
    /// If it lies outside the folders or beside the keys, or is not a regular file: reading a pipe
    /// would block.
    pub(crate) fn check_file(&self, path: &Path) -> Result<(), ClusterError> {
        let is_key = |real: &PathBuf| real.parent() == Some(&self.certificates);
        let real =
            path.canonicalize().ok().filter(|real| is_below(&self.read, real) && real.is_file() && !is_key(real));
        if real.is_some() { Ok(()) } else { Err(refused("read", path)) }
    }

    /// Checks the folder of a result.
    ///
    /// # Errors
    /// If it is relative, or lies outside the folders.
    pub(crate) fn check_output(&self, dir: &Path) -> Result<(), ClusterError> {
        if dir.is_absolute() && is_below(&self.write, dir) { Ok(()) } else { Err(refused("write to", dir)) }
    }
}

fn is_below(folders: &[PathBuf], path: &Path) -> bool {
    real_path(path).is_ok_and(|real| folders.iter().any(|folder| real.starts_with(folder)))
}

fn refused(action: &'static str, path: &Path) -> ClusterError {
    ClusterError::Access { action, path: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn folders() -> (tempfile::TempDir, Access) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["in/deep", "out", "certs", "secret", "in/certs"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["in/a.csv", "in/certs/key.pem", "secret/b.csv"] {
            fs::write(root.join(name), "x\n1\n").unwrap();
        }
        symlink("../secret", root.join("in/link")).unwrap();
        symlink("../secret/b.csv", root.join("in/b.csv")).unwrap();
        symlink("../secret", root.join("out/link")).unwrap();
        let access = Access::new(&[root.join("in")], &[root.join("out")], &root.join("in/certs")).unwrap();
        (folder, access)
    }

    #[test]
    fn inputs_stay_in_their_folders() {
        let (folder, access) = folders();
        let check = |input: &str| access.check_inputs(&[folder.path().join(input).to_str().unwrap().to_owned()]);
        for input in ["in", "in/a.csv", "in/*.csv", "in/deep/../a.csv", "in/none.csv", "in/**/*.csv"] {
            check(input).unwrap();
        }
        for input in [
            "",
            "secret",
            "secret/*",
            "none",
            "in/link",
            "in/link/b.csv",
            "in/../secret",
            "in/*/../../secret/b.csv",
            "inn",
        ] {
            let error = check(input).unwrap_err().to_string();
            assert!(error.contains("outside the folders"), "'{input}': {error}");
        }
        // Relative paths, including standard input.
        for input in ["in", "-"] {
            access.check_inputs(&[input.to_owned()]).unwrap_err();
        }
    }

    #[test]
    fn files_that_a_folder_leads_to_stay_there() {
        let (folder, access) = folders();
        access.check_file(&folder.path().join("in/a.csv")).unwrap();
        let _socket = UnixListener::bind(folder.path().join("in/socket")).unwrap();
        for file in ["in/b.csv", "in/link/b.csv", "in/certs/key.pem", "in/socket", "in/deep", "in/none"] {
            access.check_file(&folder.path().join(file)).unwrap_err();
        }
    }

    #[test]
    fn outputs_stay_in_their_folders() {
        let (folder, access) = folders();
        for dir in ["out", "out/new", "out/new/newer"] {
            access.check_output(&folder.path().join(dir)).unwrap();
        }
        for dir in ["", "in", "new", "out/..", "out/link", "out/link/new", "out/none/../../in"] {
            access.check_output(&folder.path().join(dir)).unwrap_err();
        }
        access.check_output(Path::new("out")).unwrap_err();
    }

    #[test]
    fn folders_must_be_named_and_exist() {
        let (folder, _) = folders();
        let (here, none) = (vec![folder.path().to_owned()], vec![folder.path().join("none")]);
        assert!(Access::new(&[], &here, folder.path()).unwrap_err().to_string().contains("`allow_read`"));
        assert!(Access::new(&here, &[], folder.path()).unwrap_err().to_string().contains("`allow_write`"));
        assert!(Access::new(&here, &none, folder.path()).unwrap_err().to_string().contains("none"));
    }
}
