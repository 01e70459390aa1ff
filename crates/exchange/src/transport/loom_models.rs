//! Models of the queues' waiting and of the paper's ring. Loom runs them through every interleaving
//! up to a number of preemptions. The queues themselves are modelled by their lengths.

mod harness;

use std::{
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Waker},
};

use loom::{sync::Notify, thread};

use self::harness::{BARRIER, Model, Number, PAPER, QUEUES, produce, receive, receive_some, send, shape};
use super::Parcel;
use crate::{Strategy, error::ExchangeError, waiting::bell::block_on};

fn one_to_one(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, mut receivers), overflow| {
        let producer = produce(senders.remove(0), &[1, 2], &overflow);
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), [1, 2]);
        producer.join().unwrap();
    });
}

/// The second producer sends `numbers`, which ascend.
fn two_producers(model: &Model, slots: usize, numbers: &'static [u32]) {
    model.check(shape(2, 1, slots), move |(mut senders, mut receivers), overflow| {
        let second = produce(senders.remove(1), numbers, &overflow);
        let first = produce(senders.remove(0), &[1], &overflow);
        let mut received = receive(&mut *receivers[0], &overflow).unwrap();
        let own = received.iter().position(|number| *number == 1).expect("the first producer's");
        assert_eq!(received.remove(own), 1);
        assert_eq!(received, numbers);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// The second consumer is not polled before the producer has ended, and the first one gets
/// everything nevertheless.
fn a_slow_consumer(model: &Model) {
    let paper = model.strategy == Strategy::PaperRing;
    model.check(shape(1, 2, 1), move |(mut senders, mut receivers), overflow| {
        let mut slow = receivers.remove(1);
        // One value more than the paper's ring holds with a group that was found full.
        let numbers: &[u32] = if paper { &[1, 2, 3] } else { &[1, 2] };
        let producer = produce(senders.remove(0), numbers, &overflow);
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), numbers);
        producer.join().unwrap();
        assert_eq!(receive(&mut *slow, &overflow).unwrap(), numbers);
    });
}

/// Each consumer waits for a value of its own.
fn values_for_one(model: &Model) {
    model.check(shape(1, 2, 1), |(mut senders, mut receivers), overflow| {
        let mut other = receivers.remove(1);
        let producer = produce(senders.remove(0), &[100, 200], &overflow);
        let reader = {
            let overflow = Arc::clone(&overflow);
            thread::spawn(move || assert_eq!(receive(&mut *other, &overflow).unwrap(), [200]))
        };
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), [100]);
        producer.join().unwrap();
        reader.join().unwrap();
    });
}

/// Both consumers read while the producer may relieve either. It ends only when each has seen all
/// that concerns it, so no later wake-up stands in for a missing one. What is sent before they
/// begin makes the model smaller.
fn two_consumers(model: &Model, before: &'static [u32], after: &'static [u32]) {
    model.check(shape(1, 2, 1), move |(mut senders, receivers), overflow| {
        let mut sender = senders.remove(0);
        let mut send = |number: &u32| send(&mut *sender, *number, &overflow).unwrap();
        before.iter().for_each(&mut send);
        let readers = receivers.into_iter().map(|mut receiver| {
            let (overflow, consumer) = (Arc::clone(&overflow), receiver.index());
            let concerns = |number: &u32| Number::new(*number).concerns(consumer);
            let expected: Vec<_> = before.iter().chain(after).copied().filter(concerns).collect();
            let seen = Arc::new(Notify::new());
            let sees = Arc::clone(&seen);
            let reader = thread::spawn(move || {
                assert_eq!(receive_some(&mut *receiver, expected.len(), &overflow), expected);
                sees.notify();
                assert_eq!(receive(&mut *receiver, &overflow).unwrap(), [0; 0]);
            });
            (reader, seen)
        });
        let readers: Vec<_> = readers.collect();
        after.iter().for_each(&mut send);
        readers.iter().for_each(|(_, seen)| seen.wait());
        sender.end();
        readers.into_iter().for_each(|(reader, _)| reader.join().unwrap());
    });
}

/// A consumer reads again while a producer may hand its value over, and nothing is sent to it
/// afterwards.
fn a_laggard_reads_again(model: &Model) {
    model.check(shape(1, 2, 1), |(mut senders, mut receivers), overflow| {
        let mut sender = senders.remove(0);
        send(&mut *sender, 1, &overflow).unwrap();
        assert_eq!(receive_some(&mut *receivers[0], 1, &overflow), [1]);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(receivers[0].poll_next(&mut cx, &mut |_| ControlFlow::Continue(())).is_pending());
        let producer = {
            let overflow = Arc::clone(&overflow);
            thread::spawn(move || {
                send(&mut *sender, 100, &overflow).unwrap();
                sender
            })
        };
        // The producer finds no room, and hands over if this thread is preempted before it reads.
        thread::yield_now();
        assert_eq!(receive_some(&mut *receivers[1], 1, &overflow), [1]);
        producer.join().unwrap().end();
    });
}

/// A consumer takes a value and does something else. The producer that waited for room goes on.
fn a_consumer_reads_once(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, mut receivers), overflow| {
        let mut sender = senders.remove(0);
        send(&mut *sender, 1, &overflow).unwrap();
        let producer = {
            let overflow = Arc::clone(&overflow);
            thread::spawn(move || {
                send(&mut *sender, 2, &overflow).unwrap();
                sender.end();
            })
        };
        assert_eq!(receive_some(&mut *receivers[0], 1, &overflow), [1]);
        producer.join().unwrap();
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), [2]);
    });
}

fn a_stop(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, mut receivers), overflow| {
        let mut sender = senders.remove(0);
        let stopper = thread::spawn(move || sender.stop(Box::<dyn std::error::Error + Send + Sync>::from("no").into()));
        let stopped = receive(&mut *receivers[0], &overflow);
        assert!(matches!(stopped, Err(ExchangeError::Stopped(_))));
        stopper.join().unwrap();
    });
}

/// A producer whose rows may be missing ends nevertheless, as others do, and the consumer gets
/// nothing at all.
fn a_stop_before_the_end(model: &Model, producers: usize) {
    model.check(shape(producers, 1, 1), |(mut senders, mut receivers), _| {
        let mut stopping = senders.remove(0);
        let stopper = thread::spawn(move || {
            stopping.stop(Box::<dyn std::error::Error + Send + Sync>::from("no").into());
            stopping.end();
        });
        let others = senders.into_iter().map(|mut sender| {
            thread::spawn(move || {
                sender.end();
            })
        });
        let others: Vec<_> = others.collect();
        let first = block_on(|cx| receivers[0].poll_next(cx, &mut |_| ControlFlow::Continue(())));
        assert!(matches!(first, Err(ExchangeError::Stopped(_))), "{first:?}");
        stopper.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The only consumer stops the transport while the producer may wait for room, and stays. The
/// producer gets the reason, and the values on the way are dropped.
fn a_consumer_stops(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, mut receivers), overflow| {
        let mut sender = senders.remove(0);
        let producer = {
            let overflow = Arc::clone(&overflow);
            thread::spawn(move || {
                let refused = (0..5).find_map(|number| send(&mut *sender, number, &overflow).err());
                assert!(matches!(refused, Some(ExchangeError::Stopped(_))), "{refused:?}");
                sender.end();
            })
        };
        // The producer finds no room, and waits if this thread is preempted before it stops.
        thread::yield_now();
        receivers[0].stop(Box::<dyn std::error::Error + Send + Sync>::from("no").into());
        producer.join().unwrap();
        assert!(matches!(receive(&mut *receivers[0], &overflow), Err(ExchangeError::Stopped(_))));
    });
}

/// The only consumer goes away while the producer may wait for room.
fn a_consumer_leaves(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, receivers), overflow| {
        let mut sender = senders.remove(0);
        let producer = thread::spawn(move || {
            for number in 0..3 {
                if let Err(error) = send(&mut *sender, number, &overflow) {
                    assert!(matches!(error, ExchangeError::ConsumersGone));
                    break;
                }
            }
            sender.end();
        });
        // As in `a_consumer_stops`.
        thread::yield_now();
        drop(receivers);
        producer.join().unwrap();
    });
}

/// One of two consumers goes away, which must not hold the producer back.
fn one_of_two_leaves(model: &Model) {
    model.check(shape(1, 2, 1), |(mut senders, mut receivers), overflow| {
        let leaving = receivers.remove(1);
        let producer = produce(senders.remove(0), &[1, 2], &overflow);
        let leaver = thread::spawn(move || drop(leaving));
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), [1, 2]);
        producer.join().unwrap();
        leaver.join().unwrap();
    });
}

/// A value is seen though its producer sends nothing more until it was.
fn an_input_that_pauses(model: &Model, slots: usize) {
    model.check(shape(1, 1, slots), |(mut senders, mut receivers), overflow| {
        let seen = Arc::new(Notify::new());
        let mut sender = senders.remove(0);
        let producer = {
            let (seen, overflow) = (Arc::clone(&seen), Arc::clone(&overflow));
            thread::spawn(move || {
                send(&mut *sender, 1, &overflow).unwrap();
                sender.idle();
                seen.wait();
                sender.end();
            })
        };
        assert_eq!(receive_some(&mut *receivers[0], 1, &overflow), [1]);
        seen.notify();
        assert_eq!(receive(&mut *receivers[0], &overflow).unwrap(), [0; 0]);
        producer.join().unwrap();
    });
}

#[test]
fn queue_one_to_one() {
    one_to_one(&QUEUES);
}

#[test]
fn queue_two_producers() {
    two_producers(&Model { preemptions: 0, ..QUEUES }, 1, &[11]);
}

#[test]
fn queue_slow_consumer() {
    a_slow_consumer(&Model { preemptions: 0, ..QUEUES });
}

#[test]
fn queue_values_for_one() {
    values_for_one(&Model { preemptions: 0, ..QUEUES });
}

#[test]
fn queue_two_consumers() {
    two_consumers(&Model { preemptions: 0, ..QUEUES }, &[1], &[2]);
}
#[test]
fn queue_laggard_reads_again() {
    a_laggard_reads_again(&Model { preemptions: 3, ..QUEUES });
}

#[test]
fn queue_stop() {
    a_stop(&QUEUES);
}

#[test]
fn queue_stop_before_the_end() {
    a_stop_before_the_end(&QUEUES, 2);
}

#[test]
fn queue_consumer_reads_once() {
    a_consumer_reads_once(&Model { preemptions: 2, ..QUEUES });
}

#[test]
fn queue_consumer_stops() {
    a_consumer_stops(&Model { preemptions: 2, ..QUEUES });
}

#[test]
fn queue_consumer_leaves() {
    a_consumer_leaves(&Model { preemptions: 2, ..QUEUES });
}

#[test]
fn queue_one_of_two_leaves() {
    one_of_two_leaves(&Model { preemptions: 0, ..QUEUES });
}

#[test]
fn queue_input_pauses() {
    an_input_that_pauses(&QUEUES, 1);
}

#[test]
fn barrier_two_producers() {
    two_producers(&BARRIER, 1, &[11, 12]);
}

#[test]
fn barrier_stop() {
    a_stop(&BARRIER);
}

#[test]
fn barrier_stop_before_the_end() {
    a_stop_before_the_end(&BARRIER, 1);
}

#[test]
fn paper_one_to_one() {
    one_to_one(&PAPER);
}

#[test]
fn paper_two_producers_one_slot() {
    two_producers(&PAPER, 1, &[11]);
}

#[test]
fn paper_two_producers_two_slots() {
    two_producers(&PAPER, 2, &[11, 12]);
}

#[test]
fn paper_slow_consumer() {
    a_slow_consumer(&PAPER);
}

#[test]
fn paper_two_consumers() {
    two_consumers(&Model { preemptions: 1, ..PAPER }, &[1], &[2]);
}

#[test]
fn paper_stop() {
    a_stop(&PAPER);
}

#[test]
fn paper_stop_before_the_end() {
    a_stop_before_the_end(&PAPER, 2);
}

#[test]
fn paper_consumer_stops() {
    a_consumer_stops(&Model { preemptions: 2, ..PAPER });
}

#[test]
fn paper_consumer_leaves() {
    a_consumer_leaves(&Model { preemptions: 2, ..PAPER });
}

#[test]
fn paper_one_of_two_leaves() {
    one_of_two_leaves(&Model { preemptions: 1, ..PAPER });
}

#[test]
fn paper_input_pauses() {
    an_input_that_pauses(&PAPER, 2);
}
