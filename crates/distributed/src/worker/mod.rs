//! The worker: it runs the stages of queries, and serves the requests of its services.
//!
//! ```text
//! server.rs    accepts connections; guard.rs admits queries, and refuses members without the right
//! session.rs   the session of a task, with the options of the query
//! channels.rs  the channels of a task to the tasks that it reads from
//! ```

mod channels;
mod guard;
mod server;
mod session;

use std::sync::{Arc, Weak};

use annulus_roundabout::BufferCache;
use datafusion::execution::{memory_pool::MemoryLimit, runtime_env::RuntimeEnv};
use datafusion_distributed::Worker;

use crate::{
    cyclo, files,
    files::WorkerFiles,
    net::{AskService, Connections},
    presence, resident, results,
    state::{WorkerQueries, WorkerState},
    status::{self, WorkerStatus},
};

pub use server::Server;
pub use session::on_worker;

/// The most bytes of buffers that a worker keeps for rings: two rings with the default options take 32 MiB,
/// and the headers of their fragments.
const KEPT_BYTES: usize = 36 << 20;
/// The share of the memory limit that they take at most.
const KEPT_SHARE: usize = 8;

/// A worker that runs the stages of queries on the operators of Annulus.
#[derive(Clone)]
pub struct AnnulusWorker {
    worker: Arc<Worker>,
    runtime: Arc<RuntimeEnv>,
    files: Arc<WorkerFiles>,
    state: WorkerState,
}

impl AnnulusWorker {
    /// Returns a worker whose queries share the memory, the disk and the object stores of `runtime`,
    /// and reach other workers on `connections`.
    pub fn new(runtime: Arc<RuntimeEnv>, connections: Connections) -> Self {
        Self::with_limits(runtime, connections, WorkerFiles::default(), usize::MAX)
    }

    /// Returns a worker that opens datasets and writes them only as `files` allow, and refuses queries while it
    /// runs `most_queries` others. The error says so.
    ///
    /// It keeps the buffers of its rings for the next joins: at most 36 MiB, and an eighth of the memory limit.
    pub fn with_limits(
        runtime: Arc<RuntimeEnv>,
        connections: Connections,
        files: WorkerFiles,
        most_queries: usize,
    ) -> Self {
        let kept_bytes = match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(limit) => KEPT_BYTES.min(limit / KEPT_SHARE),
            MemoryLimit::Infinite | MemoryLimit::Unknown => KEPT_BYTES,
        };
        let state = WorkerState::new(most_queries, BufferCache::new(kept_bytes));
        let (connections, files) = (connections.for_worker(), Arc::new(files));
        let worker = Arc::new_cyclic(|worker: &Weak<Worker>| {
            let (worker, files, state) = (Weak::clone(worker), Arc::clone(&files), state.clone());
            Worker::from_session_builder(session::Sessions { connections, worker, files, state })
                .with_runtime_env(Arc::clone(&runtime))
                .with_version(env!("CARGO_PKG_VERSION"))
        });
        Self { worker, runtime, files, state }
    }

    /// Returns the worker of datafusion-distributed, for a server of the embedder. Joins around a ring, resident
    /// tables and datasets need [`Server`], which answers the requests for them.
    pub fn inner(&self) -> &Worker {
        &self.worker
    }

    /// Returns a handle for reports about the worker.
    pub fn status(&self) -> WorkerStatus {
        WorkerStatus::new(self.state.queries.clone(), Arc::clone(&self.runtime))
    }

    /// Returns the service that answers requests beside queries.
    fn asks(&self) -> AskService {
        let asks = cyclo::serve(AskService::default(), &self.state.meetings);
        let asks = resident::serve(asks, &self.state.resident);
        let asks = results::serve(asks, &self.state.results);
        let asks = files::serve(asks, Arc::clone(&self.files));
        let asks = presence::serve(asks, &self.state.queries);
        status::serve(asks, self.status())
    }

    /// Returns the queries that run.
    fn queries(&self) -> &WorkerQueries {
        &self.state.queries
    }
}
