//! Shares arenas among the hosts of a machine: every file descriptor travels around the ring once,
//! over the Unix sockets that connect neighbours.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use socket2::Socket;

use crate::{
    arena::Arena,
    buffer_cache::{BufferCache, SharedArena},
    config::RingConfig,
    ring::{HostId, RingPosition},
    wire::{MESSAGE_BYTES, Message, Session},
};

/// The arenas of a ring.
#[derive(Debug)]
pub(super) struct Arenas {
    /// Has [`RingConfig::own`] buffers.
    pub(super) own: Arc<SharedArena>,
    /// The arenas of all hosts, in order.
    pub(super) all: Vec<Arc<Arena>>,
}

/// Lends this host's arena to all others, and maps theirs.
pub(super) fn share(
    position: RingPosition,
    session: Session,
    (config, cache): (&RingConfig, &BufferCache),
    from: &Socket,
    to: &Socket,
) -> io::Result<Arenas> {
    let own = cache.shared(config.own, config.fragment_bytes as usize)?;
    let mut arenas = vec![None; usize::from(position.hosts())];
    let (mut origin, mut buffers, mut memory) = (position.me(), own.arena.buffers(), own.memory.try_clone()?);
    arenas[origin.index()] = Some(Arc::clone(&own.arena));
    for hop in 1..position.hosts() {
        send(to, &Message::Arena { origin, buffers }.encode(session), &memory)?;
        (origin, buffers, memory) = receive(from, session)?;
        let expected = HostId((position.me().0 + position.hosts() - hop) % position.hosts());
        if origin != expected {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it sent the arena of host {origin} instead of that of host {expected}"),
            ));
        }
        arenas[origin.index()] = Some(Arena::of_other(&memory, buffers, config.fragment_bytes as usize)?);
    }
    Ok(Arenas { own, all: arenas.into_iter().flatten().collect() })
}

fn send(socket: &Socket, message: &[u8; MESSAGE_BYTES], memory: &OwnedFd) -> io::Result<()> {
    let memory = [memory.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&memory)];
    let sent =
        sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(message)], &control, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == MESSAGE_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn receive(socket: &Socket, session: Session) -> io::Result<(HostId, u32, OwnedFd)> {
    let mut bytes = [0; MESSAGE_BYTES];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL;
    let received = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut buffers, Some(&mut space), flags)?;
    let mut memory = None;
    for control in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            for descriptor in descriptors {
                // SAFETY: the kernel has just created the descriptor for this process. An extra one
                // is closed.
                memory = Some(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }
    let whole = received.bytes == MESSAGE_BYTES;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    match (whole.then(|| Message::decode(&bytes, session)), memory) {
        (Some(Ok(Message::Arena { origin, buffers })), Some(memory)) => Ok((origin, buffers, memory)),
        (Some(Err(error)), _) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        (None, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(invalid("expected a shared arena, got another message")),
    }
}
