//! Models of the list of waiting handles, and of threads that wake one another.

use std::{sync::Arc, task::Poll};

use annulus_sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use loom::thread;

use super::{HandleStats, WakerList, bell::model, block_on};

/// Handles that wait until the number of events is large enough.
struct Events {
    parked: WakerList,
    events: AtomicUsize,
}

impl Events {
    fn new(handles: usize) -> Arc<Self> {
        Arc::new(Self { parked: WakerList::new(handles), events: AtomicUsize::new(0) })
    }

    fn wait(&self, handle: usize, events: usize) {
        let mut stats = HandleStats::default();
        let ready = || self.events.load(Relaxed) >= events;
        block_on(|cx| {
            if ready() {
                return Poll::Ready(());
            }
            self.parked.register(handle, cx.waker(), &mut stats);
            fence(SeqCst);
            if ready() { Poll::Ready(()) } else { Poll::Pending }
        });
    }

    fn happen(&self) {
        self.events.fetch_add(1, Relaxed);
        fence(SeqCst);
        self.parked.wake_all(&mut HandleStats::default());
    }
}

/// One of two threads is woken by the other one.
#[test]
fn two_threads_wait_for_an_event() {
    model(3, || {
        let waiting = Events::new(2);
        let waits = Arc::clone(&waiting);
        let first = thread::spawn(move || waits.wait(0, 1));
        let waits = Arc::clone(&waiting);
        let second = thread::spawn(move || waits.wait(1, 1));
        waiting.happen();
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A thread that was given another one to wake does so though it waits for something else next, or
/// ends.
#[test]
fn threads_wait_again() {
    model(2, || {
        let waiting = Events::new(2);
        let threads = [0, 1].map(|handle| {
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || {
                waiting.wait(handle, 1);
                waiting.wait(handle, 2);
            })
        });
        waiting.happen();
        waiting.happen();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A thread waits on two lists, as those of two rings, and on each with another one. Both events
/// may give it that one to wake.
#[test]
fn a_thread_waits_on_two_lists() {
    model(2, || {
        let lists = [Events::new(2), Events::new(2)];
        let both = lists.clone();
        let both = thread::spawn(move || {
            let mut stats = HandleStats::default();
            block_on(|cx| {
                for list in &both {
                    let _ = list.parked.register(0, cx.waker(), &mut stats);
                }
                fence(SeqCst);
                let ready = both.iter().all(|list| list.events.load(Relaxed) > 0);
                if ready { Poll::Ready(()) } else { Poll::Pending }
            });
        });
        let others = lists.clone().map(|list| thread::spawn(move || list.wait(1, 1)));
        let [first, second] = lists;
        let event = thread::spawn(move || second.happen());
        first.happen();
        event.join().unwrap();
        both.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Two threads wake at once.
#[test]
fn two_events_at_once() {
    model(3, || {
        let waiting = Events::new(2);
        let waits = Arc::clone(&waiting);
        let first = thread::spawn(move || {
            waits.wait(0, 1);
            waits.wait(0, 2);
        });
        let happens = Arc::clone(&waiting);
        let second = thread::spawn(move || happens.happen());
        waiting.happen();
        waiting.wait(1, 2);
        first.join().unwrap();
        second.join().unwrap();
    });
}
