//! Batch partitioning: each producer keeps its values, and consumers start when all producers have
//! finished (the ring's paper, section 3.1). The values take as much memory as the input.

use std::{
    ops::ControlFlow,
    sync::PoisonError,
    task::{Context, Poll},
};

use annulus_exchange::{
    Admission, ExchangeError, ExchangeStats, SendError, StopError,
    plug::{AllCalls, HandleStats, Seat, StopReason, VALUES_AT_ONCE, WaitList},
    ring::{Next, TrySendError},
    transport::{Handles, Parcel, Receiver, Relieve, Sender, Shape},
};
use annulus_sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::order;

struct BarrierCore<T> {
    stop_reason: StopReason,
    /// The number of producers that have not finished.
    open_producers: AtomicUsize,
    done: Mutex<FinishedInputs<T>>,
    consumers: WaitList,
}

/// The values of the producers that have finished.
struct FinishedInputs<T> {
    inputs: Vec<Arc<Vec<T>>>,
    /// The number of consumers that have not taken them.
    wanted: usize,
}

impl<T> BarrierCore<T> {
    /// Returns the values for one consumer. The last one gets the only reference that is left here.
    fn take(&self, stats: &mut HandleStats) -> Vec<Arc<Vec<T>>> {
        stats.counts.locks += 1;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.wanted -= 1;
        if done.wanted == 0 { std::mem::take(&mut done.inputs) } else { done.inputs.clone() }
    }

    fn wake_consumers(&self, stats: &mut HandleStats) {
        order::fence_rival_event();
        self.consumers.wake_all(stats);
    }

    /// Producers do not wait here, so only consumers are woken.
    fn stop(&self, error: ExchangeError, stats: &mut HandleStats) {
        self.stop_reason.stop(error, stats);
        self.wake_consumers(stats);
    }
}

pub(crate) fn handles<T: Parcel>(shape: Shape) -> Handles<T> {
    let (consumers, seats) = WaitList::new(shape.consumers);
    let shared = Arc::new(BarrierCore {
        stop_reason: StopReason::new(shape.consumers),
        open_producers: AtomicUsize::new(shape.producers),
        done: Mutex::new(FinishedInputs { inputs: Vec::with_capacity(shape.producers), wanted: shape.consumers }),
        consumers,
    });
    let senders = (0..shape.producers).map(|index| {
        let (values, stats) = (Vec::new(), HandleStats::default());
        Box::new(BarrierSender { shared: Arc::clone(&shared), index, values, ended: false, stats })
            as Box<dyn Sender<T>>
    });
    let receivers = seats.into_iter().enumerate().map(|(index, seat)| {
        let (inputs, stats) = (Inputs::Waiting, HandleStats::default());
        Box::new(BarrierReceiver { seat, shared: Arc::clone(&shared), index, inputs, stats }) as Box<dyn Receiver<T>>
    });
    (senders.collect(), receivers.collect())
}

struct BarrierSender<T> {
    shared: Arc<BarrierCore<T>>,
    index: usize,
    values: Vec<T>,
    ended: bool,
    stats: HandleStats,
}

impl<T: Parcel> Sender<T> for BarrierSender<T> {
    fn poll_ready(&mut self, _: &mut Context<'_>, _: &mut Relieve<'_, T>) -> Poll<Result<Admission, ExchangeError>> {
        Poll::Ready(self.shared.stop_reason.error().map_or(Ok(Admission::Granted), Err))
    }

    fn error(&self) -> Option<ExchangeError> {
        self.shared.stop_reason.error()
    }

    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        if let Some(error) = self.shared.stop_reason.error() {
            return Err(TrySendError::Closed(SendError { value, error }));
        }
        self.values.push(value);
        self.stats.counts.batches += 1;
        Ok(())
    }

    fn idle(&mut self) {}

    fn wake_consumers(&mut self) {
        self.shared.wake_consumers(&mut self.stats);
    }

    fn end(&mut self) -> ExchangeStats {
        self.ended = true;
        let values = Arc::new(std::mem::take(&mut self.values));
        self.shared.done.lock().unwrap_or_else(PoisonError::into_inner).inputs.push(values);
        self.stats.counts.locks += 1;
        self.stats.counts.shared_ops += 1;
        // The lock orders the values before their reads; the count only says that all are there.
        if self.shared.open_producers.fetch_sub(1, Relaxed) == 1 {
            self.shared.wake_consumers(&mut self.stats);
        }
        self.stats.counts
    }

    fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    fn lost(&mut self) {
        self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.stats);
    }

    fn stats(&self) -> ExchangeStats {
        self.stats.counts
    }
}

impl<T> Drop for BarrierSender<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.stats);
        }
    }
}

/// What a consumer still has to read.
enum Inputs<T> {
    /// A producer has not finished.
    Waiting,
    /// The values of the producers, and the next one of the last. They are dropped as they are
    /// read.
    Reading(Vec<Arc<Vec<T>>>, usize),
    /// Everything was read, so what was spilled comes next.
    Read,
    Finished,
}

struct BarrierReceiver<T> {
    // Dropped before the list that it belongs to.
    seat: Seat,
    shared: Arc<BarrierCore<T>>,
    index: usize,
    inputs: Inputs<T>,
    stats: HandleStats,
}

impl<T: Parcel> BarrierReceiver<T> {
    fn advance(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> Poll<Result<Next, ExchangeError>> {
        if let Inputs::Finished = self.inputs {
            return Poll::Ready(Ok(Next::Finished));
        }
        if let Some(error) = self.shared.stop_reason.error() {
            return Poll::Ready(Err(error));
        }
        if let Inputs::Waiting = self.inputs {
            if self.shared.open_producers.load(Relaxed) > 0 {
                return Poll::Pending;
            }
            self.inputs = Inputs::Reading(self.shared.take(&mut self.stats), 0);
            // Checked again: a producer whose rows are incomplete stops, then ends. The lock of its end
            // orders that.
            if let Some(error) = self.shared.stop_reason.error() {
                return Poll::Ready(Err(error));
            }
        }
        let visited = self.read(visit);
        if visited > 0 {
            return Poll::Ready(Ok(Next::Visited(visited)));
        }
        Poll::Ready(Ok(match std::mem::replace(&mut self.inputs, Inputs::Finished) {
            Inputs::Read | Inputs::Finished => Next::Finished,
            Inputs::Waiting | Inputs::Reading(..) => {
                self.inputs = Inputs::Read;
                Next::Relieved
            }
        }))
    }

    /// Visits values until `visit` breaks, and returns their number.
    fn read(&mut self, visit: &mut dyn FnMut(&T) -> ControlFlow<()>) -> usize {
        let Inputs::Reading(inputs, next) = &mut self.inputs else { return 0 };
        let mut visited = 0;
        while visited < VALUES_AT_ONCE
            && let Some(values) = inputs.last()
        {
            let Some(value) = values.get(*next) else {
                inputs.pop();
                *next = 0;
                continue;
            };
            *next += 1;
            visited += 1;
            self.stats.counts.batches += 1;
            if visit(value).is_break() {
                break;
            }
        }
        visited
    }
}

impl<T: Parcel> Receiver<T> for BarrierReceiver<T> {
    fn index(&self) -> usize {
        self.index
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        let mut outcome = self.advance(visit);
        if outcome.is_pending() {
            self.seat.register(cx.waker(), &mut self.stats);
            order::fence_rival_value();
            outcome = self.advance(visit);
        }
        self.stats.returns(outcome.is_ready());
        outcome
    }

    fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.stats);
    }

    fn stats(&self) -> ExchangeStats {
        self.stats.counts
    }
}

impl<T> Drop for BarrierReceiver<T> {
    fn drop(&mut self) {
        let mut calls = AllCalls::default();
        if let Inputs::Waiting = self.inputs {
            calls.call(|| drop(self.shared.take(&mut self.stats)));
        }
        calls.call(|| self.shared.stop_reason.consumer_gone(&mut self.stats));
        calls.finish();
    }
}
