//! The parts of datasets that a process has written, and that are not complete yet.

use std::{collections::HashMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use annulus_dataset::{Collection, Compression, Existing, Manifest, OutputError, OutputFormat, SealedDataset};
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

/// The time after which a part that nobody has asked for is removed.
const UNCLAIMED: Duration = Duration::from_secs(10 * 60);

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
    pub(crate) existing: Existing,
    /// For each column, whether a dictionary is expected to pay for it.
    pub(crate) dictionaries: Vec<bool>,
}

impl Target {
    /// Returns the number of the folder of a task, and the folder.
    pub(super) fn member(&self, task: usize) -> (usize, PathBuf) {
        let member = self.first_member + task;
        (member, Collection::member_dir(&self.dir, member))
    }
}

/// What a coordinator asks of a process that has written parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// To give the files of its parts their names. The answer has their numbers and manifests.
    Publish { id: String },
    /// To forget its parts, which stay.
    Keep { id: String },
    /// To remove its parts, also those that are complete only later. The answer comes when nothing is written
    /// any more.
    Remove { id: String },
}

/// A part of a dataset, which is removed when this is dropped.
struct Part {
    dir: PathBuf,
    member: usize,
    state: Option<State>,
}

enum State {
    /// Complete, and hidden.
    Sealed(Box<SealedDataset>),
    Published(Box<Manifest>),
}

impl Part {
    /// Gives the files their names, unless they have them.
    fn publish(&mut self) -> Result<(usize, Manifest), OutputError> {
        let manifest = match self.state.take() {
            Some(State::Sealed(sealed)) => Box::new(sealed.publish()?),
            Some(State::Published(manifest)) => manifest,
            None => return Err(OutputError::Broken(self.dir.display().to_string())),
        };
        self.state = Some(State::Published(manifest.clone()));
        Ok((self.member, *manifest))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(State::Published(manifest)) = self.state.take() {
            // If the coordinator has completed the dataset, it stays. An error cannot be returned.
            Collection::remove_unless_in(&self.dir, self.member, &manifest).ok();
        }
    }
}

/// The parts of a run.
#[derive(Default)]
struct Run {
    /// Whoever publishes them holds them, so they are removed when that has ended.
    parts: Arc<Mutex<Vec<Part>>>,
    /// The tasks that write.
    writers: Arc<watch::Sender<usize>>,
    /// Whether further parts are to be removed, too.
    is_removed: bool,
}

/// A task that writes, until this is dropped.
pub(super) struct Writer(Arc<watch::Sender<usize>>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.send_modify(|writers| *writers -= 1);
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
    /// Begins to write a part.
    pub(super) fn enter(&self, target: &Target) -> Writer {
        let writers = self.with(&target.id, |run| Arc::clone(&run.writers));
        writers.send_modify(|writers| *writers += 1);
        Writer(writers)
    }

    /// Adds a part that is complete. It is removed if nobody asks for it.
    pub(super) fn add(&self, target: &Target, member: usize, sealed: SealedDataset) {
        let part = Part { dir: target.dir.clone(), member, state: Some(State::Sealed(Box::new(sealed))) };
        let parts = self.with(&target.id, |run| (!run.is_removed).then(|| Arc::clone(&run.parts)));
        if let Some(parts) = parts {
            parts.lock().push(part);
        }
    }

    /// Calls `act` with a run, which is forgotten after a time in which its parts could have been kept.
    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Run) -> T) -> T {
        let mut runs = self.0.lock();
        if !runs.contains_key(id) {
            let (results, id) = (self.clone(), id.to_owned());
            tokio::spawn(async move {
                // A real delay: nothing tells that the process that asked for the parts is gone.
                sleep(UNCLAIMED).await;
                let unclaimed = results.0.lock().remove(&id);
                spawn_blocking(move || drop(unclaimed)).await.ok();
            });
        }
        act(runs.entry(id.to_owned()).or_default())
    }

    /// Does what a coordinator asks.
    ///
    /// # Errors
    /// If files cannot get their names. Then all parts of this process are removed.
    pub(crate) async fn apply(&self, request: Request) -> Result<Vec<(usize, Manifest)>, DataFusionError> {
        let take = |id: &str| {
            self.with(id, |run| {
                run.is_removed = true;
                (std::mem::take(&mut run.parts), Arc::clone(&run.writers))
            })
        };
        match request {
            Request::Publish { id } => {
                let Some(parts) = self.0.lock().get(&id).map(|run| Arc::clone(&run.parts)) else {
                    return Ok(Vec::new());
                };
                blocking(move || parts.lock().iter_mut().map(Part::publish).collect()).await
            }
            Request::Keep { id } => {
                let (parts, _) = take(&id);
                parts.lock().iter_mut().for_each(|part| part.state = None);
                Ok(Vec::new())
            }
            Request::Remove { id } => {
                let (parts, writers) = take(&id);
                blocking(move || {
                    drop(parts);
                    Ok(())
                })
                .await?;
                // The sender is here, so the channel does not close.
                writers.subscribe().wait_for(|writers| *writers == 0).await.ok();
                Ok(Vec::new())
            }
        }
    }
}

/// Runs what waits for files.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OutputError> + Send + 'static,
) -> Result<T, DataFusionError> {
    let done = spawn_blocking(work).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    done.map_err(|error| DataFusionError::External(error.into()))
}
