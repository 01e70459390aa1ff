//! The list of waiting handles for transports of other crates. A seat is the right to wait on it,
//! so that no two threads register as the same handle.

use std::{sync::Arc, task::Waker};

use super::{HandleStats, WakerList};

/// The waiting handles of one side of a transport.
#[derive(Debug)]
pub struct WaitList(Arc<WakerList>);

/// The place of one handle in a [`WaitList`]. Dropping it drops the handle's waker.
#[derive(Debug)]
pub struct Seat {
    list: Arc<WakerList>,
    number: usize,
}

impl WaitList {
    /// Creates a list, and the seats of this number of handles.
    pub fn new(handles: usize) -> (Self, Vec<Seat>) {
        let list = Arc::new(WakerList::new(handles));
        let seats = (0..handles).map(|number| Seat { list: Arc::clone(&list), number }).collect();
        (Self(list), seats)
    }

    /// Returns whether a handle is registered. Exact only after the fence that belongs to the
    /// question.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.any()
    }

    /// Returns whether this handle has registered and was not woken since.
    pub fn waits(&self, handle: usize) -> bool {
        self.0.waits(handle)
    }

    /// Returns the number of handles, with those that have gone.
    pub fn handles(&self) -> usize {
        self.0.handles()
    }

    /// Wakes every registered handle, even if a waker panics. The fence that belongs to the event
    /// must come before.
    #[inline]
    pub fn wake_all(&self, stats: &mut HandleStats) {
        self.0.wake_all(stats);
    }
}

impl Seat {
    /// Registers `waker` to be called by the next [`WaitList::wake_all`]. The caller's fence and a
    /// second look must follow.
    pub fn register(&mut self, waker: &Waker, stats: &mut HandleStats) {
        let _ = self.list.register(self.number, waker, stats);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.list.forget(self.number);
    }
}
