//! The parts of datasets that a process has written, and that are not complete yet.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use annulus_dataset::{
    Collection, Compression, ExistingPolicy, Manifest, OutputError, OutputFormat, SealedDataset, remove_dataset,
};
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use crate::{cyclo::RingAccess, status::Hold};

/// The time after the end of a query in which its coordinator asks for what it has written.
const UNCLAIMED: Duration = Duration::from_secs(60);

/// Where the tasks of a query write, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// What no other run has.
    pub(crate) id: String,
    /// The folder, which has a folder for each task.
    pub(crate) dir: PathBuf,
    /// The number of the first task's folder.
    pub(crate) first_member: usize,
    pub(crate) session: u64,
    pub(crate) format: OutputFormat,
    pub(crate) compression: Compression,
    pub(crate) existing: ExistingPolicy,
    /// For each column, whether a dictionary is expected to pay for it.
    pub(crate) dictionaries: Vec<bool>,
}

impl Target {
    /// Returns the number of the folder of a task, and the folder.
    pub(super) fn member(&self, task: usize) -> (usize, PathBuf) {
        let member = self.first_member.saturating_add(task);
        (member, Collection::member_dir(&self.dir, member))
    }
}

/// What a coordinator asks of a process that has written parts. The answers have the numbers and manifests of
/// the parts that it concerns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// To give the files of its parts their names.
    Publish { id: String },
    /// To let its parts stay, unless they are to be removed after all.
    Keep { id: String },
    /// To remove its parts, also those that are complete only later. The answer comes when nothing is written
    /// any more.
    Remove { id: String },
}

/// A part of a dataset. It is removed when this is dropped, unless it is kept.
struct Part {
    dir: PathBuf,
    member: usize,
    state: State,
    /// Lets a worker that stops wait for its coordinator.
    hold: Option<Hold>,
}

enum State {
    /// Complete, and hidden.
    Sealed(Box<SealedDataset>),
    Published(Box<Manifest>),
    Kept(Box<Manifest>),
    Removed,
}

impl Part {
    /// Gives the files their names, unless they have them.
    fn publish(&mut self) -> Result<(usize, Manifest), OutputError> {
        if matches!(self.state, State::Sealed(_))
            && let State::Sealed(sealed) = std::mem::replace(&mut self.state, State::Removed)
        {
            match sealed.publish() {
                Ok(manifest) => self.state = State::Published(Box::new(manifest)),
                Err(error) => {
                    // Some files may have their names. The first error says more.
                    remove_dataset(&Collection::member_dir(&self.dir, self.member)).ok();
                    return Err(error);
                }
            }
        }
        match &self.state {
            State::Published(manifest) | State::Kept(manifest) => Ok((self.member, manifest.as_ref().clone())),
            State::Sealed(_) | State::Removed => Err(OutputError::Broken(self.dir.display().to_string())),
        }
    }

    fn keep(&mut self) -> Option<(usize, Manifest)> {
        let (State::Published(manifest) | State::Kept(manifest)) = &self.state else { return None };
        let kept = (self.member, manifest.as_ref().clone());
        self.state = State::Kept(manifest.clone());
        self.hold = None;
        Some(kept)
    }

    /// Removes the files, unless the dataset is complete. An error cannot be returned: the next run removes
    /// what cannot be removed now.
    fn remove(&mut self) {
        if let State::Published(manifest) | State::Kept(manifest) = std::mem::replace(&mut self.state, State::Removed) {
            Collection::remove_unless_in(&self.dir, self.member, &manifest).ok();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !matches!(self.state, State::Kept(_)) {
            self.remove();
        }
    }
}

/// The parts of a run.
#[derive(Default)]
struct Run {
    parts: Arc<Mutex<Vec<Part>>>,
    /// The tasks that write.
    writers: Arc<watch::Sender<usize>>,
    /// Whether it is to be removed, with what comes later.
    is_removed: bool,
}

/// A task that writes, until this is dropped.
pub(super) struct Writer {
    writers: Arc<watch::Sender<usize>>,
    hold: Option<Hold>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.writers.send_modify(|writers| *writers -= 1);
    }
}

/// The parts of a process, by run. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Results(Arc<Mutex<HashMap<String, Run>>>);

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").finish_non_exhaustive()
    }
}

impl Results {
    /// Begins to write a part: on a worker with `access`, or in the process of the coordinator.
    ///
    /// # Errors
    /// If the run was given up.
    pub(super) fn enter(&self, target: &Target, access: Option<&Arc<RingAccess>>) -> Result<Writer> {
        let (writers, is_removed) = self.with(&target.id, |run| (Arc::clone(&run.writers), run.is_removed));
        if is_removed {
            return exec_err!("the result was given up");
        }
        writers.send_modify(|writers| *writers += 1);
        if let Some(access) = access {
            self.forget_later(target.id.clone(), Some(Arc::clone(access)));
        }
        Ok(Writer { writers, hold: access.and_then(|access| access.hold()) })
    }

    /// Adds a part that is complete.
    ///
    /// # Errors
    /// If the run was given up.
    pub(super) fn add(&self, target: &Target, member: usize, sealed: SealedDataset, writer: &mut Writer) -> Result<()> {
        let (dir, state, hold) = (target.dir.clone(), State::Sealed(Box::new(sealed)), writer.hold.take());
        let part = Part { dir, member, state, hold };
        let runs = self.0.lock();
        let parts = runs.get(&target.id).filter(|run| !run.is_removed).map(|run| Arc::clone(&run.parts));
        drop(runs);
        match parts {
            Some(parts) => parts.lock().push(part),
            None => return exec_err!("the result was given up"),
        }
        Ok(())
    }

    /// Calls `act` with a run.
    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Run) -> T) -> T {
        act(self.0.lock().entry(id.to_owned()).or_default())
    }

    /// Forgets a run when its query has ended, after a time in which its coordinator could have asked for it.
    /// What is not kept then is removed.
    fn forget_later(&self, id: String, access: Option<Arc<RingAccess>>) {
        let results = self.clone();
        tokio::spawn(async move {
            if let Some(access) = access {
                access.end_of_query().await;
            }
            // A real delay: nothing tells that the process that asked for the parts is gone.
            sleep(UNCLAIMED).await;
            let unclaimed = results.0.lock().remove(&id);
            spawn_blocking(move || drop(unclaimed)).await.ok();
        });
    }

    /// Forgets a run of this process. What is not kept is removed.
    pub(super) fn forget(&self, id: &str) {
        let forgotten = self.0.lock().remove(id);
        drop(forgotten);
    }

    /// Does what a coordinator asks.
    ///
    /// # Errors
    /// If files cannot get their names. Those of that part are removed.
    pub(crate) async fn apply(&self, request: Request) -> Result<Vec<(usize, Manifest)>> {
        let parts_of = |id: &str| self.0.lock().get(id).map(|run| Arc::clone(&run.parts)).unwrap_or_default();
        match request {
            Request::Publish { id } => {
                let parts = parts_of(&id);
                blocking(move || parts.lock().iter_mut().map(Part::publish).collect()).await
            }
            Request::Keep { id } => {
                let parts = parts_of(&id);
                let kept = parts.lock().iter_mut().filter_map(Part::keep).collect();
                Ok(kept)
            }
            Request::Remove { id } => {
                let is_new = !self.0.lock().contains_key(&id);
                let (parts, writers) = self.with(&id, |run| {
                    run.is_removed = true;
                    (Arc::clone(&run.parts), Arc::clone(&run.writers))
                });
                if is_new {
                    // A task may come late.
                    self.forget_later(id, None);
                }
                // The sender is here, so the channel does not close.
                writers.subscribe().wait_for(|writers| *writers == 0).await.ok();
                // Whoever publishes them holds them.
                blocking(move || {
                    parts.lock().drain(..).for_each(|mut part| part.remove());
                    Ok(Vec::new())
                })
                .await
            }
        }
    }
}

/// Runs what waits for files.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutputError> + Send + 'static,
) -> Result<T> {
    let done = spawn_blocking(work).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    done.map_err(|error| DataFusionError::External(error.into()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use annulus_dataset::{OutputOptions, Settings, WholeDataset};
    use datafusion::arrow::{
        array::{Int64Array, RecordBatch},
        datatypes::{DataType, Field, Schema},
    };
    use futures::FutureExt;

    use super::*;

    fn target(dir: &Path) -> Target {
        Target {
            id: "one".to_owned(),
            dir: dir.to_owned(),
            first_member: 0,
            session: 7,
            format: OutputFormat::Parquet,
            compression: Compression::Snappy,
            existing: ExistingPolicy::Refuse,
            dictionaries: Vec::new(),
        }
    }

    fn sealed(target: &Target, task: usize) -> SealedDataset {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
        let (member, dir) = target.member(task);
        let settings = Collection::member_settings(member, target.session);
        let options = OutputOptions::new(dir, target.format);
        let files = WholeDataset::create(&options, settings, schema, 1, 1 << 20, &|_| true).unwrap();
        files.write(0, &rows).unwrap();
        files.seal().unwrap()
    }

    fn request(kind: fn(String) -> Request) -> Request {
        kind("one".to_owned())
    }

    const PUBLISH: fn(String) -> Request = |id| Request::Publish { id };
    const KEEP: fn(String) -> Request = |id| Request::Keep { id };
    const REMOVE: fn(String) -> Request = |id| Request::Remove { id };

    #[tokio::test]
    async fn what_is_kept_stays_and_the_rest_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let results = Results::default();
        for task in 0..2 {
            let mut writer = results.enter(&target, None).unwrap();
            results.add(&target, task, sealed(&target, task), &mut writer).unwrap();
        }
        assert!(!target.member(0).1.join("part-00000.parquet").exists(), "it is hidden");
        assert!(results.apply(request(KEEP)).await.unwrap().is_empty(), "nothing is published");
        let published = results.apply(request(PUBLISH)).await.unwrap();
        assert_eq!(
            published.iter().map(|(member, manifest)| (*member, manifest.rows)).collect::<Vec<_>>(),
            [(0, 2), (1, 2)]
        );
        assert_eq!(results.apply(request(PUBLISH)).await.unwrap(), published, "asked again");
        assert_eq!(results.apply(request(KEEP)).await.unwrap().len(), 2);
        // The coordinator could not complete it.
        results.apply(request(REMOVE)).await.unwrap();
        assert!(!target.member(0).1.exists() && !target.member(1).1.exists());
        assert!(results.apply(request(KEEP)).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_complete_dataset_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let collection = Collection::begin(&target.dir, vec![0], target.session, ExistingPolicy::Refuse).unwrap();
        let results = Results::default();
        let mut writer = results.enter(&target, None).unwrap();
        results.add(&target, 0, sealed(&target, 0), &mut writer).unwrap();
        drop(writer);
        let published = results.apply(request(PUBLISH)).await.unwrap();
        collection.complete_with(Settings::default(), &[(0, &published[0].1)]).unwrap();
        collection.keep().unwrap();
        results.apply(request(REMOVE)).await.unwrap();
        assert!(target.member(0).1.join("part-00000.parquet").exists());
    }

    #[tokio::test]
    async fn who_removes_waits_for_the_writers_and_lets_no_more_in() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let results = Results::default();
        let mut writer = results.enter(&target, None).unwrap();
        let mut removing = Box::pin(results.apply(request(REMOVE)));
        assert!(removing.as_mut().now_or_never().is_none());
        assert!(results.enter(&target, None).is_err());
        let late = results.add(&target, 0, sealed(&target, 0), &mut writer);
        assert!(late.unwrap_err().to_string().contains("given up"));
        drop(writer);
        removing.await.unwrap();
        assert!(!target.member(0).1.exists());
    }
}
