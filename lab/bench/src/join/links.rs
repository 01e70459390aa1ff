//! The connections between the hosts of a ring.

use std::{
    net::TcpListener,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    time::Duration,
};

use annulus_roundabout::{
    Address, Host, HostBuilder, RingConfig, RingPosition, Tls,
    secure::{Authority, HostName, Identity, RingName},
};
use anyhow::{Context, Result};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::{args::Link, network::Network};

const SESSION: u64 = 1;
/// A timeout that is long enough that no host counts as lost on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The addresses and certificates of a ring's hosts. Each position is taken once.
pub(super) struct Links<'a> {
    hosts: u16,
    /// The network in which hosts are, if it is not this machine's.
    network: Option<&'a Network>,
    config: RingConfig,
    #[cfg(feature = "ofi")]
    link: Link,
    addresses: Vec<Mutex<Option<Address>>>,
    /// The hosts' identities for TLS.
    identities: Vec<Identity>,
    /// The folder of sockets and certificates, removed on drop.
    _folder: TempDir,
}

impl<'a> Links<'a> {
    /// Opens the sockets. In a network of their own, hosts are connected by TCP.
    pub(super) fn new(hosts: u16, link: Link, config: RingConfig, network: Option<&'a Network>) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for sockets and certificates")?;
        let addresses = match (network, link) {
            (Some(_), _) => Ok(Vec::new()),
            (None, Link::Shared) => unix(hosts, folder.path()),
            (None, _) => tcp(hosts),
        };
        let addresses = addresses.context("cannot open a socket")?.into_iter();
        let addresses = addresses.map(|address| Mutex::new(Some(address))).collect();
        let identities = if link == Link::Tls { identities(hosts, folder.path())? } else { Vec::new() };
        Ok(Self {
            #[cfg(feature = "ofi")]
            link,
            hosts,
            network,
            config,
            addresses,
            identities,
            _folder: folder,
        })
    }

    /// Returns host `me`, connected to its neighbours. In a network of their own, the calling
    /// thread moves to the host's.
    ///
    /// # Errors
    /// If it cannot connect, or its position is already taken.
    pub(super) fn start(&self, me: u16) -> Result<Host> {
        let position = RingPosition::new(me, self.hosts).context("a place in the ring")?;
        let address = self.address(me)?;
        #[cfg(feature = "ofi")]
        if let Some(options) = self.link.fabric() {
            let joining = HostBuilder::new(position, SESSION, address).with_config(&self.config).with_fabric(&options);
            return Ok(Host::join_ring(joining)?);
        }
        let Some(identity) = self.identities.get(usize::from(me)) else {
            return Ok(Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(&self.config))?);
        };
        let name = |host: u16| self.identities[usize::from(host)].member().host.clone();
        let (predecessor, successor) = (name(position.predecessor().0), name(position.successor().0));
        let tls = Tls { identity, predecessor, successor };
        Ok(Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(&self.config).with_protect(&tls))?)
    }

    fn address(&self, me: u16) -> Result<Address> {
        if let Some(network) = self.network {
            network.enter(me).context("cannot enter a network namespace")?;
            return network.address(me).context("cannot open a socket in a network namespace");
        }
        let address = self.addresses[usize::from(me)].lock().take();
        address.context("a position is taken once")
    }
}

/// Returns host `me` of `hosts` (at least two), with its neighbours at `address`.
///
/// # Errors
/// If `me` is not below `hosts`, or the host cannot connect to its neighbours.
pub(super) fn start_at(me: u16, hosts: u16, config: &RingConfig, address: Address) -> Result<Host> {
    let position = RingPosition::new(me, hosts).context("a place in the ring")?;
    Ok(Host::join_ring(HostBuilder::new(position, SESSION, address).with_config(config))?)
}

/// Returns a configuration with `buffers` buffers of `element` bytes on each host.
pub(crate) fn config(element: u32, buffers: u32) -> RingConfig {
    let config = RingConfig::default().with_fragment_bytes(element).with_buffers(buffers);
    config.with_timeout(PATIENCE).with_connect_timeout(PATIENCE)
}

/// Returns the bytes of a host's buffers, the same for every link. A single host receives nothing,
/// and has no buffers for that.
pub(super) fn buffer_bytes(hosts: u16, config: &RingConfig) -> u64 {
    let buffers = if hosts == 1 { config.own } else { config.buffers() };
    u64::from(buffers) * u64::from(config.fragment_bytes)
}

fn unix(hosts: u16, folder: &Path) -> std::io::Result<Vec<Address>> {
    let path = |host: u16| -> PathBuf { folder.join(format!("host-{host}")) };
    let address = |me| Ok(Address::Unix { listener: UnixListener::bind(path(me))?, successor: path((me + 1) % hosts) });
    (0..hosts).map(address).collect()
}

fn tcp(hosts: u16) -> std::io::Result<Vec<Address>> {
    let listeners = (0..hosts).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let mut successors = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    successors.rotate_left(1);
    Ok(listeners
        .into_iter()
        .zip(successors)
        .map(|(listener, successor)| Address::Tcp { listener, successor })
        .collect())
}

fn identities(hosts: u16, folder: &Path) -> Result<Vec<Identity>> {
    let authority = Authority::create(folder, RingName::new("bench")?)?;
    let identity = |host: u16| {
        let files = authority.add_host(&HostName::new(format!("host-{host}"))?, &[])?;
        Ok(Identity::load(&files.authority, &files.certificate, &files.key)?)
    };
    (0..hosts).map(identity).collect()
}
