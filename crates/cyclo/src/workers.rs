//! Threads that share the work on one fragment after another.
//!
//! They do not form a rayon pool: each keeps a writer of its own from one fragment to the next, the
//! calling thread works while others help, and the first error ends the join.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::CycloError;

/// Rounds of work for waiting threads. A round is a value that all of them work on, split into
/// parts.
pub(crate) struct Rounds<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

struct State<W> {
    round: u64,
    work: Option<Arc<Round<W>>>,
    /// The number of helpers that have not finished the round.
    busy: usize,
    ended: bool,
    failed: Option<CycloError>,
}

/// One round of work. Threads take its parts one by one.
pub(crate) struct Round<W> {
    pub(crate) work: W,
    parts: usize,
    next: AtomicUsize,
}

impl<W> Round<W> {
    /// Takes the next part. Returns `None` if all are taken.
    pub(crate) fn next_part(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Relaxed)).filter(|&part| part < self.parts)
    }
}

impl<W> Rounds<W> {
    pub(crate) fn new() -> Self {
        let state = State { round: 0, work: None, busy: 0, ended: false, failed: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Runs `work` on the threads that are in [`help`](Self::help), and with `own` on this one.
    /// Returns the work when all are done.
    ///
    /// # Errors
    /// The error of `own`, or the first error of a helper.
    pub(crate) fn run(
        &self,
        work: W,
        parts: usize,
        helpers: usize,
        own: impl FnOnce(&Round<W>) -> Result<(), CycloError>,
    ) -> Result<W, CycloError> {
        let round = Arc::new(Round { work, parts, next: AtomicUsize::new(0) });
        {
            let mut state = self.lock();
            (state.work, state.busy) = (Some(Arc::clone(&round)), helpers);
            state.round += 1;
        }
        self.changed.notify_all();
        let done = own(&round);
        let mut state = self.lock();
        while state.busy > 0 {
            self.changed.wait(&mut state);
        }
        state.work = None;
        done?;
        state.failed.take().map_or(Ok(()), Err)?;
        Arc::try_unwrap(round).map(|round| round.work).map_err(|_| CycloError::Panicked)
    }

    /// Helps with every round until [`end`](Self::end) is called.
    pub(crate) fn help(&self, mut work: impl FnMut(&Round<W>) -> Result<(), CycloError>) {
        let mut last = 0;
        loop {
            let mut state = self.lock();
            let round = loop {
                match &state.work {
                    _ if state.ended => return,
                    Some(round) if state.round != last => break Arc::clone(round),
                    _ => self.changed.wait(&mut state),
                }
            };
            last = state.round;
            drop(state);
            // Without this a panic would leave the calling thread waiting forever.
            let done = catch_unwind(AssertUnwindSafe(|| work(&round))).unwrap_or(Err(CycloError::Panicked));
            // Dropped first, because the calling thread takes the work back.
            drop(round);
            let mut state = self.lock();
            if let Err(error) = done {
                state.failed.get_or_insert(error);
            }
            state.busy -= 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Ends the threads: no round follows.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock()
    }
}
