//! One host's part in a revolution, as a pure state machine: what happens goes in, what is to be done comes out. Knows neither
//! memory nor threads nor sockets; buffers are numbers.
//!
//! Every host injects its fragments, joins every fragment that comes by, its own first, and forwards it, until the last host before
//! the origin retires it. Data moves one way, from each host to its successor; a credit is the successor's promise of room for
//! one frame, and comes back the other way. That alone may come to a standstill, with every buffer full and each waiting for the
//! next. So a host injects only if another credit is left, and forwards first: the ring as a whole always keeps room for one
//! frame, and some frame can move (bubble flow control, after Carrión, Beivide, Gregorio and Vallejo, 1997).

use std::collections::VecDeque;

use crate::ring::{HostId, Place};

/// A buffer of this host's, or one that it was handed.
pub type Slot = u32;

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Which revolution of this ring, from 0.
    pub revolution: u32,
    /// The host that injected the fragment.
    pub origin: HostId,
    /// Its number among those of its origin in this revolution, from 0.
    pub sequence: u32,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An own buffer was filled with this host's next fragment.
    Filled(Slot),
    /// This host has no more fragments; the buffer that was to be filled stays empty.
    Drained(Slot),
    /// A fragment has come from the predecessor.
    Received(Slot, Frame),
    /// The join is done with a fragment.
    Joined(Slot),
    /// A fragment is with the successor. A forwarded buffer is the link's again.
    Sent(Slot),
    /// An own buffer is this host's again.
    Returned(Slot),
    /// The successor has room for so many frames more.
    Credited(u32),
    /// The predecessor says how many fragments a host injects.
    Announced(Announcement),
}

/// How many fragments a host injects in a revolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// The revolution.
    pub revolution: u32,
    /// The host.
    pub origin: HostId,
    /// Its fragments.
    pub fragments: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fill an own buffer with the next fragment.
    Fill(Slot),
    /// Join a fragment with what stays here. The next one comes when this one is done.
    Join(Slot, Frame),
    /// Send a fragment to the successor. One credit was taken for it.
    Send(Slot, Frame),
    /// Give back a buffer whose fragment has been everywhere.
    Retire(Slot, Frame),
    /// Tell the successor.
    Announce(Announcement),
}

/// What must not happen: a neighbour does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame that cannot come from the predecessor.
    #[error("fragment {} of host {} in revolution {} came out of turn", .0.sequence, .0.origin, .0.revolution)]
    Frame(Frame),
    /// An announcement that does not fit what came before.
    #[error("host {} was announced out of turn with {} fragments in revolution {}", .0.origin, .0.fragments, .0.revolution)]
    Announcement(Announcement),
    /// More credits than can be.
    #[error("there cannot be room for as many frames as were promised")]
    Credits,
    /// A buffer that is not in the state that the event needs.
    #[error("buffer {0} is not in that state")]
    Slot(Slot),
}

/// One host's state in a revolution, and in those that follow it.
#[derive(Debug)]
pub struct Rotation {
    place: Place,
    revolution: u32,
    credits: u32,
    /// Fragments of each origin that were received, or filled, and how many there are in all.
    origins: Vec<Origin>,
    /// The fragment that was handed to the join, and those that wait for it: own and others' ones.
    joining: Option<(Slot, Frame)>,
    join_own: VecDeque<(Slot, Frame)>,
    join_others: VecDeque<(Slot, Frame)>,
    /// Joined fragments for the successor: others' and own ones.
    forward: VecDeque<(Slot, Frame)>,
    inject: VecDeque<(Slot, Frame)>,
    /// Sends that are not done.
    sending: Vec<Slot>,
    /// Own buffers, and those of them that nobody fills since there is nothing left.
    own: Vec<OwnSlot>,
    /// What came of the next revolution.
    early: Vec<(Slot, Frame)>,
    early_announcements: Vec<Announcement>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    seen: u32,
    joined: u32,
    total: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnSlot {
    Idle,
    Filling,
    Away,
}

impl Rotation {
    /// At `place`, with `own` buffers to inject from, numbered from 0, and no credit yet. Others' buffers have numbers from
    /// `own` on. Begins revolution 0.
    ///
    /// # Panics
    /// If there is no own buffer.
    pub fn new(place: Place, own: u32) -> Self {
        assert!(own > 0, "a host injects from at least one buffer");
        let mut rotation = Self {
            place,
            revolution: 0,
            credits: 0,
            origins: vec![Origin::default(); usize::from(place.hosts())],
            joining: None,
            join_own: VecDeque::new(),
            join_others: VecDeque::new(),
            forward: VecDeque::new(),
            inject: VecDeque::new(),
            sending: Vec::new(),
            own: vec![OwnSlot::Idle; own as usize],
            early: Vec::new(),
            early_announcements: Vec::new(),
            actions: VecDeque::new(),
        };
        rotation.fill_idle();
        rotation
    }

    /// The next thing to be done, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether every fragment of every host was joined here, and everything was sent on.
    pub fn is_finished(&self) -> bool {
        self.actions.is_empty()
            && self.sending.is_empty()
            && self.forward.is_empty()
            && self.inject.is_empty()
            && self.origins.iter().all(|origin| origin.total == Some(origin.joined))
    }

    /// Whether nothing of this revolution has come from the predecessor.
    pub fn has_received_nothing(&self) -> bool {
        let me = self.place.me().index();
        self.origins.iter().enumerate().all(|(at, origin)| at == me || origin.seen == 0)
    }

    /// Whether this host's fragments were all joined here.
    pub fn has_joined_own(&self) -> bool {
        let own = &self.origins[self.place.me().index()];
        own.total == Some(own.joined)
    }

    /// Whether nothing of this revolution has yet to come from the predecessor.
    pub fn has_received_all(&self) -> bool {
        let me = self.place.me().index();
        self.origins.iter().enumerate().all(|(at, origin)| at == me || origin.total == Some(origin.seen))
    }

    /// Whether fragments wait for credits.
    pub fn has_to_send(&self) -> bool {
        !self.forward.is_empty() || !self.inject.is_empty()
    }

    /// Begins the next revolution.
    ///
    /// # Errors
    /// If what came of it meanwhile does not fit.
    ///
    /// # Panics
    /// If this one is not finished.
    pub fn next_revolution(&mut self) -> Result<(), ProtocolError> {
        assert!(self.is_finished(), "a revolution begins when the one before is finished");
        self.revolution += 1;
        self.origins.fill(Origin::default());
        self.fill_idle();
        for announcement in std::mem::take(&mut self.early_announcements) {
            self.announced(announcement)?;
        }
        for (slot, frame) in std::mem::take(&mut self.early) {
            self.received(slot, frame)?;
        }
        Ok(())
    }

    /// Takes note of what has happened.
    ///
    /// # Errors
    /// If it cannot have happened: the neighbour does not keep to the protocol, and the revolution is to be given up.
    pub fn on(&mut self, event: Event) -> Result<(), ProtocolError> {
        match event {
            Event::Filled(slot) => self.filled(slot)?,
            Event::Drained(slot) => self.drained(slot)?,
            Event::Received(slot, frame) => self.received(slot, frame)?,
            Event::Joined(slot) => self.joined(slot)?,
            Event::Sent(slot) => self.sent(slot)?,
            Event::Returned(slot) => self.returned(slot)?,
            Event::Credited(frames) => {
                self.credits = self.credits.checked_add(frames).ok_or(ProtocolError::Credits)?;
            }
            Event::Announced(announcement) => self.announced(announcement)?,
        }
        self.send_what_may_go();
        Ok(())
    }

    fn filled(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        self.change_own(slot, OwnSlot::Filling, OwnSlot::Away)?;
        let me = self.place.me();
        let own = &mut self.origins[me.index()];
        if own.total.is_some() {
            return Err(ProtocolError::Slot(slot));
        }
        let frame = Frame { revolution: self.revolution, origin: me, sequence: own.seen };
        own.seen += 1;
        self.join(slot, frame);
        Ok(())
    }

    fn drained(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        self.change_own(slot, OwnSlot::Filling, OwnSlot::Idle)?;
        let me = self.place.me();
        let own = &mut self.origins[me.index()];
        if own.total.is_none() {
            own.total = Some(own.seen);
            let announcement = Announcement { revolution: self.revolution, origin: me, fragments: own.seen };
            if self.place.hosts() > 1 {
                self.actions.push_back(Action::Announce(announcement));
            }
        }
        Ok(())
    }

    fn received(&mut self, slot: Slot, frame: Frame) -> Result<(), ProtocolError> {
        if frame.revolution == self.revolution.wrapping_add(1) {
            self.early.push((slot, frame));
            return Ok(());
        }
        let from_afar = self.place.contains(frame.origin) && frame.origin != self.place.me();
        if frame.revolution != self.revolution || !from_afar {
            return Err(ProtocolError::Frame(frame));
        }
        let origin = &mut self.origins[frame.origin.index()];
        if frame.sequence != origin.seen || origin.total.is_some_and(|total| frame.sequence >= total) {
            return Err(ProtocolError::Frame(frame));
        }
        origin.seen += 1;
        self.join(slot, frame);
        Ok(())
    }

    fn announced(&mut self, announcement: Announcement) -> Result<(), ProtocolError> {
        if announcement.revolution == self.revolution.wrapping_add(1) {
            if self.early_announcements.len() == self.origins.len() {
                return Err(ProtocolError::Announcement(announcement));
            }
            self.early_announcements.push(announcement);
            return Ok(());
        }
        let Announcement { revolution, origin, fragments } = announcement;
        let from_afar = self.place.contains(origin) && origin != self.place.me();
        if revolution != self.revolution || !from_afar {
            return Err(ProtocolError::Announcement(announcement));
        }
        let state = &mut self.origins[origin.index()];
        if state.total.is_some() || fragments < state.seen {
            return Err(ProtocolError::Announcement(announcement));
        }
        state.total = Some(fragments);
        if !self.place.is_last_for(origin) {
            self.actions.push_back(Action::Announce(announcement));
        }
        Ok(())
    }

    fn join(&mut self, slot: Slot, frame: Frame) {
        let waiting = if frame.origin == self.place.me() { &mut self.join_own } else { &mut self.join_others };
        waiting.push_back((slot, frame));
        self.join_next();
    }

    /// Own fragments come first: others can only work on them afterwards, while what has come stays here. So hosts of different speed
    /// have something to do for longer. There are no more own ones than own buffers.
    fn join_next(&mut self) {
        if self.joining.is_some() {
            return;
        }
        self.joining = self.join_own.pop_front().or_else(|| self.join_others.pop_front());
        self.actions.extend(self.joining.map(|(slot, frame)| Action::Join(slot, frame)));
    }

    fn joined(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        let Some((_, frame)) = self.joining.take_if(|(joining, _)| *joining == slot) else {
            return Err(ProtocolError::Slot(slot));
        };
        self.origins[frame.origin.index()].joined += 1;
        if self.place.is_last_for(frame.origin) {
            self.actions.push_back(Action::Retire(slot, frame));
        } else if frame.origin == self.place.me() {
            self.inject.push_back((slot, frame));
        } else {
            self.forward.push_back((slot, frame));
        }
        self.join_next();
        Ok(())
    }

    fn sent(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        let Some(at) = self.sending.iter().position(|&sending| sending == slot) else {
            return Err(ProtocolError::Slot(slot));
        };
        self.sending.swap_remove(at);
        Ok(())
    }

    fn returned(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        self.change_own(slot, OwnSlot::Away, OwnSlot::Idle)?;
        if self.origins[self.place.me().index()].total.is_none() {
            self.fill(slot);
        }
        Ok(())
    }

    /// What waits goes out as far as there are credits: others' fragments first, and own ones only if a credit is left then.
    fn send_what_may_go(&mut self) {
        // Between two hosts nothing is forwarded, so that nothing waits in a circle.
        let to_inject = if self.place.hosts() > 2 { 2 } else { 1 };
        while self.credits > 0 {
            let next = self.forward.pop_front();
            let next = next.or_else(|| if self.credits >= to_inject { self.inject.pop_front() } else { None });
            let Some((slot, frame)) = next else { return };
            self.credits -= 1;
            self.sending.push(slot);
            self.actions.push_back(Action::Send(slot, frame));
        }
    }

    fn fill_idle(&mut self) {
        for slot in 0..self.own.len() {
            if self.own[slot] == OwnSlot::Idle {
                self.fill(slot as Slot);
            }
        }
    }

    fn fill(&mut self, slot: Slot) {
        self.own[slot as usize] = OwnSlot::Filling;
        self.actions.push_back(Action::Fill(slot));
    }

    fn change_own(&mut self, slot: Slot, from: OwnSlot, to: OwnSlot) -> Result<(), ProtocolError> {
        match self.own.get_mut(slot as usize) {
            Some(state) if *state == from => *state = to,
            _ => return Err(ProtocolError::Slot(slot)),
        }
        Ok(())
    }
}
