//! How a host finds its neighbours: it connects to its successor, twice, while its predecessor connects to it.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, SockAddr, Socket, Type};

use super::{Connection, Connections, handover};
use crate::{
    config::Config,
    error::RoundaboutError,
    ring::{HostId, Place},
    wire::{Hello, Lane, MESSAGE_BYTES, Message, Session, WireError},
};

/// Between two tries to reach a host that does not listen yet.
const PAUSE: Duration = Duration::from_millis(20);

/// Where a host and its successor are.
#[derive(Debug)]
pub enum Address {
    /// Any machine.
    Tcp {
        /// What the predecessor connects to.
        listener: TcpListener,
        /// Where the successor listens.
        successor: SocketAddr,
    },
    /// One machine, whose hosts hand their buffers over.
    Unix {
        /// What the predecessor connects to.
        listener: UnixListener,
        /// Where the successor listens.
        successor: PathBuf,
    },
}

/// Connects to both neighbours, in the clear. Who connects without the right greeting is turned away, and does not disturb.
///
/// # Errors
/// If one of them is not there within [`Config::connect_timeout`], or runs with other options.
pub fn connect(
    place: Place,
    session: Session,
    config: &Config,
    address: Address,
) -> Result<Connections<Socket>, RoundaboutError> {
    let (listener, successor, shared) = match address {
        Address::Tcp { listener, successor } => (Socket::from(listener), SockAddr::from(successor), false),
        Address::Unix { listener, successor } => {
            (Socket::from(OwnedFd::from(listener)), SockAddr::unix(successor)?, true)
        }
    };
    let greeting = Greeting { place, session, config, deadline: Instant::now() + config.connect_timeout };
    let (out, incoming) = thread::scope(|scope| {
        let out = scope.spawn(|| {
            let forward = greeting.connect(&successor, Lane::Forward)?;
            Ok::<_, RoundaboutError>((forward, greeting.connect(&successor, Lane::Back)?))
        });
        let incoming = greeting.accept_both(&listener);
        (out.join(), incoming)
    });
    let Ok(out) = out else { return Err(RoundaboutError::Stopped) };
    let (((forward_out, credits), (back_in, _)), (forward_in, back_out)) = (out?, incoming?);
    let share = || {
        handover::share(place, session, config, &forward_in.socket, &forward_out.socket)
            .map_err(|source| RoundaboutError::Handover { host: place.predecessor(), source })
    };
    let arenas = shared.then(share).transpose()?;
    Ok(Connections { forward_out, back_in, forward_in, back_out, credits, arenas })
}

struct Greeting<'a> {
    place: Place,
    session: Session,
    config: &'a Config,
    deadline: Instant,
}

impl Greeting<'_> {
    /// A connection to the successor, and how many frames it has room for.
    fn connect(&self, address: &SockAddr, lane: Lane) -> Result<(Connection<Socket>, u32), RoundaboutError> {
        let host = self.place.successor();
        let failed = |source| RoundaboutError::Connect {
            host,
            address: shown(address),
            within: self.config.connect_timeout,
            source,
        };
        let mut stream = loop {
            match self.left().and_then(|left| dial(address, left)) {
                Ok(stream) => break stream,
                Err(error) if self.left().is_err() => return Err(failed(error)),
                // Not listening yet. There is nothing to wait for but time.
                Err(_) => thread::sleep(PAUSE),
            }
        };
        self.set_up(&stream).map_err(failed)?;
        let hello = Hello {
            from: self.place.me(),
            hosts: self.place.hosts(),
            fragment_bytes: self.config.fragment_bytes,
            lane,
        };
        stream.write_all(&Message::Hello(hello).encode(self.session)).map_err(failed)?;
        match self.read(&mut stream).map_err(failed)?.map_err(|source| RoundaboutError::Wire { host, source })? {
            Message::Welcome { places, fragment_bytes } => {
                same(host, "fragment bytes", fragment_bytes.into(), self.config.fragment_bytes.into())?;
                Ok((self.greeted(stream)?, places))
            }
            _ => Err(RoundaboutError::Wire { host, source: WireError::Damaged("another message than a welcome") }),
        }
    }

    /// The predecessor's two connections: what it sends, and what is sent to it.
    fn accept_both(&self, listener: &Socket) -> Result<(Connection<Socket>, Connection<Socket>), RoundaboutError> {
        let host = self.place.predecessor();
        let (mut forward, mut back) = (None, None);
        let mut last = io::Error::from(io::ErrorKind::TimedOut);
        loop {
            let failed = |source| RoundaboutError::Accept { host, within: self.config.connect_timeout, source };
            let Ok(left) = self.left() else { return Err(failed(last)) };
            listener.set_read_timeout(Some(left)).map_err(failed)?;
            let mut stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(failed(error)),
            };
            match self.greet(&mut stream) {
                Ok(Some(lane)) => {
                    let connection = self.greeted(stream)?;
                    *(if lane == Lane::Forward { &mut forward } else { &mut back }) = Some(connection);
                }
                Ok(None) => {}
                Err(RoundaboutError::Io(error)) => last = error,
                Err(RoundaboutError::Wire { source, .. }) => last = io::Error::other(source),
                Err(error) => return Err(error),
            }
            match (forward.take(), back.take()) {
                (Some(forward), Some(back)) => return Ok((forward, back)),
                one => (forward, back) = one,
            }
        }
    }

    /// Which lane a connection that was accepted is for; none if it is not the predecessor's.
    fn greet(&self, stream: &mut Socket) -> Result<Option<Lane>, RoundaboutError> {
        let host = self.place.predecessor();
        self.set_up(stream)?;
        let message = self.read(stream)?.map_err(|source| RoundaboutError::Wire { host, source })?;
        let Message::Hello(Hello { from, hosts, fragment_bytes, lane }) = message else {
            return Err(RoundaboutError::Wire { host, source: WireError::Damaged("another message than a greeting") });
        };
        if from != host {
            return Ok(None);
        }
        same(host, "hosts", hosts.into(), self.place.hosts().into())?;
        let Config { places, fragment_bytes: ours, .. } = *self.config;
        // The predecessor is told before this host gives up, so that both can say what differs.
        stream.write_all(&Message::Welcome { places, fragment_bytes: ours }.encode(self.session))?;
        same(host, "fragment bytes", fragment_bytes.into(), ours.into())?;
        Ok(Some(lane))
    }

    fn read(&self, stream: &mut Socket) -> io::Result<Result<Message, WireError>> {
        let mut bytes = [0; MESSAGE_BYTES];
        stream.read_exact(&mut bytes)?;
        Ok(Message::decode(&bytes, self.session))
    }

    /// For the greeting, which has to be over in time.
    fn set_up(&self, stream: &Socket) -> io::Result<()> {
        if stream.local_addr()?.domain() != Domain::UNIX {
            stream.set_tcp_nodelay(true)?;
        }
        let left = self.left()?;
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))
    }

    /// For what follows it.
    fn greeted(&self, stream: Socket) -> io::Result<Connection<Socket>> {
        stream.set_read_timeout(Some(self.config.timeout))?;
        stream.set_write_timeout(Some(self.config.timeout))?;
        Ok(Connection { socket: stream.try_clone()?, stream })
    }

    /// Time that is left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

fn same(host: HostId, option: &'static str, theirs: u64, ours: u64) -> Result<(), RoundaboutError> {
    if theirs == ours { Ok(()) } else { Err(RoundaboutError::Differs { host, option, theirs, ours }) }
}

fn dial(address: &SockAddr, within: Duration) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    socket.connect_timeout(address, within)?;
    Ok(socket)
}

fn shown(address: &SockAddr) -> String {
    let path = address.as_pathname().map(|path| path.display().to_string());
    path.or_else(|| address.as_socket().map(|address| address.to_string())).unwrap_or_default()
}
