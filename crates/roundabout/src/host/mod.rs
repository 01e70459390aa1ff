//! A host of a ring. The calling thread joins one fragment after the other, while the threads of
//! its link receive, forward and inject.

mod shared;
mod stopper;

use std::{
    collections::{HashMap, VecDeque},
    ops::AddAssign,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use self::shared::{Shared, State};
pub use self::stopper::Stopper;
use crate::{
    alarm::Alarm,
    arena::Buffer,
    config::RingConfig,
    error::RoundaboutError,
    link::{Inbox, Incoming, Link},
    progress::Progress,
    ring::Place,
    rotation::{Frame, Rotation, Slot},
};

/// A host of a running ring.
///
/// [`revolve`](Self::revolve) runs one revolution, the same number of times on all hosts, and
/// [`finish`](Self::finish) ends the host's part. A host that is dropped before that gives up, and
/// the others report that it failed.
pub struct Host {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    finished: bool,
}

/// An open link.
#[derive(Debug)]
pub struct Opened<L> {
    /// The link.
    pub link: L,
    /// The host's own buffers, numbered from 0.
    pub own: Vec<Buffer>,
    /// The number of frames that the successor has room for.
    pub credits: u32,
}

/// A fragment at a host.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Its origin and number.
    pub frame: Frame,
    /// Its bytes. Changes to them are visible to the hosts after this one.
    pub bytes: &'a mut [u8],
    /// Whether it has visited all other hosts.
    pub is_last: bool,
}

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
    /// The time spent in `join`.
    pub joining: Duration,
    /// The time spent in `fill`.
    pub filling: Duration,
    /// The time without a fragment to join.
    pub waiting: Duration,
    /// The part of `waiting` before the first fragment of another host arrived.
    pub waiting_first: Duration,
    /// The part of `waiting` after all own fragments were joined: other hosts are slower, or have
    /// more fragments.
    pub waiting_last: Duration,
}

impl AddAssign for Revolution {
    fn add_assign(&mut self, other: Self) {
        self.injected += other.injected;
        self.joined += other.joined;
        self.bytes += other.bytes;
        self.joining += other.joining;
        self.filling += other.filling;
        self.waiting += other.waiting;
        self.waiting_first += other.waiting_first;
        self.waiting_last += other.waiting_last;
    }
}

/// The next task of the calling thread.
enum Work {
    Fill(Slot, Buffer),
    Join(Slot, Frame, Buffer, usize),
    Nothing,
}

impl Host {
    /// Starts a host at `place`, with the link that `open` returns. The link passes everything that
    /// it receives to the inbox. Hidden: only tests provide links of their own.
    ///
    /// # Errors
    /// If an option is invalid, or those of `open`.
    #[doc(hidden)]
    pub fn start<L: Link + 'static>(
        place: Place,
        config: RingConfig,
        open: impl FnOnce(&Arc<dyn Inbox>) -> Result<Opened<L>, RoundaboutError>,
    ) -> Result<Self, RoundaboutError> {
        let config = config.checked()?;
        let state = State {
            rotation: Rotation::new(place, config.own),
            alarm: Alarm::default(),
            detail: None,
            at_failure: None,
            held: HashMap::new(),
            to_fill: VecDeque::new(),
            to_join: VecDeque::new(),
            drained: false,
            waits: false,
            wakes: false,
            predecessor_left: false,
            successor_left: false,
        };
        let link = OnceLock::new();
        let shared = Arc::new(Shared { place, state: Mutex::new(state), changed: Condvar::new(), link });
        let inbox: Arc<dyn Inbox> = Arc::clone(&shared) as _;
        let Opened { link, own, credits } = open(&inbox)?;
        shared.state().held.extend(own.into_iter().map(|buffer| (buffer.number(), (buffer, 0))));
        let _ = shared.link.set(Box::new(link));
        // Handles a failure that arrived before the link was set.
        let failure = shared.state().alarm.failure();
        if let (Some(failure), Some(link)) = (failure, shared.link.get()) {
            link.alarm(failure);
        }
        shared.put(Incoming::Credited(credits));
        Ok(Self { shared, progress: Arc::new(Progress::new()), finished: false })
    }

    /// Runs one revolution. `fill` writes this host's fragments, one at a time, and returns the
    /// size of each, or `None` when there are no more. `join` receives every fragment of every host
    /// once, including this host's own. Both run on the calling thread.
    ///
    /// # Errors
    /// [`RoundaboutError::Failed`] names a failed host. An error of `fill` or `join` is returned,
    /// and the other hosts report that this one gave up. After an error the host can only be
    /// dropped.
    pub fn revolve<E: From<RoundaboutError>>(
        &mut self,
        fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
        join: impl FnMut(Fragment<'_>) -> Result<(), E>,
    ) -> Result<Revolution, E> {
        let revolution = self.turn(fill, join)?;
        self.progress.has_turned();
        Ok(revolution)
    }

    /// Returns the counters of this host, for another thread.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    fn turn<E: From<RoundaboutError>>(
        &mut self,
        mut fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
        mut join: impl FnMut(Fragment<'_>) -> Result<(), E>,
    ) -> Result<Revolution, E> {
        let mut revolution = Revolution::default();
        let _unless_it_returns = GiveUpOnPanic(&self.shared);
        loop {
            match self.next_work(&mut revolution)? {
                Work::Fill(slot, mut buffer) => {
                    let start = Instant::now();
                    let filled = fill(&mut buffer).inspect_err(|_| self.shared.give_up())?;
                    if filled.is_some_and(|bytes| bytes > buffer.len()) {
                        self.shared.give_up();
                        let reason = format!("must be at most {} bytes, the size of a buffer", buffer.len());
                        return Err(RoundaboutError::Option { option: "fragment size", reason }.into());
                    }
                    revolution.filling += start.elapsed();
                    revolution.injected += u64::from(filled.is_some());
                    self.shared.filled(slot, buffer, filled);
                }
                Work::Join(slot, frame, mut buffer, bytes) => {
                    let start = Instant::now();
                    let is_last = self.shared.place.is_last_for(frame.origin);
                    let fragment = Fragment { frame, bytes: &mut buffer[..bytes], is_last };
                    join(fragment).inspect_err(|_| self.shared.give_up())?;
                    revolution.joining += start.elapsed();
                    revolution.joined += 1;
                    revolution.bytes += bytes as u64;
                    self.progress.has_joined(bytes);
                    self.shared.joined(slot, buffer, bytes);
                }
                Work::Nothing => return Ok(revolution),
            }
        }
    }

    /// Returns a handle that makes this host give up, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper::of(&self.shared)
    }

    /// Calls `act` as soon as a host of the ring fails or this one is stopped; at once if that has
    /// already happened. A join can use this to stop early. `act` is called once, while the ring
    /// waits for it: it must neither wait nor panic. It replaces an action that was set before.
    pub fn at_failure(&self, act: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state();
        if state.alarm.failure().is_some() {
            drop(state);
            return act();
        }
        state.at_failure = Some(Box::new(act));
    }

    /// Returns the failure of another host, if that is why the ring has ended.
    pub fn lost(&self) -> Option<RoundaboutError> {
        let state = self.shared.state();
        let failure = state.alarm.failure().filter(|failure| failure.host != self.shared.place.me())?;
        Some(RoundaboutError::Failed { failure, detail: state.detail.clone() })
    }

    /// Lets `stopper` stop this host, too.
    pub(crate) fn is_stopped_by(&self, stopper: &Stopper) {
        stopper.holds(&self.shared);
    }

    /// Ends this host's part once all other hosts have ended theirs.
    ///
    /// # Errors
    /// If another host fails before, or [runs more revolutions](RoundaboutError::TurnsOn).
    pub fn finish(mut self) -> Result<(), RoundaboutError> {
        // When every host has announced an empty revolution, all have finished those before.
        self.turn(|_| Ok(None), |fragment| Err(RoundaboutError::TurnsOn { host: fragment.frame.origin }))?;
        // From now on a failure of another host is not a failure of this ring.
        self.shared.state().at_failure = None;
        self.finished = true;
        Ok(())
    }

    /// Waits for the next task.
    fn next_work(&self, revolution: &mut Revolution) -> Result<Work, RoundaboutError> {
        let mut state = self.shared.state();
        loop {
            if let Some(failure) = state.alarm.failure() {
                return Err(RoundaboutError::Failed { failure, detail: state.detail.clone() });
            }
            let next = state.to_fill.pop_front().map(|slot| (slot, None));
            let next = next.or_else(|| state.to_join.pop_front().map(|(slot, frame)| (slot, Some(frame))));
            if let Some((slot, frame)) = next {
                let (buffer, bytes) = state.held.remove(&slot).expect("a buffer to work on is here");
                return Ok(match frame {
                    None => Work::Fill(slot, buffer),
                    Some(frame) => Work::Join(slot, frame, buffer, bytes),
                });
            }
            if state.rotation.is_finished() {
                state.drained = false;
                let next = state.rotation.next_revolution();
                self.shared.act(&mut state, next);
                return Ok(Work::Nothing);
            }
            if self.shared.left_too_early(&mut state) {
                continue;
            }
            let (is_first, is_last) = (state.rotation.has_received_nothing(), state.rotation.has_joined_own());
            let start = Instant::now();
            (state.waits, state.wakes) = (true, false);
            self.progress.waits();
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waits = false;
            self.progress.goes_on();
            let waited = start.elapsed();
            revolution.waiting += waited;
            if is_first {
                revolution.waiting_first += waited;
            } else if is_last {
                revolution.waiting_last += waited;
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.give_up();
        }
        if let Some(link) = self.shared.link.get() {
            link.close();
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
