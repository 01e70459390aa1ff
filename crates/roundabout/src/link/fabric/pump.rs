//! The thread that moves fragments through an endpoint, in both directions.

use std::{
    collections::VecDeque,
    io::Read,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, TryRecvError},
    },
    thread,
    time::{Duration, Instant},
};

use super::seal::Seals;
use crate::{
    alarm::{Failure, Reason},
    arena::Buffer,
    credits::Credits,
    libfabric::{Endpoint, FabricError, Peer},
    link::{Delivery, Inbox, socket::Sockets},
    ring::RingPosition,
    rotation::{Frame, Slot},
    wire::{MESSAGE_BYTES, Message, Session, WireError},
};

/// The longest wait between two polls: some providers make progress only when polled.
const IDLE: Duration = Duration::from_millis(20);
/// The wait when a provider is busy, or does not signal events.
const SOON: Duration = Duration::from_millis(1);
/// The number of empty polls of a provider without events before waits begin.
const LOOKS: u32 = 100;

/// A job for the thread.
pub(super) enum Job {
    Send(Buffer, Frame, usize),
    /// A buffer whose fragment is not needed any more: it can receive another one.
    Free(Buffer),
    End,
}

pub(super) struct Pump {
    /// Dropped when the thread has ended.
    pub(super) _pumping: Sender<()>,
    pub(super) endpoint: Endpoint,
    pub(super) successor: Peer,
    pub(super) jobs: Receiver<Job>,
    /// Readable when there are new jobs.
    pub(super) wake: UnixStream,
    /// Seals outgoing fragments, and opens incoming ones.
    pub(super) seals: Option<(Seals, Seals)>,
    pub(super) sockets: Arc<Sockets>,
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) position: RingPosition,
    pub(super) session: Session,
    pub(super) timeout: Duration,
    /// Buffers with smaller numbers are the host's own.
    pub(super) own: Slot,
    /// Messages that the provider has not accepted yet, and their sizes.
    pub(super) to_send: VecDeque<(Buffer, usize)>,
    pub(super) to_receive: VecDeque<Buffer>,
    pub(super) credits: Credits,
    /// For each buffer: whether it is being sent.
    pub(super) sending: Vec<bool>,
    /// The number of buffers being sent.
    pub(super) outgoing: u32,
    /// The places offered, in the order in which fragments arrive. Later ones may complete earlier.
    pub(super) receiving: VecDeque<(Slot, Option<(Buffer, usize)>)>,
}

/// The reason why the thread stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum PumpError {
    #[error("the fabric cannot {0}")]
    Fabric(#[from] FabricError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("it sent something other than a whole fragment through the fabric")]
    NoFragment,
    #[error("it sent a fragment that the agreed key cannot open")]
    Sealed,
    #[error("it accepted no fragment for {0:?}")]
    Silent(Duration),
}

impl Pump {
    /// Runs until the end is requested, or until it fails.
    pub(super) fn run(mut self) {
        let Err(error) = self.pump() else { return };
        let (host, reason) = match &error {
            PumpError::Silent(_) => (self.position.successor(), Reason::Silent),
            PumpError::Fabric(_) if self.ends_soon() => return,
            PumpError::Fabric(_) => (self.position.me(), Reason::GaveUp),
            _ => (self.position.predecessor(), Reason::Broke),
        };
        self.inbox.put(Delivery::Failed(Failure { host, reason }, Some(error.to_string())));
    }

    /// Returns whether the host will end this thread soon. A neighbour that is gone may have sent
    /// the reason, or a goodbye. Then the reader of its connection has received it, and ends this
    /// thread in time.
    fn ends_soon(&self) -> bool {
        let end = Instant::now() + self.timeout;
        loop {
            match self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Job::End) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn pump(&mut self) -> Result<(), PumpError> {
        let (mut looks, mut moved) = (0, Instant::now());
        loop {
            if self.take_jobs()? {
                return Ok(());
            }
            let idle = self.outgoing == 0;
            self.begin()?;
            let mut done = 0;
            while let Some((buffer, bytes)) = self.endpoint.done()? {
                self.done(buffer, bytes)?;
                done += 1;
            }
            if done > 0 || idle {
                moved = Instant::now();
            } else if moved.elapsed() > self.timeout {
                return Err(PumpError::Silent(self.timeout));
            }
            looks = if done > 0 { 0 } else { looks + 1 };
            if done == 0 {
                self.wait(looks)?;
            }
        }
    }

    /// Takes all waiting jobs. Returns true at the end.
    fn take_jobs(&mut self) -> Result<bool, PumpError> {
        loop {
            match self.jobs.try_recv() {
                Ok(Job::Send(..)) if self.sockets.are_alarmed() => {}
                Ok(Job::Send(mut buffer, frame, bytes)) => {
                    let message = Message::Fragment(frame, bytes as u32).encode(self.session);
                    buffer.with_message(&message, bytes);
                    let bytes = MESSAGE_BYTES + bytes;
                    if let Some((seals, _)) = &mut self.seals {
                        seals.seal(&mut buffer.whole()[..bytes]).map_err(|_| PumpError::Sealed)?;
                    }
                    self.to_send.push_back((buffer, bytes));
                }
                Ok(Job::Free(buffer)) => self.to_receive.push_back(buffer),
                Ok(Job::End) | Err(TryRecvError::Disconnected) => return Ok(true),
                Err(TryRecvError::Empty) => return Ok(false),
            }
        }
    }

    /// Starts the operations that the provider accepts now.
    fn begin(&mut self) -> Result<(), PumpError> {
        while let Some(buffer) = self.to_receive.pop_front() {
            let number = buffer.number();
            if let Some(buffer) = self.endpoint.receive(buffer)? {
                self.to_receive.push_front(buffer);
                break;
            }
            self.receiving.push_back((number, None));
            // Only now is there room for a fragment.
            self.sockets.credit(self.credits.give(self.receiving.len() as u32));
        }
        while let Some((buffer, bytes)) = self.to_send.pop_front() {
            let number = buffer.number() as usize;
            if let Some(buffer) = self.endpoint.send(buffer, bytes, self.successor)? {
                self.to_send.push_front((buffer, bytes));
                break;
            }
            self.sending[number] = true;
            self.outgoing += 1;
        }
        Ok(())
    }

    fn done(&mut self, buffer: Buffer, bytes: usize) -> Result<(), PumpError> {
        let slot = buffer.number();
        if std::mem::take(&mut self.sending[slot as usize]) {
            self.outgoing -= 1;
            let own = slot < self.own;
            if own {
                self.inbox.put(Delivery::Sent(slot, Some(buffer)));
            } else {
                self.to_receive.push_back(buffer);
                self.inbox.put(Delivery::Sent(slot, None));
            }
            return Ok(());
        }
        if let Some((_, done)) = self.receiving.iter_mut().find(|(number, _)| *number == slot) {
            *done = Some((buffer, bytes));
        }
        while let Some((_, Some((buffer, bytes)))) = self.receiving.pop_front_if(|(_, done)| done.is_some()) {
            self.sockets.credit(self.credits.due(self.receiving.len() as u32));
            self.received(buffer, bytes)?;
        }
        Ok(())
    }

    fn received(&mut self, mut buffer: Buffer, bytes: usize) -> Result<(), PumpError> {
        let whole = &mut buffer.whole()[..bytes];
        if let Some((_, seals)) = &mut self.seals {
            seals.open(whole).map_err(|_| PumpError::Sealed)?;
        }
        let message = whole.first_chunk().ok_or(PumpError::NoFragment)?;
        match Message::decode(message, self.session)? {
            Message::Fragment(frame, length) if MESSAGE_BYTES + length as usize == bytes => {
                self.inbox.put(Delivery::Received(buffer.number(), buffer, frame, length as usize));
                Ok(())
            }
            _ => Err(PumpError::NoFragment),
        }
    }

    fn wait(&mut self, looks: u32) -> Result<(), PumpError> {
        if !self.endpoint.tells() && looks < LOOKS {
            thread::yield_now();
            return Ok(());
        }
        let blocked = !self.to_send.is_empty() || !self.to_receive.is_empty();
        let most = if blocked || !self.endpoint.tells() { SOON } else { IDLE };
        self.endpoint.wait(self.wake.as_fd(), most)?;
        // One byte per job woke it; all jobs are taken next.
        let _ = self.wake.read(&mut [0; 64]);
        Ok(())
    }
}
