//! How a host finds its neighbours: it connects to its successor, twice, while its predecessor connects to it.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::net::UnixListener},
    panic,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::geteuid,
};
use socket2::{Domain, SockAddr, Socket};

use super::{
    Connection, Connections,
    callers::{Both, Greeted, Heard, hear},
    dial::{dial, shown},
    handover,
    protect::Protect,
};
use crate::{
    config::Config,
    error::RoundaboutError,
    host::Stopper,
    ring::{HostId, Place},
    wire::{Hello, Lane, MESSAGE_BYTES, Message, Session, WireError},
};

/// So long who has connected may take to say who it is, at most.
const HEARING: Duration = Duration::from_secs(5);

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

/// Connects to both neighbours. Who connects and is not the predecessor is turned away, and does not disturb.
///
/// # Errors
/// If one of them is not there within [`Config::connect_timeout`], is another than it should be, or runs with other options.
pub fn connect<P: Protect>(
    place: Place,
    session: Session,
    config: &Config,
    address: Address,
    protect: &P,
) -> Result<Connections<P::Stream>, RoundaboutError> {
    connect_until(place, session, config, address, protect, &Stopper::default())
}

/// As [`connect`], or until the host is stopped, which is some error then.
pub(crate) fn connect_until<P: Protect>(
    place: Place,
    session: Session,
    config: &Config,
    address: Address,
    protect: &P,
    stopper: &Stopper,
) -> Result<Connections<P::Stream>, RoundaboutError> {
    let config = &config.checked()?;
    let (listener, successor, shared) = match address {
        Address::Tcp { listener, successor } => (Socket::from(listener), SockAddr::from(successor), false),
        Address::Unix { listener, successor } => {
            (Socket::from(OwnedFd::from(listener)), SockAddr::unix(successor)?, true)
        }
    };
    let (deadline, refused) = (Instant::now() + config.connect_timeout, AtomicBool::new(false));
    let greeting = Greeting { place, session, config, protect, stopper, deadline, refused };
    let _accepting = stopper.waits(&[&listener])?;
    let (out, incoming) = thread::scope(|scope| {
        let out = scope.spawn(|| {
            let forward = greeting.connect(&successor, Lane::Forward);
            let both = forward.and_then(|forward| Ok((forward, greeting.connect(&successor, Lane::Back)?)));
            if both.is_err() {
                // Wakes who accepts.
                let _ = listener.shutdown(Shutdown::Both);
            }
            both
        });
        let incoming = greeting.accept_both(&listener);
        greeting.refused.fetch_or(incoming.is_err(), Relaxed);
        (out.join(), incoming)
    });
    let (out, incoming) = match (out.unwrap_or_else(|panic| panic::resume_unwind(panic)), incoming) {
        (Ok(out), Ok(incoming)) => (out, incoming),
        // One that is not there may have been given up for what the other one is.
        (Err(RoundaboutError::Connect { .. }), Err(error)) if !matches!(error, RoundaboutError::Accept { .. }) => {
            return Err(error);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let (((mut forward_out, credits), (back_in, _)), (mut forward_in, back_out)) = (out, incoming);
    let _meeting = stopper.waits(&[&forward_out.socket, &forward_in.socket])?;
    greeting.meet(&mut forward_out, &mut forward_in)?;
    for connection in [&forward_out, &back_in, &forward_in, &back_out] {
        connection.socket.set_read_timeout(Some(config.timeout))?;
        connection.socket.set_write_timeout(Some(config.timeout))?;
    }
    let share = || {
        handover::share(place, session, config, &forward_in.socket, &forward_out.socket)
            .map_err(|source| RoundaboutError::Handover { host: place.predecessor(), source })
    };
    let arenas = shared.then(share).transpose()?;
    Ok(Connections { forward_out, back_in, forward_in, back_out, credits, arenas })
}

struct Greeting<'a, P> {
    place: Place,
    session: Session,
    config: &'a Config,
    protect: &'a P,
    stopper: &'a Stopper,
    deadline: Instant,
    /// The predecessor is there and cannot be: there is no use in waiting for the successor.
    refused: AtomicBool,
}

impl<P: Protect> Greeting<'_, P> {
    /// A connection to the successor, and how many frames it has room for.
    fn connect(&self, address: &SockAddr, lane: Lane) -> Result<(Connection<P::Stream>, u32), RoundaboutError> {
        let host = self.place.successor();
        let failed = |source| RoundaboutError::Connect {
            host,
            address: shown(address),
            within: self.config.connect_timeout,
            source,
        };
        let socket = dial(address, self.deadline, self.stopper, || self.refused.load(Relaxed)).map_err(failed)?;
        let left = self.set_up(&socket).map_err(failed)?;
        let below = socket.try_clone()?;
        let _waiting = self.stopper.waits(&[&below])?;
        // The successor may be busy with others before it comes to this one.
        let stream = self.protect.outgoing(socket, left);
        let mut stream = stream.map_err(|source| RoundaboutError::Secure { host, address: shown(address), source })?;
        let (from, hosts) = (self.place.me(), self.place.hosts());
        let timeout_ms = self.timeout_ms();
        let hello = Hello { from, hosts, fragment_bytes: self.config.fragment_bytes, timeout_ms, lane };
        stream.write_all(&Message::Hello(hello).encode(self.session)).map_err(failed)?;
        stream.flush().map_err(failed)?;
        let message = self.read(&mut stream, &below, left).map_err(failed)?;
        match message.map_err(|source| RoundaboutError::Wire { host, source })? {
            Message::Welcome { places, fragment_bytes, timeout_ms } => {
                self.same_options(host, fragment_bytes, timeout_ms)?;
                if !(2..=1 << 16).contains(&places) {
                    let source = WireError::Damaged("a welcome to too few frames, or too many");
                    return Err(RoundaboutError::Wire { host, source });
                }
                Ok((Connection { stream, socket: below }, places))
            }
            _ => Err(RoundaboutError::Wire { host, source: WireError::Damaged("another message than a welcome") }),
        }
    }

    /// The predecessor's two connections: what it sends, and what is sent to it.
    fn accept_both(&self, listener: &Socket) -> Result<Both<P::Stream>, RoundaboutError> {
        let (host, within) = (self.place.predecessor(), self.config.connect_timeout);
        hear(listener, self.deadline, |socket| self.greet(socket)).map_err(|why| match why {
            Greeted::Stranger(source) => RoundaboutError::Accept { host, within, source },
            Greeted::Differs(error) => error,
        })
    }

    /// Hears out who has connected, for a short time.
    fn greet(&self, socket: Socket) -> Heard<P::Stream> {
        let host = self.place.predecessor();
        let end = Instant::now() + self.set_up(&socket)?.min(HEARING);
        let below = socket.try_clone()?;
        let mut stream = self.protect.incoming(socket, left_until(end)?).map_err(io::Error::from)?;
        let message = self.read(&mut stream, &below, left_until(end)?)?.map_err(io::Error::other)?;
        let Message::Hello(Hello { from, hosts, fragment_bytes, timeout_ms, lane }) = message else {
            return Err(io::Error::other("another message than a greeting").into());
        };
        if from != host {
            return Err(
                io::Error::other(format!("host {from} has connected, for which this is not the next one")).into()
            );
        }
        same(host, "hosts", hosts.into(), self.place.hosts().into()).map_err(Greeted::Differs)?;
        let Config { places, fragment_bytes: ours, .. } = *self.config;
        let welcome = Message::Welcome { places, fragment_bytes: ours, timeout_ms: self.timeout_ms() };
        // The predecessor is told before this host gives up, so that both can say what differs.
        stream.write_all(&welcome.encode(self.session))?;
        stream.flush()?;
        self.same_options(host, fragment_bytes, timeout_ms).map_err(Greeted::Differs)?;
        Ok((lane, Connection { stream, socket: below }))
    }

    /// Waits until the whole ring is there: a word goes around twice, the first time past hosts that have both neighbours, and then
    /// past hosts that know of all. From then on nobody is silent.
    fn meet(&self, to: &mut Connection<P::Stream>, from: &mut Connection<P::Stream>) -> Result<(), RoundaboutError> {
        let host = self.place.predecessor();
        let failed = |source| RoundaboutError::Accept { host, within: self.config.connect_timeout, source };
        for round in 1..=2 {
            let word = Message::Ready(round);
            let mut say = || {
                to.stream.write_all(&word.encode(self.session))?;
                to.stream.flush()
            };
            let first = self.place.me().index() == 0;
            if first {
                say().map_err(failed)?;
            }
            let left = self.left().map_err(failed)?;
            let heard = self.read(&mut from.stream, &from.socket, left).map_err(failed)?;
            if heard.map_err(|source| RoundaboutError::Wire { host, source })? != word {
                let source = WireError::Damaged("another message than that all are there");
                return Err(RoundaboutError::Wire { host, source });
            }
            if !first {
                say().map_err(failed)?;
            }
        }
        Ok(())
    }

    fn timeout_ms(&self) -> u32 {
        // At most a day.
        self.config.timeout.as_millis() as u32
    }

    fn same_options(&self, host: HostId, fragment_bytes: u32, timeout_ms: u32) -> Result<(), RoundaboutError> {
        same(host, "fragment bytes", fragment_bytes.into(), self.config.fragment_bytes.into())?;
        same(host, "a timeout in milliseconds of", timeout_ms.into(), self.timeout_ms().into())
    }

    /// A message that comes within that time as a whole.
    fn read(&self, stream: &mut P::Stream, below: &Socket, within: Duration) -> io::Result<Result<Message, WireError>> {
        let end = Instant::now() + within;
        let (mut bytes, mut read) = ([0; MESSAGE_BYTES], 0);
        while read < bytes.len() {
            below.set_read_timeout(Some(left_until(end)?))?;
            match stream.read(&mut bytes[read..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Message::decode(&bytes, self.session))
    }

    /// For the greeting, which has to be over in the time that is given back.
    fn set_up(&self, socket: &Socket) -> io::Result<Duration> {
        if socket.local_addr()?.domain() == Domain::UNIX {
            check_user(socket)?;
        } else {
            socket.set_tcp_nodelay(true)?;
        }
        let left = self.left()?;
        socket.set_write_timeout(Some(left))?;
        Ok(left)
    }

    fn left(&self) -> io::Result<Duration> {
        left_until(self.deadline)
    }
}

/// Who is handed this host's memory must be the same user.
fn check_user(socket: &Socket) -> io::Result<()> {
    let (other, own) = (getsockopt(socket, PeerCredentials)?.uid(), geteuid().as_raw());
    if other == own {
        return Ok(());
    }
    let what = format!(
        "user {other} is at the other end, and this host runs as user {own}; run all hosts of a machine as one"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// What is left until then, if anything is.
pub(super) fn left_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn same(host: HostId, option: &'static str, theirs: u64, ours: u64) -> Result<(), RoundaboutError> {
    if theirs == ours { Ok(()) } else { Err(RoundaboutError::Differs { host, option, theirs, ours }) }
}
