//! A folder of datasets, one written by each host, and a manifest of all.
//!
//! ```text
//! DIR/host-00/part-00000.parquet, DIR/host-00/manifest.json    a dataset of its own (whole.rs)
//! DIR/manifest.json                                            all of them, last
//! ```

use std::path::{Path, PathBuf};

use super::{
    Existing, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OutputError, PartitionEntry, Settings,
    open::overwrite,
    publish::{Folder, visible},
    whole::remove,
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

/// Takes away what may go.
fn clear(folder: &Folder, members: &[usize], existing: Existing) -> Result<(), OutputError> {
    let dir = folder.dir();
    let taken = |state| Err(OutputError::Taken { path: dir.to_owned(), state, remedy: "--overwrite to replace it" });
    if existing == Existing::Overwrite {
        overwrite(folder)?;
    } else if Manifest::load(folder)?.is_some() {
        return taken("a finished dataset");
    }
    // What a run that was killed has left.
    for name in visible(dir)? {
        let member = dir.join(&name);
        if !is_member_name(&name) || !member.is_dir() {
            return Err(OutputError::Foreign { path: dir.to_owned(), file: name });
        }
        if existing != Existing::Overwrite && visible(&member)?.next().is_some() {
            return taken("an unfinished dataset");
        }
        match remove(&member) {
            // A host that was lost has it in its hands until it knows. Nothing of it can be seen.
            Err(OutputError::InUse(_)) if members.iter().all(|&number| name != member_name(number)) => {}
            done => done?,
        }
    }
    Ok(())
}
