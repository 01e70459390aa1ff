//! The pages between writers and consumers, under one lock. Filling a page takes far longer than
//! the lock.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{error::PagesError, memory::Pool, page::Page, partition::PageSink};

/// The state that writers and consumers share.
pub(super) struct Queue {
    /// The largest number of pages that may be out.
    pub(super) most: usize,
    pub(super) pool: Pool,
    pub(super) state: Mutex<State>,
    /// Signalled on new pages, new room and the end.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) pages: VecDeque<(usize, Page)>,
    /// The number of pages in the queue and with consumers.
    pub(super) out: usize,
    /// The number of writers that have not finished.
    pub(super) writers: usize,
    /// The number of these writers that wait for memory.
    pub(super) starving: usize,
    /// The number of writers' calls that have returned and of pages that came back.
    pub(super) events: u64,
    pub(super) failed: bool,
    pub(super) consumers_gone: bool,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.writers -= 1;
        state.events += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Counts a writer's call that has returned. The call may have left room on a page or given one
    /// back, and the writer may not be called again for a long time.
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

    /// Fails the stream because of a writer's error, and returns the error for the caller. If
    /// memory was missing because the stream has ended, the error is not that memory is exhausted.
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

/// The sink that passes the writers' pages to the queue.
pub(super) struct Sink(pub(super) Arc<Queue>);

impl PageSink for Sink {
    fn take(&self, partition: usize, page: Page) {
        let mut state = self.0.lock();
        // Consumers can take the available pages without this writer, so the wait ends. A page
        // without a consumer is dropped. If the stream has failed, there may be no consumer to make
        // room.
        while state.out >= self.0.most && !state.consumers_gone && !state.failed {
            self.0.changed.wait(&mut state);
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

    /// Waits until consumers give memory back, or another writer may have left room. If all writers
    /// wait and no page is out, the pool is too small.
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
            queue.changed.wait(&mut state);
        };
        state.starving -= 1;
        comes
    }
}
