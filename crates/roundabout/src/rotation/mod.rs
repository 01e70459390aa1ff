//! One host's part in a revolution, as a pure state machine: events go in, actions come out. It
//! does not depend on memory, threads or sockets; buffers are numbers.
//!
//! Every host injects its fragments and joins each before it sends it. It joins every fragment that
//! it receives and forwards it; the last host before the origin retires it. Data moves one way,
//! from each host to its successor. A credit is the successor's promise of room for one frame, and
//! travels the other way.
//!
//! Credits alone could deadlock, with every buffer full and each waiting for the next. So a host
//! forwards first, and injects only if another credit is left. Then the ring as a whole always
//! keeps room for one frame, and some frame can move (bubble flow control, after Carrión, Beivide,
//! Gregorio and Vallejo, 1997).

mod event;

use std::collections::VecDeque;

pub use event::{Action, Announcement, Event, Frame, ProtocolError, Slot};

use crate::ring::RingPosition;

/// One host's state in the current revolution, and the early messages of the next one.
#[derive(Debug)]
pub struct Rotation {
    position: RingPosition,
    revolution: u32,
    credits: u32,
    /// For each origin: the number of fragments received or filled, and their total number.
    origins: Vec<Origin>,
    /// Fragments that are not joined yet, in order.
    joining: VecDeque<(Slot, Frame)>,
    /// Joined fragments of other hosts for the successor. This host's own are in `inject`.
    forward: VecDeque<(Slot, Frame)>,
    inject: VecDeque<(Slot, Frame)>,
    /// Sends in progress.
    sending: Vec<Slot>,
    /// The states of the own buffers.
    own: Vec<OwnSlot>,
    /// Fragments that arrived early, of the next revolution.
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
    /// Begins revolution 0 at `place`, without credits. The `own` buffers to inject from are
    /// numbered from 0; other buffers have numbers from `own` on.
    ///
    /// # Panics
    /// If there is no own buffer.
    pub fn new(position: RingPosition, own: u32) -> Self {
        assert!(own > 0, "a host injects from at least one buffer");
        let mut rotation = Self {
            position,
            revolution: 0,
            credits: 0,
            origins: vec![Origin::default(); usize::from(position.hosts())],
            joining: VecDeque::new(),
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

    /// Returns the next action, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns whether this host has joined every fragment of every host, and sent on all that it
    /// must.
    pub fn is_finished(&self) -> bool {
        self.actions.is_empty()
            && self.sending.is_empty()
            && self.forward.is_empty()
            && self.inject.is_empty()
            && self.origins.iter().all(|origin| origin.total == Some(origin.joined))
    }

    /// Returns whether nothing of this revolution has arrived from the predecessor.
    pub fn has_received_nothing(&self) -> bool {
        let me = self.position.me().index();
        self.origins.iter().enumerate().all(|(at, origin)| at == me || origin.seen == 0)
    }

    /// Returns whether this host has joined all of its own fragments.
    pub fn has_joined_own(&self) -> bool {
        let own = &self.origins[self.position.me().index()];
        own.total == Some(own.joined)
    }

    /// Returns whether everything of this revolution has arrived from the predecessor.
    pub fn has_received_all(&self) -> bool {
        let me = self.position.me().index();
        self.origins.iter().enumerate().all(|(at, origin)| at == me || origin.total == Some(origin.seen))
    }

    /// Returns whether fragments wait for credits.
    pub fn has_to_send(&self) -> bool {
        !self.forward.is_empty() || !self.inject.is_empty()
    }

    /// Begins the next revolution.
    ///
    /// # Errors
    /// If an early message of it violates the protocol.
    ///
    /// # Panics
    /// If the current revolution is not finished.
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

    /// Applies an event.
    ///
    /// # Errors
    /// If the event violates the protocol. The revolution must be given up then.
    pub fn handle(&mut self, event: Event) -> Result<(), ProtocolError> {
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
        let me = self.position.me();
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
        let me = self.position.me();
        let own = &mut self.origins[me.index()];
        if own.total.is_none() {
            own.total = Some(own.seen);
            let announcement = Announcement { revolution: self.revolution, origin: me, fragments: own.seen };
            if self.position.hosts() > 1 {
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
        let from_another = self.position.contains(frame.origin) && frame.origin != self.position.me();
        if frame.revolution != self.revolution || !from_another {
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
        let from_another = self.position.contains(origin) && origin != self.position.me();
        if revolution != self.revolution || !from_another {
            return Err(ProtocolError::Announcement(announcement));
        }
        let state = &mut self.origins[origin.index()];
        if state.total.is_some() || fragments < state.seen {
            return Err(ProtocolError::Announcement(announcement));
        }
        state.total = Some(fragments);
        if !self.position.is_last_for(origin) {
            self.actions.push_back(Action::Announce(announcement));
        }
        Ok(())
    }

    fn join(&mut self, slot: Slot, frame: Frame) {
        self.joining.push_back((slot, frame));
        self.actions.push_back(Action::Join(slot, frame));
    }

    fn joined(&mut self, slot: Slot) -> Result<(), ProtocolError> {
        // Fragments are joined in order.
        let Some((_, frame)) = self.joining.pop_front_if(|(next, _)| *next == slot) else {
            return Err(ProtocolError::Slot(slot));
        };
        self.origins[frame.origin.index()].joined += 1;
        if self.position.is_last_for(frame.origin) {
            self.actions.push_back(Action::Retire(slot, frame));
        } else if frame.origin == self.position.me() {
            self.inject.push_back((slot, frame));
        } else {
            self.forward.push_back((slot, frame));
        }
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
        if self.origins[self.position.me().index()].total.is_none() {
            self.fill(slot);
        }
        Ok(())
    }

    /// Sends waiting fragments, as far as credits allow: others' fragments first, and own ones only
    /// if a credit is left afterwards.
    fn send_what_may_go(&mut self) {
        // Between two hosts nothing is forwarded, so no circular wait can arise.
        let to_inject = if self.position.hosts() > 2 { 2 } else { 1 };
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
