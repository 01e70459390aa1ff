//! The handles, values and steps of the models.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use annulus_exchange::{
    Admission, ExchangeError, StopError,
    ring::{Next, TrySendError},
    transport::{Handles, Parcel, Receiver, Sender, Shape},
};
use loom::{alloc::Track, thread};

use crate::bell::{block_on, model};

/// A number that a model must drop before it ends.
pub struct Number(Track<u32>);

impl Number {
    pub fn new(number: u32) -> Self {
        Self(Track::new(number))
    }

    pub fn get(&self) -> u32 {
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
pub struct Run {
    /// The values that were handed over, by consumer. Behind std's mutex, which is never contended
    /// in a model's step.
    overflow: Vec<Mutex<Vec<u32>>>,
    yields: bool,
}

/// A transport, and how its models run.
pub struct Model {
    pub handles: fn(Shape) -> Handles<Number>,
    pub preemptions: usize,
    /// Whether a producer yields when it is asked to. Otherwise it asks again at once, as if no
    /// other thread had run. Loom shows a thread that has yielded nothing that is stale, which
    /// leaves fewer states, but hides a missing fence before its wait.
    pub yields: bool,
}

impl Model {
    /// Checks `body` with the handles of each run.
    pub fn check(&self, shape: Shape, body: impl Fn(Handles<Number>, Arc<Run>) + Send + Sync + 'static) {
        let Self { handles, yields, .. } = *self;
        model(self.preemptions, move || {
            let overflow = (0..shape.consumers).map(|_| Mutex::new(Vec::new())).collect();
            body(handles(shape), Arc::new(Run { overflow, yields }));
        });
    }
}

pub fn shape(producers: usize, consumers: usize, slots: usize) -> Shape {
    Shape::new(producers, consumers).with_slots(slots)
}

/// Returns the shape of two rings with a producer each, which are full with two values.
pub fn two_rings(consumers: usize) -> Shape {
    shape(2, consumers, 2).with_domains(2)
}

/// Returns the reason of a stop.
pub fn reason() -> StopError {
    Box::<dyn std::error::Error + Send + Sync>::from("no").into()
}

/// Ends these producers, which send nothing more.
pub fn end(senders: &mut [Box<dyn Sender<Number>>]) {
    for sender in senders {
        sender.end();
    }
}

pub fn send(sender: &mut dyn Sender<Number>, number: u32, run: &Arc<Run>) -> Result<(), ExchangeError> {
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
pub fn receive_at_most(
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
pub fn receive_some(receiver: &mut dyn Receiver<Number>, count: usize, run: &Arc<Run>) -> Vec<u32> {
    receive_at_most(receiver, count, run).expect("nobody stops this model")
}

/// Receives all values.
pub fn receive(receiver: &mut dyn Receiver<Number>, run: &Arc<Run>) -> Result<Vec<u32>, ExchangeError> {
    receive_at_most(receiver, usize::MAX, run)
}

/// Starts a producer that sends these numbers. Its thread returns the handle, so that its end is no
/// part of the race.
pub fn send_all(
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
pub fn produce(mut sender: Box<dyn Sender<Number>>, numbers: &[u32], run: &Arc<Run>) -> thread::JoinHandle<()> {
    let (numbers, run) = (numbers.to_vec(), Arc::clone(run));
    thread::spawn(move || {
        for number in numbers {
            send(&mut *sender, number, &run).expect("nobody stops this model");
        }
        sender.end();
    })
}
