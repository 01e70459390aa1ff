//! A folder in which files appear under their final names only when they are complete and, if asked
//! for, synced to disk.
//!
//! ```text
//! DIR/.annulus/lock             held while a run uses DIR
//! DIR/.annulus/journal.jsonl    the finished files (journal.rs)
//! DIR/.annulus/work/            files in the making, on the file system of DIR, so that a rename moves them
//! DIR/.annulus/added/           complete files of an append, until all are (append.rs)
//! DIR/.annulus/manifest         the files of the finished dataset, which stays (manifest.rs)
//! DIR/part-00007.parquet        whole files
//! ```

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{own, work_file::WorkFile};
use crate::{
    error::OutputError,
    file_names::{HIDDEN, MANIFEST_NAME, journal_path},
    manifest::Manifest,
};

/// The folder of the complete files of an append, in the hidden folder.
const ADDED: &str = "added";

/// The name of the locked file in the hidden folder.
const LOCK_NAME: &str = "lock";

/// An output folder, locked for one run.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    hidden: PathBuf,
    work: PathBuf,
    /// Whether files and names are synced to disk, and not only written to the system's cache.
    sync: bool,
    /// Whether the folder existed before any run used it.
    was_there: bool,
    /// The open lock file. The lock is released with it, also when the process is killed.
    _lock: File,
}

impl Folder {
    /// Creates `dir` and its parents, if they do not exist, and locks it.
    ///
    /// # Errors
    /// [`OutputError::InUse`] if another run has locked it.
    pub(crate) fn lock(dir: &Path, sync: bool) -> Result<Self, OutputError> {
        let hidden = dir.join(HIDDEN);
        // If there is a hidden folder of an unfinished run, that may have created `dir` too.
        let was_there = dir.exists() && (!hidden.exists() || Manifest::path_in(dir).exists());
        loop {
            own::create_folder(&hidden)?;
            let path = hidden.join(LOCK_NAME);
            let lock = match own::open(&path, File::options().write(true).create(true).truncate(false)) {
                Ok(lock) => lock,
                // The run that had the lock has just ended, and removed the hidden folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => continue,
                Err(error) => return Err(own::open_error("create", &path, error)),
            };
            match lock.try_lock() {
                Ok(()) if is_same_file(&lock, &path) => {
                    let work = hidden.join("work");
                    return Ok(Self { dir: dir.to_owned(), hidden, work, sync, was_there, _lock: lock });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(OutputError::InUse(dir.to_owned())),
                Err(TryLockError::Error(error)) => return Err(OutputError::io("lock", path)(error)),
            }
        }
    }

    /// Returns the folder of the complete files.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the journal.
    pub(crate) fn journal_path(&self) -> PathBuf {
        journal_path(&self.dir)
    }

    /// Returns whether files are synced to disk.
    pub(super) fn syncs(&self) -> bool {
        self.sync
    }

    /// Syncs the names of hidden files to disk, if asked for.
    pub(super) fn sync_hidden(&self) -> Result<(), OutputError> {
        self.sync_names(&self.hidden)
    }

    fn sync_names(&self, dir: &Path) -> Result<(), OutputError> {
        if self.sync && cfg!(unix) {
            File::open(dir).and_then(|folder| folder.sync_all()).map_err(OutputError::io("write", dir))?;
        }
        Ok(())
    }

    /// Returns the path of a file that is being written.
    pub(crate) fn work_path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Returns the path of a complete file under its final name.
    pub(crate) fn final_path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the path of a complete file of an append that does not have its final name yet.
    pub(super) fn added_path(&self, name: &str) -> PathBuf {
        self.hidden.join(ADDED).join(name)
    }

    /// Creates an empty work folder, in place of an old one.
    pub(crate) fn clear_work(&self) -> Result<(), OutputError> {
        self.remove_work()?;
        fs::create_dir(&self.work).map_err(OutputError::io("create", &self.work))
    }

    /// Removes the work folder, if it is there.
    pub(crate) fn remove_work(&self) -> Result<(), OutputError> {
        remove_folder(&self.work)
    }

    /// Removes the complete files of an append that do not have their final names yet.
    pub(super) fn remove_added(&self) -> Result<(), OutputError> {
        remove_folder(&self.added_path(""))
    }

    /// Gives sealed files of the work folder their final names.
    pub(crate) fn publish<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), OutputError> {
        self.rename(names, |name| self.work_path(name), &self.dir)
    }

    /// Moves sealed files of the work folder to those that an append adds later.
    pub(super) fn add<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), OutputError> {
        own::create_folder(&self.added_path(""))?;
        self.rename(names, |name| self.work_path(name), &self.added_path(""))
    }

    /// Gives all added files their final names. Those that have them already are skipped.
    ///
    /// # Errors
    /// [`OutputError::Foreign`] if another file has the name of an added one, which stays.
    pub(super) fn publish_added<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), OutputError> {
        let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
        let mut waiting = Vec::new();
        for name in names.into_iter().filter(|name| is_there(self.added_path(name))) {
            if is_there(self.final_path(name)) {
                return Err(OutputError::Foreign { path: self.dir.clone(), file: name.to_owned() });
            }
            waiting.push(name);
        }
        self.rename(waiting, |name| self.added_path(name), &self.dir)
    }

    fn rename<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        from: impl Fn(&str) -> PathBuf,
        to: &Path,
    ) -> Result<(), OutputError> {
        let mut changed = BTreeSet::from([String::new()]);
        for name in names {
            for folder in folders_of(name).filter(|folder| !changed.contains(*folder)).collect::<Vec<_>>() {
                own::create_folder(&to.join(folder))?;
                changed.insert(folder.to_owned());
            }
            let path = to.join(name);
            fs::rename(from(name), &path).map_err(OutputError::io("rename a file to", path))?;
        }
        changed.iter().try_for_each(|folder| self.sync_names(&to.join(folder)))
    }

    /// Writes a small file, as a whole or not at all.
    pub(crate) fn write_whole(&self, name: &str, content: &[u8]) -> Result<(), OutputError> {
        let mut file = WorkFile::create(self, name)?;
        file.write_all(content).map_err(OutputError::io("write", file.path()))?;
        file.seal()?;
        self.publish([name])
    }

    /// Removes complete files by name, and folders that are then empty. Missing files are ignored.
    pub(crate) fn remove<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), OutputError> {
        for name in names {
            let path = self.final_path(name);
            gone(&path, fs::remove_file(&path))?;
            // This removes only empty folders.
            folders_of(name).collect::<Vec<_>>().iter().rev().for_each(|folder| {
                fs::remove_dir(self.final_path(folder)).ok();
            });
        }
        self.sync_names(&self.dir)
    }

    /// Removes files of an append by name, whether they have their final names or not. Missing
    /// files are ignored.
    pub(super) fn remove_of_append<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), OutputError> {
        let names: Vec<&str> = names.into_iter().collect();
        for path in names.iter().map(|name| self.added_path(name)) {
            gone(&path, fs::remove_file(&path))?;
        }
        self.remove(names)
    }

    /// Returns the name of a visible file or folder that is not in `known`, if there is one.
    pub(crate) fn visible_but(&self, known: &[String]) -> Result<Option<String>, OutputError> {
        let names: HashSet<&str> = known.iter().map(String::as_str).collect();
        let folders: HashSet<&str> = known.iter().flat_map(|name| folders_of(name)).collect();
        let mut below = vec![String::new()];
        while let Some(folder) = below.pop() {
            for name in visible(&self.final_path(&folder))? {
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                // A link may lead to a folder of somebody else.
                let is_folder = self.final_path(&path).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
                match (names.contains(path.as_str()), is_folder && folders.contains(path.as_str())) {
                    (true, _) => {}
                    (false, true) => below.push(path),
                    (false, false) => return Ok(Some(path)),
                }
            }
        }
        Ok(None)
    }

    /// Removes what [`lock`](Self::lock) created, unless an earlier run has left more there.
    pub(crate) fn leave_untouched(self) {
        if !self.journal_path().exists() && !self.work.exists() {
            self.dismantle().ok();
        }
    }

    /// Removes everything hidden except the manifest, and `DIR` itself if it was created for this run
    /// and is empty.
    pub(crate) fn dismantle(&self) -> Result<(), OutputError> {
        self.remove_work()?;
        if self.final_path(MANIFEST_NAME).exists() {
            self.remove_added()?;
            // The lock is the last one: until then, no other run uses the folder.
            for path in [self.journal_path(), self.hidden.join(LOCK_NAME)] {
                gone(&path, fs::remove_file(&path))?;
            }
            return Ok(());
        }
        fs::remove_dir_all(&self.hidden).map_err(OutputError::io("remove", &self.hidden))?;
        if !self.was_there {
            // This removes only an empty folder.
            fs::remove_dir(&self.dir).ok();
        }
        Ok(())
    }
}

/// Iterates over the folders in a name, the outermost first: `a` and `a/b` for `a/b/c`.
fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(end, _)| &name[..end])
}

/// Removes a folder and all that is in it, if it exists.
fn remove_folder(path: &Path) -> Result<(), OutputError> {
    gone(path, fs::remove_dir_all(path))
}

/// Returns the result of removing `path`, which succeeds if nothing was there.
fn gone(path: &Path, removed: io::Result<()>) -> Result<(), OutputError> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OutputError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Returns whether `path` still leads to `file`, and not to one that was created since.
#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Returns the visible names in a folder.
pub(super) fn visible(dir: &Path) -> Result<impl Iterator<Item = String> + use<>, OutputError> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(OutputError::io("list", dir))?;
    let names = entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| !name.starts_with('.')))
}
