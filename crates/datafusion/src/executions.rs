//! What the partitions of one execution of a plan share.

use std::sync::{Arc, Weak};

use datafusion::{error::Result, execution::TaskContext};
use parking_lot::Mutex;

/// The executions of a plan of which not all partitions have been asked for.
///
/// Several may run at once. An execution is known by its context: all of its partitions get the
/// same one, from DataFusion's operators and from those here. A partition that is asked for again,
/// with the same context, belongs to a new execution.
#[derive(Debug)]
pub(crate) struct Executions<T>(Mutex<Vec<Execution<T>>>);

#[derive(Debug)]
struct Execution<T> {
    /// Known by its address, which no other context takes while this lives.
    context: Weak<TaskContext>,
    shared: T,
    /// The partitions that have not been asked for.
    waiting: Vec<bool>,
}

impl<T> Default for Executions<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Executions<T> {
    /// Returns what a partition shares with the others of its execution. The first one of them calls
    /// `start`; from the last one on, the partitions alone keep it. O(executions that run at once).
    ///
    /// # Errors
    /// Those of `start`.
    pub fn share(
        &self,
        (partition, partitions): (usize, usize),
        context: &Arc<TaskContext>,
        start: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut running = self.0.lock();
        // Without its context, an execution can ask for nothing more.
        running.retain(|execution| execution.context.strong_count() > 0);
        let own = running.iter().position(|execution| execution.context.as_ptr() == Arc::as_ptr(context));
        let mut execution = match own.map(|place| running.swap_remove(place)) {
            Some(execution) if execution.waiting.get(partition) == Some(&true) => execution,
            _ => Execution { context: Arc::downgrade(context), shared: start()?, waiting: vec![true; partitions] },
        };
        if let Some(waiting) = execution.waiting.get_mut(partition) {
            *waiting = false;
        }
        let shared = execution.shared.clone();
        if execution.waiting.contains(&true) {
            running.push(execution);
        }
        Ok(shared)
    }
}
