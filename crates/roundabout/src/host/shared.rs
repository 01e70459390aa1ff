//! The state that the calling thread shares with the threads of the link: the state machine under
//! one lock, the buffers at this host, and the tasks.

use std::{
    collections::{HashMap, VecDeque},
    sync::OnceLock,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    alarm::{Alarm, Failure, Reason},
    arena::Buffer,
    link::{Delivery, Inbox, Link},
    ring::RingPosition,
    rotation::{Action, Event, Frame, ProtocolError, Rotation, Slot},
    stop::Stoppable,
};

pub(super) struct Shared {
    pub(super) position: RingPosition,
    pub(super) state: Mutex<State>,
    /// Wakes the calling thread, which joins.
    pub(super) changed: Condvar,
    /// Wakes the thread that fills own buffers.
    pub(super) fillable: Condvar,
    pub(super) link: OnceLock<Box<dyn Link>>,
}

pub(super) struct State {
    pub(super) rotation: Rotation,
    pub(super) alarm: Alarm,
    pub(super) detail: Option<String>,
    /// Called when a host fails.
    pub(super) at_failure: Option<Box<dyn FnOnce() + Send>>,
    /// The buffers at this host, and the sizes of the fragments in them.
    pub(super) held: HashMap<Slot, (Buffer, usize)>,
    pub(super) to_fill: VecDeque<Slot>,
    pub(super) to_join: VecDeque<(Slot, Frame)>,
    /// The start of the filling thread's current fragment.
    pub(super) fills: Option<Instant>,
    /// The start of the calling thread's current wait, and whether to wake it when the lock is
    /// free.
    pub(super) waits: Option<Instant>,
    pub(super) wakes: bool,
    /// The time at which the calling thread was woken, which may be long before it has a core.
    pub(super) woken: Option<Instant>,
    /// The time of this revolution during which one thread waited while the other filled.
    pub(super) waited_for_fill: Duration,
    /// Whether the neighbours have said goodbye.
    pub(super) predecessor_left: bool,
    pub(super) successor_left: bool,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the state, and then wakes the calling thread if it waits for the change. It is woken
    /// after the lock is released, since it takes the lock at once.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let wakes = std::mem::take(&mut state.wakes) && state.waits.is_some();
        if wakes && state.woken.is_none() {
            state.woken = Some(Instant::now());
        }
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Makes this host fail.
    pub(super) fn give_up(&self) {
        let failure = Failure { host: self.position.me(), reason: Reason::GaveUp };
        self.change(|state| self.fail(state, failure, None));
    }

    /// Takes a buffer with this host's next fragment.
    pub(super) fn filled(&self, slot: Slot, buffer: Buffer, bytes: usize) {
        self.change(|state| {
            state.count_wait_for_fill();
            state.fills = None;
            state.held.insert(slot, (buffer, bytes));
            let result = state.rotation.handle(Event::Filled(slot));
            self.act(state, result);
        });
    }

    /// Takes a buffer back that stays empty: this host has no more fragments.
    pub(super) fn drained(&self, slot: Slot, buffer: Buffer) {
        let mut state = self.state();
        state.count_wait_for_fill();
        state.fills = None;
        state.held.insert(slot, (buffer, 0));
        state.to_fill.push_front(slot);
        drop(state);
        self.drain();
    }

    /// Leaves all own buffers empty: this host has no more fragments in this revolution.
    pub(super) fn drain(&self) {
        self.change(|state| {
            while let Some(slot) = state.to_fill.pop_front() {
                let result = state.rotation.handle(Event::Drained(slot));
                self.act(state, result);
            }
        });
    }

    // Called on the calling thread.
    pub(super) fn joined(&self, slot: Slot, buffer: Buffer, bytes: usize) {
        let state = &mut self.state();
        state.held.insert(slot, (buffer, bytes));
        let result = state.rotation.handle(Event::Joined(slot));
        self.act(state, result);
    }

    /// Performs the actions that take no time, and leaves the others to the calling thread.
    pub(super) fn act(&self, state: &mut State, result: Result<(), ProtocolError>) {
        if let Err(error) = result {
            let promised = error == ProtocolError::Credits;
            let host = if promised { self.position.successor() } else { self.position.predecessor() };
            let failure = Failure { host, reason: Reason::Broke };
            return self.fail(state, failure, Some(error.to_string()));
        }
        // Without a link nothing can arrive or be sent.
        let Some(link) = self.link.get() else { return };
        while let Some(action) = state.rotation.next_action() {
            match action {
                Action::Fill(slot) => state.to_fill.push_back(slot),
                Action::Join(slot, frame) => state.to_join.push_back((slot, frame)),
                Action::Send(slot, frame) => {
                    if let Some((buffer, bytes)) = state.held.remove(&slot) {
                        link.send(slot, buffer, frame, bytes);
                    }
                }
                // The only host of a ring gets its buffer back at once.
                Action::Retire(slot, frame) if frame.origin == self.position.me() => {
                    let result = state.rotation.handle(Event::Returned(slot));
                    debug_assert!(result.is_ok(), "an own buffer comes back once");
                }
                Action::Retire(slot, frame) => {
                    if let Some((buffer, _)) = state.held.remove(&slot) {
                        link.retire(slot, buffer, frame);
                    }
                }
                Action::Announce(announcement) => link.announce(announcement),
            }
        }
        state.wakes |= !state.to_join.is_empty() || state.rotation.is_finished();
        if !state.to_fill.is_empty() {
            self.fillable.notify_one();
        }
    }

    /// Returns whether a neighbour left that this host still needs, which is a failure.
    pub(super) fn left_too_early(&self, state: &mut State) -> bool {
        let host = if state.predecessor_left && !state.rotation.has_received_all() {
            self.position.predecessor()
        } else if state.successor_left && state.rotation.has_to_send() {
            self.position.successor()
        } else {
            return false;
        };
        let detail = "it said goodbye before the revolution was complete".to_owned();
        self.fail(state, Failure { host, reason: Reason::Broke }, Some(detail));
        true
    }

    fn fail(&self, state: &mut State, failure: Failure, detail: Option<String>) {
        if !state.alarm.raise(failure) {
            return;
        }
        state.detail = detail;
        if let Some(act) = state.at_failure.take() {
            act();
        }
        if let Some(link) = self.link.get() {
            link.alarm(failure);
        }
        state.wakes = true;
        self.fillable.notify_one();
    }

    /// Handles a delivery of the link.
    fn take(&self, state: &mut State, incoming: Delivery) {
        let event = match incoming {
            Delivery::Received(slot, buffer, frame, bytes) => {
                state.held.insert(slot, (buffer, bytes));
                Event::Received(slot, frame)
            }
            Delivery::Returned(slot, buffer) => {
                state.held.insert(slot, (buffer, 0));
                Event::Returned(slot)
            }
            Delivery::Sent(slot, None) => Event::Sent(slot),
            Delivery::Sent(slot, Some(buffer)) => {
                state.held.insert(slot, (buffer, 0));
                if let Err(error) = state.rotation.handle(Event::Sent(slot)) {
                    return self.act(state, Err(error));
                }
                Event::Returned(slot)
            }
            Delivery::Credited(frames) => Event::Credited(frames),
            Delivery::Announced(announcement) => Event::Announced(announcement),
            Delivery::Failed(failure, detail) => return self.fail(state, failure, detail),
            Delivery::PredecessorLeft => {
                (state.predecessor_left, state.wakes) = (true, true);
                return;
            }
            Delivery::SuccessorLeft => {
                (state.successor_left, state.wakes) = (true, true);
                return;
            }
        };
        if state.alarm.failure().is_none() {
            let result = state.rotation.handle(event);
            self.act(state, result);
        }
    }
}

impl Stoppable for Shared {
    fn stop(&self) {
        self.give_up();
    }
}

impl Inbox for Shared {
    fn put(&self, incoming: Delivery) {
        self.change(|state| self.take(state, incoming));
    }
}
