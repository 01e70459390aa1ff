//! How a successor is reached that may not listen yet.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::{SockAddr, Socket, Type};

use super::greeting::left_until;
use crate::host::Stopper;

/// Between two tries to reach a host that does not listen yet.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection to it, tried again and again until the deadline, or `gives_up` says that there is no use in it.
pub(super) fn dial(
    address: &SockAddr,
    deadline: Instant,
    stopper: &Stopper,
    gives_up: impl Fn() -> bool,
) -> io::Result<Socket> {
    loop {
        match left_until(deadline).and_then(|left| try_once(address, left, stopper)) {
            Err(_) if left_until(deadline).is_ok() && !gives_up() && !stopper.is_stopped() => {
                // Not listening yet. There is nothing to wait for but time.
                stopper.pause(PAUSE);
            }
            tried => return tried,
        }
    }
}

fn try_once(address: &SockAddr, within: Duration, stopper: &Stopper) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    let _waiting = stopper.waits(&[&socket])?;
    socket.connect_timeout(address, within)?;
    Ok(socket)
}

/// An address as people read it.
pub(super) fn shown(address: &SockAddr) -> String {
    let path = address.as_pathname().map(|path| path.display().to_string());
    path.or_else(|| address.as_socket().map(|address| address.to_string())).unwrap_or_default()
}
