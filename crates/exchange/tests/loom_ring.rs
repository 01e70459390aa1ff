//! Models of the ring's protocol, run by loom through every interleaving up to a number of preemptions. `ci/loom.sh` runs
//! them, and runs them again with each memory ordering weakened in turn, which a model must notice.
#![cfg(loom)]

use std::{
    future::poll_fn,
    ops::ControlFlow,
    task::{Context, Poll},
};

use annulus_exchange::{
    error::ExchangeError,
    ring::{Next, RingConfig, RingConsumer, RingProducer, TrySendError, ring},
};
use loom::{
    future::block_on,
    sync::{Arc, Mutex},
    thread,
};

/// What a consumer was handed over, by consumer.
type Overflow = Arc<Vec<Mutex<Vec<u32>>>>;

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(body);
}

fn handles(
    producers: usize,
    consumers: usize,
    groups: usize,
    slots: usize,
) -> (Vec<RingProducer<u32>>, Vec<RingConsumer<u32>>, Overflow) {
    let (senders, receivers) = ring(RingConfig { producers, consumers, groups, slots });
    (senders, receivers, Arc::new((0..consumers).map(|_| Mutex::new(Vec::new())).collect()))
}

fn poll_send(
    cx: &mut Context<'_>,
    producer: &mut RingProducer<u32>,
    value: u32,
    overflow: &Overflow,
) -> Poll<Result<(), ExchangeError>> {
    let hand_over = |consumer: usize, value: &u32| {
        overflow[consumer].lock().unwrap().push(*value);
        Ok(())
    };
    producer.poll_ready(cx, hand_over).map_ok(|()| match producer.try_send(value) {
        Ok(()) => (),
        Err(TrySendError::Full(_)) => panic!("poll_ready promised room"),
        Err(TrySendError::Closed(_)) => (),
    })
}

fn send(producer: &mut RingProducer<u32>, value: u32, overflow: &Overflow) -> Result<(), ExchangeError> {
    block_on(poll_fn(|cx| poll_send(cx, producer, value, overflow)))
}

fn send_all(mut producer: RingProducer<u32>, values: &[u32], overflow: &Overflow) {
    for &value in values {
        send(&mut producer, value, overflow).unwrap();
    }
    producer.finish();
}

/// One call; what it visited goes to `seen`, after what was handed over before.
fn receive(consumer: &mut RingConsumer<u32>, seen: &mut Vec<u32>, overflow: &Overflow) -> Result<Next, ExchangeError> {
    let next = block_on(poll_fn(|cx| {
        consumer.poll_next(cx, |&value| {
            seen.push(value);
            ControlFlow::Continue(())
        })
    }))?;
    if next == Next::Relieved {
        seen.append(&mut overflow[consumer.index()].lock().unwrap());
    }
    Ok(next)
}

fn receive_all(mut consumer: RingConsumer<u32>, overflow: &Overflow) -> Vec<u32> {
    let mut seen = Vec::new();
    while receive(&mut consumer, &mut seen, overflow).unwrap() != Next::Finished {}
    seen
}

/// Claim, publish, read, release; a slot is written again by a producer that has not seen it freed itself.
#[test]
fn claim_publish_read_release() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 1, 1);
        let (second, first) = (producers.pop().unwrap(), producers.pop().unwrap());
        let other = overflow.clone();
        let one = thread::spawn(move || send_all(first, &[10], &other));
        let other = overflow.clone();
        let two = thread::spawn(move || send_all(second, &[20, 21], &other));
        let mut seen = receive_all(consumers.pop().unwrap(), &overflow);
        one.join().unwrap();
        two.join().unwrap();
        seen.retain(|&value| value != 10);
        assert_eq!(seen, [20, 21]);
    });
}

/// A producer waits for both consumers, whichever of them is the last to pass.
#[test]
fn full_ring() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (mut two, mut one) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let mut producer = producers.pop().unwrap();
        let other = overflow.clone();
        let read = |consumer: &mut RingConsumer<u32>, overflow: &Overflow| {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                receive(consumer, &mut seen, overflow).unwrap();
            }
            assert_eq!(seen, [1, 2]);
        };
        let first = thread::spawn(move || read(&mut one, &other));
        let other = overflow.clone();
        let second = thread::spawn(move || read(&mut two, &other));
        for value in [1, 2] {
            send(&mut producer, value, &overflow).unwrap();
        }
        first.join().unwrap();
        second.join().unwrap();
        producer.finish();
    });
}

/// What is in a partial group is seen before the end, and the end is seen by whoever waits.
#[test]
fn finish_with_a_partial_group() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 1, 4);
        let (second, first) = (producers.pop().unwrap(), producers.pop().unwrap());
        let other = overflow.clone();
        let one = thread::spawn(move || send_all(first, &[10], &other));
        let other = overflow.clone();
        let two = thread::spawn(move || send_all(second, &[20], &other));
        let mut seen = receive_all(consumers.pop().unwrap(), &overflow);
        seen.sort_unstable();
        assert_eq!(seen, [10, 20]);
        one.join().unwrap();
        two.join().unwrap();
    });
}

/// A consumer that was told by `idle` sees a partial group although the producer neither fills it nor ends.
#[test]
fn idle_wakes() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 1, 1, 4);
        let mut producer = producers.pop().unwrap();
        let mut consumer = consumers.pop().unwrap();
        let other = overflow.clone();
        let reader = thread::spawn(move || {
            let mut seen = Vec::new();
            receive(&mut consumer, &mut seen, &other).unwrap();
            assert_eq!(seen, [1]);
            consumer
        });
        send(&mut producer, 1, &overflow).unwrap();
        producer.idle();
        drop(reader.join().unwrap());
        producer.finish();
    });
}

/// A consumer that goes away unread holds nobody up, and after the last one the producer is told.
#[test]
fn consumer_dropped() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (two, one) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let mut producer = producers.pop().unwrap();
        let first = thread::spawn(move || drop(one));
        let other = overflow.clone();
        let second = thread::spawn(move || {
            let (mut two, mut seen) = (two, Vec::new());
            receive(&mut two, &mut seen, &other).unwrap();
            assert_eq!(seen.first(), Some(&1));
        });
        send(&mut producer, 1, &overflow).unwrap();
        let rest = [2, 3, 4].iter().try_for_each(|&value| send(&mut producer, value, &overflow));
        assert!(matches!(rest, Err(ExchangeError::ConsumersGone)), "{rest:?}");
        first.join().unwrap();
        second.join().unwrap();
        producer.finish();
    });
}

/// A stop reaches a producer that waits for room and a consumer that waits for values.
#[test]
fn stop_while_blocked() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(2, 2, 1, 1);
        let (mut stopper, mut producer) = (producers.pop().unwrap(), producers.pop().unwrap());
        // Never polled, and held until the end: the ring stays full.
        let laggard = consumers.pop().unwrap();
        let mut consumer = consumers.pop().unwrap();
        let other = overflow.clone();
        let reader = thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                match receive(&mut consumer, &mut seen, &other) {
                    Ok(next) => assert!(matches!(next, Next::Visited(_))),
                    Err(ExchangeError::Stopped(error)) => break assert_eq!(error.to_string(), "enough"),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let writer = thread::spawn(move || {
            stopper.stop(Box::<dyn std::error::Error + Send + Sync>::from("enough").into());
        });
        let sent = (1..5).try_for_each(|value| {
            let mut calls = 0;
            block_on(poll_fn(|cx| {
                calls += 1;
                // No hand-over here: this producer just waits.
                assert!(calls < 50);
                producer.poll_ready(cx, |_, _| Ok(()))
            }))?;
            let _ = producer.try_send(value);
            Ok::<(), ExchangeError>(())
        });
        if let Err(error) = sent {
            assert!(matches!(error, ExchangeError::Stopped(_)), "{error}");
        }
        reader.join().unwrap();
        writer.join().unwrap();
        drop(laggard);
    });
}

/// Both a producer in a full ring and a consumer in an empty one learn that another producer was lost.
#[test]
fn producer_lost() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 1, 2);
        let (lost, producer) = (producers.pop().unwrap(), producers.pop().unwrap());
        let mut consumer = consumers.pop().unwrap();
        let other = thread::spawn(move || drop(lost));
        let finished = thread::spawn(move || drop(producer.finish()));
        let mut seen = Vec::new();
        let next = receive(&mut consumer, &mut seen, &overflow);
        assert!(matches!(next, Err(ExchangeError::ProducerLost { producer: 1 })), "{next:?}");
        other.join().unwrap();
        finished.join().unwrap();
    });
}

/// One consumer starves, the other is slow: its values are handed over, each once, in order, and nobody hangs.
#[test]
fn overflow_hand_over() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (mut slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = producers.pop().unwrap();
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[1, 2], &other));
        let other = overflow.clone();
        let reader = thread::spawn(move || {
            let mut seen = Vec::new();
            receive(&mut slow, &mut seen, &other).unwrap();
            (slow, seen)
        });
        let mut seen = Vec::new();
        while receive(&mut fast, &mut seen, &overflow).unwrap() != Next::Finished {}
        assert_eq!(seen, [1, 2]);
        let (mut slow, mut seen) = reader.join().unwrap();
        while receive(&mut slow, &mut seen, &overflow).unwrap() != Next::Finished {}
        assert_eq!(seen, [1, 2]);
        writer.join().unwrap();
    });
}

/// A consumer goes away while a producer may be handing its values over.
#[test]
fn dropped_while_relieved() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (slow, fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = producers.pop().unwrap();
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[1, 2], &other));
        let leaver = thread::spawn(move || drop(slow));
        assert_eq!(receive_all(fast, &overflow), [1, 2]);
        writer.join().unwrap();
        leaver.join().unwrap();
    });
}
