//! A session that joins, in this process or on workers, and the dataset that it writes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_datafusion::{AnnulusConfig, Joins};
use annulus_dataset::OutputFormat;
use annulus_distributed::{NewDataset, Written};
use annulus_join::Sides;
use anyhow::{Result, anyhow, bail};
use datafusion::{
    arrow::{array::AsArray, datatypes::SchemaRef},
    error::DataFusionError,
    logical_expr::LogicalPlanBuilder,
    physical_plan::ExecutionPlan,
    prelude::{SessionConfig, SessionContext},
};

use super::{
    args::JoinJob,
    counts::Counts,
    pieces,
    query::{PlannedQuery, Source},
};
use crate::{
    cluster::Remote,
    formats,
    inputs::Inputs,
    reading,
    session::{self, Engine, Limits},
    stores::Stores,
};

/// The memory of this process that operators do not account for: the program, and batches in transit.
const PROGRAM_BYTES: usize = 96 << 20;
/// The memory of operators for each thread, at least. With less, rows go to disk in very small parts.
const THREAD_BYTES: usize = 16 << 20;

/// A run of the join, in this process or on workers of which none is known to be lost.
pub struct Attempt {
    session: SessionContext,
    query: PlannedQuery,
    output: NewDataset,
    /// Whether a folder for it was given.
    has_output: bool,
    is_remote: bool,
    memory_bytes: Option<usize>,
    rows_bad: Arc<AtomicU64>,
}

impl Attempt {
    /// Opens the inputs and plans the query. `remote` are the workers, of which the first writes the folder
    /// `first_member`. `threads` is the number of partitions, and spilled rows go to the folder `spill`. Copies of
    /// inputs are those of `inputs`.
    pub async fn new(
        job: &JoinJob,
        remote: Option<&Remote>,
        first_member: usize,
        threads: usize,
        spill: &Path,
        inputs: &Inputs,
    ) -> Result<Self> {
        let is_remote = remote.is_some();
        let mut config = SessionConfig::new();
        config.options_mut().extensions.insert(AnnulusConfig {
            joins: if is_remote { Joins::Auto } else { Joins::Always },
            // A file for each thread, however many partitions the tables have.
            partitioned_tables: false,
            ..AnnulusConfig::default()
        });
        let memory_bytes = match (job.memory_bytes, is_remote) {
            (Some(bytes), false) => Some(memory_of_operators(bytes, threads)?),
            // As each worker has it: what needs one task runs here.
            (bytes, _) => bytes,
        };
        let target_partitions = Some(threads).filter(|_| !is_remote || job.threads.is_some());
        let limits = Limits { target_partitions, memory_bytes, disk_bytes: None };
        let session = session::open(Engine::Annulus, limits, spill, config, Some(Arc::new(Stores::default())), remote)?;
        // Some say how the inputs are read.
        session::set_options(&session, &job.settings).await?;
        let Sides { left, right } = &job.query.sides;
        let sides = Sides { left: left.open(&session, inputs).await?, right: right.open(&session, inputs).await? };
        for files in sides.iter().filter_map(Source::files) {
            reading::note_surprises(files);
            reading::note_partial(&files.partial);
        }
        let query = job.query.clone().check(
            sides,
            job.output.as_deref(),
            job.format.unwrap_or(OutputFormat::Parquet),
            &session.copied_config(),
        )?;
        let rows_bad = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&rows_bad);
        let on_skipped = move |rows| {
            count.fetch_add(rows, Relaxed);
        };
        let query = query.plan(session.state().config(), job.inputs_each, on_skipped)?;
        let format = job.format.unwrap_or_else(|| formats::suitable(query.plan.schema().as_arrow()));
        let mut output = NewDataset::new(job.output.clone().unwrap_or_default(), format)
            .with_existing(job.existing)
            .with_settings(job.query.settings())
            .with_dictionaries(query.dictionaries.clone())
            .with_first_member(first_member);
        // What is uploaded is written here first, where other machines cannot write.
        let is_here = job.url.is_some() && job.cluster.workers.is_some();
        if let Some(Remote { workers, connections, .. }) = remote.filter(|_| !is_here) {
            output = output.on_workers(workers.clone(), connections.clone());
        }
        let has_output = job.output.is_some();
        Ok(Self { session, query, output, has_output, is_remote, memory_bytes: job.memory_bytes, rows_bad })
    }

    /// Returns the plan that [`write`](Self::write) runs, and what it will have counted, if it runs here.
    pub async fn plan(&self) -> Result<(Arc<dyn ExecutionPlan>, Option<Counts>)> {
        let plan = self.output.physical_plan(&self.session, self.query.plan.clone()).await;
        let plan = plan.map_err(|error| self.explained(error))?;
        if self.is_remote {
            return Ok((plan, None));
        }
        let plan = pieces::in_pieces(plan)?;
        let counts = Counts::new(&plan, self.query.tables.clone(), self.query.bytes);
        Ok((plan, Some(counts)))
    }

    /// Runs the join.
    pub async fn write(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Written> {
        self.output.write(&self.session, plan).await.map_err(|error| self.explained(error))
    }

    /// Removes what was written, unless the result is complete, and returns whether it is.
    pub async fn abandon(&self) -> bool {
        self.output.abandon().await
    }

    /// Returns the number of rows that this process could not read, and left out.
    pub fn rows_bad(&self) -> u64 {
        self.rows_bad.load(Relaxed)
    }

    /// Returns the columns of the result.
    pub fn columns(&self) -> SchemaRef {
        Arc::clone(self.query.plan.schema().inner())
    }

    /// Returns the operators of the join, as `EXPLAIN` shows them.
    pub async fn explain(&self) -> Result<String> {
        let plan = self.query.plan.clone();
        let plan = if self.has_output { self.output.plan(plan)? } else { plan };
        let plan = LogicalPlanBuilder::from(plan).explain(false, false)?.build()?;
        let rows = self.session.execute_logical_plan(plan).await?.collect().await;
        let mut text = String::new();
        for batch in &rows.map_err(|error| self.explained(error))? {
            let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
            let physical = kinds.iter().zip(plans).filter(|(kind, _)| *kind == Some("physical_plan"));
            text.extend(physical.flat_map(|(_, plan)| plan));
        }
        Ok(text.trim_end().to_owned())
    }

    /// Returns the error of a query of this process for its user.
    fn explained(&self, error: DataFusionError) -> anyhow::Error {
        if self.is_remote {
            return error.into();
        }
        match (error.find_root(), self.memory_bytes) {
            (DataFusionError::ResourcesExhausted(_), Some(limit)) => anyhow!(
                "the join needs more than --memory-limit {}M: allow more, or use more processes (--cluster)",
                limit >> 20
            ),
            (DataFusionError::ArrowError(..) | DataFusionError::Execution(_), _) => {
                self.query.fallible.error(&error).into()
            }
            _ => error.into(),
        }
    }
}

/// Returns the memory that operators may take together, of that of this process.
fn memory_of_operators(bytes: usize, threads: usize) -> Result<usize> {
    let least = PROGRAM_BYTES + THREAD_BYTES * threads;
    if bytes < least {
        let of_threads = if threads == 1 { String::new() } else { format!(" with {threads} threads (--threads)") };
        bail!("--memory-limit is too low: a join needs at least {} MiB{of_threads}", least >> 20);
    }
    Ok(bytes - PROGRAM_BYTES)
}
