//! One host's part in a ring: the join entity takes one fragment after the other, while the link's threads receive, forward and
//! inject.

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
    config::Config,
    error::RoundaboutError,
    link::{Inbox, Incoming, Link},
    progress::Progress,
    ring::Place,
    rotation::{Frame, Rotation, Slot},
};

/// A host of a running ring. Dropped without [`finish`](Self::finish), it tells the others that it has given up.
pub struct Host {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    finished: bool,
}

/// A link that is open.
#[derive(Debug)]
pub struct Opened<L> {
    /// The link.
    pub link: L,
    /// The host's own buffers, numbered from 0.
    pub own: Vec<Buffer>,
    /// Frames that the successor has room for.
    pub credits: u32,
}

/// A fragment at a host.
#[derive(Debug)]
pub struct Fragment<'a> {
    /// Where it is from.
    pub frame: Frame,
    /// Its bytes, which the hosts after this one get as this host leaves them. As long as they were when it was injected.
    pub bytes: &'a mut [u8],
    /// Whether it has been at all other hosts.
    pub is_last: bool,
}

/// What a revolution was for one host, or several were together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revolution {
    /// Fragments that this host injected.
    pub injected: u64,
    /// Fragments that it joined, its own included.
    pub joined: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Time spent in the join.
    pub joining: Duration,
    /// Time spent filling own buffers.
    pub filling: Duration,
    /// Time in which there was nothing to join: waiting for data.
    pub waiting: Duration,
    /// Of that, until the first fragment of another host had come.
    pub waiting_first: Duration,
    /// Of that, when all own fragments were joined: others are slower, or have more.
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

/// What the join entity does next.
enum Work {
    Fill(Slot, Buffer),
    Join(Slot, Frame, Buffer, usize),
    Nothing,
}

impl Host {
    /// A host at `place`. `open` makes its link, which puts what comes into the inbox from then on.
    ///
    /// # Errors
    /// If there is not enough memory, or the link cannot be made.
    pub fn start<L: Link + 'static>(
        place: Place,
        config: Config,
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
        // What came before the link was there is acted on now.
        let failure = shared.state().alarm.failure();
        if let (Some(failure), Some(link)) = (failure, shared.link.get()) {
            link.alarm(failure);
        }
        shared.put(Incoming::Credited(credits));
        Ok(Self { shared, progress: Arc::new(Progress::new()), finished: false })
    }

    /// One revolution: `fill` writes this host's fragments, one after the other, and gives their size, or `None` when there are
    /// no more; `join` gets every fragment of every host, its own included, once.
    ///
    /// # Errors
    /// If a host of the ring fails, which is named; or what `fill` or `join` give, after which the other hosts are told that this one
    /// has given up. After an error nothing works any more.
    pub fn revolve<E: From<RoundaboutError>>(
        &mut self,
        fill: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
        join: impl FnMut(Fragment<'_>) -> Result<(), E>,
    ) -> Result<Revolution, E> {
        let revolution = self.turn(fill, join)?;
        self.progress.has_turned();
        Ok(revolution)
    }

    /// How far it has come, for another thread.
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
                        let reason = format!("must fit in its buffer of {} bytes", buffer.len());
                        return Err(RoundaboutError::Option { option: "a fragment", reason }.into());
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

    /// Ends this host's part for a reason outside of a revolution, also from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper::of(&self.shared)
    }

    /// Calls `act` as soon as a host of the ring fails, or this one is stopped; at once if that has happened. What a join is at
    /// when the ring fails is in vain, and may end. `act` is called once, while the ring waits for it: it must neither wait nor
    /// panic. It takes the place of one that was given before.
    pub fn at_failure(&self, act: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state();
        if state.alarm.failure().is_some() {
            drop(state);
            return act();
        }
        state.at_failure = Some(Box::new(act));
    }

    /// The failure of another host, if that is why nothing works any more.
    pub fn lost(&self) -> Option<RoundaboutError> {
        let state = self.shared.state();
        let failure = state.alarm.failure().filter(|failure| failure.host != self.shared.place.me())?;
        Some(RoundaboutError::Failed { failure, detail: state.detail.clone() })
    }

    /// From now on this ends its part, too.
    pub(crate) fn is_stopped_by(&self, stopper: &Stopper) {
        stopper.holds(&self.shared);
    }

    /// Ends this host's part when all others have come to their end, too.
    ///
    /// # Errors
    /// If one of them fails before, or makes more revolutions than this one.
    pub fn finish(mut self) -> Result<(), RoundaboutError> {
        // Who has every host's announcement of an empty revolution knows that all have finished those before.
        self.turn(|_| Ok(None), |fragment| Err(RoundaboutError::TurnsOn { host: fragment.frame.origin }))?;
        // What happens to the others from now on is no failure of this ring.
        self.shared.state().at_failure = None;
        self.finished = true;
        Ok(())
    }

    /// What is to be done next; waits for it.
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

/// A join that panics leaves fragments that nobody has joined: nothing may follow.
struct GiveUpOnPanic<'a>(&'a Shared);

impl Drop for GiveUpOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}
