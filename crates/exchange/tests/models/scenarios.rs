//! What the models check, for any transport. Each scenario names the wait, the event or the race
//! that it is about.

use std::{
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use annulus_exchange::{
    ExchangeError,
    ring::Next,
    transport::{Handles, Parcel, Receiver, Shape},
};
use loom::{sync::Notify, thread};

use super::harness::{
    Model, Number, end, produce, reason, receive, receive_at_most, receive_some, send, send_all, shape,
};
use crate::bell::block_on;

/// One producer sends to one consumer.
pub fn one_to_one(model: &Model, numbers: &'static [u32]) {
    model.check(shape(1, 1, 1), move |(mut senders, mut receivers), run| {
        let producer = produce(senders.remove(0), numbers, &run);
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), numbers);
        producer.join().unwrap();
    });
}

/// The values sent before fill the transport. The producer waits for the consumer, and the consumer
/// for the producer.
pub fn a_full_transport(model: &Model, before: &'static [u32], last: u32) {
    model.check(shape(1, 1, 1), move |(mut senders, mut receivers), run| {
        let mut sender = senders.remove(0);
        before.iter().for_each(|number| send(&mut *sender, *number, &run).unwrap());
        let writer = send_all(sender, &[last], &run);
        let numbers = [before, &[last]].concat();
        assert_eq!(receive_some(&mut *receivers[0], numbers.len(), &run), numbers);
        writer.join().unwrap().end();
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), [0; 0]);
    });
}

/// Two producers send and end. What the second one sends ascends.
pub fn two_producers(model: &Model, shape: Shape, first: &'static [u32], second: &'static [u32]) {
    model.check(shape, move |(mut senders, mut receivers), run| {
        let two = produce(senders.remove(1), second, &run);
        let one = produce(senders.remove(0), first, &run);
        let received = receive(&mut *receivers[0], &run).unwrap();
        let of =
            |numbers: &[u32]| received.iter().copied().filter(|number| numbers.contains(number)).collect::<Vec<_>>();
        assert_eq!((received.len(), of(first), of(second)), (first.len() + second.len(), first.into(), second.into()));
        one.join().unwrap();
        two.join().unwrap();
    });
}

/// Two producers wait for a free slot in the queue that they share. The consumer takes all that is there
/// and does something else. Both go on.
pub fn two_producers_wait(model: &Model) {
    model.check(shape(2, 1, 2), |(mut senders, mut receivers), run| {
        [1, 2].into_iter().for_each(|number| send(&mut *senders[0], number, &run).unwrap());
        let writers: Vec<_> = senders.into_iter().map(|sender| send_all(sender, &[3], &run)).collect();
        let mut received = receive_at_most(&mut *receivers[0], 2, &run).unwrap();
        let mut senders: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        end(&mut senders);
        received.append(&mut receive(&mut *receivers[0], &run).unwrap());
        assert_eq!(received, [1, 2, 3, 3]);
    });
}

/// The second consumer is not polled before `producer` has sent everything, and the first one gets
/// it nevertheless. What it has read before they race makes the model smaller.
pub fn a_slow_consumer(model: &Model, shape: Shape, producer: usize, before: &'static [u32], after: &'static [u32]) {
    model.check(shape, move |(mut senders, mut receivers), run| {
        let mut slow = receivers.remove(1);
        let mut sender = senders.remove(producer);
        before.iter().for_each(|number| send(&mut *sender, *number, &run).unwrap());
        assert_eq!(receive_some(&mut *receivers[0], before.len(), &run), before);
        let producer = produce(sender, after, &run);
        assert_eq!(receive_some(&mut *receivers[0], after.len(), &run), after);
        producer.join().unwrap();
        end(&mut senders);
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), [0; 0]);
        assert_eq!(receive(&mut *slow, &run).unwrap(), [before, after].concat());
    });
}

/// Each consumer waits for a value of its own.
pub fn values_for_one(model: &Model) {
    model.check(shape(1, 2, 2), |(mut senders, mut receivers), run| {
        let mut other = receivers.remove(1);
        let producer = produce(senders.remove(0), &[100, 200], &run);
        let reader = {
            let run = Arc::clone(&run);
            thread::spawn(move || assert_eq!(receive(&mut *other, &run).unwrap(), [200]))
        };
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), [100]);
        producer.join().unwrap();
        reader.join().unwrap();
    });
}

/// Both consumers read while the producer may relieve either. It ends only when each has seen all
/// that concerns it, so no later wake-up stands in for a missing one. What is sent before they
/// begin makes the model smaller.
pub fn two_consumers(model: &Model, before: &'static [u32], after: &'static [u32]) {
    model.check(shape(1, 2, 1), move |(mut senders, receivers), run| {
        let mut sender = senders.remove(0);
        let mut send = |number: &u32| send(&mut *sender, *number, &run).unwrap();
        before.iter().for_each(&mut send);
        let readers = receivers.into_iter().map(|mut receiver| {
            let (run, consumer) = (Arc::clone(&run), receiver.index());
            let concerns = |number: &u32| Number::new(*number).concerns(consumer);
            let expected: Vec<_> = before.iter().chain(after).copied().filter(concerns).collect();
            thread::spawn(move || {
                assert_eq!(receive_some(&mut *receiver, expected.len(), &run), expected);
                receiver
            })
        });
        let readers: Vec<_> = readers.collect();
        after.iter().for_each(&mut send);
        let mut receivers: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        sender.end();
        for receiver in &mut receivers {
            assert_eq!(receive(&mut **receiver, &run).unwrap(), [0; 0]);
        }
    });
}

/// A consumer reads again while a producer may hand its values over, and nothing is sent to it
/// afterwards. They fill the transport.
pub fn a_laggard_reads_again(model: &Model, numbers: &'static [u32]) {
    model.check(shape(1, 2, 1), move |(mut senders, mut receivers), run| {
        let mut sender = senders.remove(0);
        numbers.iter().for_each(|number| send(&mut *sender, *number, &run).unwrap());
        assert_eq!(receive_some(&mut *receivers[0], numbers.len(), &run), numbers);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(receivers[0].poll_next(&mut cx, &mut |_| ControlFlow::Continue(())).is_pending());
        let writer = send_all(sender, &[100], &run);
        // The producer finds no free slot, and hands over if this thread is preempted before it reads.
        thread::yield_now();
        assert_eq!(receive_some(&mut *receivers[1], numbers.len(), &run), numbers);
        writer.join().unwrap().end();
    });
}

/// A consumer takes a value and does something else. The producer that waited for a free slot goes on.
pub fn a_consumer_reads_once(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, mut receivers), run| {
        let mut sender = senders.remove(0);
        send(&mut *sender, 1, &run).unwrap();
        let producer = {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                send(&mut *sender, 2, &run).unwrap();
                sender.end();
            })
        };
        assert_eq!(receive_some(&mut *receivers[0], 1, &run), [1]);
        producer.join().unwrap();
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), [2]);
    });
}

/// The queues of both producers to the consumer are full. It takes one value of `producer`, which
/// waited for a free slot and goes on, although the other queue stays full.
pub fn a_free_slot_in_one_queue(model: &Model, producer: usize) {
    model.check(shape(2, 1, 1), move |(mut senders, mut receivers), run| {
        for sender in &mut senders {
            [1, 2].into_iter().for_each(|number| send(&mut **sender, number, &run).unwrap());
        }
        let take_one = |receiver: &mut dyn Receiver<Number>| {
            let next = receiver.poll_next(&mut Context::from_waker(Waker::noop()), &mut |_| ControlFlow::Break(()));
            assert!(matches!(next, Poll::Ready(Ok(Next::Visited(1)))), "{next:?}");
        };
        // The consumer takes a value of each queue in turn.
        for sender in &mut senders[..producer] {
            take_one(&mut *receivers[0]);
            send(&mut **sender, 3, &run).unwrap();
        }
        let writer = send_all(senders.remove(producer), &[3], &run);
        take_one(&mut *receivers[0]);
        senders.push(writer.join().unwrap());
        end(&mut senders);
    });
}

/// A producer stops the transport while the consumer may wait for a value.
pub fn a_stop(model: &Model, shape: Shape, producer: usize) {
    model.check(shape, move |(mut senders, mut receivers), run| {
        let mut sender = senders.remove(producer);
        let stopper = thread::spawn(move || sender.stop(reason()));
        let stopped = receive(&mut *receivers[0], &run);
        assert!(matches!(stopped, Err(ExchangeError::Stopped(_))));
        stopper.join().unwrap();
    });
}

/// A producer whose rows may be missing ends nevertheless, as others do, and the consumer gets
/// nothing at all.
pub fn a_stop_before_the_end(model: &Model, producers: usize) {
    model.check(shape(producers, 1, 1), |(mut senders, mut receivers), _| {
        let mut stopping = senders.remove(0);
        let stopper = thread::spawn(move || {
            stopping.stop(reason());
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

/// Another handle stops the transport while `producer` may wait for a free slot, and stays. The producer
/// gets the reason, and the values on the way are dropped.
pub fn a_stop_for_a_producer(model: &Model, shape: Shape, producer: usize, stop: fn(&mut Handles<Number>)) {
    model.check(shape, move |mut others, run| {
        let mut sender = others.0.remove(producer);
        let writer = {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                let refused = (0..5).find_map(|number| send(&mut *sender, number, &run).err());
                assert!(matches!(refused, Some(ExchangeError::Stopped(_))), "{refused:?}");
                sender.end();
            })
        };
        // The producer finds no free slot, and waits if this thread is preempted before it stops.
        thread::yield_now();
        stop(&mut others);
        writer.join().unwrap();
        assert!(matches!(receive(&mut *others.1[0], &run), Err(ExchangeError::Stopped(_))));
    });
}

/// The only consumer goes away as soon as it gets the reason of a stop. The other producer gets
/// that reason, and not that no consumer is left.
pub fn a_consumer_leaves_with_the_reason(model: &Model, shape: Shape) {
    model.check(shape, |(mut senders, mut receivers), run| {
        let mut stopping = senders.remove(0);
        let stopper = thread::spawn(move || {
            stopping.stop(reason());
            stopping.end();
        });
        let stopped = receive(&mut *receivers[0], &run);
        assert!(matches!(stopped, Err(ExchangeError::Stopped(_))));
        drop(receivers);
        let refused = send(&mut *senders[0], 1, &run);
        assert!(matches!(refused, Err(ExchangeError::Stopped(_))), "{refused:?}");
        stopper.join().unwrap();
    });
}

/// The only consumer goes away while the producer may wait for a free slot.
pub fn a_consumer_leaves(model: &Model) {
    model.check(shape(1, 1, 1), |(mut senders, receivers), run| {
        let mut sender = senders.remove(0);
        let producer = thread::spawn(move || {
            for number in 0..3 {
                if let Err(error) = send(&mut *sender, number, &run) {
                    assert!(matches!(error, ExchangeError::ConsumersGone));
                    break;
                }
            }
            sender.end();
        });
        // As in `a_stop_for_a_producer`.
        thread::yield_now();
        drop(receivers);
        producer.join().unwrap();
    });
}

/// One of two consumers goes away with a value that it has not read, which must not hold the
/// producer back.
pub fn one_of_two_leaves(model: &Model) {
    model.check(shape(1, 2, 1), |(mut senders, mut receivers), run| {
        let leaving = receivers.remove(1);
        let mut sender = senders.remove(0);
        send(&mut *sender, 1, &run).unwrap();
        assert_eq!(receive_some(&mut *receivers[0], 1, &run), [1]);
        let writer = send_all(sender, &[2], &run);
        let leaver = thread::spawn(move || drop(leaving));
        assert_eq!(receive_some(&mut *receivers[0], 1, &run), [2]);
        leaver.join().unwrap();
        writer.join().unwrap().end();
    });
}

/// A value is seen though its producer sends nothing more until it was, and no other producer sends
/// anything.
pub fn an_input_that_pauses(model: &Model, shape: Shape, producer: usize) {
    model.check(shape, move |(mut senders, mut receivers), run| {
        let seen = Arc::new(Notify::new());
        let mut sender = senders.remove(producer);
        let producer = {
            let (seen, run) = (Arc::clone(&seen), Arc::clone(&run));
            thread::spawn(move || {
                send(&mut *sender, 1, &run).unwrap();
                sender.idle();
                seen.wait();
                sender.end();
            })
        };
        assert_eq!(receive_some(&mut *receivers[0], 1, &run), [1]);
        seen.notify();
        end(&mut senders);
        assert_eq!(receive(&mut *receivers[0], &run).unwrap(), [0; 0]);
        producer.join().unwrap();
    });
}

/// The consumer stops the transport.
pub fn by_the_consumer((_, receivers): &mut Handles<Number>) {
    receivers[0].stop(reason());
}

/// The first of the other producers stops the transport.
pub fn by_a_producer((senders, _): &mut Handles<Number>) {
    senders[0].stop(reason());
}
