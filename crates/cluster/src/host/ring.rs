//! Connects a host to its ring.

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(feature = "ofi")]
use annulus_roundabout::fabric::FabricOptions;
use annulus_roundabout::{
    Address, Clear, Host, HostId, Joining, Place, Protect, RingConfig, RoundaboutError, Stopper, Tls, secure::Identity,
};

use crate::{
    access::Access,
    control::{Neighbours, Task},
    error::ClusterError,
    ring_file::{RingFile, RingHost, listen, resolve},
};

/// A host of a ring of machines.
#[derive(Clone)]
pub struct Member {
    /// The ring's file.
    pub file: RingFile,
    /// The host's certificate and key.
    pub identity: Identity,
    /// The folders that joins may read and write on this host.
    pub access: Access,
    /// The longest time that this host waits for the next order of a join. Other hosts may take
    /// long for their step.
    pub step_timeout: Duration,
}

/// Connects to the neighbours. `stopper` ends the attempt, and later the host's part in the ring.
pub(super) fn enter(task: &Task, member: Option<&Member>, stopper: &Stopper) -> Result<Host, ClusterError> {
    let refuse = |reason: String| ClusterError::Control { reason };
    let ring = &task.ring;
    let place = Place::new(ring.host, ring.hosts);
    let place = place.ok_or_else(|| refuse(format!("no host {} of {}", ring.host, ring.hosts)))?;
    let timeout = Duration::from_millis(ring.timeout_ms);
    let config = RingConfig::default()
        .with_fragment_bytes(ring.fragment_bytes)
        .with_timeout(timeout)
        // All hosts begin to connect at the same time.
        .with_connect_timeout(timeout)
        .with_buffers(ring.buffers);
    match (&ring.neighbours, member) {
        (Neighbours::Folder(folder), None) => by_folder(task, place, &config, folder, stopper),
        (Neighbours::Folder(_), Some(_)) => Err(refuse("hosts of a ring of machines have no folder".to_owned())),
        (Neighbours::Ring(names), Some(member)) => by_file(task, place, &config, names, member, stopper),
        (Neighbours::Ring(_), None) => Err(refuse("this host has no ring file".to_owned())),
    }
}

fn by_folder(
    task: &Task,
    place: Place,
    config: &RingConfig,
    folder: &Path,
    stopper: &Stopper,
) -> Result<Host, ClusterError> {
    let path = |host: HostId| socket(folder, host.index());
    let listener = UnixListener::bind(path(place.me()))?;
    let address = Address::Unix { listener, successor: path(place.successor()) };
    let host =
        Host::join_ring(Joining::new(place, task.ring.session, address).with_config(config).with_stopper(stopper));
    // No other host will connect.
    leave(task, None);
    Ok(host?)
}

fn by_file(
    task: &Task,
    place: Place,
    config: &RingConfig,
    names: &[String],
    Member { file, identity, .. }: &Member,
    stopper: &Stopper,
) -> Result<Host, ClusterError> {
    let refuse = |reason: String| ClusterError::Control { reason };
    let host = |id: HostId| -> Result<&RingHost, ClusterError> {
        let name = names.get(id.index()).ok_or_else(|| refuse("a ring with too few names".to_owned()))?;
        file.host(&name.parse().map_err(|_| refuse(format!("invalid host name '{name}'")))?)
    };
    let (me, successor, predecessor) = (host(place.me())?, host(place.successor())?, host(place.predecessor())?);
    if me.name != identity.member().host {
        return Err(refuse(format!("this host is '{}', and was ordered to be '{}'", identity.member().host, me.name)));
    }
    let listener = listen(&me.data, "rows")?;
    let address = Address::Tcp { listener, successor: resolve(&successor.data)? };
    let at = (place, task.ring.session);
    let host = if file.trusted_network {
        join((file, me), at, config, address, &Clear, stopper)
    } else {
        let (predecessor, successor) = (predecessor.name.clone(), successor.name.clone());
        join((file, me), at, config, address, &Tls { identity, predecessor, successor }, stopper)
    };
    Ok(host?)
}

/// Joins the ring by libfabric if the ring's file says so, and by sockets otherwise. With
/// libfabric, fragments are sealed unless the network is trusted.
#[cfg_attr(not(feature = "ofi"), expect(unused_variables))]
fn join(
    (file, me): (&RingFile, &RingHost),
    (place, session): (Place, u64),
    config: &RingConfig,
    address: Address,
    protect: &impl Protect,
    stopper: &Stopper,
) -> Result<Host, RoundaboutError> {
    #[cfg(feature = "ofi")]
    if let Some(provider) = &file.fabric {
        let (node, sealed) = (me.fabric_address.as_deref(), !file.trusted_network);
        let options = FabricOptions::new(provider).with_node(node).with_sealed(sealed);
        return Host::join_ring(
            Joining::new(place, session, address)
                .with_config(config)
                .with_protect(protect)
                .with_fabric(&options)
                .with_stopper(stopper),
        );
    }
    Host::join_ring(
        Joining::new(place, session, address).with_config(config).with_protect(protect).with_stopper(stopper),
    )
}

/// Removes this host's socket. Also removes the folder if it is empty then, because a coordinator
/// that is killed does not.
pub(super) fn leave(task: &Task, member: Option<&Member>) {
    let (Neighbours::Folder(folder), None) = (&task.ring.neighbours, member) else { return };
    // They may be gone already, or the folder may hold the sockets of other hosts.
    fs::remove_file(socket(folder, task.ring.host.into())).ok();
    fs::remove_dir(folder).ok();
}

fn socket(folder: &Path, host: usize) -> PathBuf {
    folder.join(format!("host-{host}"))
}
