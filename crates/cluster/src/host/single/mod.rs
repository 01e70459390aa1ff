//! A single host: joins as a query of DataFusion does, with the scans and the operators of
//! `annulus-datafusion`.
//!
//! ```text
//! both sides as tables -> plan::logical -> DataFusion with Annulus     query.rs
//!                      -> files in pieces for all threads              pieces.rs
//!                      -> a task for each partition, which also writes its file     run.rs
//!                      -> what the operators have counted              counts.rs
//! ```

mod counts;
mod pieces;
mod query;
mod run;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use annulus_dataset::{SealedDataset, WholeDataset};
use annulus_join::{Side, Sides};
use tokio::runtime::{Builder, Runtime};

use self::{counts::Counts, query::Tables, run::Run};
use super::{load::HostInput, progress::Counters, session::milliseconds, stop::Stop};
use crate::{
    control::{HostSummary, Phase, Single, Task},
    error::ClusterError,
    plan::{Bound, Condition, Fallible, logical},
};

/// A join that is planned, and has not begun.
pub(super) struct SingleHost<'a> {
    task: &'a Task,
    runtime: Runtime,
    counts: Arc<Counts>,
    fallible: Fallible,
    files: WholeDataset,
    rows_bad: Arc<AtomicU64>,
    run: Run,
}

impl<'a> SingleHost<'a> {
    /// Plans the join. Reads nothing of the inputs.
    ///
    /// # Errors
    /// If DataFusion refuses the plan, or a thread or a folder cannot be created.
    pub(super) fn plan(
        task: &'a Task,
        single: Single,
        sides: Sides<HostInput>,
        (condition, bound): (&Condition, &Bound),
        files: WholeDataset,
    ) -> Result<Self, ClusterError> {
        let (query, build) = (&task.join.query, task.join.rotate.other());
        let is_reduced = !condition.drops_nothing(build);
        let session = query::session(task, single, is_reduced, &files.scratch_folder()?)?;
        let rows_bad = Arc::new(AtomicU64::new(0));
        let tables = Tables::new(sides, session.state().config(), &rows_bad);
        let plan = logical(condition, query, bound, build, tables.providers())?;
        let runtime = Builder::new_multi_thread().worker_threads(task.threads()).enable_all().build()?;
        let plan = pieces::in_pieces(runtime.block_on(session.state().create_physical_plan(&plan))?)?;
        let probe = build.other();
        let counts = Arc::new(Counts::new(Arc::clone(&plan), tables, probe, condition.drops_nothing(probe)));
        let run = Run { plan, context: session.task_ctx(), files: task.threads() };
        let fallible = Fallible::new(condition, query)?;
        Ok(Self { task, runtime, counts, fallible, files, rows_bad, run })
    }

    /// Runs the join. The files are then complete, and hidden.
    ///
    /// # Errors
    /// If an input cannot be read, an expression fails, memory does not suffice, or the host is
    /// stopped.
    pub(super) fn join(
        self,
        stop: &Stop,
        progress: &Arc<Counters>,
        summary: &mut HostSummary,
    ) -> Result<SealedDataset, ClusterError> {
        let start = Instant::now();
        let Self { task, runtime, counts, fallible, files, rows_bad, run } = self;
        progress.count_with(Arc::clone(&counts) as _);
        progress.enter(Phase::Turning);
        let files = Arc::new(files);
        let limit = task.resources.memory_bytes;
        let done = runtime.block_on(run.write(Arc::clone(&files), stop, progress));
        // Waits until no task uses the files.
        drop(runtime);
        done.map_err(|error| run::explained(error, &fallible, limit))?;
        stop.check()?;
        progress.enter(Phase::Writing);
        summary.rows_out = progress.get().rows_out;
        if summary.rows_out == 0 {
            // Readers of a result without rows find its columns in this file.
            files.write_columns(0)?;
        }
        let Ok(files) = Arc::try_unwrap(files) else {
            return Err(ClusterError::Query { reason: "a task of the join has not ended".to_owned() });
        };
        let sealed = files.seal()?;
        counts.summarize(summary);
        summary.rows_bad = rows_bad.load(Relaxed);
        summary.join_ms = milliseconds(start.elapsed()) - summary.setup_ms;
        Ok(sealed)
    }
}

impl Condition {
    /// Returns whether no predicate is over `side` alone.
    fn drops_nothing(&self, side: Side) -> bool {
        self.of_side(side).next().is_none()
    }
}
