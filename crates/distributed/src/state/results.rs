//! The parts of datasets that a process has written, until the datasets are complete.

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
use tokio::{sync::watch, task::spawn_blocking};

use super::{
    expiry::Timer,
    queries::{Hold, QueryHandle},
};

/// The time after the end of a query in which its coordinator asks for the parts that it has written.
const UNCLAIMED: Duration = Duration::from_secs(60);

/// The dataset that the tasks of a query write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// Unique to the run.
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
    pub(crate) fn member(&self, task: usize) -> (usize, PathBuf) {
        let member = self.first_member.saturating_add(task);
        (member, Collection::member_dir(&self.dir, member))
    }
}

/// A part of a dataset whose files have their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublishedPart {
    /// The number of its folder.
    pub(crate) member: usize,
    pub(crate) manifest: Manifest,
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
    Complete(Box<Manifest>),
    Removed,
}

impl Part {
    /// Gives the files their names, unless they have them.
    fn publish(&mut self) -> Result<PublishedPart, OutputError> {
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
            State::Published(manifest) | State::Complete(manifest) => {
                Ok(PublishedPart { member: self.member, manifest: manifest.as_ref().clone() })
            }
            State::Sealed(_) | State::Removed => Err(OutputError::Broken(self.dir.display().to_string())),
        }
    }

    fn keep(&mut self) -> Option<PublishedPart> {
        let (State::Published(manifest) | State::Complete(manifest)) = &self.state else { return None };
        let kept = PublishedPart { member: self.member, manifest: manifest.as_ref().clone() };
        self.state = State::Complete(manifest.clone());
        self.hold = None;
        Some(kept)
    }

    /// Removes the files, unless the dataset is complete. An error cannot be returned: the next run removes
    /// what cannot be removed now.
    fn remove(&mut self) {
        if let State::Published(manifest) | State::Complete(manifest) =
            std::mem::replace(&mut self.state, State::Removed)
        {
            Collection::remove_unless_in(&self.dir, self.member, &manifest).ok();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !matches!(self.state, State::Complete(_)) {
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
    /// Whether the run is to be removed, with parts that come later.
    is_removed: bool,
}

/// A task that writes, until this is dropped.
pub(crate) struct Writer {
    writers: Arc<watch::Sender<usize>>,
    hold: Option<Hold>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.writers.send_modify(|writers| *writers -= 1);
    }
}

/// The parts of a process, by run. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ResultStore {
    runs: Arc<Mutex<HashMap<String, Run>>>,
    timer: Timer,
}

impl fmt::Debug for ResultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultStore").finish_non_exhaustive()
    }
}

impl ResultStore {
    /// Begins to write a part: for `query` on a worker, or in the process of the coordinator.
    ///
    /// # Errors
    /// If the run was given up.
    pub(crate) fn begin(&self, target: &Target, query: Option<QueryHandle>) -> Result<Writer> {
        let (writers, is_removed) = self.with_run(&target.id, |run| (Arc::clone(&run.writers), run.is_removed));
        if is_removed {
            return exec_err!("the result was given up");
        }
        writers.send_modify(|writers| *writers += 1);
        let hold = query.as_ref().map(QueryHandle::hold);
        if query.is_some() {
            self.expire(&target.id, query);
        }
        Ok(Writer { writers, hold })
    }

    /// Adds a part that is complete.
    ///
    /// # Errors
    /// If the run was given up.
    pub(crate) fn add(&self, target: &Target, member: usize, sealed: SealedDataset, writer: &mut Writer) -> Result<()> {
        let (dir, state, hold) = (target.dir.clone(), State::Sealed(Box::new(sealed)), writer.hold.take());
        let part = Part { dir, member, state, hold };
        let runs = self.runs.lock();
        let parts = runs.get(&target.id).filter(|run| !run.is_removed).map(|run| Arc::clone(&run.parts));
        drop(runs);
        match parts {
            Some(parts) => parts.lock().push(part),
            None => return exec_err!("the result was given up"),
        }
        Ok(())
    }

    /// Calls `act` with a run.
    fn with_run<T>(&self, id: &str, act: impl FnOnce(&mut Run) -> T) -> T {
        act(self.runs.lock().entry(id.to_owned()).or_default())
    }

    /// Forgets a run when its query has ended, after a time in which its coordinator could have asked for its
    /// parts. Parts that are not kept are removed.
    fn expire(&self, id: &str, query: Option<QueryHandle>) {
        let (runs, id) = (Arc::clone(&self.runs), id.to_owned());
        self.timer.after_query(query, UNCLAIMED, move || {
            let unclaimed = runs.lock().remove(&id);
            drop(unclaimed);
        });
    }

    /// Forgets a run of this process. Parts that are not kept are removed.
    pub(crate) fn forget(&self, id: &str) {
        let forgotten = self.runs.lock().remove(id);
        drop(forgotten);
    }

    /// Gives the files of the parts of a run their names, unless they have them.
    ///
    /// # Errors
    /// If files cannot get their names. The files of that part are removed.
    pub(crate) async fn publish(&self, id: &str) -> Result<Vec<PublishedPart>> {
        let parts = self.parts_of(id);
        blocking(move || parts.lock().iter_mut().map(Part::publish).collect()).await
    }

    /// Keeps the parts of a run that are published, unless they are removed after all.
    pub(crate) fn keep(&self, id: &str) -> Vec<PublishedPart> {
        self.parts_of(id).lock().iter_mut().filter_map(Part::keep).collect()
    }

    /// Removes the parts of a run, and those that become complete later. Returns when no task writes any more.
    ///
    /// # Errors
    /// If a thread for that fails.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        let is_new = !self.runs.lock().contains_key(id);
        let (parts, writers) = self.with_run(id, |run| {
            run.is_removed = true;
            (Arc::clone(&run.parts), Arc::clone(&run.writers))
        });
        if is_new {
            // A task may come late.
            self.expire(id, None);
        }
        // The sender is here, so the channel does not close.
        writers.subscribe().wait_for(|writers| *writers == 0).await.ok();
        // A thread that publishes them holds the lock.
        blocking(move || {
            parts.lock().drain(..).for_each(|mut part| part.remove());
            Ok(())
        })
        .await
    }

    fn parts_of(&self, id: &str) -> Arc<Mutex<Vec<Part>>> {
        self.runs.lock().get(id).map(|run| Arc::clone(&run.parts)).unwrap_or_default()
    }
}

/// Runs work that waits for files, on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
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

    use super::{
        super::{WorkerQueries, expiry::tests::manual},
        *,
    };

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

    #[tokio::test]
    async fn kept_parts_stay_and_others_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let results = ResultStore::default();
        for task in 0..2 {
            let mut writer = results.begin(&target, None).unwrap();
            results.add(&target, task, sealed(&target, task), &mut writer).unwrap();
        }
        assert!(!target.member(0).1.join("part-00000.parquet").exists(), "it is hidden");
        assert!(results.keep("one").is_empty(), "nothing is published");
        let published = results.publish("one").await.unwrap();
        assert_eq!(
            published.iter().map(|part| (part.member, part.manifest.rows)).collect::<Vec<_>>(),
            [(0, 2), (1, 2)]
        );
        assert_eq!(results.publish("one").await.unwrap(), published, "asked again");
        assert_eq!(results.keep("one").len(), 2);
        // The coordinator could not complete it.
        results.remove("one").await.unwrap();
        assert!(!target.member(0).1.exists() && !target.member(1).1.exists());
        assert!(results.keep("one").is_empty());
    }

    #[tokio::test]
    async fn a_complete_dataset_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let collection = Collection::begin(&target.dir, vec![0], target.session, ExistingPolicy::Refuse).unwrap();
        let results = ResultStore::default();
        let mut writer = results.begin(&target, None).unwrap();
        results.add(&target, 0, sealed(&target, 0), &mut writer).unwrap();
        drop(writer);
        let published = results.publish("one").await.unwrap();
        collection.complete_with(Settings::default(), &[(0, &published[0].manifest)]).unwrap();
        collection.keep().unwrap();
        results.remove("one").await.unwrap();
        assert!(target.member(0).1.join("part-00000.parquet").exists());
    }

    #[tokio::test]
    async fn removal_waits_for_the_writers_and_admits_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let results = ResultStore::default();
        let mut writer = results.begin(&target, None).unwrap();
        let mut removing = Box::pin(results.remove("one"));
        assert!(removing.as_mut().now_or_never().is_none());
        assert!(results.begin(&target, None).is_err());
        let late = results.add(&target, 0, sealed(&target, 0), &mut writer);
        assert!(late.unwrap_err().to_string().contains("given up"));
        drop(writer);
        removing.await.unwrap();
        assert!(!target.member(0).1.exists());
    }

    #[tokio::test]
    async fn parts_that_nobody_claims_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(&folder.path().join("out"));
        let (timer, mut waits) = manual();
        let results = ResultStore { timer, ..ResultStore::default() };
        let mut writer = results.begin(&target, Some(WorkerQueries::new(1).handle("a"))).unwrap();
        results.add(&target, 0, sealed(&target, 0), &mut writer).unwrap();
        assert_eq!(results.publish("one").await.unwrap().len(), 1);
        let (time, ends) = waits.recv().await.unwrap();
        assert!(time == UNCLAIMED && target.member(0).1.exists());
        drop(ends);
        while target.member(0).1.exists() {
            tokio::task::yield_now().await;
        }
        assert!(results.keep("one").is_empty());
    }
}
