//! Connects to a successor that may not be listening yet.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::{SockAddr, Socket, Type};

use super::greeting::left_until;
use crate::stop::StopHandle;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to `address`. Retries until the deadline, or until `gives_up` returns true.
pub(super) fn dial(
    address: &SockAddr,
    deadline: Instant,
    stop_handle: &StopHandle,
    gives_up: impl Fn() -> bool,
) -> io::Result<Socket> {
    loop {
        match left_until(deadline).and_then(|left| try_once(address, left, stop_handle)) {
            Err(_) if left_until(deadline).is_ok() && !gives_up() && !stop_handle.is_stopped() => {
                // It is not listening yet, and nothing signals when it does.
                stop_handle.pause(PAUSE);
            }
            tried => return tried,
        }
    }
}

fn try_once(address: &SockAddr, within: Duration, stop_handle: &StopHandle) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    let _waiting = stop_handle.waits(&[&socket])?;
    socket.connect_timeout(address, within)?;
    Ok(socket)
}

/// Returns an address as text.
pub(super) fn shown(address: &SockAddr) -> String {
    let path = address.as_pathname().map(|path| path.display().to_string());
    path.or_else(|| address.as_socket().map(|address| address.to_string())).unwrap_or_default()
}
