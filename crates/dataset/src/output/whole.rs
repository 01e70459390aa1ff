//! Datasets that appear as a whole or not at all.

use std::{fs, panic, path::Path, thread};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    ExistingPolicy, Manifest, OpenOutcome, Output, OutputError, OutputOptions, OutputSpec, Settings, Slot,
    open::remove_known, publish::Folder,
};

/// A dataset that takes rows and is not visible yet. Dropping it removes everything.
pub struct WholeDataset(HiddenOutput, SchemaRef);

/// A [`WholeDataset`] that is complete and not visible yet. Dropping it removes everything.
pub struct SealedDataset(HiddenOutput);

/// An output that is discarded unless it is taken.
struct HiddenOutput(Option<Output>);

impl WholeDataset {
    /// Begins a dataset of `files` files, numbered from 0, with `settings` in its manifest. Open
    /// files take about `memory_bytes` bytes of memory. In Parquet, column `i` begins with a
    /// dictionary if `dictionary(i)` is true.
    ///
    /// # Errors
    /// If the folder holds what [`OutputOptions::existing`] does not allow, another run uses it, or
    /// the file system refuses; [`OutputError::ResumeOnce`] for all but
    /// [`ExistingPolicy::Refuse`] and [`ExistingPolicy::Overwrite`].
    pub fn create(
        options: &OutputOptions,
        settings: Settings,
        schema: SchemaRef,
        files: usize,
        memory_bytes: usize,
        dictionary: &dyn Fn(usize) -> bool,
    ) -> Result<Self, OutputError> {
        if !matches!(options.existing, ExistingPolicy::Refuse | ExistingPolicy::Overwrite) {
            return Err(resumes());
        }
        let opened = Output::open(OutputSpec {
            options,
            settings,
            schema: schema.clone(),
            keys: Vec::new(),
            slots: (0..files).map(|partition| Slot { partition, hot: None }).collect(),
            writers_bytes: memory_bytes,
            dictionary,
            hashed: None,
            by_value: false,
            whole: true,
        })?;
        match opened {
            OpenOutcome::Writing { output, .. } => Ok(Self(HiddenOutput(Some(*output)), schema)),
            OpenOutcome::Complete { .. } => Err(resumes()),
        }
    }

    /// Adds rows to a file. Any number of threads may write; writers to one file wait for each
    /// other.
    ///
    /// # Errors
    /// If the file system or the format's encoder refuses, or the file has failed before.
    pub fn write(&self, file: usize, batch: &RecordBatch) -> Result<(), OutputError> {
        if batch.num_rows() > 0 { self.0.output().write(file, batch, None) } else { Ok(()) }
    }

    /// Creates a file even if no rows follow. Without this call, a file without rows does not
    /// exist.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_columns(&self, file: usize) -> Result<(), OutputError> {
        self.0.output().write(file, &RecordBatch::new_empty(self.1.clone()), None)
    }

    /// Completes all files, on a thread for each.
    ///
    /// # Errors
    /// As [`write`](Self::write); then everything is removed.
    pub fn seal(self) -> Result<SealedDataset, OutputError> {
        let output = self.0.output();
        thread::scope(|scope| {
            let finish = |slot| scope.spawn(move || output.finish(slot));
            let all: Vec<_> = (0..output.slots.len()).map(finish).collect();
            let ended = |finishing: thread::ScopedJoinHandle<'_, _>| finishing.join();
            all.into_iter().try_for_each(|one| ended(one).unwrap_or_else(|panic| panic::resume_unwind(panic)))
        })?;
        Ok(SealedDataset(self.0))
    }
}

impl SealedDataset {
    /// Gives all files their final names, and writes the manifest.
    ///
    /// # Errors
    /// If the file system refuses. Files that have their names already can be removed by a run with
    /// [`ExistingPolicy::Overwrite`].
    pub fn publish(self) -> Result<Manifest, OutputError> {
        self.0.take().complete(0, Vec::new())
    }
}

impl HiddenOutput {
    const THERE: &str = "it is there until it is taken";

    fn output(&self) -> &Output {
        self.0.as_ref().expect(Self::THERE)
    }

    fn take(mut self) -> Output {
        self.0.take().expect(Self::THERE)
    }
}

impl Drop for HiddenOutput {
    fn drop(&mut self) {
        // An error cannot be returned, and the next run clears what cannot be removed now.
        self.0.take().map(Output::discard);
    }
}

/// Returns the error of a run that was to resume or append: a whole dataset is always written anew.
fn resumes() -> OutputError {
    OutputError::ResumeOnce { remedy: ExistingPolicy::Overwrite.start_again() }
}

/// Removes a dataset, finished or not, from its folder, and the folder if it is then empty. Does
/// nothing if the folder does not exist.
///
/// # Errors
/// [`OutputError::InUse`] if a run uses the folder; [`OutputError::Foreign`] if it has other files,
/// which stay; or if the file system refuses.
pub fn remove_dataset(dir: &Path) -> Result<(), OutputError> {
    if !dir.exists() {
        return Ok(());
    }
    remove_locked(&Folder::lock(dir, false)?)
}

/// Removes a dataset from a folder that the caller has locked.
pub(super) fn remove_locked(folder: &Folder) -> Result<(), OutputError> {
    remove_known(folder)?;
    let dir = folder.dir();
    let foreign = folder.visible_but(&[])?;
    folder.dismantle()?;
    match foreign {
        Some(file) => Err(OutputError::Foreign { path: dir.to_owned(), file }),
        // This removes only an empty folder.
        None => fs::remove_dir(dir).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(OutputError::io("remove", dir)(error)),
        }),
    }
}
