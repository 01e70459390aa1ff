//! The connections of a task to its neighbours in the ring.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    os::unix::{fs::MetadataExt, net::UnixListener},
    path::{Path, PathBuf},
    time::Duration,
};

use annulus_cyclo::CycloError;
use annulus_join::JoinError;
#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_roundabout::{
    Address, Host, HostBuilder, RingConfig, RingPosition, RoundaboutError, StopHandle, Tls, secure::HostName,
};
use tempfile::TempDir;
use url::Url;

use crate::state::{LocalAddress, RingAgreement, RingHost, TaskAccess};

/// The sockets at which a task waits for its predecessor.
pub(super) struct RingListener {
    tcp: TcpListener,
    /// The address of `tcp`, for others.
    pub(super) address: String,
    unix: Option<(UnixListener, LocalAddress)>,
    /// The folder of the socket, until the task is connected.
    _folder: Option<TempDir>,
}

impl RingListener {
    /// Listens at a free port of the address by which others reach the worker `own`, and at a socket in the first
    /// of `folders` whose path is short enough.
    ///
    /// # Errors
    /// If the worker's name cannot be resolved, or no port is free.
    pub(super) fn start(own: &Url, folders: &[PathBuf]) -> io::Result<Self> {
        let name = own.host_str().unwrap_or_default();
        let address = resolve(&format!("{name}:0"))?.ip();
        let any = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        // Others may know this machine by an address that it does not know itself.
        let tcp = TcpListener::bind((address, 0)).or_else(|_| TcpListener::bind((any, 0)))?;
        let address = format!("{name}:{}", tcp.local_addr()?.port());
        // Without it, the ring uses the port.
        let (folder, unix) = folders.iter().find_map(|folder| listen_locally(folder).ok()).unzip();
        Ok(Self { tcp, address, unix, _folder: folder })
    }

    /// Returns the address for processes of this machine.
    pub(super) fn local(&self) -> Option<LocalAddress> {
        self.unix.as_ref().map(|(_, local)| local.clone())
    }
}

/// Listens at a socket in a new folder, which belongs to this user.
fn listen_locally(parent: &Path) -> io::Result<(TempDir, (UnixListener, LocalAddress))> {
    let folder = tempfile::Builder::new().prefix("annulus-ring-").tempdir_in(parent)?;
    let path = folder.path().join("host");
    let listener = UnixListener::bind(&path)?;
    Ok((folder, (listener, LocalAddress { machine: machine()?, path })))
}

/// Returns an identifier that processes share if they reach each other's files: the boot of the machine, the
/// mount namespace, and the user.
fn machine() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let files = fs::read_link("/proc/self/ns/mnt")?;
    let user = fs::metadata("/proc/self")?.uid();
    Ok(format!("{} {} {user}", boot.trim(), files.display()))
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let found = address.to_socket_addrs()?.next();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("'{address}' has no address")))
}

/// Returns the options of a ring with fragments of this size, whose hosts are lost after `silence`.
pub(super) fn config(fragment_bytes: u32, silence: Duration) -> RingConfig {
    // All hosts begin to connect at the same time.
    RingConfig::default().with_fragment_bytes(fragment_bytes).with_timeout(silence).with_connect_timeout(silence)
}

/// Connects task `index` to its neighbours: through libfabric if all have the same provider, else
/// through shared memory if all are on this machine.
///
/// # Errors
/// If they cannot be reached, or have no certificates though this task has one.
pub(super) fn connect(
    agreement: &RingAgreement,
    index: u16,
    listening: RingListener,
    access: &TaskAccess,
    stopper: &StopHandle,
) -> Result<Host, CycloError> {
    let position = u16::try_from(agreement.hosts.len()).ok().and_then(|hosts| RingPosition::new(index, hosts));
    let position =
        position.ok_or_else(|| refuse(format!("a ring of {} workers is too large", agreement.hosts.len())))?;
    let (successor, predecessor) =
        (&agreement.hosts[position.successor().index()], &agreement.hosts[position.predecessor().index()]);
    let RingListener { tcp, unix, _folder, .. } = listening;
    let config = config(agreement.fragment_bytes, agreement.silence);
    let joining = |address| {
        HostBuilder::new(position, agreement.session, address)
            .with_config(&config)
            .with_stop_handle(stopper)
            .with_buffer_cache(&access.state.buffers)
    };
    let fabric = access.connections.ring().fabric.as_deref().filter(|_| agreement.fabric().is_some());
    if fabric.is_none()
        && agreement.is_local()
        && let Some((listener, _)) = unix
        && let Some(local) = &successor.local
    {
        let address = Address::Unix { listener, successor: local.path.clone() };
        return Ok(Host::join_ring(joining(address))?);
    }
    let address = resolve(&successor.address).map_err(RoundaboutError::from)?;
    let joining = joining(Address::Tcp { listener: tcp, successor: address });
    let identity = access.connections.identity();
    #[cfg(feature = "ofi")]
    let options = fabric.map(|name| FabricOptions::named(name).with_sealed(identity.is_some()));
    #[cfg(feature = "ofi")]
    let joining = match &options {
        Some(options) => joining.with_fabric(options),
        None => joining,
    };
    Ok(match identity {
        None => Host::join_ring(joining)?,
        Some(identity) => {
            let (predecessor, successor) = (name_of(predecessor)?, name_of(successor)?);
            Host::join_ring(joining.with_protect(&Tls { identity, predecessor, successor }))?
        }
    })
}

/// Returns the name in the certificate of a host.
fn name_of(host: &RingHost) -> Result<HostName, CycloError> {
    let name = host.member.as_deref().and_then(|name| name.parse().ok());
    name.ok_or_else(|| refuse(format!("{} has no certificate, but this worker has one", host.worker)))
}

fn refuse(reason: String) -> CycloError {
    JoinError::Outside(reason.into()).into()
}
