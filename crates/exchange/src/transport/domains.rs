//! A ring for each cache domain: producers publish in the ring of their domain, so that the counter
//! they share stays in one cache, and every consumer reads all rings. The ring's paper proposes
//! this for chiplets (section 4.3).
//!
//! Where the domains of the producers are not known, blocks of equal size take their place: the first
//! M / D producers are of the first domain, and so on.
//!
//! `../ring/PROTOCOL.md` says how a consumer waits for several rings, and how all of them stop.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::Arc,
    task::{Context, Poll},
};

use super::{Handles, Parcel, Receiver, Relieve, Sender, Shape};
use crate::{
    error::{ExchangeError, StopError},
    ring::{Admission, Next, RingConsumer, RingProducer, StopHandle, TrySendError, ring},
    stats::ExchangeStats,
    waiting::HandleStats,
    wake::AllCalls,
};

/// Returns the number of rings, at most one for each producer.
pub(super) fn rings(shape: &Shape) -> usize {
    shape.domains.clamp(1, shape.producers.max(1))
}

/// Creates the handles of D rings, with a block of the producers for each.
pub(super) fn handles<T: Parcel>(shape: Shape) -> Handles<T> {
    let rings = rings(&shape);
    let domains: Vec<_> = (0..shape.producers).map(|producer| producer * rings / shape.producers).collect();
    handles_in(shape, &domains)
}

/// Creates the handles of a ring for each number in `domains`, which has that of each producer.
/// A ring has its producers' share of the slots, at least 1.
pub(super) fn handles_in<T: Parcel>(shape: Shape, domains: &[usize]) -> Handles<T> {
    let mut rings: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    domains.iter().enumerate().for_each(|(producer, domain)| rings.entry(*domain).or_default().push(producer));
    let mut senders: Vec<(usize, usize, RingProducer<T>)> = Vec::new();
    let mut receivers: Vec<Vec<RingConsumer<T>>> = (0..shape.consumers).map(|_| Vec::new()).collect();
    let mut stop_handles = Vec::new();
    for (number, members) in rings.into_values().enumerate() {
        let slots = (shape.slots * members.len()).div_ceil(shape.producers);
        let (producers, consumers) = ring(shape.ring(members.len(), slots));
        stop_handles.push(consumers[0].stop_handle());
        senders.extend(
            members.into_iter().zip(producers).map(|(index, producer)| (index, number, producer.numbered(index))),
        );
        receivers.iter_mut().zip(consumers).for_each(|(rings, consumer)| rings.push(consumer));
    }
    senders.sort_by_key(|(index, ..)| *index);
    let stop_handles: Arc<[StopHandle<T>]> = stop_handles.into();
    let senders = senders.into_iter().map(|(_, ring, producer)| {
        Box::new(DomainSender { producer, ring, stop_handles: Arc::clone(&stop_handles), ended: false })
            as Box<dyn Sender<T>>
    });
    let receivers = receivers.into_iter().map(|rings| {
        let open = vec![true; rings.len()];
        Box::new(DomainReceiver {
            rings,
            open,
            next: 0,
            stats: HandleStats::default(),
            stop_handles: Arc::clone(&stop_handles),
        }) as Box<dyn Receiver<T>>
    });
    (senders.collect(), receivers.collect())
}

/// Stops every ring. The first error that reached a ring is kept there.
fn stop_all<T>(stop_handles: &[StopHandle<T>], error: &ExchangeError) {
    let mut calls = AllCalls::default();
    for handle in stop_handles {
        calls.call(|| handle.stop(error.clone()));
    }
    calls.finish();
}

struct DomainSender<T: Parcel> {
    producer: RingProducer<T>,
    /// The ring of this producer.
    ring: usize,
    stop_handles: Arc<[StopHandle<T>]>,
    ended: bool,
}

impl<T: Parcel> Sender<T> for DomainSender<T> {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        relieve: &mut Relieve<'_, T>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        let ring = self.ring;
        let ready = self.producer.poll_ready(cx, |consumer, values| relieve(consumer, ring, values));
        if let Poll::Ready(Err(error)) = &ready
            && !matches!(error, ExchangeError::ConsumersGone)
        {
            // A hand-over that failed has stopped this ring alone.
            stop_all(&self.stop_handles, error);
        }
        ready
    }

    fn error(&self) -> Option<ExchangeError> {
        self.producer.error()
    }

    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        self.producer.try_send(value)
    }

    fn idle(&mut self) {
        self.producer.idle();
    }

    fn wake_consumers(&mut self) {
        let mut calls = AllCalls::default();
        for handle in self.stop_handles.iter() {
            calls.call(|| handle.wake_consumers());
        }
        calls.finish();
    }

    fn end(&mut self) -> ExchangeStats {
        self.ended = true;
        self.producer.end()
    }

    fn stop(&mut self, error: StopError) {
        stop_all(&self.stop_handles, &ExchangeError::Stopped(error));
    }

    fn lost(&mut self) {
        // The reason may not have reached the other rings yet.
        let reason = self.producer.error().filter(|error| !matches!(error, ExchangeError::ConsumersGone));
        stop_all(&self.stop_handles, &reason.unwrap_or_else(|| self.producer.loss()));
    }

    fn stats(&self) -> ExchangeStats {
        self.producer.stats()
    }
}

impl<T: Parcel> Drop for DomainSender<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.lost();
        }
    }
}

struct DomainReceiver<T: Parcel> {
    rings: Vec<RingConsumer<T>>,
    /// Whether each ring may still have values.
    open: Vec<bool>,
    /// The ring to look at first.
    next: usize,
    /// The waits of this consumer, which are not those of its rings.
    stats: HandleStats,
    stop_handles: Arc<[StopHandle<T>]>,
}

impl<T: Parcel> DomainReceiver<T> {
    /// Looks at every open ring in turn, with `look`.
    fn look(
        &mut self,
        mut look: impl FnMut(&mut RingConsumer<T>) -> Poll<Result<Next, ExchangeError>>,
    ) -> Poll<Result<Next, ExchangeError>> {
        for turn in 0..self.rings.len() {
            let ring = (self.next + turn) % self.rings.len();
            if !self.open[ring] {
                continue;
            }
            match look(&mut self.rings[ring]) {
                Poll::Pending => {}
                Poll::Ready(Ok(Next::Finished)) => self.open[ring] = false,
                ready => {
                    // What was handed over in this ring comes before what is visited next in it.
                    self.next = ring + usize::from(!matches!(ready, Poll::Ready(Ok(Next::Relieved))));
                    return ready;
                }
            }
        }
        if self.open.contains(&true) { Poll::Pending } else { Poll::Ready(Ok(Next::Finished)) }
    }
}

impl<T: Parcel> Receiver<T> for DomainReceiver<T> {
    fn index(&self) -> usize {
        self.rings[0].index()
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        visit: &mut dyn FnMut(&T) -> ControlFlow<()>,
    ) -> Poll<Result<Next, ExchangeError>> {
        let mut found = self.look(|ring| ring.try_next(&mut *visit));
        if found.is_pending() {
            found = self.look(|ring| ring.poll_next(cx, &mut *visit));
        }
        self.stats.returns(found.is_ready());
        if let Poll::Ready(Err(error)) = &found {
            // It may not have reached the other rings yet. This consumer may leave now, and their producers
            // must not take that for the reason.
            stop_all(&self.stop_handles, error);
        }
        found
    }

    fn stop(&mut self, error: StopError) {
        stop_all(&self.stop_handles, &ExchangeError::Stopped(error));
    }

    fn stats(&self) -> ExchangeStats {
        let mut total = ExchangeStats::default();
        self.rings.iter().for_each(|ring| total += ring.stats());
        let ExchangeStats { waits, wait_ns, .. } = self.stats.counts;
        ExchangeStats { waits, wait_ns, ..total }
    }
}
