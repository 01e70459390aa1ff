//! Hosts that are nodes on other machines.

use std::{
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    net::{Shutdown, TcpStream},
    panic, thread,
    time::Duration,
};

use annulus_roundabout::secure::{self, Identity, Secure, SecureError};

use super::{HostHandle, HostProcess, Launch};
use crate::{
    control::{Channel, Greeting, LineWriter, Neighbours, VERSION},
    error::ClusterError,
    ring_file::{RingFile, RingHost, resolve},
};

/// The hosts of a ring file.
pub struct RemoteHosts {
    file: RingFile,
    identity: Identity,
    timeout: Duration,
}

impl RemoteHosts {
    /// Returns the hosts of `file`. `identity` is the certificate of a submitter of the ring. A
    /// host that cannot be reached within `timeout` counts as failed.
    pub fn new(file: RingFile, identity: Identity, timeout: Duration) -> Self {
        Self { file, identity, timeout }
    }

    /// Opens one of the two connections of a join to a host.
    fn connect(&self, host: &RingHost, channel: Channel, token: u64) -> Result<Secure, ClusterError> {
        let stream = TcpStream::connect_timeout(&resolve(&host.control)?, self.timeout)?;
        stream.set_nodelay(true)?;
        let secured = secure::connect_within(stream, &self.identity, &host.name, self.timeout);
        let secured = secured.map_err(|source| ClusterError::Secure { host: host.name.to_string(), source })?;
        let writer = LineWriter::new(secured);
        writer.write(&Greeting { version: VERSION, channel, token })?;
        Ok(writer.into_inner())
    }
}

impl Launch for RemoteHosts {
    fn hosts(&self) -> usize {
        self.file.hosts.len()
    }

    fn name(&self, host: usize) -> String {
        let host = &self.file.hosts[host];
        format!("host {} ('{}')", host.number, host.name)
    }

    fn entry_key(&self, host: usize) -> String {
        self.file.hosts[host].name.to_string()
    }

    fn member(&self, host: usize) -> usize {
        self.file.hosts[host].number
    }

    fn start(&self, number: usize) -> Result<HostProcess, ClusterError> {
        let host = &self.file.hosts[number];
        let token = RandomState::new().hash_one(number);
        let both = || -> Result<(Secure, Secure), ClusterError> {
            Ok((self.connect(host, Channel::Orders, token)?, self.connect(host, Channel::Reports, token)?))
        };
        let (orders, reports) = both().map_err(|error| {
            let (reason, lost) = match error {
                // The host is there. Without it, the next one would refuse as well.
                ClusterError::Secure {
                    source: source @ (SecureError::Refused(_) | SecureError::RefusedUs(_)), ..
                } => (format!("its connection at {} cannot be secured: {source}", host.control), false),
                error => (format!("it cannot be reached at {}: {error}", host.control), true),
            };
            ClusterError::Host { host: number, name: self.name(number), reason, lost }
        })?;
        orders.stream().set_write_timeout(Some(self.timeout))?;
        let sockets = [orders.stream().try_clone()?, reports.stream().try_clone()?];
        Ok(HostProcess {
            orders: Box::new(Orders(orders)),
            reports: Box::new(reports),
            handle: Box::new(Sockets(sockets)),
        })
    }

    /// Connects to all hosts at the same time: a slow one does not delay the others.
    fn start_all(&self) -> Result<Vec<HostProcess>, ClusterError> {
        thread::scope(|scope| {
            let starting: Vec<_> = (0..self.hosts()).map(|host| scope.spawn(move || self.start(host))).collect();
            let ended =
                starting.into_iter().map(|host| host.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Ring(self.file.hosts.iter().map(|host| host.name.to_string()).collect())
    }
}

/// Closes the connection for orders when it is dropped.
struct Orders(Secure);

impl Write for Orders {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        // The host may already be gone.
        self.0.close().ok();
    }
}

struct Sockets([TcpStream; 2]);

impl HostHandle for Sockets {
    fn end(&mut self, _: bool) -> Option<String> {
        for socket in &self.0 {
            socket.shutdown(Shutdown::Both).ok();
        }
        None
    }

    /// The host ends when it sees that its orders are closed, which may take time.
    fn is_certain(&self) -> bool {
        false
    }
}
