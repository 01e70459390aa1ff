//! Who waits, and waking them: an intrusive list without a lock. Beside `slot.rs`, the ring's only
//! unsafe code.

use std::task::Waker;

use annulus_sync::{
    UnsafeCell,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use crossbeam_utils::CachePadded;

use super::{order, wait::Local};
use crate::wake::AllCalls;

/// The end of a list.
const NOBODY: usize = usize::MAX;

/// The handles of one side that wait: a stack of nodes, one a handle. A handle pushes its own node,
/// and whoever wakes takes the whole stack with one operation, however many wait; so nothing is
/// popped, and nothing is pushed twice.
#[derive(Debug)]
pub(super) struct Parked {
    /// The handle that was pushed last.
    head: CachePadded<AtomicUsize>,
    nodes: Box<[CachePadded<Node>]>,
}

/// What a handle waits with. While it is listed, its waker is only read: by the handle, and by
/// whoever took the stack. Otherwise it belongs to the handle.
#[derive(Debug)]
struct Node {
    /// Set by the handle before it pushes the node, and cleared by whoever took the stack, just
    /// before the waker is called.
    listed: AtomicBool,
    /// The handle that was pushed before this one.
    next: AtomicUsize,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: a waker may be read on several threads and dropped on any (`Waker` is Send and Sync);
// `listed` says who may write it, with the orderings `unlist` and `relist`.
unsafe impl Sync for Node {}

impl Parked {
    pub(super) fn new(handles: usize) -> Self {
        let node = |_| {
            let (listed, next) = (AtomicBool::new(false), AtomicUsize::new(NOBODY));
            CachePadded::new(Node { listed, next, waker: UnsafeCell::new(None) })
        };
        Self { head: CachePadded::new(AtomicUsize::new(NOBODY)), nodes: (0..handles).map(node).collect() }
    }

    /// Whether somebody is registered. Exact only after the fence that belongs to the question.
    pub(super) fn any(&self) -> bool {
        self.head.load(Relaxed) != NOBODY
    }

    /// Whether this handle registered, and was not woken since.
    pub(super) fn waits(&self, handle: usize) -> bool {
        self.nodes[handle].listed.load(Relaxed)
    }

    /// Have `waker` called by the next `wake_all`. The caller's fence and a second look must
    /// follow. Only the handle. False if others were registered already, and this handle was
    /// not.
    pub(super) fn register(&self, handle: usize, waker: &Waker, local: &mut Local) -> bool {
        let node = &self.nodes[handle];
        if node.listed.load(order::relist()) {
            // SAFETY: a listed node's waker is only read.
            let same = node.waker.with(|cell| unsafe { &*cell }.as_ref().is_some_and(|former| former.will_wake(waker)));
            if same {
                // On the stack, or taken with it and not called yet: the call is still to come.
                return true;
            }
            // The task is another one. Take the node off, and all others with it: this is rare.
            self.wake_all(local);
            if node.listed.load(order::relist()) {
                // Whoever took it will call the former waker, so this one is called here.
                waker.wake_by_ref();
                return true;
            }
        }
        // SAFETY: not listed, so the waker is the handle's, and we are the handle.
        node.waker.with_mut(|cell| match unsafe { &mut *cell } {
            Some(former) => former.clone_from(waker),
            none => *none = Some(waker.clone()),
        });
        node.listed.store(true, Relaxed);
        let mut head = self.head.load(Relaxed);
        loop {
            node.next.store(head, Relaxed);
            local.stats.shared_ops += 1;
            match self.head.compare_exchange_weak(head, handle, order::park(), Relaxed) {
                Ok(_) => return head == NOBODY,
                Err(now) => head = now,
            }
        }
    }

    /// Let go of the waker of a handle that goes away. If it is listed, that is left to whoever
    /// drops the ring.
    pub(super) fn forget(&self, handle: usize) {
        let node = &self.nodes[handle];
        if !node.listed.load(order::relist()) {
            // SAFETY: not listed, so the waker is the handle's, and we are the handle.
            drop(node.waker.with_mut(|cell| unsafe { (*cell).take() }));
        }
    }

    /// Wake every registered handle, whichever waker panics. The fence that belongs to the news
    /// must have come before.
    pub(super) fn wake_all(&self, local: &mut Local) {
        if !self.any() {
            return;
        }
        local.stats.shared_ops += 1;
        let mut taken = Taken { parked: self, next: self.head.swap(NOBODY, order::unpark()) };
        let mut calls = AllCalls::default();
        while let Some(node) = taken.next() {
            calls.call(|| {
                if let Some(waker) = node.take_off() {
                    local.stats.wakeups += 1;
                    waker.wake();
                }
            });
        }
        calls.finish();
    }
}

/// A stack that was taken.
struct Taken<'a> {
    parked: &'a Parked,
    next: usize,
}

impl<'a> Taken<'a> {
    /// The next node, which [`Node::take_off`] must follow: what comes after it is not looked up
    /// again.
    fn next(&mut self) -> Option<&'a Node> {
        let node = self.parked.nodes.get(self.next)?;
        self.next = node.next.load(Relaxed);
        Some(node)
    }
}

impl Node {
    /// Takes a node of a stack that was taken off the list; returns the waker to call.
    fn take_off(&self) -> Option<Waker> {
        // Before the call, so that the handle finds itself off the list when it comes.
        let _unlisted = Unlist(self);
        // SAFETY: a listed node's waker is only read.
        self.waker.with(|cell| unsafe { (*cell).clone() })
    }
}

/// Clears `listed` once the waker was copied, or its code panicked.
struct Unlist<'a>(&'a Node);

impl Drop for Unlist<'_> {
    fn drop(&mut self) {
        self.0.listed.store(false, order::unlist());
    }
}
