//! The files that a worker reads and writes for queries.

use std::path::{Component, Path};

use annulus_datafusion::ReadAccess;
use annulus_dataset::input_root;
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result},
};

use super::roots::Roots;

/// The folders that a worker uses for queries, beside its object stores. By default, there are none.
#[derive(Clone, Debug, Default)]
pub struct WorkerFiles {
    /// The folders in which it opens datasets.
    pub read: Roots,
    /// The folders in which it writes datasets.
    pub write: Roots,
}

impl WorkerFiles {
    /// Checks the folder of a result.
    ///
    /// # Errors
    /// If it is relative, or lies outside the folders.
    pub(crate) fn check_output(&self, folder: &Path) -> Result<()> {
        if folder.is_absolute() && self.write.allow(folder) {
            return Ok(());
        }
        let path = folder.display();
        exec_err!("the worker refuses '{path}': it is outside the folders that it may write (`allow_write`)")
    }
}

/// The errors do not tell whether a refused path exists, or where it leads.
impl ReadAccess for WorkerFiles {
    fn check_inputs(&self, inputs: &[String]) -> Result<()> {
        inputs.iter().try_for_each(|input| {
            let path = Path::new(input);
            let root = input_root(input);
            let climbs = path.components().skip(root.components().count()).any(|part| part == Component::ParentDir);
            let is_allowed = path.is_absolute() && !climbs && self.read.allow(&root);
            if is_allowed { Ok(()) } else { Err(not_readable(path)) }
        })
    }

    fn check_file(&self, path: &Path) -> Result<()> {
        // Reading a pipe would block.
        let is_allowed = self.read.allow(path) && path.is_file();
        if is_allowed { Ok(()) } else { Err(not_readable(path)) }
    }
}

fn not_readable(path: &Path) -> DataFusionError {
    DataFusionError::Execution(format!("the worker refuses '{}': it {OUTSIDE}", path.display()))
}

/// The reason why a path is refused.
pub(super) const OUTSIDE: &str = "is outside the folders that it may read (`allow_read`)";

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn folders() -> (tempfile::TempDir, WorkerFiles) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["in/deep", "out", "secret", "in/certs"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["in/a.csv", "in/certs/key.pem", "secret/b.csv"] {
            fs::write(root.join(name), "x\n1\n").unwrap();
        }
        symlink("../secret", root.join("in/link")).unwrap();
        symlink("../secret/b.csv", root.join("in/b.csv")).unwrap();
        symlink("../secret", root.join("out/link")).unwrap();
        fs::write(root.join("in/deep/other.pem"), "key").unwrap();
        symlink("../deep/other.pem", root.join("in/certs/linked.pem")).unwrap();
        let roots = |name| Roots::new(&[root.join(name)]).unwrap().without_files_of(&root.join("in/certs")).unwrap();
        let files = WorkerFiles { read: roots("in"), write: roots("out") };
        (folder, files)
    }

    #[test]
    fn datasets_are_read_below_the_roots_only() {
        let (folder, files) = folders();
        let check = |input: &str| files.check_inputs(&[folder.path().join(input).to_str().unwrap().to_owned()]);
        for input in ["in", "in/a.csv", "in/*.csv", "in/deep/../a.csv", "in/none.csv", "in/**/*.csv"] {
            check(input).unwrap();
        }
        for input in ["", "secret/*", "none", "in/link/b.csv", "in/../secret", "in/*/../../secret/b.csv", "inn"] {
            let error = check(input).unwrap_err().to_string();
            assert!(error.contains("outside the folders"), "'{input}': {error}");
        }
        for input in ["in", "-"] {
            files.check_inputs(&[input.to_owned()]).unwrap_err();
        }
        files.check_file(&folder.path().join("in/a.csv")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("in/socket")).unwrap();
        for file in
            ["in/b.csv", "in/link/b.csv", "in/certs/key.pem", "in/certs/linked.pem", "in/socket", "in/deep", "in/none"]
        {
            files.check_file(&folder.path().join(file)).unwrap_err();
        }
    }

    #[test]
    fn results_stay_below_the_roots() {
        let (folder, files) = folders();
        for dir in ["out", "out/new", "out/new/newer"] {
            files.check_output(&folder.path().join(dir)).unwrap();
        }
        for dir in ["", "in", "new", "out/..", "out/link", "out/link/new", "out/none/../../in"] {
            files.check_output(&folder.path().join(dir)).unwrap_err();
        }
        files.check_output(Path::new("out")).unwrap_err();
        WorkerFiles::default().check_output(folder.path()).unwrap_err();
    }
}
