//! Threads that wait, and wake one another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst, fence},
        mpsc,
    },
    task::Poll,
    thread,
};

use super::{
    HandleStats, WakerList, block_on,
    relay::{self, BlockingScope, Relay},
};

/// The code that a blocked thread runs for its caller may block as well. The wake-up of the outer
/// call is not that of the inner one: the outer call, which was woken, does not sleep.
#[test]
fn a_wait_inside_a_wait_leaves_it_its_wake_up() {
    let (tell, relays) = mpsc::channel();
    let waits = thread::spawn(move || {
        let mut polls = 0;
        block_on(|outer| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            tell.send(Relay::from_waker(outer.waker()).unwrap()).unwrap();
            outer.waker().wake_by_ref();
            let mut polls = 0;
            block_on(|inner| {
                polls += 1;
                if polls == 2 {
                    // Without another wake-up, which could stand in for that of the outer call.
                    return Poll::Ready(());
                }
                inner.waker().wake_by_ref();
                Poll::Pending
            });
            Poll::Pending
        });
    });
    let outer = relays.recv().unwrap();
    while !waits.is_finished() {
        assert!(!outer.is_asleep(), "the inner wait took the wake-up of the outer one");
        thread::yield_now();
    }
    waits.join().unwrap();
}

/// Two calls wake any number of threads that sleep.
#[test]
fn threads_that_sleep_wake_one_another() {
    for threads in [0, 1, 2, 3, 4, 7, 64] {
        thread::scope(|scope| {
            let (tell, relays) = mpsc::channel();
            for _ in 0..threads {
                let tell = tell.clone();
                scope.spawn(move || {
                    let blocking = BlockingScope::begin();
                    tell.send(Arc::clone(&blocking.relay)).unwrap();
                    blocking.relay.sleep();
                });
            }
            let relays: Vec<_> = relays.into_iter().take(threads).collect();
            while !relays.iter().all(|relay| relay.is_asleep()) {
                thread::yield_now();
            }
            assert_eq!(relay::wake_all(relays), threads.min(2));
        });
    }
}

/// Events follow one another, so threads sleep, are about to, or read when they are woken.
#[test]
fn every_thread_sees_every_event() {
    const EVENTS: usize = 200;
    for threads in [1, 2, 3, 7, 32] {
        let parked = WakerList::new(threads);
        let (event, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for handle in 0..threads {
                let (parked, event, seen) = (&parked, &event, &seen);
                scope.spawn(move || {
                    let mut stats = HandleStats::default();
                    for expected in 1..=EVENTS {
                        block_on(|cx| {
                            parked.register(handle, cx.waker(), &mut stats);
                            fence(SeqCst);
                            if event.load(SeqCst) >= expected { Poll::Ready(()) } else { Poll::Pending }
                        });
                        seen.fetch_add(1, SeqCst);
                    }
                });
            }
            let mut stats = HandleStats::default();
            for number in 1..=EVENTS {
                event.store(number, SeqCst);
                fence(SeqCst);
                parked.wake_all(&mut stats);
                while seen.load(SeqCst) < number * threads {
                    thread::yield_now();
                }
            }
        });
    }
}
