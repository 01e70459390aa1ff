//! How a host comes into its ring.

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    time::Duration,
};

use annulus_roundabout::{
    config::Config,
    host::Host,
    link::socket::{Address, Clear},
    ring::Place,
};

use crate::{
    control::{Neighbours, Task},
    error::ClusterError,
};

/// Finds the neighbours.
pub(super) fn enter(task: &Task) -> Result<Host, ClusterError> {
    let Some(place) = Place::new(task.host, task.hosts) else {
        return Err(ClusterError::Control { reason: format!("no host {} of {}", task.host, task.hosts) });
    };
    let config = Config {
        fragment_bytes: task.fragment_bytes,
        timeout: Duration::from_millis(task.timeout_ms),
        ..Config::default()
    };
    let Neighbours::Folder(folder) = &task.neighbours;
    let path = |host| socket(folder, host);
    let listener = UnixListener::bind(path(place.me().index()))?;
    let address = Address::Unix { listener, successor: path(place.successor().index()) };
    let host = Host::join_ring(place, task.session, &config, address, &Clear);
    // Nobody else connects.
    leave(task);
    Ok(host?)
}

/// Takes away this host's socket, and the folder with the last one: a coordinator that is killed takes nothing away.
pub(super) fn leave(task: &Task) {
    let Neighbours::Folder(folder) = &task.neighbours;
    // They may be gone already, or the folder may hold the sockets of others.
    fs::remove_file(socket(folder, task.host.into())).ok();
    fs::remove_dir(folder).ok();
}

fn socket(folder: &Path, host: usize) -> PathBuf {
    folder.join(format!("host-{host}"))
}
