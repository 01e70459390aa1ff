//! The folder for spill files. If a process is killed, a later one removes its folder.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

const PREFIX: &str = "annulus-spill-";
/// A file in each folder, locked while its process lives.
const LOCK: &str = "lock";

/// A folder for spill files, removed when dropped.
#[derive(Debug)]
pub struct SpillFolder {
    /// A folder below the one with the lock, so that an engine finds only its own files in it.
    files: PathBuf,
    _lock: File,
    _folder: TempDir,
}

impl SpillFolder {
    /// Creates a folder below `temporary`, and removes those of killed processes.
    pub fn create(temporary: &Path) -> Result<Self> {
        let folder = make(temporary);
        let folder =
            folder.with_context(|| format!("cannot create a folder for spill files in '{}'", temporary.display()))?;
        sweep(temporary, folder.path());
        Ok(folder)
    }

    /// Returns the folder for spill files.
    pub fn path(&self) -> &Path {
        &self.files
    }
}

fn make(temporary: &Path) -> io::Result<SpillFolder> {
    loop {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(temporary)?;
        // Until the folder is locked, another process may consider it abandoned.
        match lock(folder.path()) {
            Ok(lock) => {
                let files = folder.path().join("files");
                fs::create_dir(&files)?;
                return Ok(SpillFolder { files, _lock: lock, _folder: folder });
            }
            Err(_) if !folder.path().exists() => {}
            Err(error) => return Err(error),
        }
    }
}

fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(LOCK);
    let file = File::create_new(&path)?;
    file.lock()?;
    // If another process removed the folder in between, the lock protects nothing.
    fs::metadata(&path)?;
    Ok(file)
}

/// Removes the other folders of this user that no process has locked. Ignores folders that cannot
/// be removed.
fn sweep(temporary: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(temporary) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let named = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if !named || folder == own || !same_owner(&folder, own) {
            continue;
        }
        if let Ok(lock) = File::open(folder.join(LOCK))
            && lock.try_lock().is_ok()
        {
            fs::remove_dir_all(&folder).ok();
        }
    }
}

/// Returns whether `folder` is a folder, not a link, and belongs to the owner of `own`.
#[cfg(unix)]
fn same_owner(folder: &Path, own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|found| found.uid());
    owner(folder).is_some_and(|user| Some(user) == owner(own))
}

#[cfg(not(unix))]
fn same_owner(folder: &Path, _own: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() {
        let temporary = tempfile::tempdir().expect("a folder");
        let living = SpillFolder::create(temporary.path()).expect("a folder");
        let left = temporary.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(left.join("files")).expect("a folder");
        fs::write(left.join("files/rows"), "rows").expect("a file");
        fs::write(left.join(LOCK), "").expect("a file");
        let other = temporary.path().join("other");
        fs::create_dir(&other).expect("a folder");
        fs::write(other.join(LOCK), "").expect("a file");

        let own = SpillFolder::create(temporary.path()).expect("a folder");
        assert!(!left.exists() && other.exists());
        assert!(living.path().exists() && own.path().exists());
        drop((living, own));
        let names: Vec<_> = fs::read_dir(temporary.path()).expect("a folder").flatten().collect();
        assert_eq!(names.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let temporary = tempfile::tempdir().expect("a folder");
        let precious = tempfile::tempdir().expect("a folder");
        fs::write(precious.path().join(LOCK), "").expect("a file");
        let link = temporary.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(precious.path(), &link).expect("a link");
        SpillFolder::create(temporary.path()).expect("a folder");
        assert!(link.is_symlink() && precious.path().join(LOCK).exists());
    }
}
