//! The sending handle.

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    task::{Context, Poll},
};

use annulus_sync::Arc;

use super::{
    lease::HandOver,
    shared::{Relief, Shared},
    state::Window,
    wait::{Local, block_on},
};
use crate::{
    error::{ExchangeError, SendError, StopError},
    stats::ExchangeStats,
};

/// Why [`RingProducer::try_send`] did not send; the value comes back.
#[derive(Debug)]
pub enum TrySendError<T> {
    /// There is no room: await [`RingProducer::poll_ready`].
    Full(T),
    /// The ring was stopped, or every consumer has gone.
    Closed(SendError<T>),
}

/// How often a producer that finds the ring full yields while no consumer reads on. Once is not
/// enough: a runtime that looks after its timers just then lets it go on at once.
/// Models have no such runtime.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// What [`RingProducer::poll_ready`] has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// There is room.
    Granted,
    /// There may be room once others had their turn: a task yields, then asks again.
    Yield,
}

/// The sending handle of one thread or task.
///
/// Dropping it without [`finish`](Self::finish) stops the ring with
/// [`ExchangeError::ProducerLost`].
pub struct RingProducer<T> {
    shared: Arc<Shared<T>>,
    index: usize,
    window: Window,
    /// How far the consumers were when this handle last found the ring full; `None` if it found
    /// room since.
    progress: Option<u64>,
    /// How often it will still yield before it relieves or waits.
    patience: u32,
    /// Something was published since the consumers were last woken.
    unannounced: bool,
    finished: bool,
    local: Local,
    one_thread: PhantomData<Cell<()>>,
}

impl<T> RingProducer<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, index: usize) -> Self {
        let (window, local) = (Window::default(), Local::default());
        Self {
            shared,
            index,
            window,
            progress: None,
            patience: 0,
            unannounced: false,
            finished: false,
            local,
            one_thread: PhantomData,
        }
    }

    /// [`Admission::Granted`] when the next [`try_send`](Self::try_send) will find room. Takes
    /// nothing: not sending after all is fine. [`Admission::Yield`] if the ring is full and its
    /// consumers may only want their turn: the caller lets other tasks run, then calls again.
    /// That repeats as long as some consumer reads on in between.
    ///
    /// If the ring is full while a consumer starves and none has read on, `overflow(consumer,
    /// values)` is called for each consumer that lags behind in the oldest group, to take what
    /// it has not read of that. These rows are then the caller's to deliver;
    /// [`RingConsumer::poll_next`](super::RingConsumer::poll_next) says how they stay in order.
    /// `overflow` runs on this thread, may take its time, and may be called concurrently by other
    /// producers, but for one consumer by one producer at a time. What it does not take counts
    /// as not handed over. If it fails or panics, the ring stops, and that consumer sees no
    /// value afterwards: it may have taken a part of one.
    ///
    /// # Errors
    /// The first error with which the ring was stopped, [`ExchangeError::ConsumersGone`], or what
    /// `overflow` returned, which also stops the ring, as a panic of it does with
    /// [`ExchangeError::ProducerLost`].
    pub fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        let mut outcome = self.admission(&mut overflow);
        if outcome.is_pending() {
            self.shared.producers.register(self.index, cx.waker(), &mut self.local);
            super::order::fence_wait_room();
            outcome = self.admission(&mut overflow);
        }
        match &outcome {
            Poll::Pending | Poll::Ready(Ok(Admission::Yield)) => self.local.waits(),
            Poll::Ready(_) => self.local.served(),
        }
        outcome
    }

    /// Send `value` if there is room for it: one `fetch_add` and one store; once a group, the
    /// consumers that wait are woken. Never waits, and hands nothing over.
    ///
    /// # Errors
    /// The value comes back if the ring is full, was stopped, or has no consumers left.
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        if let Some(error) = self.shared.error() {
            return Err(TrySendError::Closed(SendError { value, error }));
        }
        if !self.has_room() {
            return Err(TrySendError::Full(value));
        }
        // Between these two lines nothing may wait, fail or panic, or the others would meet a hole. Rule 1.
        let ticket = self.shared.state.claim(&mut self.local.stats);
        // SAFETY: the ticket is ours, and its slot is free since we were admitted (PROTOCOL.md, "Why a slot
        // is free").
        unsafe { self.shared.slot(ticket).publish(ticket, value) };
        self.window.tail = ticket + 1;
        self.local.stats.batches += 1;
        self.unannounced = true;
        if self.window.tail.is_multiple_of(self.shared.group) {
            self.idle();
        }
        Ok(())
    }

    /// Send `value`, parking the thread while there is no room. `overflow` as in
    /// [`poll_ready`](Self::poll_ready).
    ///
    /// # Errors
    /// As [`poll_ready`](Self::poll_ready); the value comes back.
    pub fn send(
        &mut self,
        mut value: T,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Result<(), SendError<T>> {
        loop {
            match block_on(|cx| self.poll_ready(cx, &mut overflow)) {
                Ok(Admission::Granted) => match self.try_send(value) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Closed(error)) => return Err(error),
                    Err(TrySendError::Full(back)) => value = back,
                },
                // A thread stands in nobody's way.
                Ok(Admission::Yield) => {}
                Err(error) => return Err(SendError { value, error }),
            }
        }
    }

    /// Say that nothing will be sent for a while: consumers that wait are woken for what was sent
    /// since the last full group. Call it whenever the input has nothing ready; cheap when
    /// there is nothing to say.
    pub fn idle(&mut self) {
        if std::mem::take(&mut self.unannounced) {
            self.shared.flush(&mut self.local);
        }
    }

    /// Wake every consumer that waits, whether there is something for it or not.
    pub(crate) fn wake_consumers(&mut self) {
        self.shared.tell(&self.shared.consumers, &mut self.local);
    }

    /// End this producer's input. After the last producer's end the consumers see the end of the
    /// stream.
    pub fn finish(mut self) -> ExchangeStats {
        self.end()
    }

    /// [`finish`](Self::finish) for an owner that cannot give the handle away; nothing may be sent
    /// afterwards.
    pub(crate) fn end(&mut self) -> ExchangeStats {
        self.finished = true;
        if self.shared.state.producer_finished(&mut self.local.stats) {
            self.shared.tell(&self.shared.consumers, &mut self.local);
        } else {
            self.idle();
        }
        self.local.stats
    }

    /// Stop the ring: every call of every handle returns [`ExchangeError::Stopped`] from here on,
    /// unless another error came first.
    pub fn stop(&mut self, error: StopError) {
        self.shared.stop(ExchangeError::Stopped(error), &mut self.local);
    }

    /// What this handle has counted so far.
    pub fn stats(&self) -> ExchangeStats {
        self.local.stats
    }

    /// Which producer this is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    fn has_room(&mut self) -> bool {
        if self.window.used() >= self.shared.bound {
            self.window = self.shared.state.window();
        }
        self.window.used() < self.shared.bound
    }

    /// Stop the ring because this producer is lost.
    pub(crate) fn lost(&mut self) {
        self.shared.stop(ExchangeError::ProducerLost { producer: self.index }, &mut self.local);
    }

    /// Room as it is, or made by relieving laggards.
    fn admission(
        &mut self,
        mut overflow: impl FnMut(usize, &mut HandOver<'_, T>) -> Result<(), ExchangeError>,
    ) -> Poll<Result<Admission, ExchangeError>> {
        if let Some(error) = self.shared.error() {
            return Poll::Ready(Err(error));
        }
        loop {
            if self.has_room() {
                self.progress = None;
                return Poll::Ready(Ok(Admission::Granted));
            }
            // Consumers that were woken may not have had their turn: handing their values over would cost more.
            let progress = self.shared.state.progress();
            if self.progress != Some(progress) {
                (self.progress, self.patience) = (Some(progress), YIELDS);
            }
            if self.patience > 0 {
                self.patience -= 1;
                self.idle();
                return Poll::Ready(Ok(Admission::Yield));
            }
            match self.shared.relieve(self.index, &mut self.local, &mut overflow) {
                // Another thread may be sweeping still; if so it wakes us when it is done.
                Ok(Relief::Nothing) => return Poll::Pending,
                Ok(Relief::Moved) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<T> Drop for RingProducer<T> {
    fn drop(&mut self) {
        if !self.finished {
            self.lost();
        }
        self.shared.producers.forget(self.index);
    }
}

impl<T> fmt::Debug for RingProducer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingProducer").field("index", &self.index).finish_non_exhaustive()
    }
}
