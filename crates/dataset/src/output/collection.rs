//! A folder of datasets, one written by each host, and a manifest of all of them.
//!
//! ```text
//! DIR/host-00/part-00000.parquet, DIR/host-00/.annulus/manifest    a dataset of its own (whole.rs)
//! DIR/.annulus/manifest                                            all of them, last
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    ExistingPolicy, MANIFEST_VERSION, Manifest, OutputError, PartitionEntry, Settings,
    journal::JournalContent,
    open::{known, refuse_foreign, remove_files, to_replace},
    publish::{Folder, visible},
    whole::{remove_dataset, remove_locked},
};
use crate::file_names::{MANIFEST_NAME, OLD_MANIFEST_NAME, checked_names, is_member_name, member_name};

/// A folder that is to hold a dataset of each host. Dropping it removes everything that this
/// process can reach.
pub struct Collection {
    folder: Option<Folder>,
    members: Vec<usize>,
}

/// The name of the work file with the session of a run that has not ended.
const SESSION: &str = "session";

impl Collection {
    /// Locks the folder. It may hold no other dataset, unless [`ExistingPolicy::Overwrite`] removes it.
    /// What a run that was killed has left goes in any case, also the datasets that its members had
    /// published. `members` are the numbers of the members' folders, and `session` is that of their
    /// [settings](Self::member_settings).
    ///
    /// # Errors
    /// If the folder holds something that is not allowed, another run uses it, or the file system
    /// refuses.
    pub fn begin(dir: &Path, members: Vec<usize>, session: u64, existing: ExistingPolicy) -> Result<Self, OutputError> {
        let folder = Folder::lock(dir, false)?;
        // A host that this run has lost holds the lock of its folder until it notices. Nothing in
        // that folder is visible.
        let may_be_busy = |name: &str| members.iter().all(|&number| name != member_name(number));
        let begin = || {
            clear(&folder, may_be_busy, existing)?;
            folder.clear_work()?;
            let path = folder.work_path(SESSION);
            fs::write(&path, session.to_string()).map_err(OutputError::io("write", path))
        };
        match begin() {
            Ok(()) => Ok(Self { folder: Some(folder), members }),
            Err(error) => {
                folder.leave_untouched();
                Err(error)
            }
        }
    }

    /// Returns the settings of a member's dataset. `session` is a different number for each run.
    pub fn member_settings(member: usize, session: u64) -> Settings {
        Settings::Member { member, session }
    }

    /// Removes the files that a member has published to its folder in `dir`. Does nothing if a collection
    /// with it was completed, or another run has written to the member's folder since.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn remove_unless_in(dir: &Path, member: usize, manifest: &Manifest) -> Result<(), OutputError> {
        let is_complete = |all: Manifest| all.partitions.contains(&partition(member, manifest));
        let own = Self::member_dir(dir, member);
        if !own.exists() || Manifest::find_in(dir).is_some_and(is_complete) {
            return Ok(());
        }
        let folder = match Folder::lock(&own, false) {
            Err(OutputError::InUse(_)) => return Ok(()),
            locked => locked?,
        };
        if Manifest::find_in(&own).as_ref() == Some(manifest) {
            remove_locked(&folder)
        } else {
            folder.leave_untouched();
            Ok(())
        }
    }

    /// Returns the folder of a member's dataset.
    pub fn member_dir(dir: &Path, member: usize) -> PathBuf {
        dir.join(member_name(member))
    }

    /// Writes the manifest of all members, in their order. Their datasets must be complete. On
    /// drop, everything is removed unless it is [kept](Self::keep).
    ///
    /// # Errors
    /// If the file system refuses, or a member's manifest names files outside the member's folder.
    pub fn complete(&self, settings: Settings, members: &[Manifest]) -> Result<Manifest, OutputError> {
        let members: Vec<_> = self.members.iter().copied().zip(members).collect();
        self.complete_with(settings, &members)
    }

    /// As [`complete`](Self::complete), of members that are named by their numbers. Others of the collection
    /// have written nothing.
    ///
    /// # Errors
    /// As `complete`.
    pub fn complete_with(&self, settings: Settings, members: &[(usize, &Manifest)]) -> Result<Manifest, OutputError> {
        for (number, member) in members {
            let is_elsewhere = |name: &&str| name.contains('/');
            let outside = member.file_names().find(is_elsewhere).map(|name| format!("'{name}' is in another folder"));
            outside
                .map_or_else(|| checked_names(member.file_names()), Err)
                .map_err(|message| OutputError::Damaged { path: member_name(*number).into(), message })?;
        }
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            settings,
            columns: members.first().map(|(_, member)| member.columns.clone()).unwrap_or_default(),
            folder_columns: Vec::new(),
            rows: members.iter().map(|(_, member)| member.rows).sum(),
            rows_bad: members.iter().map(|(_, member)| member.rows_bad).sum(),
            bytes: members.iter().map(|(_, member)| member.bytes).sum(),
            quarantine: None,
            partitions: members.iter().map(|(number, member)| partition(*number, member)).collect(),
            hot_keys: Vec::new(),
            appends: Vec::new(),
        };
        manifest.store(self.folder.as_ref().expect("it is there until it is kept or dropped"))?;
        Ok(manifest)
    }

    /// Keeps the collection when this is dropped.
    ///
    /// # Errors
    /// If the file system refuses to remove hidden files.
    pub fn keep(mut self) -> Result<(), OutputError> {
        self.folder.take().map_or(Ok(()), |folder| folder.dismantle())
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        // An error cannot be returned here. The next run clears what could not be removed.
        folder.remove(Manifest::names_in(folder.dir())).ok();
        for &member in &self.members {
            remove_dataset(&folder.final_path(&member_name(member))).ok();
        }
        folder.dismantle().ok();
    }
}

/// Returns all files of a member, as a partition of the collection.
fn partition(number: usize, member: &Manifest) -> PartitionEntry {
    let name = member_name(number);
    let mut files: Vec<_> = member.partitions.iter().flat_map(|partition| partition.files.iter().cloned()).collect();
    for file in &mut files {
        file.name = format!("{name}/{}", file.name);
    }
    PartitionEntry { partition: number, rows: member.rows, bytes: member.bytes, files }
}

/// Removes a collection, if all of it may be removed; otherwise nothing.
pub(super) fn remove_members(folder: &Folder) -> Result<(), OutputError> {
    clear(folder, |_| false, ExistingPolicy::Overwrite)
}

/// Removes the members of a collection, if all of them may be removed. Members for which
/// `may_be_busy` holds stay if a run is writing to them.
fn clear(folder: &Folder, may_be_busy: impl Fn(&str) -> bool, existing: ExistingPolicy) -> Result<(), OutputError> {
    let replaces = existing == ExistingPolicy::Overwrite;
    if !replaces && Manifest::load(folder)?.is_some() {
        return Err(taken(folder, "a finished dataset"));
    }
    // A run that was killed has left it. What other runs have put beside that stays.
    let killed = fs::read_to_string(folder.work_path(SESSION)).ok().and_then(|session| session.parse().ok());
    let mut found = Vec::new();
    let may_go = lock_members(folder, may_be_busy, replaces, &mut found).and_then(|()| {
        found.iter().try_for_each(|member| match visible(member.dir())?.next() {
            Some(_) if !replaces && (killed.is_none() || session_of(member)? != killed) => {
                Err(taken(folder, "an unfinished dataset"))
            }
            _ if Manifest::load(member)?.is_some_and(|manifest| !is_member(&manifest)) => Err(foreign(folder, member)),
            _ => refuse_foreign(member, known(member)?),
        })
    });
    if let Err(error) = may_go {
        found.into_iter().for_each(Folder::leave_untouched);
        return Err(error);
    }
    let names = if replaces { known(folder)? } else { Vec::new() };
    let is_manifest = |name: &String| [MANIFEST_NAME, OLD_MANIFEST_NAME].contains(&name.as_str());
    if names.iter().all(|name| is_manifest(name) || is_member_name(name.split('/').next().unwrap_or_default())) {
        // The members' manifests name their own files.
        folder.remove(Manifest::names_in(folder.dir()))?;
    }
    found.iter().try_for_each(remove_locked)?;
    drop(found);
    if replaces { remove_files(folder) } else { Ok(()) }
}

/// Locks the members' folders of this dataset, or those that a killed run has left. Nothing else
/// may be visible in the folder.
fn lock_members(
    folder: &Folder,
    may_be_busy: impl Fn(&str) -> bool,
    replaces: bool,
    found: &mut Vec<Folder>,
) -> Result<(), OutputError> {
    let dir = folder.dir();
    let known = if replaces { known(folder)? } else { Vec::new() };
    for name in visible(dir)? {
        let path = dir.join(&name);
        // A link may lead to a folder of somebody else.
        let is_real = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_member_name(&name) && is_real {
            match Folder::lock(&path, false) {
                Err(OutputError::InUse(_)) if may_be_busy(&name) => {}
                locked => found.push(locked?),
            }
        } else if is_member_name(&name) || !known.contains(&name) {
            return Err(OutputError::Foreign { path: dir.to_owned(), file: name });
        }
    }
    Ok(())
}

/// Returns the session of a member's dataset, complete or not.
fn session_of(member: &Folder) -> Result<Option<u64>, OutputError> {
    let settings = match Manifest::load(member)? {
        Some(manifest) => Some(manifest.settings),
        None => JournalContent::load(member)?.map(|recorded| recorded.settings),
    };
    Ok(settings.and_then(|settings| settings.session()))
}

/// Returns whether the manifest is of a dataset that a host has written as its part of a
/// collection.
fn is_member(manifest: &Manifest) -> bool {
    matches!(manifest.settings, Settings::Member { .. } | Settings::None)
}

fn foreign(folder: &Folder, member: &Folder) -> OutputError {
    let file = member.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
    OutputError::Foreign { path: folder.dir().to_owned(), file }
}

fn taken(folder: &Folder, state: &'static str) -> OutputError {
    OutputError::Taken { path: folder.dir().to_owned(), state, remedy: to_replace() }
}
