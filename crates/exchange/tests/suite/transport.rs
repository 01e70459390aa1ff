//! The transports, with values of the tests' own.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use annulus_exchange::{
    ExchangeError,
    ring::{Admission, Next},
    transport::{Parcel, Receiver, Sender, Shape, Unread},
};

use super::{bounded_transports, transports};
use crate::strategies::{self, transport};

/// A number that counts how many of its kind there are.
struct Number(u32, Arc<AtomicUsize>);

impl Parcel for Number {}

impl Drop for Number {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

fn number(value: u32, alive: &Arc<AtomicUsize>) -> Number {
    alive.fetch_add(1, SeqCst);
    Number(value, Arc::clone(alive))
}

fn nothing(_: usize, _: usize, _: &mut dyn Unread<Number>) -> Result<(), ExchangeError> {
    Ok(())
}

/// Polls until the producer may send, at most a few times.
fn admitted(sender: &mut dyn Sender<Number>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    (0..8).any(|_| matches!(sender.poll_ready(&mut cx, &mut nothing), Poll::Ready(Ok(Admission::Granted))))
}

/// Returns what is there now.
fn drain(receiver: &mut dyn Receiver<Number>) -> (Vec<u32>, bool) {
    let (mut numbers, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
    loop {
        let next = receiver.poll_next(&mut cx, &mut |value| {
            numbers.push(value.0);
            ControlFlow::Continue(())
        });
        match next {
            Poll::Ready(Ok(Next::Finished)) => return (numbers, true),
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => return (numbers, false),
        }
    }
}

/// Producers that were admitted while there was a free slot send when there is none, and pause one
/// after the other, so that what each has sent must become visible.
#[test]
fn late_senders_that_pause_one_by_one_lose_nothing() {
    for strategy in bounded_transports() {
        for (producers, slots) in [(4, 4), (6, 2), (3, 3), (5, 1)] {
            let alive = Arc::new(AtomicUsize::new(0));
            let shape = Shape::new(producers, 1).with_slots(slots);
            let (mut senders, mut receivers) = transport(strategy, shape).unwrap();
            for sender in &mut senders[1..] {
                assert!(admitted(&mut **sender), "{strategy}");
            }
            let mut sent = 0;
            while sent < 100 && admitted(&mut *senders[0]) {
                senders[0].try_send(number(sent, &alive)).map_err(|_| "refused").unwrap();
                sent += 1;
            }
            senders[0].idle();
            for (late, sender) in (1000..).zip(&mut senders[1..]) {
                sender.try_send(number(late, &alive)).map_err(|_| "refused").unwrap();
                sender.idle();
            }
            let (numbers, ended) = drain(&mut *receivers[0]);
            assert!(!ended);
            let (numbers, late): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|value| *value < 1000);
            assert_eq!(numbers, (0..sent).collect::<Vec<_>>(), "{strategy} {producers} {slots}");
            assert_eq!(late.len(), producers - 1, "{strategy} {producers} {slots}: {late:?}");
            for sender in &mut senders {
                sender.end();
            }
            assert!(drain(&mut *receivers[0]).1, "{strategy}");
            drop((senders, receivers));
            assert_eq!(alive.load(SeqCst), 0, "{strategy}: every value is dropped once");
        }
    }
}

/// Consumers that leave at any moment take nothing from those that stay.
#[test]
fn consumers_that_leave_take_nothing_from_others() {
    for strategy in transports() {
        for stay in 0..40_u32 {
            let alive = Arc::new(AtomicUsize::new(0));
            let shape = Shape::new(2, 4).with_slots(1).with_groups(1 + stay as usize % 3);
            let (senders, receivers) = transport(strategy, shape).unwrap();
            let asides: Vec<_> = (0..4).map(|_| Mutex::new(Vec::new())).collect();
            thread::scope(|scope| {
                for (first, mut sender) in [0, 1000].into_iter().zip(senders) {
                    let (alive, asides) = (&alive, &asides);
                    scope.spawn(move || {
                        for value in first..first + 200 {
                            let mut relieve = |consumer: usize, _: usize, values: &mut dyn Unread<Number>| {
                                values.try_for_each(&mut |value| {
                                    asides[consumer].lock().unwrap().push(value.0);
                                    Ok(())
                                })
                            };
                            sender.send_blocking(number(value, alive), &mut relieve).unwrap();
                        }
                        sender.end();
                    });
                }
                for (index, mut receiver) in receivers.into_iter().enumerate() {
                    let asides = &asides;
                    scope.spawn(move || {
                        // The first one stays, the others leave after a few values.
                        let most = if index == 0 { usize::MAX } else { index * stay as usize };
                        let mut numbers = Vec::new();
                        loop {
                            let next = receiver.next_blocking(&mut |value| {
                                numbers.push(value.0);
                                if numbers.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                            });
                            match next.unwrap() {
                                Next::Relieved => numbers.append(&mut asides[index].lock().unwrap()),
                                Next::Finished => break,
                                Next::Visited(_) if numbers.len() >= most => return,
                                Next::Visited(_) => {}
                            }
                        }
                        let (low, high): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|value| *value < 1000);
                        assert_eq!(low, (0..200).collect::<Vec<_>>(), "{strategy}");
                        assert_eq!(high, (1000..1200).collect::<Vec<_>>(), "{strategy}");
                    });
                }
            });
            assert_eq!(alive.load(SeqCst), 0, "{strategy}: every value is dropped once");
        }
    }
}

/// A waker that reads the error of a transport and leaves, as a thread might that runs at once.
struct Leaves {
    receiver: Mutex<Option<Box<dyn Receiver<Number>>>>,
    other: Mutex<Box<dyn Sender<Number>>>,
    seen: Mutex<Vec<String>>,
}

impl Wake for Leaves {
    fn wake(self: Arc<Self>) {
        let Some(mut receiver) = self.receiver.lock().unwrap().take() else { return };
        let next = receiver.poll_next(&mut Context::from_waker(Waker::noop()), &mut |_| ControlFlow::Continue(()));
        let Poll::Ready(Err(error)) = next else { panic!("{next:?}") };
        drop(receiver);
        let other = self.other.lock().unwrap().error().map(|error| error.to_string());
        self.seen.lock().unwrap().extend([error.to_string(), other.unwrap_or_default()]);
    }
}

/// A consumer that has seen the error may leave before the error has reached every producer. They
/// must not take its leaving for the reason.
#[test]
fn a_consumer_that_leaves_with_an_error_leaves_it_to_the_producers() {
    for strategy in transports() {
        for lost in 0..2 {
            let (mut senders, mut receivers) = transport(strategy, Shape::new(2, 1).with_domains(2)).unwrap();
            let sender = senders.remove(lost);
            let leaves = Arc::new(Leaves {
                receiver: Mutex::new(receivers.pop()),
                other: Mutex::new(senders.remove(0)),
                seen: Mutex::default(),
            });
            let waker = Waker::from(Arc::clone(&leaves));
            if let Some(receiver) = &mut *leaves.receiver.lock().unwrap() {
                let next = receiver.poll_next(&mut Context::from_waker(&waker), &mut |_| ControlFlow::Continue(()));
                assert!(next.is_pending(), "{strategy}");
            }
            drop(sender);
            let error = ExchangeError::ProducerLost { producer: lost }.to_string();
            assert_eq!(*leaves.seen.lock().unwrap(), [error.clone(), error], "{strategy}");
        }
    }
}

/// A number for one consumer.
struct Letter {
    consumer: usize,
    number: u32,
}

impl Parcel for Letter {
    fn concerns(&self, consumer: usize) -> bool {
        self.consumer == consumer
    }
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Reads what is there, and registers `bell`.
fn letters(receiver: &mut dyn Receiver<Letter>, bell: &Arc<Bell>) -> Vec<u32> {
    let (mut numbers, waker) = (Vec::new(), Waker::from(Arc::clone(bell)));
    let mut cx = Context::from_waker(&waker);
    while let Poll::Ready(next) = receiver.poll_next(&mut cx, &mut |letter| {
        numbers.push(letter.number);
        ControlFlow::Continue(())
    }) {
        next.unwrap();
    }
    numbers
}

#[test]
fn a_send_to_queues_wakes_those_that_got_something() {
    for strategy in strategies::queues() {
        let (mut senders, mut receivers) = transport(strategy, Shape::new(1, 4).with_slots(8)).unwrap();
        let bells: Vec<_> = (0..4).map(|_| Arc::new(Bell::default())).collect();
        for (receiver, bell) in receivers.iter_mut().zip(&bells) {
            assert!(letters(&mut **receiver, bell).is_empty());
        }
        senders[0].try_send(Letter { consumer: 2, number: 7 }).map_err(|_| "refused").unwrap();
        let rung: Vec<usize> = bells.iter().map(|bell| bell.0.load(SeqCst)).collect();
        assert_eq!(rung, [0, 0, 1, 0], "{strategy}");
        assert_eq!(senders[0].stats().wakeups, 1);
        assert_eq!(letters(&mut *receivers[2], &bells[2]), [7]);
        // The others still wait, and are woken by what is for them.
        for consumer in [0, 1, 3] {
            senders[0].try_send(Letter { consumer, number: 8 }).map_err(|_| "refused").unwrap();
            assert_eq!(bells[consumer].0.load(SeqCst), 1, "{strategy}");
        }
        senders[0].end();
    }
}

/// Another producer sends as fast as a hand-over takes.
#[test]
fn a_hand_over_of_a_queue_ends_with_what_was_there() {
    for strategy in strategies::queues() {
        let (mut senders, mut receivers) = transport(strategy, Shape::new(2, 2).with_slots(4)).unwrap();
        let mut fast = senders.pop().unwrap();
        let mut sender = senders.pop().unwrap();
        let bell = Arc::new(Bell::default());
        let mut sent = 0;
        while sender.try_send(Letter { consumer: 0, number: sent }).is_ok() {
            sent += 1;
        }
        assert!(letters(&mut *receivers[1], &bell).is_empty(), "{strategy}: it starves");
        let (mut taken, mut hand_overs) = (Vec::new(), 0);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..8 {
            let ready = sender.poll_ready(&mut cx, &mut |consumer, _, letters| {
                assert_eq!(consumer, 0);
                hand_overs += 1;
                letters.try_for_each(&mut |letter| {
                    taken.push(letter.number);
                    if taken.len() < 100 {
                        let _ = fast.try_send(Letter { consumer: 0, number: 1000 });
                    }
                    Ok(())
                })
            });
            if matches!(ready, Poll::Ready(Ok(Admission::Granted))) || hand_overs > 0 {
                break;
            }
        }
        assert_eq!(hand_overs, 1, "{strategy}");
        assert_eq!(taken.len(), sent as usize, "{strategy}: {taken:?}");
        fast.end();
        sender.end();
    }
}

/// Waiting is as good as relieving if every consumer reads on.
#[test]
fn a_relief_that_takes_nothing_makes_the_producer_wait_for_the_slow_consumer() {
    for strategy in bounded_transports() {
        let alive = Arc::new(AtomicUsize::new(0));
        let (mut senders, mut receivers) = transport(strategy, Shape::new(1, 2).with_slots(4)).unwrap();
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut sent = 0;
        for _ in 0..50 {
            // The second consumer reads everything, and waits for more. The first one is slow.
            let full = loop {
                drain(&mut *receivers[1]);
                let ready = senders[0].poll_ready(&mut Context::from_waker(&waker), &mut nothing);
                match ready {
                    Poll::Ready(Ok(Admission::Granted)) => {
                        senders[0].try_send(number(sent, &alive)).map_err(|_| "refused").unwrap();
                        sent += 1;
                    }
                    Poll::Ready(Ok(Admission::Yield)) => {}
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    Poll::Pending => break alive.load(SeqCst),
                }
            };
            assert!((4..=8).contains(&full), "{strategy}: {full} values");
            bell.0.store(0, SeqCst);
            assert!(!drain(&mut *receivers[0]).0.is_empty(), "{strategy}");
            assert!(bell.0.load(SeqCst) > 0, "{strategy}: nobody woke the producer");
        }
        senders[0].end();
    }
}

/// Else each of many producers that wait would take the leases of all slow consumers in vain.
#[test]
fn a_relief_that_takes_nothing_of_one_consumer_is_not_asked_for_the_others() {
    for strategy in bounded_transports() {
        let alive = Arc::new(AtomicUsize::new(0));
        let (mut senders, mut receivers) = transport(strategy, Shape::new(1, 5).with_slots(4)).unwrap();
        let mut most = 0;
        loop {
            // The others are slow.
            drain(&mut *receivers[4]);
            let mut asked = 0;
            let mut count = |_: usize, _: usize, _: &mut dyn Unread<Number>| {
                asked += 1;
                Ok(())
            };
            let ready = senders[0].poll_ready(&mut Context::from_waker(Waker::noop()), &mut count);
            most = most.max(asked);
            match ready {
                Poll::Ready(Ok(Admission::Granted)) => {
                    senders[0].try_send(number(0, &alive)).map_err(|_| "refused").unwrap();
                }
                Poll::Ready(Ok(Admission::Yield)) => {}
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => break,
            }
        }
        // A call that waits looks twice.
        assert!((1..=2).contains(&most), "{strategy}: asked {most} times");
        senders[0].end();
    }
}
