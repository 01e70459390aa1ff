//! A node: a host of a ring of machines. It accepts joins from coordinators, and runs one at a
//! time.

mod callers;

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::{self, Authority, HostName, Secure};
use tracing::{error, info, warn};

use self::callers::{CALLERS, Callers, Hearing};
use crate::{
    control::{Channel, Greeting, LineWriter, Report, VERSION},
    error::ClusterError,
    host::{self, Admission, Member, Queue, Seat, Stop},
    job::LEAST_TIMEOUT,
    ring_file::listen,
};

/// The time that a caller has to send its greeting.
const HEARING: Duration = Duration::from_secs(5);
/// The pause before the next attempt to accept a connection, if the system refuses one.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait of a join in the queues of other hosts.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A node that listens for coordinators.
///
/// ```no_run
/// use std::{path::Path, time::Duration};
///
/// use annulus_cluster::{Access, Member, Node, RingFile};
/// use annulus_roundabout::secure::Role;
///
/// let file = RingFile::load(Path::new("ring.toml"))?;
/// let identity = file.identity(Role::Host, None)?;
/// let access = Access::new(&["/shared".into()], &["/shared".into()], &file.certificates)?;
/// let member = Member { file, identity, access, step_timeout: Duration::from_secs(3600) };
/// Node::listen(member, Duration::from_secs(5))?.run();
/// # #[allow(unreachable_code)]
/// # Ok::<_, annulus_cluster::ClusterError>(())
/// ```
pub struct Node {
    member: Member,
    listener: TcpListener,
    /// The time of silence after which a coordinator counts as gone.
    timeout: Duration,
    queue: Arc<Queue>,
    at_idle: Option<fn()>,
}

impl Node {
    /// Listens at this host's control address in the ring file.
    ///
    /// # Errors
    /// If the file lacks this host, the key of the ring's authority is beside the host's
    /// certificate, or another program uses one of its addresses.
    pub fn listen(member: Member, timeout: Duration) -> Result<Self, ClusterError> {
        if timeout < LEAST_TIMEOUT {
            let reason = format!("must be at least {} s", LEAST_TIMEOUT.as_secs());
            return Err(ClusterError::Option { option: "timeout", reason });
        }
        let host = member.file.host(&member.identity.member().host)?;
        let authority_key = Authority::key_path(&member.file.certificates);
        if authority_key.exists() {
            return Err(ClusterError::AuthorityKey { path: authority_key });
        }
        let listener = listen(&host.control, "orders")?;
        // Fails early if another program uses the address for rows.
        listen(&host.data, "rows")?;
        Ok(Self { member, listener, timeout, queue: Arc::default(), at_idle: None })
    }

    /// Sets a function that is called after each join, on the thread that ran it. For example, it
    /// can make an allocator return freed memory to the system.
    #[must_use]
    pub fn with_at_idle(self, at_idle: fn()) -> Self {
        Self { at_idle: Some(at_idle), ..self }
    }

    /// Accepts joins until the process ends. Logs with `tracing`.
    pub fn run(&self) -> ! {
        let (waiting, callers) = (&Mutex::default(), &Callers::default());
        thread::scope(|scope| {
            loop {
                let (stream, address) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        error!("cannot accept connections: {error}");
                        // A real delay: with too many open files, nothing signals when one is free.
                        thread::sleep(PAUSE);
                        continue;
                    }
                };
                let hearing = match callers.hear(&stream) {
                    Ok(hearing) => hearing,
                    Err(error) => {
                        error!("cannot hear {address}: {error}");
                        continue;
                    }
                };
                // A silent caller does not delay the others.
                let hear = move || self.hear(stream, address, hearing, waiting);
                if let Err(error) = thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, hear) {
                    error!("cannot hear {address}: {error}");
                }
            }
        })
    }

    /// Ends the running join and those that wait, and removes this host's files of them. Waits at
    /// most for the node's timeout.
    pub fn stop(&self) {
        self.queue.end_all(self.timeout);
    }

    /// Handles one of the two connections of a join.
    fn hear(&self, stream: TcpStream, address: SocketAddr, hearing: Hearing<'_>, waiting: &Mutex<VecDeque<Heard>>) {
        let greeted = self.greet(stream);
        if hearing.end() {
            return warn!("turned {address} away: it sent no greeting, and others are waiting");
        }
        let (peer, greeting, stream) = match greeted {
            Ok(greeted) => greeted,
            Err(error) => return warn!("turned {address} away: {error}"),
        };
        if greeting.version != VERSION {
            warn!("turned {peer} at {address} away: it uses version {} of the messages", greeting.version);
            return refuse_version(&greeting, stream);
        }
        let channel = greeting.channel;
        let heard = Heard { peer: peer.clone(), greeting, stream, since: Instant::now() };
        let Some((stream, other)) = meet(heard, waiting) else { return };
        let (orders, reports) = match channel {
            Channel::Orders => (stream, other),
            Channel::Reports => (other, stream),
        };
        info!("orders from submitter {peer} at {address}");
        self.start(orders, reports);
    }

    fn greet(&self, stream: TcpStream) -> Result<(HostName, Greeting, Secure), ClusterError> {
        let end = Instant::now() + HEARING;
        stream.set_nodelay(true)?;
        let secured = secure::accept_submitter(stream, &self.member.identity, HEARING);
        let (mut secured, peer) =
            secured.map_err(|source| ClusterError::Secure { host: "a coordinator".to_owned(), source })?;
        let greeting = first_line(&mut secured, end)?;
        Ok((peer, greeting, secured))
    }

    /// Starts a join on its own thread, on which it may wait for others.
    fn start(&self, orders: Secure, reports: Secure) {
        let seat = match orders.stream().try_clone() {
            Ok(socket) => self.queue.seat(socket),
            Err(error) => Err(Report::Failed { reason: error.to_string(), other: None }),
        };
        let seat = match seat {
            Ok(seat) => Arc::new(seat),
            Err(report) => {
                match &report {
                    Report::Failed { reason, .. } => warn!("refused a join: {reason}"),
                    Report::Stopped => warn!("refused a join: this host is being stopped"),
                    _ => warn!("refused a join: the queue is full"),
                }
                LineWriter::new(reports).write(&report).ok();
                return;
            }
        };
        let entry_timeout = self.member.step_timeout.saturating_add(LONGEST_WAIT);
        let admission = Admission { member: self.member.clone(), seat: Arc::clone(&seat), entry_timeout };
        let reports = Reports { _seat: seat, stream: reports };
        let (timeout, at_idle) = (self.timeout, self.at_idle);
        let work = move || {
            let limits = orders.stream().set_read_timeout(Some(timeout));
            let limits = limits.and_then(|()| reports.stream.stream().set_write_timeout(Some(timeout)));
            // That thread logs the outcome of the join.
            if let Err(error) = limits
                .map_err(ClusterError::Io)
                .and_then(|()| host::serve_at(orders, reports, Some(admission), Stop::default()))
            {
                error!("cannot start a join: {error}");
            }
            if let Some(at_idle) = at_idle {
                at_idle();
            }
        };
        if let Err(error) = thread::Builder::new().name("join".to_owned()).spawn(work) {
            error!("cannot start a join: {error}");
        }
    }
}

/// Reports to a coordinator that this host does not support its version of the messages.
fn refuse_version(greeting: &Greeting, stream: Secure) {
    if greeting.channel == Channel::Reports {
        let reason = format!(
            "it uses version {VERSION} of the control messages, and the coordinator version {}; install the same \
                release on all machines",
            greeting.version
        );
        LineWriter::new(stream).write(&Report::Failed { reason, other: None }).ok();
    }
}

/// A connection of a coordinator whose other connection has not arrived yet.
struct Heard {
    peer: HostName,
    greeting: Greeting,
    stream: Secure,
    since: Instant,
}

/// Returns this connection and the other one of its join. If the other one has not arrived yet,
/// this one waits.
fn meet(heard: Heard, waiting: &Mutex<VecDeque<Heard>>) -> Option<(Secure, Secure)> {
    let other = Greeting { channel: heard.greeting.channel.other(), ..heard.greeting };
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain(|heard| heard.since.elapsed() < HEARING);
    if let Some(place) = waiting.iter().position(|one| one.greeting == other && one.peer == heard.peer) {
        return waiting.remove(place).map(|other| (heard.stream, other.stream));
    }
    // The connection that has waited longest makes room.
    waiting.truncate(CALLERS - 1);
    waiting.push_front(heard);
    None
}

/// Writes the reports of a join. A coordinator that sees the reports end finds the seat free,
/// because fields are dropped in order.
struct Reports {
    _seat: Arc<Seat>,
    stream: Secure,
}

impl Write for Reports {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.stream.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Reads the first message, which must be complete by `end`, and no byte after it.
fn first_line(stream: &mut Secure, end: Instant) -> Result<Greeting, ClusterError> {
    let broken = |reason: String| ClusterError::Control { reason };
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        if line.len() > 100 {
            return Err(broken("its greeting is too long".to_owned()));
        }
        let silent = || broken(format!("it sent no greeting within {HEARING:?}"));
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        stream.stream().set_read_timeout(Some(left))?;
        stream.read_exact(&mut byte).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => silent(),
            _ => error.into(),
        })?;
        line.extend(byte);
    }
    serde_json::from_slice(&line).map_err(|error| broken(error.to_string()))
}
