//! The contract of all transports: M senders, N receivers, and the values between them.

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use crate::{
    admission::Admission,
    error::{ExchangeError, StopError},
    ring::{Next, TrySendError},
    stats::ExchangeStats,
    waiting::{block_on, block_until_admitted},
};

/// A value that a transport passes on.
pub trait Parcel: Send + Sync + 'static {
    /// Returns whether anything in the value is for this consumer. Transports with a queue for each
    /// consumer leave the others out.
    fn concerns(&self, consumer: usize) -> bool {
        let _ = consumer;
        true
    }
}

/// The values that a slow consumer has not read, for a producer to deliver instead of it.
pub trait Unread<T> {
    /// Calls `take` with each value, oldest first. If it fails or panics, the transport stops.
    ///
    /// # Errors
    /// The first error of `take`.
    fn try_for_each(&mut self, take: &mut dyn FnMut(&T) -> Result<(), ExchangeError>) -> Result<(), ExchangeError>;
}

/// Delivers the values that a consumer has not read: called with the consumer's number, the
/// [ring](Shape::rings) of the values, and the values.
pub type Relieve<'a, T> = dyn FnMut(usize, usize, &mut dyn Unread<T>) -> Result<(), ExchangeError> + 'a;

/// The sending handle of one thread or task. Dropping it before [`end`](Self::end) stops the
/// transport with [`ExchangeError::ProducerLost`].
pub trait Sender<T>: Send {
    /// Waits for a free slot, as
    /// [`RingProducer::poll_ready`](crate::ring::RingProducer::poll_ready) does. While a consumer
    /// starves, the values that hold slots back are given to `relieve`. If it takes none of one
    /// consumer, the producer waits for the slow consumers. That cannot hang where every consumer
    /// reads on whatever the others wait for, as on threads of their own.
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

    /// Sends `value` if a slot is free. Never waits.
    ///
    /// # Errors
    /// The error returns the value if no slot is free, the transport was stopped, or no consumer
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
    /// Sends `value`, and blocks this thread while no slot is free.
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
    /// The number of slots of a group, G. A queue that all producers share is full with
    /// K * G values.
    pub slots: usize,
    /// The number of cache domains. Only
    /// [`Strategy::RingPerDomain`](crate::Strategy::RingPerDomain) uses more than one: it takes
    /// blocks of the producers for domains.
    /// [`rings_in_domains`](crate::transport::rings_in_domains) takes their real ones.
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

    /// Returns this shape with 1 for each 0.
    #[must_use]
    pub fn positive(self) -> Self {
        Self {
            producers: self.producers.max(1),
            consumers: self.consumers.max(1),
            groups: self.groups.max(1),
            slots: self.slots.max(1),
            domains: self.domains.max(1),
        }
    }

    /// Returns the number of values at which a queue is full.
    pub(crate) fn bound(&self) -> usize {
        self.groups * self.slots
    }
}

/// The handles of all producers and of all consumers.
pub type Handles<T> = (Vec<Box<dyn Sender<T>>>, Vec<Box<dyn Receiver<T>>>);
