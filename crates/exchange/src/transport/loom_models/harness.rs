//! The handles, values and steps of the models.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use loom::{alloc::Track, thread};

use crate::{
    Strategy,
    error::{ExchangeError, StopError},
    ring::{Admission, Next, TrySendError},
    transport::{Handles, Parcel, Receiver, Sender, Shape, transport},
    waiting::bell::{block_on, model},
};

/// A number that a model must drop before it ends.
pub(super) struct Number(Track<u32>);

impl Number {
    pub(super) fn new(number: u32) -> Self {
        Self(Track::new(number))
    }

    pub(super) fn get(&self) -> u32 {
        *self.0.get_ref()
    }
}

impl Parcel for Number {
    /// Numbers from 100 are for one consumer.
    fn concerns(&self, consumer: usize) -> bool {
        self.get() < 100 || self.get() as usize / 100 == consumer + 1
    }
}

/// What the threads of a run share.
pub(super) struct Run {
    /// The values that were handed over, by consumer. Behind std's mutex, which is never contended
    /// in a model's step.
    overflow: Vec<Mutex<Vec<u32>>>,
    yields: bool,
}

pub(super) struct Model {
    pub(super) strategy: Strategy,
    pub(super) preemptions: usize,
    /// Whether a producer yields when it is asked to. Otherwise it asks again at once, as if no
    /// other thread had run. Loom shows a thread that has yielded nothing that is stale, which
    /// leaves fewer states, but hides a missing fence before its wait.
    pub(super) yields: bool,
}

pub(super) const QUEUES: Model = Model { strategy: Strategy::Channel, preemptions: 2, yields: false };
pub(super) const PAIRS: Model = Model { strategy: Strategy::Spsc, ..QUEUES };
pub(super) const DOMAINS: Model = Model { strategy: Strategy::RingPerDomain, ..QUEUES };
pub(super) const BARRIER: Model = Model { strategy: Strategy::Batch, preemptions: 3, ..QUEUES };
pub(super) const PAPER: Model = Model { strategy: Strategy::PaperRing, yields: true, ..QUEUES };

impl Model {
    /// Checks `body` with the handles of each run.
    pub(super) fn check(&self, shape: Shape, body: impl Fn(Handles<Number>, Arc<Run>) + Send + Sync + 'static) {
        let Self { strategy, yields, .. } = *self;
        model(self.preemptions, move || {
            let handles = transport(strategy, shape).expect("a transport");
            let overflow = (0..shape.consumers).map(|_| Mutex::new(Vec::new())).collect();
            body(handles, Arc::new(Run { overflow, yields }));
        });
    }
}

pub(super) fn shape(producers: usize, consumers: usize, slots: usize) -> Shape {
    Shape::new(producers, consumers).with_slots(slots)
}

/// Returns the shape of two rings with a producer each, which are full with two values.
pub(super) fn two_rings(consumers: usize) -> Shape {
    shape(2, consumers, 2).with_domains(2)
}

/// Returns the reason of a stop.
pub(super) fn reason() -> StopError {
    Box::<dyn std::error::Error + Send + Sync>::from("no").into()
}

/// Ends these producers, which send nothing more.
pub(super) fn end(senders: &mut [Box<dyn Sender<Number>>]) {
    for sender in senders {
        sender.end();
    }
}

pub(super) fn send(sender: &mut dyn Sender<Number>, number: u32, run: &Arc<Run>) -> Result<(), ExchangeError> {
    let mut value = Number::new(number);
    loop {
        let ready = block_on(|cx| {
            sender.poll_ready(cx, &mut |consumer, _, values| {
                values.try_for_each(&mut |value| {
                    run.overflow[consumer].lock().unwrap().push(value.get());
                    Ok(())
                })
            })
        })?;
        if ready == Admission::Yield {
            if run.yields {
                thread::yield_now();
            }
            continue;
        }
        match sender.try_send(value) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(back)) => value = back,
            Err(TrySendError::Closed(refused)) => return Err(refused.error),
        }
    }
}

/// Receives until `count` values have come, or the end. Returns them in the order in which the
/// consumer gets them.
pub(super) fn receive_at_most(
    receiver: &mut dyn Receiver<Number>,
    count: usize,
    run: &Arc<Run>,
) -> Result<Vec<u32>, ExchangeError> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let next = block_on(|cx| {
            receiver.poll_next(cx, &mut |value| {
                numbers.push(value.get());
                ControlFlow::Continue(())
            })
        })?;
        match next {
            Next::Visited(_) => {}
            Next::Relieved => numbers.append(&mut run.overflow[receiver.index()].lock().unwrap()),
            Next::Finished => break,
        }
    }
    Ok(numbers)
}

/// Receives this number of values.
pub(super) fn receive_some(receiver: &mut dyn Receiver<Number>, count: usize, run: &Arc<Run>) -> Vec<u32> {
    receive_at_most(receiver, count, run).expect("nobody stops this model")
}

/// Receives all values.
pub(super) fn receive(receiver: &mut dyn Receiver<Number>, run: &Arc<Run>) -> Result<Vec<u32>, ExchangeError> {
    receive_at_most(receiver, usize::MAX, run)
}

/// Starts a producer that sends these numbers. Its thread returns the handle, so that its end is no
/// part of the race.
pub(super) fn send_all(
    mut sender: Box<dyn Sender<Number>>,
    numbers: &[u32],
    run: &Arc<Run>,
) -> thread::JoinHandle<Box<dyn Sender<Number>>> {
    let (numbers, run) = (numbers.to_vec(), Arc::clone(run));
    thread::spawn(move || {
        for number in numbers {
            send(&mut *sender, number, &run).expect("nobody stops this model");
        }
        sender
    })
}

/// Starts a producer that sends these numbers and ends.
pub(super) fn produce(mut sender: Box<dyn Sender<Number>>, numbers: &[u32], run: &Arc<Run>) -> thread::JoinHandle<()> {
    let (numbers, run) = (numbers.to_vec(), Arc::clone(run));
    thread::spawn(move || {
        for number in numbers {
            send(&mut *sender, number, &run).expect("nobody stops this model");
        }
        sender.end();
    })
}
