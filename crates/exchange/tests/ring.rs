//! The promises of the ring, one per test, on one thread if possible.
#![cfg(not(loom))]

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use annulus_exchange::{
    ExchangeError,
    ring::{Admission, HandOver, Next, RingConfig, RingConsumer, RingProducer, TrySendError, ring},
};

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (Arc::clone(&bell), Waker::from(bell))
    }
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn shape(producers: usize, consumers: usize, groups: usize, slots: usize) -> RingConfig {
    RingConfig::new(producers, consumers).with_groups(groups).with_slots(slots)
}

fn poll<T: Clone>(consumer: &mut RingConsumer<T>, waker: &Waker) -> (Poll<Result<Next, ExchangeError>>, Vec<T>) {
    let mut seen = Vec::new();
    let next = consumer.poll_next(&mut Context::from_waker(waker), |value| {
        seen.push(value.clone());
        ControlFlow::Continue(())
    });
    (next, seen)
}

/// Polls for a free slot. On `Yield` it asks again at once.
fn poll_ready<T>(
    producer: &mut RingProducer<T>,
    waker: &Waker,
    mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
) -> Poll<Result<(), ExchangeError>> {
    loop {
        match producer.poll_ready(&mut Context::from_waker(waker), &mut overflow) {
            Poll::Ready(Ok(Admission::Yield)) => {}
            other => return other.map_ok(|_| ()),
        }
    }
}

fn ready<T>(producer: &mut RingProducer<T>, waker: &Waker) -> bool {
    match poll_ready(producer, waker, |_, _| panic!("no consumer starves")) {
        Poll::Ready(result) => {
            result.unwrap();
            true
        }
        Poll::Pending => false,
    }
}

#[test]
fn a_batch_costs_one_shared_operation_and_no_lock() {
    for (m, n) in [(1, 1), (3, 7), (8, 64)] {
        let (mut producers, consumers) = ring(shape(m, n, 4, 8));
        for producer in &mut producers {
            for value in 0..32 / m {
                producer.try_send(value).unwrap();
            }
            let stats = producer.stats();
            assert_eq!((stats.shared_ops, stats.locks), (stats.batches, 0));
        }
        drop(consumers);
    }
}

#[test]
fn consumers_are_woken_once_a_group_and_when_the_producer_idles() {
    let (mut producers, mut consumers) = ring(shape(1, 1, 2, 3));
    let (bell, waker) = Bell::new();
    assert!(poll(&mut consumers[0], &waker).0.is_pending());
    producers[0].try_send(1).unwrap();
    producers[0].try_send(2).unwrap();
    assert_eq!(bell.rings(), 0);
    producers[0].try_send(3).unwrap();
    assert_eq!(bell.rings(), 1);
    assert_eq!(poll(&mut consumers[0], &waker).1, [1, 2, 3]);
    assert!(poll(&mut consumers[0], &waker).0.is_pending());
    producers[0].try_send(4).unwrap();
    producers[0].idle();
    producers[0].idle();
    assert_eq!(bell.rings(), 2);
    assert_eq!(poll(&mut consumers[0], &waker).1, [4]);
}

#[test]
fn what_is_published_is_visible_at_once() {
    let (mut producers, mut consumers) = ring(shape(1, 1, 1, 8));
    producers[0].try_send(7).unwrap();
    let (next, seen) = poll(&mut consumers[0], Waker::noop());
    assert!(matches!(next, Poll::Ready(Ok(Next::Visited(1)))));
    assert_eq!(seen, [7]);
}

#[test]
fn stalled_producers_are_woken_at_half_occupancy() {
    let (mut producers, mut consumers) = ring(shape(1, 1, 4, 1));
    let (bell, waker) = Bell::new();
    for value in 0..4 {
        assert!(ready(&mut producers[0], &waker));
        producers[0].try_send(value).unwrap();
    }
    assert!(matches!(producers[0].try_send(9), Err(TrySendError::Full(9))));
    assert!(!ready(&mut producers[0], &waker));
    let mut read_one = || {
        let next = consumers[0].next(|_| ControlFlow::Break(()));
        assert!(matches!(next, Ok(Next::Visited(1))));
    };
    read_one();
    assert_eq!(bell.rings(), 0, "three of four are in use");
    read_one();
    assert_eq!(bell.rings(), 1);
    assert!(ready(&mut producers[0], &waker));
}

#[test]
fn the_last_consumer_to_pass_drops_the_value() {
    let (mut producers, mut consumers) = ring(shape(1, 3, 1, 4));
    let value = Arc::new(());
    producers[0].try_send(Arc::clone(&value)).unwrap();
    for consumer in [2, 0] {
        consumers[consumer].next(|_| ControlFlow::Continue(())).unwrap();
        assert_eq!(Arc::strong_count(&value), 2);
    }
    drop(consumers.remove(1));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn values_nobody_will_read_are_dropped_with_the_last_consumer() {
    let (mut producers, consumers) = ring(shape(1, 2, 2, 4));
    let value = Arc::new(());
    for _ in 0..8 {
        producers[0].try_send(Arc::clone(&value)).unwrap();
    }
    drop(consumers);
    assert_eq!(Arc::strong_count(&value), 1);
    let closed = producers[0].try_send(value);
    assert!(matches!(closed, Err(TrySendError::Closed(back)) if matches!(back.error, ExchangeError::ConsumersGone)));
}

#[test]
fn a_consumer_never_polled_is_relieved_when_another_starves() {
    let (mut producers, mut consumers) = ring(shape(1, 2, 2, 2));
    let (bell, waker) = Bell::new();
    for value in 0..4 {
        producers[0].try_send(value).unwrap();
    }
    // No consumer starves yet.
    assert!(!ready(&mut producers[0], &waker));
    assert_eq!(poll(&mut consumers[0], &waker).1, [0, 1, 2, 3]);
    assert_eq!(bell.rings(), 0);
    assert!(poll(&mut consumers[0], Waker::noop()).0.is_pending());
    assert_eq!(bell.rings(), 1, "the consumer that starves wakes the producer");
    let mut moved = Vec::new();
    let ready = poll_ready(&mut producers[0], &waker, |consumer, values| {
        values.try_for_each(|&value| {
            moved.push((consumer, value));
            Ok(())
        })
    });
    assert!(matches!(ready, Poll::Ready(Ok(()))));
    assert_eq!(moved, [(1, 0), (1, 1)], "the oldest group, no more");
    producers[0].try_send(4).unwrap();
    assert!(matches!(poll(&mut consumers[1], &waker), (Poll::Ready(Ok(Next::Relieved)), seen) if seen.is_empty()));
    assert_eq!(poll(&mut consumers[1], &waker).1, [2, 3, 4]);
}

#[test]
fn a_full_ring_yields_as_long_as_a_consumer_reads_on() {
    let (mut producers, mut consumers) = ring(shape(1, 2, 4, 1));
    for value in 0..4 {
        producers[0].try_send(value).unwrap();
    }
    assert_eq!(poll(&mut consumers[0], Waker::noop()).1, [0, 1, 2, 3]);
    assert!(poll(&mut consumers[0], Waker::noop()).0.is_pending());
    let yields = |producer: &mut RingProducer<_>| {
        let mut handed_over = false;
        let ready = producer.poll_ready(&mut Context::from_waker(Waker::noop()), |_, values| {
            handed_over = true;
            values.try_for_each(|_| Ok(()))
        });
        let Poll::Ready(Ok(admission)) = ready else { panic!("{ready:?}") };
        assert_eq!(handed_over, admission == Admission::Granted);
        admission == Admission::Yield
    };
    assert!(yields(&mut producers[0]) && yields(&mut producers[0]));
    consumers[1].next(|_| ControlFlow::Break(())).unwrap();
    assert!(producers[0].try_send(4).is_ok(), "the laggard has freed a slot");
    assert_eq!(poll(&mut consumers[0], Waker::noop()).1, [4]);
    assert!(poll(&mut consumers[0], Waker::noop()).0.is_pending());
    assert!(yields(&mut producers[0]) && yields(&mut producers[0]), "it has read on since");
    assert!(!yields(&mut producers[0]), "and does so no more");
}

#[test]
fn waiting_costs_one_shared_operation_and_no_lock() {
    let (mut producers, mut consumers) = ring::<u32>(shape(1, 64, 1, 1));
    for consumer in &mut consumers {
        let before = consumer.stats().shared_ops;
        assert!(poll(consumer, Waker::noop()).0.is_pending());
        assert_eq!(consumer.stats().shared_ops - before, 1, "the registration");
    }
    producers[0].try_send(1).unwrap();
    let stats = producers[0].stats();
    assert_eq!((stats.shared_ops, stats.locks, stats.wakeups), (2, 0, 64), "a ticket, and the list in one go");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

/// Returns a waker that panics.
fn panics() -> Waker {
    Waker::from(Arc::new(Panics))
}

#[test]
fn wakers_that_panic_keep_nobody_asleep() {
    let (mut producers, mut consumers) = ring(shape(1, 4, 1, 1));
    let (bell, waker) = Bell::new();
    for (consumer, waker) in consumers.iter_mut().zip([&waker, &panics(), &panics(), &waker]) {
        assert!(poll(consumer, waker).0.is_pending());
    }
    let mut producer = producers.pop().unwrap();
    let thread = thread::spawn(move || producer.try_send(1));
    assert!(thread.join().is_err());
    assert_eq!(bell.rings(), 2);
}

#[test]
fn a_waker_that_panics_when_room_appears_does_not_keep_the_sweep() {
    let (mut producers, mut consumers) = ring(shape(1, 1, 1, 1));
    producers[0].try_send(0).unwrap();
    assert!(!ready(&mut producers[0], &panics()));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut consumers[0], Waker::noop()))).is_err());
    for value in 1..5 {
        assert!(ready(&mut producers[0], Waker::noop()), "value {value} finds no free slot");
        producers[0].try_send(value).unwrap();
        // The first call reports that the cursor has moved: the call that panicked did not record
        // the move.
        while poll(&mut consumers[0], Waker::noop()).0.is_ready() {}
    }
}

#[test]
fn a_stop_reaches_both_sides_though_a_waker_panics() {
    let (mut producers, mut consumers) = ring(shape(2, 2, 1, 1));
    let (bell, waker) = Bell::new();
    producers[0].try_send(0).unwrap();
    assert_eq!(poll(&mut consumers[0], &waker).1, [0]);
    assert!(poll(&mut consumers[0], &panics()).0.is_pending());
    // The other consumer lags behind, so a hand-over that takes nothing leaves the ring full.
    assert!(poll_ready(&mut producers[0], &waker, |_, _| Ok(())).is_pending());
    let stop = catch_unwind(AssertUnwindSafe(|| producers[1].stop(Arc::new(std::fmt::Error))));
    assert!(stop.is_err());
    assert_eq!(bell.rings(), 1, "the waiting producer is not woken");
}

#[test]
fn a_value_whose_drop_panics_leaves_the_ring_usable() {
    struct Value(u32);
    impl Drop for Value {
        fn drop(&mut self) {
            assert!(self.0 != 1, "on purpose");
        }
    }
    let (mut producers, mut consumers) = ring(shape(1, 2, 1, 4));
    for value in 0..4 {
        producers[0].try_send(Value(value)).unwrap_or_else(|_| panic!("the ring has a free slot"));
    }
    let read = |consumer: &mut RingConsumer<Value>| {
        consumer.poll_next(&mut Context::from_waker(Waker::noop()), |_| ControlFlow::Continue(())).is_ready()
    };
    assert!(read(&mut consumers[0]));
    assert!(catch_unwind(AssertUnwindSafe(|| read(&mut consumers[1]))).is_err());
    // Both have read all values, so no cursor moves until a slot is free.
    for value in 4..12 {
        assert!(ready(&mut producers[0], Waker::noop()), "value {value} finds no free slot");
        producers[0].try_send(Value(value)).unwrap_or_else(|_| panic!("the ring has a free slot"));
        consumers.iter_mut().for_each(|consumer| assert!(read(consumer)));
    }
}

#[test]
fn a_handle_that_moves_to_another_task_is_woken_there() {
    let (mut producers, mut consumers) = ring(shape(1, 1, 1, 1));
    let ((former, one), (latter, two)) = (Bell::new(), Bell::new());
    assert!(poll(&mut consumers[0], &one).0.is_pending());
    assert!(poll(&mut consumers[0], &two).0.is_pending());
    let rings = former.rings();
    producers[0].try_send(1).unwrap();
    assert_eq!((former.rings(), latter.rings()), (rings, 1));
}

#[test]
fn an_overflow_that_fails_stops_the_ring() {
    let (mut producers, mut consumers) = ring(shape(1, 2, 1, 1));
    producers[0].try_send(0).unwrap();
    assert_eq!(poll(&mut consumers[0], Waker::noop()).1, [0]);
    assert!(poll(&mut consumers[0], Waker::noop()).0.is_pending());
    let failed = producers[0].send(1, |_, _| Err(ExchangeError::ConsumersGone)).unwrap_err();
    assert_eq!(failed.value, 1);
    assert!(matches!(poll(&mut consumers[1], Waker::noop()).0, Poll::Ready(Err(ExchangeError::ConsumersGone))));
}

#[test]
fn a_panic_in_a_visitor_reaches_the_others_as_a_lost_consumer() {
    let (mut producers, mut consumers) = ring(shape(1, 2, 1, 1));
    producers[0].try_send(0).unwrap();
    let mut panics = consumers.pop().unwrap();
    let thread = thread::spawn(move || panics.next(|_| panic!("on purpose")));
    assert!(thread.join().is_err());
    assert_eq!(poll(&mut consumers[0], Waker::noop()).1, [0]);
    assert!(ready(&mut producers[0], Waker::noop()), "nothing waits for the one that is gone");
}

#[test]
fn a_lost_producer_is_an_error_and_a_finished_one_is_not() {
    let (mut producers, mut consumers) = ring::<u32>(shape(2, 1, 1, 1));
    drop(producers.pop().unwrap());
    producers.pop().unwrap().finish();
    let (next, _) = poll(&mut consumers[0], Waker::noop());
    assert!(matches!(next, Poll::Ready(Err(ExchangeError::ProducerLost { producer: 1 }))));

    let (mut producers, mut consumers) = ring(shape(1, 1, 1, 4));
    producers[0].try_send(3).unwrap();
    producers.pop().unwrap().finish();
    assert_eq!(poll(&mut consumers[0], Waker::noop()).1, [3]);
    for _ in 0..2 {
        assert!(matches!(poll(&mut consumers[0], Waker::noop()).0, Poll::Ready(Ok(Next::Finished))));
    }
}
