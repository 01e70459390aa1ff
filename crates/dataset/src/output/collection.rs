//! A folder of datasets, one written by each host, and a manifest of all.
//!
//! ```text
//! DIR/host-00/part-00000.parquet, DIR/host-00/manifest.json    a dataset of its own (whole.rs)
//! DIR/manifest.json                                            all of them, last
//! ```

use std::path::{Path, PathBuf};

use super::{
    Existing, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OutputError, PartitionEntry, Settings,
    open::{known, refuse_foreign, remove_dataset},
    publish::{Folder, visible},
    whole::{remove, remove_locked},
};

/// A folder that is to hold a dataset of each host. Dropped, it leaves nothing of what this process can reach.
pub struct Collection {
    folder: Option<Folder>,
    members: Vec<usize>,
}

/// The folder of a member.
fn member_name(member: usize) -> String {
    format!("host-{member:02}")
}

/// Whether a folder is called as that of a member is. Others may be called `host-backup`.
fn is_member_name(name: &str) -> bool {
    name.strip_prefix("host-").and_then(|number| number.parse().ok()).is_some_and(|member| name == member_name(member))
}

impl Collection {
    /// Locks the folder, which may hold no other dataset, or with [`Existing::Overwrite`] loses it. `members` are the numbers of
    /// their folders.
    ///
    /// # Errors
    /// If it holds what is not allowed, another run uses it, or the file system refuses.
    pub fn begin(dir: &Path, members: Vec<usize>, existing: Existing) -> Result<Self, OutputError> {
        let folder = Folder::lock(dir, false)?;
        match clear(&folder, &members, existing).and_then(|()| folder.clear_work()) {
            Ok(()) => Ok(Self { folder: Some(folder), members }),
            Err(error) => {
                folder.leave_untouched();
                Err(error)
            }
        }
    }

    /// Whether the folder `dir` has been completed with what a member has.
    pub fn has(dir: &Path, member: usize, manifest: &Manifest) -> bool {
        Manifest::find_in(dir).is_some_and(|all| all.partitions.contains(&partition(member, manifest)))
    }

    /// Where a member's dataset goes.
    pub fn member_dir(dir: &Path, member: usize) -> PathBuf {
        dir.join(member_name(member))
    }

    /// Writes the manifest of all members, in their order, which are complete.
    ///
    /// # Errors
    /// If the file system refuses; then nothing is left.
    pub fn complete(mut self, settings: Settings, members: &[Manifest]) -> Result<Manifest, OutputError> {
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            settings,
            columns: members.first().map(|member| member.columns.clone()).unwrap_or_default(),
            rows: members.iter().map(|member| member.rows).sum(),
            rows_bad: members.iter().map(|member| member.rows_bad).sum(),
            bytes: members.iter().map(|member| member.bytes).sum(),
            quarantine: None,
            partitions: self.members.iter().zip(members).map(|(number, member)| partition(*number, member)).collect(),
            hot_keys: Vec::new(),
        };
        let folder = self.folder.as_ref().expect("it is there until it is complete or dropped");
        manifest.store(folder)?;
        folder.dismantle()?;
        self.folder = None;
        Ok(manifest)
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        let Some(folder) = &self.folder else { return };
        // There is nobody to tell, and the next run clears what cannot be removed now.
        for &member in &self.members {
            remove(&folder.final_path(&member_name(member))).ok();
        }
        folder.remove([MANIFEST_NAME]).ok();
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

/// Takes away what may go, if all of it may.
fn clear(folder: &Folder, members: &[usize], existing: Existing) -> Result<(), OutputError> {
    let replaces = existing == Existing::Overwrite;
    if !replaces && Manifest::load(folder)?.is_some() {
        return Err(taken(folder, "a finished dataset"));
    }
    let mut found = Vec::new();
    let may_go = lock_members(folder, members, replaces, &mut found).and_then(|()| {
        found.iter().try_for_each(|member| match visible(member.dir())?.next() {
            Some(_) if !replaces => Err(taken(folder, "an unfinished dataset")),
            _ => refuse_foreign(member, known(member)?),
        })
    });
    if let Err(error) = may_go {
        found.into_iter().for_each(Folder::leave_untouched);
        return Err(error);
    }
    found.iter().try_for_each(remove_locked)?;
    drop(found);
    if replaces { remove_dataset(folder) } else { Ok(()) }
}

/// The folders of members, of this dataset or what a run that was killed has left; nothing else may be there.
fn lock_members(
    folder: &Folder,
    members: &[usize],
    replaces: bool,
    found: &mut Vec<Folder>,
) -> Result<(), OutputError> {
    let dir = folder.dir();
    let known = if replaces { known(folder)? } else { Vec::new() };
    for name in visible(dir)? {
        let path = dir.join(&name);
        if is_member_name(&name) && path.is_dir() {
            match Folder::lock(&path, false) {
                // A host that was lost has it in its hands until it knows. Nothing of it can be seen.
                Err(OutputError::InUse(_)) if members.iter().all(|&number| name != member_name(number)) => {}
                locked => found.push(locked?),
            }
        } else if !known.contains(&name) {
            return Err(OutputError::Foreign { path: dir.to_owned(), file: name });
        }
    }
    Ok(())
}

fn taken(folder: &Folder, state: &'static str) -> OutputError {
    OutputError::Taken { path: folder.dir().to_owned(), state, remedy: "--overwrite to replace it" }
}
