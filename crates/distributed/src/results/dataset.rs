//! A dataset that a query writes, as its coordinator sees it.

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
    common::{config_err, exec_err},
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

use super::{
    exec::WriteExec,
    store::{Request, Target, blocking},
};
use crate::{asks::Ask, channels::Channels, inserts::Inserts, resident::sum_of_counts, workers::address_of};

/// A dataset that a query is to write, in this process or on the workers that run it: a folder for each
/// task, as `annulus join` writes them, and a manifest of all.
///
/// It appears as a whole. If the query fails, nothing is left.
pub struct NewDataset {
    target: Target,
    settings: Settings,
    workers: Option<Arc<dyn WorkerResolver>>,
    channels: Channels,
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

/// The number of a folder, its manifest, and the worker that has written it.
type Part = (usize, Manifest, Option<Url>);

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
        let (channels, collection) = (Channels::default(), Mutex::default());
        Self {
            target,
            settings: Settings::default(),
            workers: None,
            channels,
            collection,
            is_complete: AtomicBool::new(false),
        }
    }

    /// Lets workers write it. The queries must be those of a session with these workers and channels, and the
    /// folder an absolute path.
    #[must_use]
    pub fn on_workers(mut self, workers: impl WorkerResolver + 'static, channels: Channels) -> Self {
        (self.workers, self.channels) = (Some(Arc::new(workers) as _), channels);
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

    /// Sets for each column whether a dictionary is expected to pay for it in a file.
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
        let (target, own) = (Arc::new(self.target.clone()), self.channels.results().clone());
        let name = format!("'{}'", target.dir.display());
        let gathers = self.workers.is_none();
        let operator = move |input| {
            Arc::new(WriteExec::new(input, Arc::clone(&target), Some(own.clone())).gathering(gathers)) as _
        };
        let table = Inserts { name, schema, operator };
        LogicalPlanBuilder::insert_into(plan, "result", provider_as_source(Arc::new(table)), InsertOp::Append)?.build()
    }

    /// Returns the physical plan of a query that writes the rows of `plan`, for [`write`](Self::write). It
    /// counts what its operators have done.
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
    /// Those of the query, and if the folder cannot be written. Then nothing is left.
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

    /// Removes what was written, unless the dataset is complete, and returns whether it is. Waits for the
    /// workers that answer in time; the others remove their parts by themselves.
    pub async fn abandon(&self) -> bool {
        let request = Request::Remove { id: self.target.id.clone() };
        let workers = self.urls().unwrap_or_default();
        let (_, own) = tokio::join!(
            timeout(self.channels.silence(), self.ask(&workers, &request)),
            self.channels.results().apply(request.clone())
        );
        // The next run removes what cannot be removed now.
        own.ok();
        // Last, so that the folder is empty.
        let collection = self.collection.lock().take();
        spawn_blocking(move || drop(collection)).await.ok();
        self.is_complete.load(Acquire)
    }

    fn urls(&self) -> Result<Vec<Url>> {
        self.workers.as_ref().map_or_else(|| Ok(Vec::new()), |workers| workers.get_urls())
    }

    /// Runs the query, and returns what its tasks have written.
    async fn run(&self, session: &SessionContext, plan: Arc<dyn ExecutionPlan>, workers: &[Url]) -> Result<Vec<Part>> {
        let counts = collect(plan, session.task_ctx()).await?;
        let rows = sum_of_counts(&counts);
        let request = Request::Publish { id: self.target.id.clone() };
        let own = self.channels.results().apply(request.clone()).await?;
        let mut parts: Vec<Part> = own.into_iter().map(|(member, manifest)| (member, manifest, None)).collect();
        let mut failed = None;
        for (worker, answer) in self.ask(workers, &request).await {
            match answer {
                Ok(published) => {
                    let of_worker = |(member, manifest)| (member, manifest, Some(worker.clone()));
                    parts.extend(published.into_iter().map(of_worker));
                }
                // It may have written nothing.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        parts.sort_unstable_by_key(|(member, ..)| *member);
        let found: u64 = parts.iter().map(|(_, manifest, _)| manifest.rows).sum();
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
        let written: Vec<_> = parts.iter().map(|(member, manifest, _)| (*member, manifest.clone())).collect();
        let (collection, manifest) = blocking(move || {
            let members: Vec<_> = written.iter().map(|(member, manifest)| (*member, manifest)).collect();
            let manifest = collection.complete_with(settings, &members)?;
            Ok((collection, manifest))
        })
        .await?;
        *self.collection.lock() = Some(collection);
        let request = Request::Keep { id: self.target.id.clone() };
        let mut writers: Vec<Url> = parts.iter().filter_map(|(.., worker)| worker.clone()).collect();
        writers.dedup();
        let mut kept: Vec<usize> = Vec::new();
        for (_, answer) in self.ask(&writers, &request).await {
            kept.extend(answer?.into_iter().map(|(member, _)| member));
        }
        kept.extend(self.channels.results().apply(request).await?.into_iter().map(|(member, _)| member));
        if let Some((member, _, Some(worker))) = parts.iter().find(|(member, ..)| !kept.contains(member)) {
            return exec_err!("worker {} has lost its part of the result, host-{member:02}", address_of(worker));
        }
        self.is_complete.store(true, Release);
        let complete = self.collection.lock().take();
        if let Some(collection) = complete
            && let Err(error) = blocking(move || collection.keep()).await
        {
            // The dataset is complete.
            tracing::warn!("{error}");
        }
        Ok((manifest, parts.into_iter().map(|(.., worker)| worker).collect()))
    }

    async fn ask(&self, workers: &[Url], request: &Request) -> Vec<(Url, Result<Vec<(usize, Manifest)>>)> {
        let asked = workers
            .iter()
            .map(async |worker| (worker.clone(), self.channels.ask(worker, Ask::Results(request.clone())).await));
        join_all(asked).await
    }
}

impl Drop for NewDataset {
    fn drop(&mut self) {
        self.channels.results().forget(&self.target.id);
    }
}
