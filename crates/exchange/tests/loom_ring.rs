//! Models of the ring's protocol, run by loom through every interleaving up to a number of
//! preemptions. `ci/loom.sh` runs them, and runs them again with each memory ordering weakened in
//! turn, which a model must notice.
#![cfg(loom)]

mod bell;

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use annulus_exchange::{
    ExchangeError,
    ring::{Admission, Next, RingConfig, RingConsumer, RingProducer, TrySendError, ring},
};
use bell::{Bell, block_on, model};
use loom::{sync::Notify, thread};

/// The values that were handed over, by consumer. Behind std's mutex, which is never contended in a
/// model's step.
type Overflow = Arc<Vec<Mutex<Vec<u32>>>>;

fn handles(
    producers: usize,
    consumers: usize,
    groups: usize,
    slots: usize,
) -> (Vec<RingProducer<u32>>, Vec<RingConsumer<u32>>, Overflow) {
    let (senders, receivers) = ring(RingConfig::new(producers, consumers).with_groups(groups).with_slots(slots));
    (senders, receivers, Arc::new((0..consumers).map(|_| Mutex::new(Vec::new())).collect()))
}

/// Polls for a free slot. On `Yield` it asks again at once: others may have run in between, or not.
fn poll_ready(
    cx: &mut Context<'_>,
    producer: &mut RingProducer<u32>,
    overflow: &Overflow,
) -> Poll<Result<(), ExchangeError>> {
    loop {
        let answer = producer.poll_ready(cx, |consumer, values| {
            values.try_for_each(|&value| {
                overflow[consumer].lock().unwrap().push(value);
                Ok(())
            })
        });
        if !matches!(answer, Poll::Ready(Ok(Admission::Yield))) {
            return answer.map_ok(|_| ());
        }
    }
}

fn poll_send(
    cx: &mut Context<'_>,
    producer: &mut RingProducer<u32>,
    value: u32,
    overflow: &Overflow,
) -> Poll<Result<(), ExchangeError>> {
    poll_ready(cx, producer, overflow).map_ok(|()| match producer.try_send(value) {
        Ok(()) => (),
        Err(TrySendError::Full(_)) => panic!("poll_ready promised a slot"),
        Err(TrySendError::Closed(_)) => (),
    })
}

fn send(producer: &mut RingProducer<u32>, value: u32, overflow: &Overflow) -> Result<(), ExchangeError> {
    block_on(|cx| poll_send(cx, producer, value, overflow))
}

/// Sends `values`, and returns the handle, so that its end is not part of the model.
fn send_all(mut producer: RingProducer<u32>, values: &[u32], overflow: &Overflow) -> RingProducer<u32> {
    for &value in values {
        send(&mut producer, value, overflow).unwrap();
    }
    producer
}

/// Receives once, and at most `most` values. Appends the values that were handed over or visited to
/// `seen`.
fn receive_most(
    consumer: &mut RingConsumer<u32>,
    most: usize,
    seen: &mut Vec<u32>,
    overflow: &Overflow,
) -> Result<Next, ExchangeError> {
    let mut left = most;
    let next = block_on(|cx| {
        consumer.poll_next(cx, |&value| {
            seen.push(value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })?;
    if next == Next::Relieved {
        seen.append(&mut overflow[consumer.index()].lock().unwrap());
    }
    Ok(next)
}

/// Receives once, and visits all available values.
fn receive(consumer: &mut RingConsumer<u32>, seen: &mut Vec<u32>, overflow: &Overflow) -> Result<Next, ExchangeError> {
    receive_most(consumer, usize::MAX, seen, overflow)
}

/// Receives until `count` values have come.
fn receive_some(consumer: &mut RingConsumer<u32>, count: usize, overflow: &Overflow) -> Vec<u32> {
    let mut seen = Vec::new();
    while seen.len() < count {
        assert_ne!(receive(consumer, &mut seen, overflow).unwrap(), Next::Finished);
    }
    assert_eq!(seen.len(), count);
    seen
}

/// Claim, publish, read, release. A slot is written again by a producer that has not seen it freed
/// itself.
#[test]
fn claim_publish_read_release() {
    model(1, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 1, 1);
        let (second, first) = (producers.pop().unwrap(), producers.pop().unwrap());
        let other = overflow.clone();
        let one = thread::spawn(move || send_all(first, &[10], &other));
        let other = overflow.clone();
        let two = thread::spawn(move || send_all(second, &[20, 21], &other));
        let mut seen = receive_some(&mut consumers[0], 3, &overflow);
        let _producers = (one.join().unwrap(), two.join().unwrap());
        seen.retain(|&value| value != 10);
        assert_eq!(seen, [20, 21]);
    });
}

/// A full ring of one slot: the producer waits for the consumer, and the consumer for the producer.
#[test]
fn full_ring() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 1, 1, 1);
        let producer = producers.pop().unwrap();
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[1, 2], &other));
        assert_eq!(receive_some(&mut consumers[0], 2, &overflow), [1, 2]);
        let _producer = writer.join().unwrap();
    });
}

/// The ring is full until both consumers have passed, in either order. Then its value is dropped.
#[test]
fn last_to_pass_frees() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        send(&mut producers[0], 1, &overflow).unwrap();
        let (mut two, mut one) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let other = overflow.clone();
        let first = thread::spawn(move || {
            receive_some(&mut one, 1, &other);
            one
        });
        receive_some(&mut two, 1, &overflow);
        let one = first.join().unwrap();
        assert!(producers[0].try_send(2).is_ok(), "no thread freed the slot");
        drop((one, two));
    });
}

/// Both consumers pass two groups. The sweep changes hands and nothing is freed twice.
#[test]
fn sweep_changes_hands() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 2, 1);
        let mut producer = send_all(producers.pop().unwrap(), &[1, 2], &overflow);
        let (mut two, mut one) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let other = overflow.clone();
        let first = thread::spawn(move || {
            assert_eq!(receive_some(&mut one, 2, &other), [1, 2]);
            one
        });
        assert_eq!(receive_some(&mut two, 2, &overflow), [1, 2]);
        let one = first.join().unwrap();
        assert!(producer.try_send(3).is_ok() && producer.try_send(4).is_ok(), "no thread freed the slots");
        drop((one, two));
    });
}

/// Three consumers within one group. A sweeper that frees nothing still passes on the work of the
/// previous one.
#[test]
fn sweep_changes_hands_within_a_group() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 3, 1, 2);
        let mut producer = send_all(producers.pop().unwrap(), &[1, 2], &overflow);
        let (mut three, mut two, mut one) =
            (consumers.pop().unwrap(), consumers.pop().unwrap(), consumers.pop().unwrap());
        for ahead in [&mut two, &mut three] {
            receive_most(ahead, 1, &mut Vec::new(), &overflow).unwrap();
        }
        let other = overflow.clone();
        let first = thread::spawn(move || {
            assert_eq!(receive_some(&mut one, 2, &other), [1, 2]);
            one
        });
        let other = overflow.clone();
        let second = thread::spawn(move || {
            assert_eq!(receive_some(&mut two, 1, &other), [2]);
            two
        });
        assert_eq!(receive_some(&mut three, 1, &overflow), [2]);
        let _consumers = (first.join().unwrap(), second.join().unwrap());
        assert!(producer.try_send(3).is_ok() && producer.try_send(4).is_ok(), "no thread freed the slots");
    });
}

/// The values of a partial group are seen before the end, and every waiting consumer sees the end.
#[test]
fn finish_with_a_partial_group() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 1, 1, 4);
        let mut producer = producers.pop().unwrap();
        let writer = thread::spawn(move || {
            producer.try_send(10).unwrap();
            producer.finish();
        });
        let mut seen = Vec::new();
        while receive(&mut consumers[0], &mut seen, &overflow).unwrap() != Next::Finished {}
        assert_eq!(seen, [10]);
        writer.join().unwrap();
    });
}

/// A consumer that `idle` wakes sees a partial group, although the producer neither fills it nor
/// ends.
#[test]
fn idle_wakes() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 1, 1, 4);
        let mut producer = producers.pop().unwrap();
        let writer = thread::spawn(move || {
            producer.try_send(1).unwrap();
            producer.idle();
            producer
        });
        assert_eq!(receive_some(&mut consumers[0], 1, &overflow), [1]);
        let _producer = writer.join().unwrap();
    });
}

/// A consumer that is dropped with unread values delays no producer. After the last one, the
/// producer gets an error.
#[test]
fn consumer_dropped() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (two, mut one) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let leaver = thread::spawn(move || drop(two));
        send(&mut producers[0], 1, &overflow).unwrap();
        assert_eq!(receive_some(&mut one, 1, &overflow), [1]);
        leaver.join().unwrap();
        assert!(producers[0].try_send(2).is_ok(), "no thread freed the slot");
        let leaver = thread::spawn(move || drop(one));
        let gone = send(&mut producers[0], 3, &overflow);
        assert!(matches!(gone, Err(ExchangeError::ConsumersGone)), "{gone:?}");
        leaver.join().unwrap();
    });
}

/// A stop reaches a producer that waits for a free slot and a consumer that waits for values.
#[test]
fn stop_while_blocked() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(2, 2, 1, 1);
        let (mut stopper, mut blocked) = (producers.pop().unwrap(), producers.pop().unwrap());
        blocked.try_send(1).unwrap();
        receive_some(&mut consumers[0], 1, &overflow);
        let mut starved = consumers.remove(0);
        let writer = thread::spawn(move || {
            stopper.stop(Box::<dyn std::error::Error + Send + Sync>::from("enough").into());
            stopper
        });
        let other = overflow.clone();
        let reader = thread::spawn(move || {
            let next = receive(&mut starved, &mut Vec::new(), &other);
            assert!(matches!(next, Err(ExchangeError::Stopped(_))), "{next:?}");
            starved
        });
        let ready = block_on(|cx| poll_ready(cx, &mut blocked, &overflow));
        assert!(matches!(ready, Ok(()) | Err(ExchangeError::Stopped(_))), "{ready:?}");
        drop((writer.join().unwrap(), reader.join().unwrap()));
    });
}

/// A waiting consumer is woken when a producer is lost, although another one finished.
#[test]
fn producer_lost() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 1, 2);
        let lost = producers.pop().unwrap();
        producers.pop().unwrap().finish();
        let other = thread::spawn(move || drop(lost));
        let next = receive(&mut consumers[0], &mut Vec::new(), &overflow);
        assert!(matches!(next, Err(ExchangeError::ProducerLost { producer: 1 })), "{next:?}");
        other.join().unwrap();
    });
}

/// The ring is full for a consumer that is in and out of calls while the other starves. The values
/// that it has not taken are handed over, each once and in order.
#[test]
fn overflow_hand_over() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 2, 1);
        let (mut slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = send_all(producers.pop().unwrap(), &[1, 2], &overflow);
        receive_some(&mut fast, 2, &overflow);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fast.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[3], &other));
        let seen = receive_some(&mut slow, 3, &overflow);
        assert_eq!(seen, [1, 2, 3]);
        let _producer = writer.join().unwrap();
    });
}

/// The same within a group: the producer continues where the consumer's last call ended, not at the
/// start of the group.
#[test]
fn hand_over_goes_on_within_a_group() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 2);
        let (mut slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = send_all(producers.pop().unwrap(), &[1, 2], &overflow);
        receive_some(&mut fast, 2, &overflow);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fast.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[3], &other));
        let mut seen = Vec::new();
        while seen.len() < 2 {
            receive_most(&mut slow, 1, &mut seen, &overflow).unwrap();
        }
        assert_eq!(seen, [1, 2]);
        let _producer = writer.join().unwrap();
    });
}

/// A consumer starves only after the producer began to wait. It has to wake the producer, because
/// the laggard never will.
#[test]
fn starving_wakes_the_producer() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = send_all(producers.pop().unwrap(), &[1], &overflow);
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[2], &other));
        assert_eq!(receive_some(&mut fast, 2, &overflow), [1, 2]);
        let _producer = writer.join().unwrap();
        assert_eq!(*overflow[1].lock().unwrap(), [1]);
        drop(slow);
    });
}

/// Two consumers begin to starve at the same time after the producer began to wait. The first one
/// wakes it.
#[test]
fn the_first_to_starve_wakes_the_producer() {
    model(1, || {
        let (mut producers, mut consumers, overflow) = handles(1, 3, 1, 1);
        let (slow, mut two, mut one) = (consumers.pop().unwrap(), consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = send_all(producers.pop().unwrap(), &[1], &overflow);
        receive_some(&mut two, 1, &overflow);
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[2], &other));
        let other = overflow.clone();
        let reader = thread::spawn(move || {
            assert_eq!(receive_some(&mut two, 1, &other), [2]);
            two
        });
        assert_eq!(receive_some(&mut one, 2, &overflow), [1, 2]);
        let _handles = (writer.join().unwrap(), reader.join().unwrap());
        assert_eq!(*overflow[2].lock().unwrap(), [1]);
        drop(slow);
    });
}

/// Two producers wake a consumer while it begins to wait again, each time with another waker. The
/// list, its node and the waker change hands, and no wake-up is lost.
#[test]
fn wakes_meet_registrations() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(2, 1, 2, 2);
        let send_and_idle = |mut producer: RingProducer<u32>, value| {
            thread::spawn(move || {
                producer.try_send(value).unwrap();
                producer.idle();
                producer
            })
        };
        let two = send_and_idle(producers.pop().unwrap(), 20);
        let one = send_and_idle(producers.pop().unwrap(), 10);
        let mut seen = receive_some(&mut consumers[0], 2, &overflow);
        seen.sort_unstable();
        assert_eq!(seen, [10, 20]);
        let _producers = (one.join().unwrap(), two.join().unwrap());
    });
}

/// The same with two consumers, one of which is dropped while it may be on the list.
#[test]
fn dropped_while_listed() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 2, 2);
        let (mut leaves, mut stays) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let mut producer = producers.pop().unwrap();
        let writer = thread::spawn(move || {
            producer.try_send(1).unwrap();
            producer.idle();
            producer
        });
        let leaver = thread::spawn(move || {
            let bell = Waker::from(Arc::new(Bell(Notify::new())));
            let _ = leaves.poll_next(&mut Context::from_waker(&bell), |_| ControlFlow::Continue(()));
        });
        assert_eq!(receive_some(&mut stays, 1, &overflow), [1]);
        let _producer = writer.join().unwrap();
        leaver.join().unwrap();
    });
}

/// A consumer is dropped while a producer may be handing its values over.
#[test]
fn dropped_while_relieved() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let producer = send_all(producers.pop().unwrap(), &[1], &overflow);
        receive_some(&mut fast, 1, &overflow);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fast.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
        let other = overflow.clone();
        let writer = thread::spawn(move || send_all(producer, &[2], &other));
        drop(slow);
        let _producer = writer.join().unwrap();
    });
}

/// Asks for a slot until one is free. The overflow keeps the values that it gets, and fails
/// nevertheless.
fn relieve_and_fail(producer: &mut RingProducer<u32>, overflow: &Overflow) -> Result<Admission, ExchangeError> {
    block_on(|cx| {
        loop {
            let answer = producer.poll_ready(cx, |consumer, values| {
                values.try_for_each(|&value| {
                    overflow[consumer].lock().unwrap().push(value);
                    Err(ExchangeError::Full)
                })
            });
            if !matches!(answer, Poll::Ready(Ok(Admission::Yield))) {
                return answer;
            }
        }
    })
}

/// An overflow fails after it has taken a part of a value. The consumer reads the value before the
/// hand-over, or does not read it at all.
#[test]
fn hand_over_that_fails() {
    model(3, || {
        let (mut producers, mut consumers, overflow) = handles(1, 2, 1, 1);
        let (mut slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let mut producer = send_all(producers.pop().unwrap(), &[1], &overflow);
        receive_some(&mut fast, 1, &overflow);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fast.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
        let other = overflow.clone();
        let writer = thread::spawn(move || {
            let _ = relieve_and_fail(&mut producer, &other);
            producer
        });
        let mut seen = Vec::new();
        let next = receive(&mut slow, &mut seen, &overflow);
        assert!(matches!(next, Ok(Next::Visited(1)) | Err(ExchangeError::Full)), "{next:?}");
        let _producer = writer.join().unwrap();
        seen.append(&mut overflow[1].lock().unwrap());
        assert_eq!(seen, [1]);
    });
}

/// The same with two producers: the value is not handed over again after the first failure.
#[test]
fn hand_over_that_fails_is_the_last() {
    model(2, || {
        let (mut producers, mut consumers, overflow) = handles(2, 2, 1, 1);
        let (slow, mut fast) = (consumers.pop().unwrap(), consumers.pop().unwrap());
        let (mut two, mut one) = (producers.pop().unwrap(), producers.pop().unwrap());
        send(&mut one, 1, &overflow).unwrap();
        // Admitted by its view of the ring before the first value.
        send(&mut two, 2, &overflow).unwrap();
        receive_some(&mut fast, 2, &overflow);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fast.poll_next(&mut cx, |_| ControlFlow::Continue(())).is_pending());
        let other = overflow.clone();
        let writer = thread::spawn(move || {
            assert!(matches!(relieve_and_fail(&mut two, &other), Err(ExchangeError::Full)));
            two
        });
        assert!(matches!(relieve_and_fail(&mut one, &overflow), Err(ExchangeError::Full)));
        let _two = writer.join().unwrap();
        assert_eq!(*overflow[1].lock().unwrap(), [1]);
        drop(slow);
    });
}

/// B is never polled, D is dropped after it found a value, C starves: P must be woken.
#[test]
fn a_consumer_that_leaves_after_its_second_look_passes_the_news_on() {
    model(3, || {
        let (mut ps, mut cs, _o) = handles(1, 3, 1, 1);
        let mut p = ps.pop().unwrap();
        let (mut c, mut d) = (cs.pop().unwrap(), cs.pop().unwrap());
        let b = cs.pop().unwrap();
        let leaver = thread::spawn(move || {
            let w = Waker::noop();
            let _ = d.poll_next(&mut Context::from_waker(w), |_| ControlFlow::Break(()));
            drop(d);
        });
        struct Rung(std::sync::atomic::AtomicUsize);
        impl Wake for Rung {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let rung = Arc::new(Rung(0.into()));
        let w = Waker::from(Arc::clone(&rung));
        p.try_send(0).unwrap();
        let parked = loop {
            match p.poll_ready(&mut Context::from_waker(&w), |_, v| v.try_for_each(|_| Ok(()))) {
                Poll::Ready(Ok(Admission::Yield)) => {}
                Poll::Ready(_) => break false,
                Poll::Pending => break true,
            }
        };
        leaver.join().unwrap();
        let w = Waker::noop();
        while c.poll_next(&mut Context::from_waker(w), |_| ControlFlow::Continue(())).is_ready() {}
        assert!(!parked || rung.0.load(std::sync::atomic::Ordering::SeqCst) > 0, "lost");
        drop((b, p));
    });
}
