//! A host of a ring of machines: it waits for coordinators, and does what they say, one join at a
//! time.

mod callers;

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use annulus_roundabout::secure::{self, Authority, HostName, Secure};
use tracing::{error, info, warn};

use self::callers::{CALLERS, Callers, Hearing};
use crate::{
    control::{Lane, LineWriter, Report},
    error::ClusterError,
    host::{self, Member, Stop},
    job::LEAST_TIMEOUT,
    ring_file::listen,
};

/// So long who has connected may take to say what for.
const HEARING: Duration = Duration::from_secs(5);
/// Between attempts to take callers, if the system refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// A node that listens.
pub struct Node {
    member: Member,
    listener: TcpListener,
    /// A coordinator that says nothing for so long is gone.
    timeout: Duration,
    join: Arc<Running>,
}

/// The connection by which the join that runs is ordered, if one does.
#[derive(Default)]
struct Running {
    orders: Mutex<Option<TcpStream>>,
    ended: Condvar,
}

impl Running {
    fn orders(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Listens where the ring's file says that this host takes orders.
    ///
    /// # Errors
    /// If the file does not have this host, the key of the ring's authority lies beside the host's
    /// certificate, or its address cannot be listened at.
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
        // Another program may have its other address.
        listen(&host.data, "rows")?;
        Ok(Self { member, listener, timeout, join: Arc::default() })
    }

    /// Takes orders until the process ends. What it does is told by `tracing`.
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
                // Who says nothing keeps nobody else from being heard.
                let hear = move || self.hear(stream, address, hearing, waiting);
                if let Err(error) = thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, hear) {
                    error!("cannot hear {address}: {error}");
                }
            }
        })
    }

    /// Ends the join that runs, which leaves nothing of this host's; waits no longer than a
    /// coordinator may be silent.
    pub fn stop(&self) {
        let orders = self.join.orders();
        if let Some(orders) = &*orders {
            // It may have ended just now.
            orders.shutdown(Shutdown::Both).ok();
        }
        drop(self.join.ended.wait_timeout_while(orders, self.timeout, |orders| orders.is_some()));
    }

    /// A connection of a coordinator, two of which are a join.
    fn hear(&self, stream: TcpStream, address: SocketAddr, hearing: Hearing<'_>, waiting: &Mutex<VecDeque<Heard>>) {
        let greeted = self.greet(stream);
        if hearing.end() {
            return warn!("turned {address} away: it has not said what it wants, and others are waiting");
        }
        let (peer, lane, stream) = match greeted {
            Ok(greeted) => greeted,
            Err(error) => return warn!("turned {address} away: {error}"),
        };
        let heard = Heard { peer: peer.clone(), lane, stream, since: Instant::now() };
        let (orders, reports) = match (lane, meet(heard, waiting)) {
            (_, None) => return,
            (Lane::Orders(_), Some((orders, reports))) | (Lane::Reports(_), Some((reports, orders))) => {
                (orders, reports)
            }
        };
        info!("orders from submitter {peer} at {address}");
        self.start(orders, reports);
    }

    fn greet(&self, stream: TcpStream) -> Result<(HostName, Lane, Secure), ClusterError> {
        let end = Instant::now() + HEARING;
        stream.set_nodelay(true)?;
        let secured = secure::accept_submitter(stream, &self.member.identity, HEARING);
        let (mut secured, peer) =
            secured.map_err(|source| ClusterError::Secure { host: "a coordinator".to_owned(), source })?;
        let lane = first_line(&mut secured, end)?;
        Ok((peer, lane, secured))
    }

    /// A join, on a thread of its own; others meanwhile are told that this host is busy.
    fn start(&self, orders: Secure, reports: Secure) {
        let mut running = self.join.orders();
        let refused = match (&*running, orders.stream().try_clone()) {
            (Some(_), _) => Some(Report::Busy),
            (None, Err(error)) => Some(Report::Failed { reason: error.to_string(), other: None }),
            (None, Ok(clone)) => {
                *running = Some(clone);
                None
            }
        };
        drop(running);
        if let Some(report) = refused {
            match &report {
                Report::Failed { reason, .. } => warn!("refused a join: {reason}"),
                _ => warn!("refused a join: this host is busy with another one"),
            }
            LineWriter::new(reports).write(&report).ok();
            return;
        }
        let (join, member, timeout) = (Arc::clone(&self.join), self.member.clone(), self.timeout);
        let reports = Reports { _running: IdleAtDrop(join), stream: reports };
        let work = move || {
            let limits = orders.stream().set_read_timeout(Some(timeout));
            let limits = limits.and_then(|()| reports.stream.stream().set_write_timeout(Some(timeout)));
            // What becomes of the join is told there.
            if let Err(error) = limits
                .map_err(ClusterError::Io)
                .and_then(|()| host::serve(orders, reports, Some(member), Stop::default()))
            {
                error!("cannot start a join: {error}");
            }
        };
        if let Err(error) = thread::Builder::new().name("join".to_owned()).spawn(work) {
            error!("cannot start a join: {error}");
        }
    }
}

/// The connection of a coordinator that came first.
struct Heard {
    peer: HostName,
    lane: Lane,
    stream: Secure,
    since: Instant,
}

/// This connection and the coordinator's other one, if that has come; else it waits.
fn meet(heard: Heard, waiting: &Mutex<VecDeque<Heard>>) -> Option<(Secure, Secure)> {
    let other = match heard.lane {
        Lane::Orders(token) => Lane::Reports(token),
        Lane::Reports(token) => Lane::Orders(token),
    };
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain(|heard| heard.since.elapsed() < HEARING);
    if let Some(place) = waiting.iter().position(|one| one.lane == other && one.peer == heard.peer) {
        return waiting.remove(place).map(|other| (heard.stream, other.stream));
    }
    // The one that has waited longest makes room.
    waiting.truncate(CALLERS - 1);
    waiting.push_front(heard);
    None
}

/// What a join reports. Whoever sees its end finds the host idle: fields are dropped in their
/// order.
struct Reports {
    _running: IdleAtDrop,
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

struct IdleAtDrop(Arc<Running>);

impl Drop for IdleAtDrop {
    fn drop(&mut self) {
        if let Some(orders) = self.0.orders().take() {
            // Nobody takes more orders, and the thread that reads them ends.
            orders.shutdown(Shutdown::Both).ok();
        }
        self.0.ended.notify_all();
    }
}

/// One message, which is there by then, and not a byte of what follows.
fn first_line(stream: &mut Secure, end: Instant) -> Result<Lane, ClusterError> {
    let broken = |reason: String| ClusterError::Control { reason };
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        if line.len() > 100 {
            return Err(broken("it does not say what it is for".to_owned()));
        }
        let silent = || broken(format!("it has not said within {HEARING:?} what it is for"));
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
