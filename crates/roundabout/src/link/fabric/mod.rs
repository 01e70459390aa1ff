//! Links by libfabric: RDMA if the network supports it (`verbs`, `efa`), and the same over TCP or
//! within a machine (`tcp`, `shm`). Only fragments use the fabric, from one registered buffer into
//! another one that was offered for it. All other messages use the sockets, whose end reveals the
//! death of a neighbour. No host can read or write the memory of another.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;

use self::{
    pump::{Job, Pump},
    seal::Seals,
};
use super::{
    Inbox, Link, OpenLink,
    socket::{Carrier, Connection, Connections, Sockets},
};
use crate::{
    alarm::{Failure, Reason},
    arena::{Arena, Buffer},
    buffer_cache::BufferCache,
    config::RingConfig,
    credits::Credits,
    error::RoundaboutError,
    libfabric::{self, ADDRESS_MAX, Endpoint, FabricDevice, RegisteredArena},
    ring::{HostId, RingPosition},
    rotation::{Announcement, Frame, Slot},
    wire::{MESSAGE_BYTES, Message, Session, WireError},
};

mod device;
mod pump;
mod seal;

/// The settings of links by libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FabricOptions<'a> {
    /// The provider, by libfabric's name: `verbs;ofi_rxm`, `efa`, `tcp`, `shm`.
    pub provider: &'a str,
    /// The local address to use. Without one it is the provider's choice, and for `verbs` that of
    /// the first network interface, by name, of an RDMA device.
    pub node: Option<&'a str>,
    /// Whether fragments are sealed (AES-256-GCM) with keys from the connections' TLS. Unsealed
    /// fragments travel in the clear, even if the connections use TLS.
    pub sealed: bool,
}

impl<'a> FabricOptions<'a> {
    /// Returns options for `provider`, at an address of its choice, with unsealed fragments.
    pub fn new(provider: &'a str) -> Self {
        Self { provider, node: None, sealed: false }
    }

    /// Returns options for `PROVIDER` or `PROVIDER@ADDRESS`, with unsealed fragments.
    pub fn named(name: &'a str) -> Self {
        let (provider, node) = name.split_once('@').map_or((name, None), |(provider, node)| (provider, Some(node)));
        Self::new(provider).with_node(node)
    }

    /// Opens the provider, and closes it again.
    ///
    /// # Errors
    /// If a host with the options of `config` could not use it: it does not exist or refuses, or
    /// memory is short.
    pub fn check(&self, config: &RingConfig) -> Result<(), RoundaboutError> {
        Fabric::open(self, config, &BufferCache::default()).map(drop)
    }

    /// Sets the [local address](Self::node).
    #[must_use]
    pub fn with_node(self, node: impl Into<Option<&'a str>>) -> Self {
        Self { node: node.into(), ..self }
    }

    /// Sets whether fragments are [sealed](Self::sealed).
    #[must_use]
    pub fn with_sealed(self, sealed: bool) -> Self {
        Self { sealed, ..self }
    }
}

/// An open endpoint with a host's registered buffers.
pub struct Fabric {
    endpoint: Endpoint,
    own: Vec<Buffer>,
    receiving: Vec<Slot>,
    sealed: bool,
}

impl Fabric {
    /// Opens the endpoint and registers the buffers, unless the cache has some. Slow: call it before
    /// connecting to the neighbours.
    ///
    /// # Errors
    /// If the provider does not exist or refuses, or memory is short.
    pub fn open(
        options: &FabricOptions<'_>,
        config: &RingConfig,
        cache: &BufferCache,
    ) -> Result<Self, RoundaboutError> {
        let RingConfig { own, places, .. } = config.checked()?;
        let bytes = config.fragment_bytes as usize;
        let memory = |source| RoundaboutError::Memory { buffers: own + places, bytes, source };
        let failed = |source| RoundaboutError::Fabric { provider: options.provider.to_owned(), source };
        let buffers = own + places;
        let node = options.node.map(str::to_owned).or_else(|| device::address(options.provider));
        let device = FabricDevice { provider: options.provider, node: node.as_deref() };
        let registered = cache.registered(device, buffers, bytes, || {
            let arena = Arena::private(buffers, bytes).map_err(memory)?;
            RegisteredArena::open(device, arena).map_err(failed)
        })?;
        let mut endpoint = Endpoint::open(Arc::clone(&registered)).map_err(failed)?;
        let mut buffers = registered.arena().take_all();
        let mut receiving = Vec::new();
        // No host may send before the places have been offered.
        for buffer in buffers.split_off(own as usize) {
            receiving.push(buffer.number());
            if endpoint.receive(buffer).map_err(failed)?.is_some() {
                let reason = format!("must be at most {} with this provider", receiving.len() - 1);
                return Err(RoundaboutError::Option { option: "places", reason });
            }
        }
        Ok(Self { endpoint, own: buffers, receiving, sealed: options.sealed })
    }

    /// Starts the threads that serve `connections` and the fabric.
    ///
    /// # Errors
    /// If a neighbour does not send a usable endpoint, if fragments are to be sealed over
    /// unencrypted connections, or if threads cannot be started.
    pub fn start<S: Carrier>(
        mut self,
        position: RingPosition,
        session: Session,
        config: &RingConfig,
        mut connections: Connections<S>,
        inbox: &Arc<dyn Inbox>,
    ) -> Result<OpenLink<FabricLink>, RoundaboutError> {
        let failed = |source| RoundaboutError::Fabric { provider: "the agreed one".to_owned(), source };
        let seals = if self.sealed { Some(seals(&connections, session)?) } else { None };
        let address = self.endpoint.address().map_err(failed)?;
        let message = Message::Endpoint { bytes: address.len() as u32, sealed: self.sealed };
        for connection in [&mut connections.forward_out, &mut connections.back_out] {
            connection.stream.write_all(&[&message.encode(session)[..], &address].concat())?;
            connection.stream.flush()?;
        }
        let predecessor = self.neighbour(position.predecessor(), session, &mut connections.forward_in)?;
        let successor = self.neighbour(position.successor(), session, &mut connections.back_in)?;
        let mut add = |host, address: &[u8]| {
            let failure = Failure { host, reason: Reason::Closed };
            let peer = self.endpoint.add(address).map_err(failed)?;
            peer.ok_or(RoundaboutError::Failed { failure, detail: None })
        };
        add(position.predecessor(), &predecessor)?;
        let successor_peer = add(position.successor(), &successor)?;
        let credits = connections.credits;
        let sockets = Arc::new(Sockets::serve_beside(position, session, config, connections, inbox)?);
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
            position,
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
        Ok(OpenLink { link, own: self.own, credits })
    }

    /// Reads the address of a neighbour's endpoint.
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
            _ => Err(wire(WireError::Damaged(
                "expected the address of its endpoint, got another message; use libfabric on all hosts",
            ))),
        }
    }
}

/// Returns the seals for fragments to the successor, and for those from the predecessor.
fn seals<S: Carrier>(connections: &Connections<S>, session: Session) -> Result<(Seals, Seals), RoundaboutError> {
    let seals = |connection: &Connection<S>| {
        let key = connection.stream.export(b"EXPORTER-annulus-roundabout-slots", &session.to_le_bytes());
        key.and_then(|key| Seals::new(key).ok())
    };
    let both = seals(&connections.forward_out).zip(seals(&connections.forward_in));
    both.ok_or_else(|| {
        let reason = "need TLS connections, which provide the keys".to_owned();
        RoundaboutError::Option { option: "sealed fragments", reason }
    })
}

/// A link that uses libfabric for fragments, and sockets for all other messages.
pub struct FabricLink {
    sockets: Arc<Sockets>,
    jobs: Sender<Job>,
    wake: UnixStream,
    timeout: Duration,
    /// The thread, and a receiver that disconnects when it has ended.
    pumping: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
    /// The addresses of the neighbours' endpoints.
    neighbours: [Vec<u8>; 2],
}

impl FabricLink {
    fn post(&self, job: Job) {
        // A thread that has ended has reported the reason to the host. If the pipe is full, the
        // thread is awake already.
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
        // Says goodbye first: after that the end of the endpoint is not a failure.
        self.sockets.close();
        self.post(Job::End);
        let pumping = self.pumping.lock().take();
        if let Some((thread, ended)) = pumping {
            // A provider may wait forever for a neighbour that was killed while it used shared
            // memory. Then the thread is abandoned, with everything that it owns, neighbours' endpoints of
            // this process included.
            if ended.recv_timeout(self.timeout) == Err(RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
        }
        if self.sockets.are_alarmed() {
            self.neighbours.iter().for_each(|address| libfabric::remove(address));
        }
    }
}

/// A link dropped before it is closed makes its host give up.
impl Drop for FabricLink {
    fn drop(&mut self) {
        self.sockets.give_up();
        self.close();
    }
}
