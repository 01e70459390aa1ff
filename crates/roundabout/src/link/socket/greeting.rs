//! Connects the neighbours: a host connects to its successor, twice, while its predecessor connects
//! to it.

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
    callers::{ConnectionPair, GreetingResult, Rejection, hear},
    dial::{dial, shown},
    handover,
    protect::Protect,
};
use crate::{
    buffer_cache::BufferCache,
    config::RingConfig,
    error::RoundaboutError,
    ring::{HostId, RingPosition},
    stop::StopHandle,
    wire::{Direction, Hello, MESSAGE_BYTES, Message, Session, WireError},
};

/// The time within which a caller must identify itself.
const HEARING: Duration = Duration::from_secs(5);

/// The listening socket of a host, and the address of its successor.
#[derive(Debug)]
pub enum Address {
    /// Hosts on any machines, connected by TCP.
    Tcp {
        /// The socket that the predecessor connects to.
        listener: TcpListener,
        /// The address of the successor.
        successor: SocketAddr,
    },
    /// Hosts of one machine, connected by Unix sockets. They hand buffers over instead of copying.
    Unix {
        /// The socket that the predecessor connects to.
        listener: UnixListener,
        /// The address of the successor.
        successor: PathBuf,
    },
}

/// Connects to both neighbours. Callers other than the predecessor are turned away.
///
/// # Errors
/// If a neighbour is not reached within [`RingConfig::connect_timeout`], is not the expected host,
/// or runs with other options.
pub fn connect<P: Protect>(
    position: RingPosition,
    session: Session,
    config: &RingConfig,
    address: Address,
    protect: &P,
) -> Result<Connections<P::Stream>, RoundaboutError> {
    connect_until(position, session, (config, &BufferCache::default()), address, protect, &StopHandle::default())
}

/// Like [`connect`], but fails with any error once the host is stopped.
pub(crate) fn connect_until<P: Protect>(
    position: RingPosition,
    session: Session,
    (config, cache): (&RingConfig, &BufferCache),
    address: Address,
    protect: &P,
    stop_handle: &StopHandle,
) -> Result<Connections<P::Stream>, RoundaboutError> {
    let config = &config.checked()?;
    let (listener, successor, shared) = match address {
        Address::Tcp { listener, successor } => (Socket::from(listener), SockAddr::from(successor), false),
        Address::Unix { listener, successor } => {
            (Socket::from(OwnedFd::from(listener)), SockAddr::unix(successor)?, true)
        }
    };
    let (deadline, refused) = (Instant::now() + config.connect_timeout, AtomicBool::new(false));
    let greeting = Greeting { position, session, config, protect, stop_handle, deadline, refused };
    let _accepting = stop_handle.waits(&[&listener])?;
    let (out, incoming) = thread::scope(|scope| {
        let out = scope.spawn(|| {
            let forward = greeting.connect(&successor, Direction::Forward);
            let both = forward.and_then(|forward| Ok((forward, greeting.connect(&successor, Direction::Back)?)));
            if both.is_err() {
                // Wakes the thread that accepts.
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
        // Connecting to the successor may have been given up because of the predecessor.
        (Err(RoundaboutError::Connect { .. }), Err(error)) if !matches!(error, RoundaboutError::Accept { .. }) => {
            return Err(error);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let (((mut forward_out, credits), (back_in, _)), (mut forward_in, back_out)) = (out, incoming);
    let _meeting = stop_handle.waits(&[&forward_out.socket, &forward_in.socket])?;
    greeting.meet(&mut forward_out, &mut forward_in)?;
    for connection in [&forward_out, &back_in, &forward_in, &back_out] {
        connection.socket.set_read_timeout(Some(config.timeout))?;
        connection.socket.set_write_timeout(Some(config.timeout))?;
    }
    let share = || {
        handover::share(position, session, (config, cache), &forward_in.socket, &forward_out.socket)
            .map_err(|source| RoundaboutError::Handover { host: position.predecessor(), source })
    };
    let arenas = shared.then(share).transpose()?;
    Ok(Connections { forward_out, back_in, forward_in, back_out, credits, arenas })
}

struct Greeting<'a, P> {
    position: RingPosition,
    session: Session,
    config: &'a RingConfig,
    protect: &'a P,
    stop_handle: &'a StopHandle,
    deadline: Instant,
    /// The predecessor was refused, so waiting for the successor is pointless.
    refused: AtomicBool,
}

impl<P: Protect> Greeting<'_, P> {
    /// Connects to the successor. Also returns the number of frames that it has room for.
    fn connect(
        &self,
        address: &SockAddr,
        direction: Direction,
    ) -> Result<(Connection<P::Stream>, u32), RoundaboutError> {
        let host = self.position.successor();
        let failed = |source| RoundaboutError::Connect {
            host,
            address: shown(address),
            within: self.config.connect_timeout,
            source,
        };
        let socket = dial(address, self.deadline, self.stop_handle, || self.refused.load(Relaxed)).map_err(failed)?;
        let left = self.set_up(&socket).map_err(failed)?;
        let below = socket.try_clone()?;
        let _waiting = self.stop_handle.waits(&[&below])?;
        // The successor may hear other callers first, so this may take all of the remaining time.
        let stream = self.protect.outgoing(socket, left);
        let mut stream = stream.map_err(|source| RoundaboutError::Secure { host, address: shown(address), source })?;
        let (from, hosts) = (self.position.me(), self.position.hosts());
        let timeout_ms = self.timeout_ms();
        let hello = Hello { from, hosts, fragment_bytes: self.config.fragment_bytes, timeout_ms, direction };
        stream.write_all(&Message::Hello(hello).encode(self.session)).map_err(failed)?;
        stream.flush().map_err(failed)?;
        let message = self.read(&mut stream, &below, left).map_err(failed)?;
        match message.map_err(|source| RoundaboutError::Wire { host, source })? {
            Message::Welcome { places, fragment_bytes, timeout_ms } => {
                self.same_options(host, fragment_bytes, timeout_ms)?;
                if !(2..=1 << 16).contains(&places) {
                    let source = WireError::Damaged("a welcome with too few frames, or too many");
                    return Err(RoundaboutError::Wire { host, source });
                }
                Ok((Connection { stream, socket: below }, places))
            }
            _ => Err(RoundaboutError::Wire {
                host,
                source: WireError::Damaged("expected a welcome, got another message"),
            }),
        }
    }

    /// Accepts the predecessor's two connections: one for its messages, and one for messages to it.
    fn accept_both(&self, listener: &Socket) -> Result<ConnectionPair<P::Stream>, RoundaboutError> {
        let (host, within) = (self.position.predecessor(), self.config.connect_timeout);
        hear(listener, self.deadline, |socket| self.greet(socket)).map_err(|why| match why {
            Rejection::Stranger(source) => RoundaboutError::Accept { host, within, source },
            Rejection::Differs(error) => error,
        })
    }

    /// Greets a caller, for a short time.
    fn greet(&self, socket: Socket) -> GreetingResult<P::Stream> {
        let host = self.position.predecessor();
        let end = Instant::now() + self.set_up(&socket)?.min(HEARING);
        let below = socket.try_clone()?;
        let mut stream = self.protect.incoming(socket, left_until(end)?).map_err(io::Error::from)?;
        let message = self.read(&mut stream, &below, left_until(end)?)?.map_err(io::Error::other)?;
        let Message::Hello(Hello { from, hosts, fragment_bytes, timeout_ms, direction }) = message else {
            return Err(io::Error::other("expected a greeting, got another message").into());
        };
        if from != host {
            return Err(
                io::Error::other(format!("host {from} connected, which is not the predecessor of this host")).into()
            );
        }
        same(host, "hosts", hosts.into(), self.position.hosts().into()).map_err(Rejection::Differs)?;
        let RingConfig { places, fragment_bytes: ours, .. } = *self.config;
        let welcome = Message::Welcome { places, fragment_bytes: ours, timeout_ms: self.timeout_ms() };
        // Answers before checking the options, so that both hosts can report the difference.
        stream.write_all(&welcome.encode(self.session))?;
        stream.flush()?;
        self.same_options(host, fragment_bytes, timeout_ms).map_err(Rejection::Differs)?;
        Ok((direction, Connection { stream, socket: below }))
    }

    /// Waits until all hosts are connected: a message travels around the ring twice. In the first
    /// round each host passes it on when it has both neighbours. The second round informs all hosts
    /// that all are connected. From then on the timeout for silent neighbours applies.
    fn meet(&self, to: &mut Connection<P::Stream>, from: &mut Connection<P::Stream>) -> Result<(), RoundaboutError> {
        let host = self.position.predecessor();
        let failed = |source| RoundaboutError::Accept { host, within: self.config.connect_timeout, source };
        for round in 1..=2 {
            let word = Message::Ready(round);
            let mut send = || {
                to.stream.write_all(&word.encode(self.session))?;
                to.stream.flush()
            };
            let first = self.position.me().index() == 0;
            if first {
                send().map_err(failed)?;
            }
            let left = self.left().map_err(failed)?;
            let heard = self.read(&mut from.stream, &from.socket, left).map_err(failed)?;
            if heard.map_err(|source| RoundaboutError::Wire { host, source })? != word {
                let source = WireError::Damaged("expected the message that all hosts are connected, got another one");
                return Err(RoundaboutError::Wire { host, source });
            }
            if !first {
                send().map_err(failed)?;
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

    /// Reads one whole message within the given time.
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

    /// Prepares a socket for the greeting. Returns the time left for it.
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

/// Checks that the host at the other end, which will get shared memory, runs as the same user.
fn check_user(socket: &Socket) -> io::Result<()> {
    let (other, own) = (getsockopt(socket, PeerCredentials)?.uid(), geteuid().as_raw());
    if other == own {
        return Ok(());
    }
    let what = format!(
        "the host at the other end runs as user {other}, this host as user {own}; run all hosts of a machine as \
            one user"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Returns the time left until `end`, or a timeout error.
pub(super) fn left_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn same(host: HostId, option: &'static str, theirs: u64, ours: u64) -> Result<(), RoundaboutError> {
    if theirs == ours { Ok(()) } else { Err(RoundaboutError::Differs { host, option, theirs, ours }) }
}
