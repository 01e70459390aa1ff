//! Pages between writers and consumers, under one lock: a page is far more work than it.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{error::PagesError, memory::Pool, page::Page, ranges::PageSink};

/// What writers and consumers share.
pub(super) struct Queue {
    /// Most pages that may be out.
    pub(super) most: usize,
    pub(super) pool: Pool,
    pub(super) state: Mutex<State>,
    /// Pages, room or the end.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) pages: VecDeque<(usize, Page)>,
    /// Pages in the queue and with consumers.
    pub(super) out: usize,
    /// Writers that have not finished.
    pub(super) writers: usize,
    /// Of these, how many wait for memory.
    pub(super) starving: usize,
    /// Calls of writers that returned, and pages that came back.
    pub(super) events: u64,
    pub(super) failed: bool,
    pub(super) consumers_gone: bool,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.writers -= 1;
        state.events += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// A writer has done what it was asked. It may have left room on a page, or given one back, and
    /// not come again for long.
    pub(super) fn stepped(&self) {
        let mut state = self.lock();
        state.events += 1;
        if state.starving > 0 {
            drop(state);
            self.changed.notify_all();
        }
    }

    pub(super) fn fail(&self) {
        self.lock().failed = true;
        self.changed.notify_all();
    }

    /// Fails because of a writer's error; returns what to tell its caller. Memory that does not
    /// come since the stream has ended is not exhausted.
    pub(super) fn fail_with(&self, error: PagesError) -> PagesError {
        let mut state = self.lock();
        let error = match error {
            PagesError::Exhausted { .. } if state.consumers_gone => PagesError::Closed,
            PagesError::Exhausted { .. } if state.failed => PagesError::Failed,
            error => error,
        };
        state.failed = true;
        drop(state);
        self.changed.notify_all();
        error
    }
}

/// The writers' side of the queue.
pub(super) struct Sink(pub(super) Arc<Queue>);

impl PageSink for Sink {
    fn take(&self, partition: usize, page: Page) {
        let mut state = self.0.lock();
        // Consumers need nothing of this writer to take the pages that are there, so waiting ends. A page
        // that nobody will take is dropped; when the stream fails, nobody may be there to make
        // room.
        while state.out >= self.0.most && !state.consumers_gone && !state.failed {
            state = self.0.wait(state);
        }
        if state.consumers_gone {
            drop(state);
            return;
        }
        state.out += 1;
        state.pages.push_back((partition, page));
        drop(state);
        self.0.changed.notify_all();
    }

    fn events(&self) -> u64 {
        self.0.lock().events
    }

    /// Memory comes back from consumers; another writer may leave room with each call of its own.
    /// If all writers wait and no page is out, the pool is too small.
    fn wait_for_memory(&self, since: u64) -> bool {
        let queue = &self.0;
        let mut state = queue.lock();
        state.starving += 1;
        queue.changed.notify_all();
        let comes = loop {
            if state.consumers_gone || state.failed {
                break false;
            }
            if queue.pool.out() < queue.pool.limit() || state.events != since {
                break true;
            }
            if state.out == 0 && state.starving == state.writers {
                break false;
            }
            state = queue.wait(state);
        };
        state.starving -= 1;
        comes
    }
}
