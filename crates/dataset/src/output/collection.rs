//! A folder of datasets, one written by each host, and a manifest of all.
//!
//! ```text
//! DIR/host-00/part-00000.parquet, DIR/host-00/manifest.json    a dataset of its own (whole.rs)
//! DIR/manifest.json                                            all of them, last
//! ```

use std::path::{Path, PathBuf};

use super::{
    Existing, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OutputError, PartitionEntry, Settings,
    open::{known, refuse_foreign, remove_files},
    publish::{Folder, checked_names, visible},
    whole::{remove_dataset, remove_locked},
};

/// A folder that is to hold a dataset of each host. If it is dropped, it removes all that this
/// process can reach.
pub struct Collection {
    folder: Option<Folder>,
    members: Vec<usize>,
}

/// What a member's dataset is known by.
const HOST: &str = "host";
const SESSION: &str = "session";

/// The folder of a member.
fn member_name(member: usize) -> String {
    format!("host-{member:02}")
}

/// Whether a folder is called as that of a member is. Others may be called `host-backup`.
pub(super) fn is_member_name(name: &str) -> bool {
    name.strip_prefix("host-").and_then(|number| number.parse().ok()).is_some_and(|member| name == member_name(member))
}

impl Collection {
    /// Locks the folder, which may hold no other dataset, or with [`Existing::Overwrite`] loses it.
    /// `members` are the numbers of their folders.
    ///
    /// # Errors
    /// If it holds what is not allowed, another run uses it, or the file system refuses.
    pub fn begin(dir: &Path, members: Vec<usize>, existing: Existing) -> Result<Self, OutputError> {
        let folder = Folder::lock(dir, false)?;
        // A host that was lost has its folder in its hands until it knows. Nothing of it can be seen.
        let may_be_busy = |name: &str| members.iter().all(|&number| name != member_name(number));
        match clear(&folder, may_be_busy, existing).and_then(|()| folder.clear_work()) {
            Ok(()) => Ok(Self { folder: Some(folder), members }),
            Err(error) => {
                folder.leave_untouched();
                Err(error)
            }
        }
    }

    /// Returns the settings of a member's dataset. `session` is a different number for each run.
    pub fn member_settings(member: usize, session: u64) -> Settings {
        [(HOST, member.to_string()), (SESSION, session.to_string())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// Removes what a member has published to its folder in `dir`, unless that has been completed
    /// with it, or another run has written to the member's folder since.
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

    /// Writes the manifest of all members, in their order, which are complete. Nothing of it is
    /// left unless it is [kept](Self::keep).
    ///
    /// # Errors
    /// If the file system refuses, or a member's manifest names files that are none of its
    /// folder's.
    pub fn complete(&self, settings: Settings, members: &[Manifest]) -> Result<Manifest, OutputError> {
        for (number, member) in self.members.iter().zip(members) {
            let is_elsewhere = |name: &&str| name.contains('/');
            let outside = member.file_names().find(is_elsewhere).map(|name| format!("'{name}' is in another folder"));
            outside
                .map_or_else(|| checked_names(member.file_names()), Err)
                .map_err(|message| OutputError::Damaged { path: member_name(*number).into(), message })?;
        }
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            settings,
            columns: members.first().map(|member| member.columns.clone()).unwrap_or_default(),
            folder_columns: Vec::new(),
            rows: members.iter().map(|member| member.rows).sum(),
            rows_bad: members.iter().map(|member| member.rows_bad).sum(),
            bytes: members.iter().map(|member| member.bytes).sum(),
            quarantine: None,
            partitions: self.members.iter().zip(members).map(|(number, member)| partition(*number, member)).collect(),
            hot_keys: Vec::new(),
            appends: Vec::new(),
        };
        manifest.store(self.folder.as_ref().expect("it is there until it is kept or dropped"))?;
        Ok(manifest)
    }

    /// Keeps the collection.
    ///
    /// # Errors
    /// If the file system refuses to remove what was hidden.
    pub fn keep(mut self) -> Result<(), OutputError> {
        self.folder.take().map_or(Ok(()), |folder| folder.dismantle())
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        // An error cannot be returned, and the next run clears what cannot be removed now.
        folder.remove([MANIFEST_NAME]).ok();
        for &member in &self.members {
            remove_dataset(&folder.final_path(&member_name(member))).ok();
        }
        folder.dismantle().ok();
    }
}

/// All files of a member, as a partition of the whole.
fn partition(number: usize, member: &Manifest) -> PartitionEntry {
    let name = member_name(number);
    let mut files: Vec<_> = member.partitions.iter().flat_map(|partition| partition.files.iter().cloned()).collect();
    for file in &mut files {
        file.name = format!("{name}/{}", file.name);
    }
    PartitionEntry { partition: number, rows: member.rows, bytes: member.bytes, files }
}

/// Takes away a collection, if all of it may go; otherwise nothing.
pub(super) fn remove_members(folder: &Folder) -> Result<(), OutputError> {
    clear(folder, |_| false, Existing::Overwrite)
}

/// Takes away what may go, if all of it may. Members for which `may_be_busy` holds stay if a run is
/// writing to them.
fn clear(folder: &Folder, may_be_busy: impl Fn(&str) -> bool, existing: Existing) -> Result<(), OutputError> {
    let replaces = existing == Existing::Overwrite;
    if !replaces && Manifest::load(folder)?.is_some() {
        return Err(taken(folder, "a finished dataset"));
    }
    let mut found = Vec::new();
    let may_go = lock_members(folder, may_be_busy, replaces, &mut found).and_then(|()| {
        found.iter().try_for_each(|member| match visible(member.dir())?.next() {
            Some(_) if !replaces => Err(taken(folder, "an unfinished dataset")),
            _ if Manifest::load(member)?.is_some_and(|manifest| !is_member(&manifest)) => Err(foreign(folder, member)),
            _ => refuse_foreign(member, known(member)?),
        })
    });
    if let Err(error) = may_go {
        found.into_iter().for_each(Folder::leave_untouched);
        return Err(error);
    }
    let names = if replaces { known(folder)? } else { Vec::new() };
    if names.iter().all(|name| name == MANIFEST_NAME || is_member_name(name.split('/').next().unwrap_or_default())) {
        // Members know their files themselves.
        folder.remove([MANIFEST_NAME])?;
    }
    found.iter().try_for_each(remove_locked)?;
    drop(found);
    if replaces { remove_files(folder) } else { Ok(()) }
}

/// The folders of members, of this dataset or what a run that was killed has left; nothing else may
/// be there.
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
        // What a link leads to is another's.
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

/// Whether it is of a dataset that a host has written as its part.
fn is_member(manifest: &Manifest) -> bool {
    manifest.settings.keys().all(|name| [HOST, SESSION].contains(&name.as_str()))
}

fn foreign(folder: &Folder, member: &Folder) -> OutputError {
    let file = member.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
    OutputError::Foreign { path: folder.dir().to_owned(), file }
}

fn taken(folder: &Folder, state: &'static str) -> OutputError {
    OutputError::Taken { path: folder.dir().to_owned(), state, remedy: "`overwrite` to replace it" }
}
