//! Neighbours by libfabric: RDMA where there is such a network (`verbs`, `efa`), and the same over TCP or within a machine (`tcp`,
//! `shm`). Fragments alone go through the fabric, from one registered buffer into another that was offered for it; everything else
//! stays on the greeted connections, whose end tells of a neighbour's death. No memory can be read or written from afar.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

pub use self::endpoint::leave_signals;
use self::{
    endpoint::{ADDRESS_MAX, Endpoint},
    pump::{Job, Pump},
    seal::Seals,
};
use super::{
    Inbox, Link,
    socket::{Carrier, Connection, Connections, Sockets},
};
use crate::{
    alarm::Failure,
    arena::{Arena, Buffer},
    config::Config,
    error::RoundaboutError,
    host::Opened,
    ring::{HostId, Place},
    rotation::{Announcement, Credits, Frame, Slot},
    wire::{MESSAGE_BYTES, Message, Session, WireError},
};

mod endpoint;
mod left_behind;
mod pump;
mod seal;

/// What libfabric cannot do, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct FabricError {
    step: String,
    reason: String,
}

impl FabricError {
    fn new(step: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { step: step.into(), reason: reason.into() }
    }
}

/// Which network, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// libfabric's name of it: `verbs;ofi_rxm`, `efa`, `tcp`, `shm`.
    pub provider: &'a str,
    /// The address of this machine's that is used, if the provider has such.
    pub node: Option<&'a str>,
    /// Whether fragments are sealed (AES-256-GCM), with keys of the connections' TLS. Without, they go in the clear, whatever the
    /// connections are.
    pub sealed: bool,
}

/// An endpoint that can be reached, and a host's buffers.
pub struct Fabric {
    endpoint: Endpoint,
    own: Vec<Buffer>,
    receiving: Vec<Slot>,
    sealed: bool,
}

impl Fabric {
    /// Opens the endpoint and registers the buffers, which takes a while: to be done before the ring is put together.
    ///
    /// # Errors
    /// If there is no such provider, it refuses, or there is not enough memory.
    pub fn open(options: &Options<'_>, config: &Config) -> Result<Self, RoundaboutError> {
        let Config { own, places, .. } = config.checked()?;
        let bytes = config.fragment_bytes as usize;
        let memory = |source| RoundaboutError::Memory { buffers: own + places, bytes, source };
        let arena = Arena::private(own + places, bytes).map_err(memory)?;
        let failed = |source| RoundaboutError::Fabric { provider: options.provider.to_owned(), source };
        let mut endpoint = Endpoint::open(options.provider, options.node, Arc::clone(&arena)).map_err(failed)?;
        let mut buffers = arena.take_all();
        let mut receiving = Vec::new();
        // Nobody may send before there is room for it.
        for buffer in buffers.split_off(own as usize) {
            receiving.push(buffer.number());
            if endpoint.receive(buffer).map_err(failed)?.is_some() {
                let reason = format!("it takes {} at a time", receiving.len() - 1);
                return Err(RoundaboutError::Option { option: "places", reason });
            }
        }
        Ok(Self { endpoint, own: buffers, receiving, sealed: options.sealed })
    }

    /// Serves connections that were made, and the fabric beside them.
    ///
    /// # Errors
    /// If a neighbour's endpoint is not told, or cannot be used; fragments are to be sealed, and the connections are in the clear, or
    /// threads cannot be started.
    pub fn start<S: Carrier>(
        mut self,
        place: Place,
        session: Session,
        config: &Config,
        mut connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<Opened<FabricLink>, RoundaboutError> {
        let failed = |source| RoundaboutError::Fabric { provider: "the agreed one".to_owned(), source };
        let seals = if self.sealed { Some(seals(&connections, session)?) } else { None };
        let address = self.endpoint.address().map_err(failed)?;
        let message = Message::Endpoint { bytes: address.len() as u32, sealed: self.sealed };
        for connection in [&mut connections.forward_out, &mut connections.back_out] {
            connection.stream.write_all(&[&message.encode(session)[..], &address].concat())?;
            connection.stream.flush()?;
        }
        let predecessor = self.neighbour(place.predecessor(), session, &mut connections.forward_in)?;
        let successor = self.neighbour(place.successor(), session, &mut connections.back_in)?;
        self.endpoint.add(&predecessor).map_err(failed)?;
        let successor_peer = self.endpoint.add(&successor).map_err(failed)?;
        let credits = connections.credits;
        let sockets = Arc::new(Sockets::serve_beside(place, session, config, connections, inbox)?);
        let (jobs, from_host) = channel();
        let (pumping, ended) = channel();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let buffers = (config.own + config.places) as usize;
        let pump = Pump {
            _pumping: pumping,
            endpoint: self.endpoint,
            successor: successor_peer,
            jobs: from_host,
            wake: woken,
            seals,
            sockets: Arc::clone(&sockets),
            inbox: Arc::clone(inbox),
            place,
            session,
            timeout: config.timeout,
            own: config.own,
            to_send: Default::default(),
            to_receive: Default::default(),
            credits: Credits::new(config.places),
            sending: vec![false; buffers],
            outgoing: 0,
            receiving: self.receiving.into_iter().map(|slot| (slot, None)).collect(),
        };
        let thread = thread::Builder::new().name("fabric".to_owned()).spawn(move || pump.run())?;
        let pumping = Mutex::new(Some((thread, ended)));
        let (timeout, neighbours) = (config.timeout, [predecessor, successor]);
        let link = FabricLink { sockets, jobs, wake, timeout, pumping, neighbours };
        Ok(Opened { link, own: self.own, credits })
    }

    /// The address of a neighbour's endpoint.
    fn neighbour<S: Carrier>(
        &self,
        host: HostId,
        session: Session,
        connection: &mut Connection<S>,
    ) -> Result<Vec<u8>, RoundaboutError> {
        let mut message = [0; MESSAGE_BYTES];
        let failed = |source: io::Error| RoundaboutError::Endpoint { host, source };
        let wire = |source| RoundaboutError::Wire { host, source };
        connection.stream.read_exact(&mut message).map_err(failed)?;
        match Message::decode(&message, session).map_err(wire)? {
            Message::Endpoint { bytes, sealed } if bytes as usize <= ADDRESS_MAX => {
                if sealed != self.sealed {
                    let (theirs, ours) = (sealed.into(), self.sealed.into());
                    return Err(RoundaboutError::Differs {
                        host,
                        option: "sealed fragments (0: no, 1: yes)",
                        theirs,
                        ours,
                    });
                }
                let mut address = vec![0; bytes as usize];
                connection.stream.read_exact(&mut address).map_err(failed)?;
                Ok(address)
            }
            _ => Err(wire(WireError::Damaged("another message than where its endpoint is; is the fabric used there?"))),
        }
    }
}

/// To seal what goes to the successor, and to open what comes from the predecessor.
fn seals<S: Carrier>(connections: &Connections<S>, session: Session) -> Result<(Seals, Seals), RoundaboutError> {
    let seals = |connection: &Connection<S>| {
        let key = connection.stream.export(b"EXPORTER-annulus-roundabout-slots", &session.to_le_bytes());
        key.and_then(|key| Seals::new(key).ok())
    };
    let both = seals(&connections.forward_out).zip(seals(&connections.forward_in));
    both.ok_or_else(|| {
        let reason = "need connections by TLS, from which their keys come".to_owned();
        RoundaboutError::Option { option: "sealed fragments", reason }
    })
}

/// The way to the neighbours: fragments by the fabric, the rest by sockets.
pub struct FabricLink {
    sockets: Arc<Sockets>,
    jobs: Sender<Job>,
    wake: UnixStream,
    timeout: Duration,
    /// The thread, and what ends with it.
    pumping: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
    /// The addresses of their endpoints.
    neighbours: [Vec<u8>; 2],
}

impl FabricLink {
    fn post(&self, job: Job) {
        // One that has ended has told the host why. If it cannot be woken, it has been.
        let _ = self.jobs.send(job);
        let _ = (&self.wake).write(&[0]);
    }
}

impl Link for FabricLink {
    fn send(&self, _: Slot, buffer: Buffer, frame: Frame, bytes: usize) {
        self.post(Job::Send(buffer, frame, bytes));
    }

    fn retire(&self, _: Slot, buffer: Buffer, _: Frame) {
        self.post(Job::Free(buffer));
    }

    fn announce(&self, announcement: Announcement) {
        self.sockets.announce(announcement);
    }

    fn alarm(&self, failure: Failure) {
        self.sockets.alarm(failure);
    }

    fn close(&self) {
        // First the goodbye, after which the end of the endpoint is no failure.
        self.sockets.close();
        self.post(Job::End);
        let pumping = self.pumping.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((thread, ended)) = pumping {
            // A provider may wait for ever for a neighbour that was killed in the middle of shared memory; the thread is then left
            // with what it owns.
            if ended.recv_timeout(self.timeout) == Err(RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
        }
        if self.sockets.are_alarmed() {
            self.neighbours.iter().for_each(|address| left_behind::remove(address));
        }
    }
}

/// A link that is dropped without having been closed takes its host out of the ring.
impl Drop for FabricLink {
    fn drop(&mut self) {
        self.sockets.give_up();
        self.close();
    }
}
