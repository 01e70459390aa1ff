//! A dataset that a query writes, as its coordinator sees it.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_dataset::{Collection, Existing, Manifest, OutputError, OutputFormat, Settings};
use async_trait::async_trait;
use datafusion::{
    arrow::{array::UInt64Array, datatypes::SchemaRef},
    catalog::{Session, TableProvider, default_table_source::provider_as_source},
    common::exec_err,
    error::{DataFusionError, Result},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType, dml::InsertOp},
    physical_plan::ExecutionPlan,
    prelude::SessionContext,
};
use datafusion_distributed::WorkerResolver;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::{task::spawn_blocking, time::timeout};
use url::Url;
use uuid::Uuid;

use super::{
    exec::WriteExec,
    store::{Request, Results, Target, blocking},
};
use crate::{asks::Ask, channels::Channels};

/// A dataset that a query is to write, on the workers that run it: a folder for each task, as
/// `annulus join` writes them, and a manifest of all.
///
/// It appears as a whole. If the query fails, nothing is left.
pub struct NewDataset {
    target: Target,
    settings: Settings,
    workers: Arc<dyn WorkerResolver>,
    channels: Channels,
    /// The folder, while it is being written.
    collection: Mutex<Option<Collection>>,
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
    /// Returns a dataset in the folder `dir`, an absolute path. The queries that write it must be those of
    /// a session with these workers and channels.
    pub fn new(
        dir: impl Into<PathBuf>,
        format: OutputFormat,
        workers: impl WorkerResolver + 'static,
        channels: Channels,
    ) -> Self {
        let id = Uuid::new_v4();
        let target = Target {
            id: id.simple().to_string(),
            dir: dir.into(),
            first_member: 0,
            session: id.as_u64_pair().0,
            format,
            compression: format.default_compression(),
            existing: Existing::Refuse,
            dictionaries: Vec::new(),
        };
        let collection = Mutex::default();
        Self { target, settings: Settings::default(), workers: Arc::new(workers), channels, collection }
    }

    /// Sets what to do if the folder has a dataset: [`Existing::Refuse`] or [`Existing::Overwrite`].
    #[must_use]
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.target.existing = existing;
        self
    }

    /// Sets the settings in the manifest.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
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
        let own = self.channels.results().clone();
        let table = WritableTable { target: Arc::new(self.target.clone()), schema, own };
        LogicalPlanBuilder::insert_into(plan, "result", provider_as_source(Arc::new(table)), InsertOp::Append)?.build()
    }

    /// Writes the rows of `plan`. If this is dropped, call [`abandon`](Self::abandon).
    ///
    /// # Errors
    /// Those of the query, and if the folder cannot be written. Then nothing is left.
    pub async fn write(&self, session: &SessionContext, plan: LogicalPlan) -> Result<Written> {
        let start = Instant::now();
        let workers = self.workers.get_urls()?;
        let (dir, existing, first) = (self.target.dir.clone(), self.target.existing, self.target.first_member);
        let members = (first..first + workers.len().max(1)).collect();
        let begun = blocking(move || Collection::begin(&dir, members, existing)).await?;
        *self.collection.lock() = Some(begun);
        let written = async {
            let parts = self.run(session, plan, &workers).await?;
            self.complete(&workers, parts).await
        };
        match written.await {
            Ok((manifest, workers)) => Ok(Written { manifest, workers, elapsed: start.elapsed() }),
            Err(error) => {
                self.abandon().await;
                Err(error)
            }
        }
    }

    /// Removes what was written, unless the dataset is complete. Waits for the workers that answer in time;
    /// the others remove their parts by themselves.
    pub async fn abandon(&self) {
        let request = Request::Remove { id: self.target.id.clone() };
        let workers = self.workers.get_urls().unwrap_or_default();
        timeout(self.channels.silence(), self.ask_all(&workers, request)).await.ok();
        // Last, so that the folder is empty.
        let collection = self.collection.lock().take();
        spawn_blocking(move || drop(collection)).await.ok();
    }

    /// Runs the query, and returns what its tasks have written: numbers of folders, manifests, and workers.
    async fn run(&self, session: &SessionContext, plan: LogicalPlan, workers: &[Url]) -> Result<Vec<Part>> {
        let counts = session.execute_logical_plan(self.plan(plan)?).await?.collect().await?;
        let counts = counts.iter().flat_map(|batch| batch.column(0).as_any().downcast_ref::<UInt64Array>());
        let rows: u64 = counts.flatten().flatten().sum();
        let mut parts = Vec::new();
        for (worker, answer) in self.ask_all(workers, Request::Publish { id: self.target.id.clone() }).await {
            parts.extend(answer?.into_iter().map(|(member, manifest)| (member, manifest, worker.clone())));
        }
        parts.sort_unstable_by_key(|(member, ..)| *member);
        let found: u64 = parts.iter().map(|(_, manifest, _)| manifest.rows).sum();
        if found != rows {
            return exec_err!("workers have {found} of the {rows} rows that they had written: one has started again");
        }
        Ok(parts)
    }

    /// Completes the dataset.
    async fn complete(&self, workers: &[Url], parts: Vec<Part>) -> Result<(Manifest, Vec<Option<Url>>)> {
        let members: Vec<_> = parts.iter().map(|(member, manifest, _)| (*member, manifest)).collect();
        let manifest = match &*self.collection.lock() {
            Some(collection) => collection.complete_with(self.settings.clone(), &members).map_err(outside)?,
            None => return exec_err!("the dataset was given up"),
        };
        for (_, answer) in self.ask_all(workers, Request::Keep { id: self.target.id.clone() }).await {
            answer?;
        }
        if let Some(collection) = self.collection.lock().take() {
            collection.keep().map_err(outside)?;
        }
        Ok((manifest, parts.into_iter().map(|(.., worker)| worker).collect()))
    }

    /// Asks all workers, and this process.
    async fn ask_all(&self, workers: &[Url], request: Request) -> Vec<(Option<Url>, Result<Vec<(usize, Manifest)>>)> {
        let asked = workers
            .iter()
            .map(async |worker| (Some(worker.clone()), self.channels.ask(worker, Ask::Results(request.clone())).await));
        let mut answers = join_all(asked).await;
        answers.push((None, self.channels.results().apply(request).await));
        answers
    }
}

fn outside(error: OutputError) -> DataFusionError {
    DataFusionError::External(error.into())
}

/// A table whose inserts are the dataset.
#[derive(Debug)]
struct WritableTable {
    target: Arc<Target>,
    schema: SchemaRef,
    own: Results,
}

#[async_trait]
impl TableProvider for WritableTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        exec_err!("'{}' is not complete yet", self.target.dir.display())
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(WriteExec::new(input, Arc::clone(&self.target), Some(self.own.clone()))))
    }
}
