//! The threads that serve connections.
//!
//! Operators compute on the threads of the embedder's runtime, sometimes for long without a pause. If
//! connections were served there, a busy process would not answer in time, and count as lost.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// The most bytes in flight on a stream, in both directions.
pub(crate) const STREAM_BYTES: u32 = 4 << 20;
/// The most bytes in flight on all streams of a connection.
pub(crate) const CONNECTION_BYTES: u32 = 16 << 20;

/// These threads only frame and encrypt.
const THREADS: usize = 2;

static NETWORK: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(THREADS).thread_name("annulus-network").enable_all().build().ok()
});

/// Returns the runtime of connections; that of the caller if the system has no more threads.
pub(crate) fn network_threads() -> Handle {
    NETWORK.as_ref().map_or_else(Handle::current, |network| network.handle().clone())
}

/// Spawns the tasks of a connection on these threads.
#[derive(Clone, Debug)]
pub(super) struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        network_threads().spawn(task);
    }
}
