//! One revolution of a host: a thread fills this host's buffers, and the calling thread joins.

use std::{
    ops::AddAssign,
    panic, thread,
    time::{Duration, Instant},
};

use super::{
    Fragment, Host,
    shared::{Shared, State},
};
use crate::{
    arena::Buffer,
    error::RoundaboutError,
    rotation::{Frame, Slot},
};

/// The counters and times of one revolution, or the sums over several, for one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revolution {
    /// The fragments that this host injected.
    pub injected: u64,
    /// The fragments that it joined, its own included.
    pub joined: u64,
    /// The bytes of the fragments that it joined.
    pub bytes: u64,
    /// The part of `bytes` that came from other hosts.
    pub received: u64,
    /// The time spent in `join`.
    pub joining: Duration,
    /// The time spent in `fill`, on its own thread.
    pub filling: Duration,
    /// The time without a fragment to join. The time until this host's thread has a core again,
    /// after a fragment has arrived, is not part of it.
    pub waiting: Duration,
    /// The part of `waiting` before the first fragment of another host arrived.
    pub waiting_first: Duration,
    /// The part of `waiting` after all own fragments were joined: other hosts are slower, or have
    /// more fragments.
    pub waiting_last: Duration,
    /// The part of `waiting` during which `fill` ran: this host's own fragments come too slowly.
    /// It may overlap `waiting_first`.
    pub waiting_fill: Duration,
}

impl AddAssign for Revolution {
    fn add_assign(&mut self, other: Self) {
        self.injected += other.injected;
        self.joined += other.joined;
        self.bytes += other.bytes;
        self.received += other.received;
        self.joining += other.joining;
        self.filling += other.filling;
        self.waiting += other.waiting;
        self.waiting_first += other.waiting_first;
        self.waiting_last += other.waiting_last;
        self.waiting_fill += other.waiting_fill;
    }
}

/// A fragment at a host, with the buffer that it lies in.
#[derive(Debug)]
pub struct OwnedFragment {
    /// The fragment's origin and number.
    pub frame: Frame,
    /// Whether it has visited all other hosts.
    pub is_last: bool,
    slot: Slot,
    buffer: Buffer,
    len: usize,
}

impl AsRef<[u8]> for OwnedFragment {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// Changes are visible to the hosts after this one.
impl AsMut<[u8]> for OwnedFragment {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

/// Returns a callback that joins a fragment in place, for one that borrows it.
pub(super) fn borrowing<E>(
    mut join: impl FnMut(Fragment<'_>) -> Result<(), E>,
) -> impl FnMut(OwnedFragment) -> Result<OwnedFragment, E> {
    move |mut owned| {
        let (frame, is_last) = (owned.frame, owned.is_last);
        join(Fragment { frame, bytes: owned.as_mut(), is_last })?;
        Ok(owned)
    }
}

impl Host {
    /// Like [`revolve`](Self::revolve), with a `join` that owns the fragment and its buffer, and
    /// returns it when it has joined it. What refers to the fragment meanwhile may share it.
    ///
    /// # Errors
    /// As [`revolve`](Self::revolve).
    pub fn revolve_owned<E: From<RoundaboutError> + Send>(
        &mut self,
        fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E> + Send,
        join: impl FnMut(OwnedFragment) -> Result<OwnedFragment, E>,
    ) -> Result<Revolution, E> {
        thread::scope(|scope| {
            // The thread ends with this one's part of the revolution, even if that fails.
            let fill = || self.shared.fill_all(fill);
            let filler = thread::Builder::new().name("fill".to_owned()).spawn_scoped(scope, fill);
            let filler = filler.map_err(|source| {
                self.shared.give_up();
                RoundaboutError::Thread { source }
            })?;
            let joined = self.join_all(join);
            let (injected, filling) = filler.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?;
            Ok(Revolution { injected, filling, ..joined? })
        })
    }

    /// Joins all fragments of a revolution.
    pub(super) fn join_all<E: From<RoundaboutError>>(
        &self,
        mut join: impl FnMut(OwnedFragment) -> Result<OwnedFragment, E>,
    ) -> Result<Revolution, E> {
        let mut revolution = Revolution::default();
        let _unless_it_returns = GiveUpOnPanic(&self.shared);
        while let Some(fragment) = self.next_to_join(&mut revolution)? {
            let start = Instant::now();
            let joined = join(fragment).inspect_err(|_| self.shared.give_up())?;
            let OwnedFragment { frame, slot, buffer, len: bytes, .. } = joined;
            revolution.joining += start.elapsed();
            revolution.joined += 1;
            revolution.bytes += bytes as u64;
            revolution.received += if frame.origin == self.shared.position.me() { 0 } else { bytes as u64 };
            self.shared.joined(slot, buffer, bytes);
        }
        Ok(revolution)
    }

    /// Waits for the next fragment. Returns `None` at the end of the revolution.
    fn next_to_join(&self, revolution: &mut Revolution) -> Result<Option<OwnedFragment>, RoundaboutError> {
        let mut state = self.shared.state();
        loop {
            if let Some(failure) = state.alarm.failure() {
                return Err(RoundaboutError::Failed { failure, detail: state.detail.clone() });
            }
            if let Some((slot, frame)) = state.to_join.pop_front() {
                let (buffer, len) = state.held.remove(&slot).expect("a buffer to work on is here");
                let is_last = self.shared.position.is_last_for(frame.origin);
                return Ok(Some(OwnedFragment { frame, is_last, slot, buffer, len }));
            }
            if state.rotation.is_finished() {
                revolution.waiting_fill = std::mem::take(&mut state.waited_for_fill);
                let next = state.rotation.next_revolution();
                self.shared.act(&mut state, next);
                return Ok(None);
            }
            if self.shared.left_too_early(&mut state) {
                continue;
            }
            let (is_first, is_last) = (state.rotation.has_received_nothing(), state.rotation.has_joined_own());
            let start = Instant::now();
            (state.waits, state.wakes, state.woken) = (Some(start), false, None);
            self.shared.changed.wait(&mut state);
            state.count_wait_for_fill();
            state.waits = None;
            let waited = state.woken.take().unwrap_or_else(Instant::now) - start;
            revolution.waiting += waited;
            if is_first {
                revolution.waiting_first += waited;
            } else if is_last {
                revolution.waiting_last += waited;
            }
        }
    }
}

impl Shared {
    /// Fills own buffers as they become free, until `fill` has no more fragments or a host fails.
    /// Returns the number of fragments, and the time spent in `fill`.
    fn fill_all<E: From<RoundaboutError>>(
        &self,
        mut fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<(u64, Duration), E> {
        let _unless_it_returns = GiveUpOnPanic(self);
        let (mut injected, mut filling) = (0, Duration::ZERO);
        while let Some((slot, mut buffer)) = self.next_to_fill() {
            let start = Instant::now();
            let filled = fill(&mut buffer).inspect_err(|_| self.give_up())?;
            if filled.is_some_and(|bytes| bytes > buffer.len()) {
                self.give_up();
                let reason = format!("must be at most {} bytes, the size of a buffer", buffer.len());
                return Err(RoundaboutError::Option { option: "fragment size", reason }.into());
            }
            filling += start.elapsed();
            match filled {
                Some(bytes) => self.filled(slot, buffer, bytes),
                None => {
                    self.drained(slot, buffer);
                    break;
                }
            }
            injected += 1;
        }
        Ok((injected, filling))
    }

    /// Waits for an own buffer to fill. Returns `None` if a host has failed.
    fn next_to_fill(&self) -> Option<(Slot, Buffer)> {
        let mut state = self.state();
        while state.alarm.failure().is_none() {
            if let Some(slot) = state.to_fill.pop_front() {
                state.fills = Some(Instant::now());
                let (buffer, _) = state.held.remove(&slot).expect("a buffer to fill is here");
                return Some((slot, buffer));
            }
            self.fillable.wait(&mut state);
        }
        None
    }
}

impl State {
    /// Adds the time, up to now, during which one thread has waited and the other has filled.
    /// Called where either ends.
    pub(super) fn count_wait_for_fill(&mut self) {
        if let (Some(waits), Some(fills)) = (self.waits, self.fills) {
            self.waited_for_fill += waits.max(fills).elapsed();
        }
    }
}

/// Gives up on a panic, because fragments remain unjoined.
struct GiveUpOnPanic<'a>(&'a Shared);

impl Drop for GiveUpOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}
