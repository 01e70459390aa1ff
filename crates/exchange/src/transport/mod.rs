//! The ways to pass values from M producers to N consumers, behind one contract.
//!
//! Every consumer visits every value by reference, in an order that keeps that of each producer.
//! The traits [`Sender`] and [`Receiver`] are the contract; [`transport`] creates the handles of
//! any way. An exchange publishes indexed batches through them, and a benchmark can send what it
//! likes.
//!
//! ```text
//! ring/                the ring of this crate
//! domains.rs           one ring for each cache domain, read by every consumer
//! paper_ring/          the ring as its paper has it: groups that fill, donated replacements
//! queues/              a queue for each consumer, or for each pair of a producer and a consumer
//! barrier.rs           all values are kept until every producer has finished
//! ```

mod barrier;
mod domains;
mod halt;
mod leased;
#[cfg(all(test, loom))]
mod loom_models;
mod order;
mod paper_ring;
mod queues;
mod ring;

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use crate::{
    error::{ExchangeError, StopError},
    ring::{Admission, Next, RingConfig, TrySendError},
    stats::ExchangeStats,
    strategy::Strategy,
    waiting::{block_on, block_until_admitted},
};

/// The values visited in a call at most, so that a task that is never short of values yields.
const AT_ONCE: usize = 256;

/// A value that a transport passes on.
pub trait Parcel: Send + Sync + 'static {
    /// Returns whether anything in the value is for this consumer. Transports with a queue for each
    /// consumer leave the others out.
    fn concerns(&self, consumer: usize) -> bool {
        let _ = consumer;
        true
    }
}

/// The values that a slow consumer has not read, for a producer to deliver in its stead.
pub trait Unread<T> {
    /// Calls `take` with each value, oldest first. If it fails or panics, the transport stops.
    ///
    /// # Errors
    /// The first error of `take`.
    fn try_for_each(&mut self, take: &mut dyn FnMut(&T) -> Result<(), ExchangeError>) -> Result<(), ExchangeError>;
}

/// Delivers the values that a consumer has not read: called with the consumer's number, the
/// [lane](Shape::lanes) of the values, and the values.
pub type Relieve<'a, T> = dyn FnMut(usize, usize, &mut dyn Unread<T>) -> Result<(), ExchangeError> + 'a;

/// The sending handle of one thread or task. Dropping it before [`end`](Self::end) stops the
/// transport with [`ExchangeError::ProducerLost`].
pub trait Sender<T>: Send {
    /// Waits for room, as [`RingProducer::poll_ready`](crate::ring::RingProducer::poll_ready) does.
    /// While a consumer starves, the values that hold room back are given to `relieve`. If it takes
    /// none of one consumer, the producer waits for the slow consumers. That cannot hang where
    /// every consumer reads on whatever the others wait for, as on threads of their own.
    ///
    /// # Errors
    /// The first error with which the transport was stopped, [`ExchangeError::ConsumersGone`], or
    /// the error of `relieve`, which also stops the transport.
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        relieve: &mut Relieve<'_, T>,
    ) -> Poll<Result<Admission, ExchangeError>>;

    /// Returns the reason why nothing more can be sent, if there is one.
    fn error(&self) -> Option<ExchangeError>;

    /// Sends `value` if there is room for it. Never waits.
    ///
    /// # Errors
    /// The error returns the value if there is no room, the transport was stopped, or no consumer
    /// is left.
    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>>;

    /// Announces that nothing will be sent for a while, so that consumers see what was sent.
    fn idle(&mut self);

    /// Wakes every waiting consumer, even if there is nothing for it to read.
    fn wake_consumers(&mut self);

    /// Ends this producer's input, and returns its counters. Nothing may be sent afterwards.
    fn end(&mut self) -> ExchangeStats;

    /// Stops the transport: every handle gets `error`, unless it was stopped with another one
    /// before.
    fn stop(&mut self, error: StopError);

    /// Stops the transport because this producer's values may be incomplete.
    fn lost(&mut self);

    /// Returns the counters of this handle.
    fn stats(&self) -> ExchangeStats;
}

impl<T> dyn Sender<T> {
    /// Sends `value`, and blocks this thread while there is no room.
    ///
    /// # Errors
    /// Those of [`poll_ready`](Sender::poll_ready).
    pub fn send_blocking(&mut self, mut value: T, relieve: &mut Relieve<'_, T>) -> Result<(), ExchangeError> {
        loop {
            block_until_admitted(|cx| self.poll_ready(cx, relieve))?;
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(refused)) => return Err(refused.error),
                Err(TrySendError::Full(back)) => value = back,
            }
        }
    }
}

/// The receiving handle of one thread or task. Dropping it releases what it has not read.
pub trait Receiver<T>: Send {
    /// Returns the number of this consumer, from 0.
    fn index(&self) -> usize;

    /// Calls `visit` with the next values, as
    /// [`RingConsumer::poll_next`](crate::ring::RingConsumer::poll_next) does, also as to
    /// [`Next::Relieved`].
    ///
    /// # Errors
    /// The first error with which the transport was stopped.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>>;

    /// Stops the transport, as [`Sender::stop`] does.
    fn stop(&mut self, error: StopError);

    /// Returns the counters of this handle.
    fn stats(&self) -> ExchangeStats;
}

impl<T> dyn Receiver<T> {
    /// Calls [`poll_next`](Receiver::poll_next), and blocks this thread while there is nothing to
    /// visit.
    ///
    /// # Errors
    /// Those of [`poll_next`](Receiver::poll_next).
    pub fn next_blocking(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> Result<Next, ExchangeError> {
        block_on(|cx| self.poll_next(cx, visit))
    }
}

/// The shape of a transport. Each number counts as 1 if it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The number of producers, M.
    pub producers: usize,
    /// The number of consumers, N.
    pub consumers: usize,
    /// The number of published groups, K. A ring has one more, which fills.
    pub groups: usize,
    /// The number of slots of a group, G. A queue that all producers share has room for K * G
    /// values.
    pub slots: usize,
    /// The number of cache domains. Only [`Strategy::RingPerDomain`] uses more than one: it takes
    /// blocks of the producers for domains. [`rings_in_domains`] takes their real ones.
    pub domains: usize,
}

impl Shape {
    /// Returns the default shape for this number of producers and consumers: one group, one slot
    /// for each producer, one domain.
    pub fn new(producers: usize, consumers: usize) -> Self {
        Self { producers, consumers, groups: 1, slots: producers, domains: 1 }
    }

    /// Sets the number of [groups](Self::groups).
    #[must_use]
    pub fn with_groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Sets the number of [slots of a group](Self::slots).
    #[must_use]
    pub fn with_slots(self, slots: usize) -> Self {
        Self { slots, ..self }
    }

    /// Sets the number of [cache domains](Self::domains).
    #[must_use]
    pub fn with_domains(self, domains: usize) -> Self {
        Self { domains, ..self }
    }

    /// Returns the number of lanes: two values keep their order only within one. A transport has
    /// one lane, but rings per domain are a lane each.
    pub fn lanes(&self, strategy: Strategy) -> usize {
        if strategy == Strategy::RingPerDomain { domains::rings(self) } else { 1 }
    }

    /// Replaces each 0 by 1.
    fn positive(self) -> Self {
        Self {
            producers: self.producers.max(1),
            consumers: self.consumers.max(1),
            groups: self.groups.max(1),
            slots: self.slots.max(1),
            domains: self.domains.max(1),
        }
    }

    /// Returns the number of values at which a queue is full.
    fn bound(&self) -> usize {
        self.groups * self.slots
    }

    /// Returns the shape of a ring with these producers and slots.
    fn ring(&self, producers: usize, slots: usize) -> RingConfig {
        RingConfig::new(producers, self.consumers).with_groups(self.groups + 1).with_slots(slots)
    }
}

/// The handles of all producers and of all consumers.
pub type Handles<T> = (Vec<Box<dyn Sender<T>>>, Vec<Box<dyn Receiver<T>>>);

/// Creates the handles of a transport. [`Strategy::Auto`] counts as [`Strategy::Ring`].
///
/// ```
/// use std::ops::ControlFlow;
///
/// use annulus_exchange::{
///     Strategy,
///     ring::Next,
///     transport::{Parcel, Shape, transport},
/// };
///
/// struct Number(u32);
/// impl Parcel for Number {}
///
/// for strategy in Strategy::TRANSPORTS {
///     let (mut senders, mut receivers) = transport(strategy, Shape::new(1, 2))?;
///     senders[0].send_blocking(Number(7), &mut |_, _, _| Ok(()))?;
///     senders[0].end();
///     for receiver in &mut receivers {
///         let mut seen = vec![];
///         while receiver.next_blocking(&mut |number: &Number| {
///             seen.push(number.0);
///             ControlFlow::Continue(())
///         })? != Next::Finished
///         {}
///         assert_eq!(seen, [7]);
///     }
/// }
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
///
/// # Errors
/// [`ExchangeError::Config`] for [`Strategy::Reserve`], which copies rows and passes no values on.
pub fn transport<T: Parcel>(strategy: Strategy, shape: Shape) -> Result<Handles<T>, ExchangeError> {
    let shape = shape.positive();
    match strategy {
        Strategy::Auto | Strategy::Ring => Ok(ring::handles(shape)),
        Strategy::RingPerDomain => Ok(domains::handles(shape)),
        Strategy::PaperRing => Ok(paper_ring::handles(shape)),
        Strategy::Channel => Ok(queues::handles::<T, queues::LockFree>(shape)),
        Strategy::MutexChannel => Ok(queues::handles::<T, queues::Locked>(shape)),
        Strategy::Spsc => Ok(queues::handles::<T, queues::Pairs>(shape)),
        Strategy::Batch => Ok(barrier::handles(shape)),
        Strategy::Reserve => Err(ExchangeError::Config {
            option: "strategy",
            value: strategy.to_string(),
            remedy: "choose one that passes values on, such as ring or channel",
        }),
    }
}

/// Creates the handles of [`Strategy::RingPerDomain`] for threads that are pinned: `domains` has
/// the domain of each producer. There is a ring, and a lane, for each number in it.
///
/// ```
/// use annulus_exchange::transport::{Parcel, Shape, rings_in_domains};
///
/// struct Number(u32);
/// impl Parcel for Number {}
///
/// // The first and the last producer share a ring.
/// let (senders, receivers) = rings_in_domains::<Number>(Shape::new(3, 2), &[0, 1, 0])?;
/// assert_eq!((senders.len(), receivers.len()), (3, 2));
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
///
/// # Errors
/// [`ExchangeError::Config`] if `domains` has another number of producers than `shape`.
pub fn rings_in_domains<T: Parcel>(shape: Shape, domains: &[usize]) -> Result<Handles<T>, ExchangeError> {
    let shape = shape.positive();
    if domains.len() != shape.producers {
        return Err(ExchangeError::Config {
            option: "domains",
            value: format!("{} numbers", domains.len()),
            remedy: "give one for each producer",
        });
    }
    Ok(domains::handles_in(shape, domains))
}
