//! The ring of this crate behind the contract of all transports.

use std::{
    ops::ControlFlow,
    task::{Context, Poll},
};

use super::{Handles, Parcel, Receiver, Relieve, Sender, Shape, Unread};
use crate::{
    error::{ExchangeError, StopError},
    ring::{Admission, HandOver, Next, RingConsumer, RingProducer, TrySendError, ring},
    stats::ExchangeStats,
};

/// Creates the handles of a ring.
pub(super) fn handles<T: Parcel>(shape: Shape) -> Handles<T> {
    let (producers, consumers) = ring(shape.ring(shape.producers, shape.slots));
    let senders = producers.into_iter().map(|producer| Box::new(producer) as Box<dyn Sender<T>>);
    let receivers = consumers.into_iter().map(|consumer| Box::new(consumer) as Box<dyn Receiver<T>>);
    (senders.collect(), receivers.collect())
}

impl<T> Unread<T> for HandOver<'_, T> {
    fn try_for_each(&mut self, take: &mut dyn FnMut(&T) -> Result<(), ExchangeError>) -> Result<(), ExchangeError> {
        HandOver::try_for_each(self, take)
    }
}

impl<T: Parcel> Sender<T> for RingProducer<T> {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        relieve: &mut Relieve<'_, T>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        RingProducer::poll_ready(self, cx, |consumer, values| relieve(consumer, 0, values))
    }

    fn error(&self) -> Option<ExchangeError> {
        RingProducer::error(self)
    }

    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        RingProducer::try_send(self, value)
    }

    fn idle(&mut self) {
        RingProducer::idle(self);
    }

    fn wake_consumers(&mut self) {
        RingProducer::wake_consumers(self);
    }

    fn end(&mut self) -> ExchangeStats {
        RingProducer::end(self)
    }

    fn stop(&mut self, error: StopError) {
        RingProducer::stop(self, error);
    }

    fn lost(&mut self) {
        RingProducer::lost(self);
    }

    fn stats(&self) -> ExchangeStats {
        RingProducer::stats(self)
    }
}

impl<T: Parcel> Receiver<T> for RingConsumer<T> {
    fn index(&self) -> usize {
        RingConsumer::index(self)
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        RingConsumer::poll_next(self, cx, visit)
    }

    fn stop(&mut self, error: StopError) {
        RingConsumer::stop(self, error);
    }

    fn stats(&self) -> ExchangeStats {
        RingConsumer::stats(self)
    }
}
