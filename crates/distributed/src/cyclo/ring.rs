//! Connects the tasks of a join to a ring.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    time::Duration,
};

use annulus_cyclo::CycloError;
use annulus_join::JoinError;
use annulus_roundabout::{
    Address, Clear, Host, Joining, Place, RingConfig, RoundaboutError, Stopper, Tls,
    secure::{HostName, Identity},
};
use url::Url;

use super::meeting::{Met, MetHost};

/// Listens at a free port, where others reach the worker `own`. Returns the address for them, too.
///
/// # Errors
/// If the worker's name cannot be resolved, or no port is free.
pub(super) fn listen(own: &Url) -> io::Result<(TcpListener, String)> {
    let name = own.host_str().unwrap_or_default();
    let address = resolve(&format!("{name}:0"))?.ip();
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // Others may know this machine by an address that it does not know itself.
    let listener = TcpListener::bind((address, 0)).or_else(|_| TcpListener::bind((any, 0)))?;
    let port = listener.local_addr()?.port();
    Ok((listener, format!("{name}:{port}")))
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

/// Connects task `index` to its neighbours.
///
/// # Errors
/// If they cannot be reached, or have no certificates though this task has one.
pub(super) fn connect(
    met: &Met,
    index: u16,
    listener: TcpListener,
    identity: Option<&Identity>,
    silence: Duration,
    stopper: &Stopper,
) -> Result<Host, CycloError> {
    let place = u16::try_from(met.hosts.len()).ok().and_then(|hosts| Place::new(index, hosts));
    let place = place.ok_or_else(|| refuse(format!("a ring of {} workers is too large", met.hosts.len())))?;
    let (successor, predecessor) = (&met.hosts[place.successor().index()], &met.hosts[place.predecessor().index()]);
    let address = resolve(&successor.address).map_err(RoundaboutError::from)?;
    let address = Address::Tcp { listener, successor: address };
    let joining = Joining::new(place, met.session, address)
        .with_config(&config(met.fragment_bytes, silence))
        .with_stopper(stopper);
    let host = match identity {
        None => Host::join_ring(joining.with_protect(&Clear)),
        Some(identity) => {
            let (predecessor, successor) = (name(predecessor)?, name(successor)?);
            Host::join_ring(joining.with_protect(&Tls { identity, predecessor, successor }))
        }
    };
    Ok(host?)
}

fn name(host: &MetHost) -> Result<HostName, CycloError> {
    let name = host.member.as_deref().and_then(|name| name.parse().ok());
    name.ok_or_else(|| refuse(format!("{} has no certificate, but this worker has one", host.worker)))
}

fn refuse(reason: String) -> CycloError {
    JoinError::Outside(reason.into()).into()
}
