//! The handles, values and steps of the models.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use loom::{alloc::Track, thread};

use crate::{
    Strategy,
    error::ExchangeError,
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

/// The values that were handed over, by consumer. Behind std's mutex, which is never contended in a
/// model's step.
pub(super) type Overflow = Arc<Vec<Mutex<Vec<u32>>>>;

pub(super) struct Model {
    pub(super) strategy: Strategy,
    pub(super) preemptions: usize,
}

// Its waiting loads lengths that may be stale, each of which loom tries.
pub(super) const QUEUES: Model = Model { strategy: Strategy::Channel, preemptions: 1 };
pub(super) const PAPER: Model = Model { strategy: Strategy::PaperRing, preemptions: 2 };
pub(super) const BARRIER: Model = Model { strategy: Strategy::Batch, preemptions: 3 };

impl Model {
    /// Checks `body` with the handles of each run.
    pub(super) fn check(&self, shape: Shape, body: impl Fn(Handles<Number>, Overflow) + Send + Sync + 'static) {
        let strategy = self.strategy;
        model(self.preemptions, move || {
            let handles = transport(strategy, shape).expect("a transport");
            body(handles, Arc::new((0..shape.consumers).map(|_| Mutex::new(Vec::new())).collect()));
        });
    }
}

pub(super) fn shape(producers: usize, consumers: usize, slots: usize) -> Shape {
    Shape::new(producers, consumers).with_slots(slots)
}

pub(super) fn send(sender: &mut dyn Sender<Number>, number: u32, overflow: &Overflow) -> Result<(), ExchangeError> {
    let mut value = Number::new(number);
    loop {
        let ready = block_on(|cx| {
            sender.poll_ready(cx, &mut |consumer, _, values| {
                values.try_for_each(&mut |value| {
                    overflow[consumer].lock().unwrap().push(value.get());
                    Ok(())
                })
            })
        })?;
        if ready == Admission::Yield {
            thread::yield_now();
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
    overflow: &Overflow,
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
            Next::Relieved => numbers.append(&mut overflow[receiver.index()].lock().unwrap()),
            Next::Finished => break,
        }
    }
    Ok(numbers)
}

/// Receives this number of values.
pub(super) fn receive_some(receiver: &mut dyn Receiver<Number>, count: usize, overflow: &Overflow) -> Vec<u32> {
    receive_at_most(receiver, count, overflow).expect("nobody stops this model")
}

/// Receives all values.
pub(super) fn receive(receiver: &mut dyn Receiver<Number>, overflow: &Overflow) -> Result<Vec<u32>, ExchangeError> {
    receive_at_most(receiver, usize::MAX, overflow)
}

/// Starts a producer that sends these numbers and ends.
pub(super) fn produce(
    mut sender: Box<dyn Sender<Number>>,
    numbers: &[u32],
    overflow: &Overflow,
) -> thread::JoinHandle<()> {
    let (numbers, overflow) = (numbers.to_vec(), Arc::clone(overflow));
    thread::spawn(move || {
        for number in numbers {
            send(&mut *sender, number, &overflow).expect("nobody stops this model");
        }
        sender.end();
    })
}
