//! The waiting handles and their wake-up: an intrusive list without a lock. It is a leaf
//! with unsafe code.

use std::{sync::Arc, task::Waker};

use annulus_sync::{
    UnsafeCell,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use crossbeam_utils::CachePadded;

use super::{
    HandleStats, order,
    relay::{self, Relay},
};
use crate::wake::AllCalls;

/// Marks the end of a list.
const NOBODY: usize = usize::MAX;

/// The waiting handles of one side: a stack of nodes, one for each handle.
///
/// A handle pushes its own node. A wake-up takes the whole stack with one operation, however many
/// handles wait. So no single node is popped, and no node is pushed twice.
#[derive(Debug)]
pub(crate) struct WakerList {
    /// The handle that was pushed last.
    head: CachePadded<AtomicUsize>,
    nodes: Box<[CachePadded<Node>]>,
}

/// The node of a handle. While it is listed, its waker is only read: by the handle, and by the
/// thread that took the stack. Otherwise it belongs to the handle.
#[derive(Debug)]
struct Node {
    /// Set by the handle before it pushes the node. Cleared by the thread that took the stack, just
    /// before it calls the waker.
    listed: AtomicBool,
    /// The handle that was pushed before this one.
    next: AtomicUsize,
    waiter: UnsafeCell<Option<Waiter>>,
}

/// What a wake-up calls.
#[derive(Clone, Debug)]
enum Waiter {
    /// A thread that blocks in this crate.
    Thread(Arc<Relay>),
    /// A task, or a thread that blocks elsewhere.
    Task(Waker),
}

impl Waiter {
    fn new(waker: &Waker) -> Self {
        Relay::from_waker(waker).map_or_else(|| Self::Task(waker.clone()), Self::Thread)
    }

    fn will_wake(&self, waker: &Waker) -> bool {
        match self {
            Self::Thread(thread) => Arc::as_ptr(thread).cast() == waker.data(),
            Self::Task(former) => former.will_wake(waker),
        }
    }
}

// SAFETY: a waker may be read on several threads and dropped on any (`Waker` is Send and Sync).
// `listed` tells which thread may write it, with the orderings `unlist` and `relist`.
unsafe impl Sync for Node {}

impl WakerList {
    pub(crate) fn new(handles: usize) -> Self {
        let node = |_| {
            let (listed, next) = (AtomicBool::new(false), AtomicUsize::new(NOBODY));
            CachePadded::new(Node { listed, next, waiter: UnsafeCell::new(None) })
        };
        Self { head: CachePadded::new(AtomicUsize::new(NOBODY)), nodes: (0..handles).map(node).collect() }
    }

    /// Returns the number of handles, with those that have gone.
    pub(crate) fn handles(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether a handle is registered. Exact only after the fence that belongs to the
    /// question.
    pub(crate) fn any(&self) -> bool {
        self.head.load(Relaxed) != NOBODY
    }

    /// Returns whether this handle has registered and was not woken since.
    pub(crate) fn waits(&self, handle: usize) -> bool {
        self.nodes[handle].listed.load(Relaxed)
    }

    /// Registers `waker` to be called by the next `wake_all`. The caller's fence and a second look
    /// must follow. Only the handle itself may call it. Returns false if this handle was not
    /// registered before, but others were.
    pub(crate) fn register(&self, handle: usize, waker: &Waker, stats: &mut HandleStats) -> bool {
        let node = &self.nodes[handle];
        if node.listed.load(order::relist()) {
            // SAFETY: a listed node's waker is only read.
            let same =
                node.waiter.with(|cell| unsafe { &*cell }.as_ref().is_some_and(|former| former.will_wake(waker)));
            if same {
                // The node is on the stack, or was taken with it and its waker was not called yet.
                // The call is still to come.
                return true;
            }
            // The handle is in another task now. Take the node off, and all others with it: this is
            // rare.
            self.wake_all(stats);
            if node.listed.load(order::relist()) {
                // The thread that took it will call the former waker, so this one is called here.
                waker.wake_by_ref();
                return true;
            }
        }
        // SAFETY: not listed, so the waker is the handle's, and we are the handle.
        node.waiter.with_mut(|cell| match unsafe { &mut *cell } {
            Some(former) if former.will_wake(waker) => {}
            former => *former = Some(Waiter::new(waker)),
        });
        node.listed.store(true, Relaxed);
        let mut head = self.head.load(Relaxed);
        loop {
            node.next.store(head, Relaxed);
            stats.counts.shared_ops += 1;
            match self.head.compare_exchange_weak(head, handle, order::park(), Relaxed) {
                Ok(_) => return head == NOBODY,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the handles off the list without a call of their wakers: for a list of one handle,
    /// which has found that it need not wait.
    pub(crate) fn withdraw(&self, stats: &mut HandleStats) {
        if !self.any() {
            return;
        }
        stats.counts.shared_ops += 1;
        let mut taken = Taken { parked: self, next: self.head.swap(NOBODY, order::unpark()) };
        while let Some(node) = taken.next() {
            drop(Unlist(node));
        }
    }

    /// Drops the waker of a handle that is dropped. A listed waker is dropped with the ring
    /// instead.
    pub(crate) fn forget(&self, handle: usize) {
        let node = &self.nodes[handle];
        if !node.listed.load(order::relist()) {
            // SAFETY: not listed, so the waker is the handle's, and we are the handle.
            drop(node.waiter.with_mut(|cell| unsafe { (*cell).take() }));
        }
    }

    /// Wakes every registered handle, even if a waker panics. The fence that belongs to the event
    /// must come before.
    pub(crate) fn wake_all(&self, stats: &mut HandleStats) {
        if !self.any() {
            return;
        }
        stats.counts.shared_ops += 1;
        let mut taken = Taken { parked: self, next: self.head.swap(NOBODY, order::unpark()) };
        let (mut calls, mut threads) = (AllCalls::default(), Vec::new());
        while let Some(node) = taken.next() {
            calls.call(|| match node.take_off() {
                Some(Waiter::Thread(thread)) => threads.push(thread),
                Some(Waiter::Task(waker)) => {
                    stats.counts.wakeups += 1;
                    waker.wake();
                }
                None => {}
            });
        }
        let all = threads.len();
        let own = relay::wake_all(threads);
        stats.counts.wakeups += own as u64;
        stats.counts.relayed += (all - own) as u64;
        calls.finish();
    }
}

/// A stack that a wake-up has taken.
struct Taken<'a> {
    parked: &'a WakerList,
    next: usize,
}

impl<'a> Taken<'a> {
    /// Returns the next node. [`Node::take_off`] must follow: the node's successor is not looked up
    /// again.
    fn next(&mut self) -> Option<&'a Node> {
        let node = self.parked.nodes.get(self.next)?;
        self.next = node.next.load(Relaxed);
        Some(node)
    }
}

impl Node {
    /// Takes a node of such a stack off the list, and returns what to call.
    fn take_off(&self) -> Option<Waiter> {
        // Before the call, so that the handle finds itself off the list when it polls again.
        let _unlisted = Unlist(self);
        // SAFETY: a listed node's waker is only read.
        self.waiter.with(|cell| unsafe { (*cell).clone() })
    }
}

/// Clears `listed` once the waker was copied, or its code has panicked.
struct Unlist<'a>(&'a Node);

impl Drop for Unlist<'_> {
    fn drop(&mut self) {
        self.0.listed.store(false, order::unlist());
    }
}
