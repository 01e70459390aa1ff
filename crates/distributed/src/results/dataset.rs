//! The coordinator of a dataset that a query writes.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use annulus_dataset::{Collection, ExistingPolicy, Manifest, OutputFormat, Settings};
use datafusion::{
    catalog::default_table_source::provider_as_source,
    common::{config_err, exec_datafusion_err, exec_err},
    error::Result,
    logical_expr::{LogicalPlan, LogicalPlanBuilder, dml::InsertOp},
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};
use datafusion_distributed::{DistributedConfig, WorkerResolver};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{task::spawn_blocking, time::timeout};
use url::Url;
use uuid::Uuid;

use super::{exec::WriteExec, service::PartsRequest};
use crate::{
    error::{WorkerError, WorkerErrorKind},
    inserts::{Inserts, sum_of_counts},
    net::Connections,
    skipped::tell_skipped,
    state::{PublishedPart, ResultStore, Target, blocking},
    workers::address_of,
};

/// A dataset that a query writes, in this process or on the workers that run it: a folder for each task, as
/// `annulus join` writes them, and a manifest of all.
///
/// The dataset appears as a whole. If the query fails, its files are removed.
pub struct NewDataset {
    target: Target,
    settings: Settings,
    workers: Option<Arc<dyn WorkerResolver>>,
    connections: Connections,
    /// The parts that this process writes.
    own: ResultStore,
    /// The folder, while it is being written.
    collection: Mutex<Option<Collection>>,
    is_complete: AtomicBool,
}

/// A dataset that was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The manifest.
    pub manifest: Manifest,
    /// The worker of each folder of the dataset, in their order; `None` for this process.
    pub workers: Vec<Option<Url>>,
    /// The time from the start of the query to the manifest.
    pub elapsed: Duration,
}

/// A part of the dataset, and the worker that has written it.
struct Part {
    published: PublishedPart,
    worker: Option<Url>,
}

/// The answer of a worker.
struct Answer {
    worker: Url,
    parts: Result<Vec<PublishedPart>>,
}

impl fmt::Debug for NewDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDataset").field("target", &self.target).finish_non_exhaustive()
    }
}

impl NewDataset {
    /// Returns a dataset in the folder `dir`, which this process writes, though its queries may run on workers.
    pub fn new(dir: impl Into<PathBuf>, format: OutputFormat) -> Self {
        let id = Uuid::new_v4();
        let target = Target {
            id: id.simple().to_string(),
            dir: dir.into(),
            first_member: 0,
            session: id.as_u64_pair().0,
            format,
            compression: format.default_compression(),
            existing: ExistingPolicy::Refuse,
            dictionaries: Vec::new(),
        };
        Self {
            target,
            settings: Settings::default(),
            workers: None,
            connections: Connections::default(),
            own: ResultStore::default(),
            collection: Mutex::default(),
            is_complete: AtomicBool::new(false),
        }
    }

    /// Lets workers write the dataset. The query must run in a session with these workers and connections, and
    /// the folder must be an absolute path.
    #[must_use]
    pub fn on_workers(mut self, workers: impl WorkerResolver + 'static, connections: Connections) -> Self {
        (self.workers, self.connections) = (Some(Arc::new(workers) as _), connections);
        self
    }

    /// Sets what to do if the folder has a dataset: [`ExistingPolicy::Refuse`] or [`ExistingPolicy::Overwrite`].
    #[must_use]
    pub fn with_existing(mut self, existing: ExistingPolicy) -> Self {
        self.target.existing = existing;
        self
    }

    /// Sets the settings in the manifest.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets for each column whether a dictionary is expected to make its files smaller.
    #[must_use]
    pub fn with_dictionaries(mut self, dictionaries: Vec<bool>) -> Self {
        self.target.dictionaries = dictionaries;
        self
    }

    /// Sets the number of the first task's folder. A lost worker may still write to its folder, so a query
    /// that starts again without it uses others.
    #[must_use]
    pub fn with_first_member(mut self, member: usize) -> Self {
        self.target.first_member = member;
        self
    }

    /// Returns the plan of a query that writes the rows of `plan`.
    ///
    /// # Errors
    /// If DataFusion refuses it.
    pub fn plan(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(plan.schema().inner());
        let (target, own) = (Arc::new(self.target.clone()), self.own.clone());
        let name = format!("'{}'", target.dir.display());
        let gathers = self.workers.is_none();
        let operator = move |input| {
            Arc::new(WriteExec::new(input, Arc::clone(&target), Some(own.clone())).gathering(gathers)) as _
        };
        let table = Inserts { name, schema, operator };
        LogicalPlanBuilder::insert_into(plan, "result", provider_as_source(Arc::new(table)), InsertOp::Append)?.build()
    }

    /// Returns the physical plan of a query that writes the rows of `plan`, for [`write`](Self::write). Its
    /// operators have counters.
    ///
    /// # Errors
    /// If DataFusion refuses the query.
    pub async fn physical_plan(&self, session: &SessionContext, plan: LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        session.state().create_physical_plan(&self.plan(plan)?).await
    }

    /// Runs `plan`, which [`physical_plan`](Self::physical_plan) has returned. If this is dropped, call
    /// [`abandon`](Self::abandon).
    ///
    /// # Errors
    /// If the query fails, or the folder cannot be written. The files of the dataset are removed.
    pub async fn write(&self, session: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<Written> {
        let start = Instant::now();
        let workers = self.urls()?;
        if self.workers.is_some() {
            let most = DistributedConfig::from_session_config(session.state().config())?.max_tasks_per_stage;
            if most > workers.len() {
                return config_err!(
                    "distributed.max_tasks_per_stage = {most}: a result is written by {} workers, with a task each; \
                     set it to 0",
                    workers.len()
                );
            }
        }
        let target = self.target.clone();
        let members = (target.first_member..target.first_member + workers.len().max(1)).collect();
        let begin = move || Collection::begin(&target.dir, members, target.session, target.existing);
        let begun = blocking(begin).await?;
        *self.collection.lock() = Some(begun);
        let written = async {
            let parts = self.run(session, plan, &workers).await?;
            self.complete(parts).await
        };
        match written.await {
            Ok((manifest, workers)) => Ok(Written { manifest, workers, elapsed: start.elapsed() }),
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    /// Removes the files, unless the dataset is complete, and returns whether it is. Waits for the workers that
    /// answer in time; the others remove their parts by themselves.
    pub async fn abandon(&self) -> bool {
        let request = PartsRequest::Remove { id: self.target.id.clone() };
        let workers = self.urls().unwrap_or_default();
        let (_, own) =
            tokio::join!(timeout(self.connections.silence(), self.ask(&workers, &request)), request.apply(&self.own));
        // The next run removes files that cannot be removed now.
        own.ok();
        // Last, so that the folder is empty.
        let collection = self.collection.lock().take();
        spawn_blocking(move || drop(collection)).await.ok();
        self.is_complete.load(Acquire)
    }

    fn urls(&self) -> Result<Vec<Url>> {
        self.workers.as_ref().map_or_else(|| Ok(Vec::new()), |workers| workers.get_urls())
    }

    /// Runs the query, and returns the parts that its tasks have written.
    async fn run(&self, session: &SessionContext, plan: Arc<dyn ExecutionPlan>, workers: &[Url]) -> Result<Vec<Part>> {
        let counts = collect(Arc::clone(&plan), session.task_ctx()).await?;
        tell_skipped(&plan).await?;
        let rows = sum_of_counts(&counts);
        let request = PartsRequest::Publish { id: self.target.id.clone() };
        let own = request.apply(&self.own).await?;
        let mut parts: Vec<Part> = own.into_iter().map(|published| Part { published, worker: None }).collect();
        let mut failed = None;
        for Answer { worker, parts: answer } in self.ask(workers, &request).await {
            match answer {
                Ok(published) => {
                    let with_worker = |published| Part { published, worker: Some(worker.clone()) };
                    parts.extend(published.into_iter().map(with_worker));
                }
                // It may have written nothing.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        parts.sort_unstable_by_key(|part| part.published.member);
        let found: u64 = parts.iter().map(|part| part.published.manifest.rows).sum();
        match failed {
            _ if found == rows => Ok(parts),
            Some(error) => Err(error),
            None => exec_err!("workers have {found} of the {rows} rows that they had written: one has started again"),
        }
    }

    /// Completes the dataset.
    async fn complete(&self, parts: Vec<Part>) -> Result<(Manifest, Vec<Option<Url>>)> {
        let Some(collection) = self.collection.lock().take() else { return exec_err!("the dataset was given up") };
        let settings = self.settings.clone();
        let written: Vec<PublishedPart> = parts.iter().map(|part| part.published.clone()).collect();
        let (collection, manifest) = blocking(move || {
            let members: Vec<_> = written.iter().map(|part| (part.member, &part.manifest)).collect();
            let manifest = collection.complete_with(settings, &members)?;
            Ok((collection, manifest))
        })
        .await?;
        *self.collection.lock() = Some(collection);
        let request = PartsRequest::Keep { id: self.target.id.clone() };
        let mut writers: Vec<Url> = parts.iter().filter_map(|part| part.worker.clone()).collect();
        writers.dedup();
        let mut kept: Vec<usize> = Vec::new();
        for Answer { parts, .. } in self.ask(&writers, &request).await {
            kept.extend(parts?.into_iter().map(|part| part.member));
        }
        kept.extend(request.apply(&self.own).await?.into_iter().map(|part| part.member));
        let lost = parts.iter().find(|part| !kept.contains(&part.published.member));
        if let Some(Part { published, worker: Some(worker) }) = lost {
            let source = exec_datafusion_err!("it has lost its part of the result, host-{:02}", published.member);
            return Err(WorkerError { address: address_of(worker), kind: WorkerErrorKind::Lost, source }.into());
        }
        self.is_complete.store(true, Release);
        let complete = self.collection.lock().take();
        if let Some(collection) = complete
            && let Err(error) = blocking(move || collection.keep()).await
        {
            // The dataset is complete.
            tracing::warn!("{error}");
        }
        Ok((manifest, parts.into_iter().map(|part| part.worker).collect()))
    }

    async fn ask(&self, workers: &[Url], request: &PartsRequest) -> Vec<Answer> {
        let asked = workers
            .iter()
            .map(async |worker| Answer { worker: worker.clone(), parts: self.connections.ask(worker, request).await });
        join_all(asked).await
    }
}

impl Drop for NewDataset {
    fn drop(&mut self) {
        self.own.forget(&self.target.id);
    }
}
