//! An endpoint of libfabric. It owns a buffer from the start of an operation until its end. Used by
//! one thread at a time.

use std::{
    cell::UnsafeCell,
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{NonNull, null},
    sync::Arc,
    time::Duration,
};

use super::{
    FabricError,
    same_process::{self, PeerEndpoint},
};
use crate::{
    arena::{Arena, Buffer},
    wire::MESSAGE_BYTES,
};

/// The device on the C side.
#[repr(C)]
struct RawDevice {
    _opaque: [u8; 0],
}

/// The endpoint on the C side.
#[repr(C)]
struct Raw {
    _opaque: [u8; 0],
}

/// A completed operation.
#[repr(C)]
struct Completion {
    context: *mut c_void,
    bytes: usize,
    error: c_int,
}

/// Restores the default handling of Ctrl-C, SIGTERM and SIGHUP, which libraries below libfabric
/// change when they are loaded: libpsm installs handlers that end the process. Call it at the start
/// of a program, before the program sets its own handlers.
pub fn leave_signals() {
    // SAFETY: it reads and sets the process's handling of three signals, which is allowed at any
    // time.
    unsafe { annulus_fabric_leave_signals() }
}

unsafe extern "C" {
    fn annulus_fabric_register(
        provider: *const c_char,
        node: *const c_char,
        start: *mut u8,
        bytes: usize,
        out: *mut *mut RawDevice,
        step: *mut *const c_char,
    ) -> c_int;
    fn annulus_fabric_release(device: *mut RawDevice);
    fn annulus_fabric_open(
        device: *mut RawDevice,
        waits: c_int,
        operations: usize,
        out: *mut *mut Raw,
        step: *mut *const c_char,
    ) -> c_int;
    fn annulus_fabric_leave_signals();
    fn annulus_fabric_close(endpoint: *mut Raw);
    fn annulus_fabric_address(endpoint: *mut Raw, address: *mut u8, bytes: *mut usize) -> c_int;
    fn annulus_fabric_add(endpoint: *mut Raw, address: *const u8, peer: *mut u64) -> c_int;
    fn annulus_fabric_send(
        endpoint: *mut Raw,
        start: *const u8,
        bytes: usize,
        peer: u64,
        context: *mut c_void,
    ) -> c_int;
    fn annulus_fabric_receive(endpoint: *mut Raw, start: *mut u8, bytes: usize, context: *mut c_void) -> c_int;
    fn annulus_fabric_done(endpoint: *mut Raw, done: *mut Completion) -> c_int;
    fn annulus_fabric_wait(endpoint: *mut Raw, wake: c_int, milliseconds: c_int) -> c_int;
    fn annulus_fabric_reason(error: c_int) -> *const c_char;
}

/// FI_EAGAIN: the operation must be retried later.
const AGAIN: c_int = -11;
/// The largest size of an endpoint's address.
pub(crate) const ADDRESS_MAX: usize = 512;

/// The memory that libfabric uses while an operation is in progress: a `fi_context2`.
type Context = UnsafeCell<[u64; 8]>;

/// The address of another endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Peer(u64);

/// The device of a provider that an arena is registered with.
#[derive(Clone, Copy)]
pub(crate) struct FabricDevice<'a> {
    pub(crate) provider: &'a str,
    /// The local address, if the provider has several.
    pub(crate) node: Option<&'a str>,
}

/// An open device of a provider, and an arena that is registered with it.
#[derive(Debug)]
pub(crate) struct RegisteredArena {
    raw: NonNull<RawDevice>,
    provider: String,
    node: Option<String>,
    arena: Arc<Arena>,
}

// SAFETY: libfabric's objects may be used from any thread, one at a time.
unsafe impl Send for RegisteredArena {}
// SAFETY: only an endpoint uses the device, and a device has one endpoint at a time: that of the
// ring which has borrowed it.
unsafe impl Sync for RegisteredArena {}

impl RegisteredArena {
    /// Opens a device, and registers the arena with it.
    pub(crate) fn open(device: FabricDevice<'_>, arena: Arc<Arena>) -> Result<Self, FabricError> {
        let FabricDevice { provider, node } = device;
        let refused = |_| FabricError::new("use this name", "expected a name without zeros");
        let name = CString::new(provider).map_err(refused)?;
        let address = node.map(CString::new).transpose().map_err(refused)?;
        let (start, bytes) = arena.memory();
        let (mut raw, mut step) = (std::ptr::null_mut(), null());
        // SAFETY: the strings are terminated, the arena's memory outlives the device, and the results are
        // written to live variables.
        let error = unsafe {
            let address = address.as_ref().map_or(null(), |address| address.as_ptr());
            annulus_fabric_register(name.as_ptr(), address, start.as_ptr(), bytes, &mut raw, &mut step)
        };
        let raw = opened(raw, error, step)?;
        Ok(Self { raw, provider: provider.to_owned(), node: node.map(str::to_owned), arena })
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(crate) fn is_on(&self, device: FabricDevice<'_>) -> bool {
        self.provider == device.provider && self.node.as_deref() == device.node
    }
}

impl Drop for RegisteredArena {
    fn drop(&mut self) {
        // SAFETY: no endpoint is left, and the arena is dropped later.
        unsafe { annulus_fabric_release(self.raw.as_ptr()) }
    }
}

/// An endpoint that sends from the buffers of an arena and receives into them. Each buffer is in at
/// most one operation.
pub(crate) struct Endpoint {
    open: Arc<OpenEndpoint>,
    /// Those in shared memory of this process, which must not be closed before this one is dropped.
    peers: Vec<Arc<OpenEndpoint>>,
    tells: bool,
    in_progress: Box<[Option<Buffer>]>,
}

/// An open endpoint, with all that it uses. Only its [`Endpoint`] uses it.
pub(super) struct OpenEndpoint {
    raw: NonNull<Raw>,
    /// One for each buffer.
    contexts: Box<[Context]>,
    _registered: Arc<RegisteredArena>,
}

// SAFETY: libfabric's objects may be used from any thread, one at a time. Only libfabric uses the
// contexts.
unsafe impl Send for OpenEndpoint {}
// SAFETY: one thread at a time uses it: that of its `Endpoint`, and then the one that drops it.
unsafe impl Sync for OpenEndpoint {}

impl Endpoint {
    /// Opens an endpoint of a device, which has no other one.
    pub(crate) fn open(registered: Arc<RegisteredArena>) -> Result<Self, FabricError> {
        let buffers = registered.arena.buffers() as usize;
        // The events of the provider for shared memory do not work.
        let tells = !registered.provider.starts_with("shm");
        let (mut raw, mut step) = (std::ptr::null_mut(), null());
        // SAFETY: an open device, which outlives the endpoint, and the results are written to live variables.
        let error = unsafe { annulus_fabric_open(registered.raw.as_ptr(), tells.into(), buffers, &mut raw, &mut step) };
        let raw = opened(raw, error, step)?;
        let contexts = (0..buffers).map(|_| UnsafeCell::default()).collect();
        let open = Arc::new(OpenEndpoint { raw, contexts, _registered: registered });
        let in_progress = (0..buffers).map(|_| None).collect();
        let mut endpoint = Self { open, peers: Vec::new(), tells, in_progress };
        same_process::add(&endpoint.address()?, &endpoint.open);
        Ok(endpoint)
    }

    /// Returns whether the provider signals events. Otherwise the endpoint must be polled.
    pub(crate) fn tells(&self) -> bool {
        self.tells
    }

    /// Returns the address at which others reach the endpoint.
    pub(crate) fn address(&mut self) -> Result<Vec<u8>, FabricError> {
        let mut address = vec![0; ADDRESS_MAX];
        let mut bytes = address.len();
        // SAFETY: an open endpoint, and room for `bytes` bytes.
        let error = unsafe { annulus_fabric_address(self.open.raw.as_ptr(), address.as_mut_ptr(), &mut bytes) };
        checked("report its address", error)?;
        address.truncate(bytes);
        Ok(address)
    }

    /// Adds another endpoint by its address. Returns `None` if it was one of this process and is closed.
    pub(crate) fn add(&mut self, address: &[u8]) -> Result<Option<Peer>, FabricError> {
        match same_process::find(address) {
            PeerEndpoint::Elsewhere => {}
            PeerEndpoint::Here(peer) => self.peers.push(peer),
            PeerEndpoint::Closed => return Ok(None),
        }
        // The format of an address fixes its length: missing bytes are read as zeros.
        let mut whole = [0; ADDRESS_MAX + 1];
        let known = address.len().min(ADDRESS_MAX);
        whole[..known].copy_from_slice(&address[..known]);
        let mut peer = 0;
        // SAFETY: an open endpoint, and a terminated address.
        let error = unsafe { annulus_fabric_add(self.open.raw.as_ptr(), whole.as_ptr(), &mut peer) };
        checked("use the address of another one", error)?;
        Ok(Some(Peer(peer)))
    }

    /// Starts to send the first `bytes` bytes of a buffer, its message included. Returns the buffer
    /// if the send must be retried.
    pub(crate) fn send(&mut self, mut buffer: Buffer, bytes: usize, to: Peer) -> Result<Option<Buffer>, FabricError> {
        let start = buffer.whole()[..bytes].as_ptr();
        let context = self.context(&buffer);
        // SAFETY: the buffer is registered, and its memory and its context are kept until the operation is
        // done.
        let error = unsafe { annulus_fabric_send(self.open.raw.as_ptr(), start, bytes, to.0, context) };
        self.begun("send", error, buffer)
    }

    /// Starts to receive into a buffer. Returns the buffer if the receive must be retried.
    pub(crate) fn receive(&mut self, mut buffer: Buffer) -> Result<Option<Buffer>, FabricError> {
        let whole = buffer.whole();
        let (start, bytes) = (whole.as_mut_ptr(), whole.len());
        let context = self.context(&buffer);
        // SAFETY: as for `send`.
        let error = unsafe { annulus_fabric_receive(self.open.raw.as_ptr(), start, bytes, context) };
        self.begun("receive", error, buffer)
    }

    /// Returns a buffer whose operation is complete, and the number of bytes received, including
    /// its message.
    pub(crate) fn done(&mut self) -> Result<Option<(Buffer, usize)>, FabricError> {
        let mut done = Completion { context: std::ptr::null_mut(), bytes: 0, error: 0 };
        // SAFETY: an open endpoint.
        let count = unsafe { annulus_fabric_done(self.open.raw.as_ptr(), &mut done) };
        if count <= 0 {
            return checked("report completed operations", count).map(|()| None);
        }
        checked("move a fragment", done.error)?;
        let at = done.context.addr().wrapping_sub(self.open.contexts.as_ptr().addr()) / size_of::<Context>();
        let buffer = self.in_progress.get_mut(at).and_then(Option::take);
        let buffer =
            buffer.ok_or_else(|| FabricError::new("report completed operations", "it names an unknown operation"))?;
        // Not more than the buffer holds.
        let room = MESSAGE_BYTES + buffer.len();
        Ok(Some((buffer, done.bytes.min(room))))
    }

    /// Waits until an operation may be complete or `wake` is readable, at most for `most`.
    pub(crate) fn wait(&mut self, wake: BorrowedFd<'_>, most: Duration) -> Result<(), FabricError> {
        // One millisecond is the shortest wait.
        let milliseconds = most.as_millis().clamp(1, 1000) as c_int;
        // SAFETY: an open endpoint and an open descriptor.
        checked("wait", unsafe { annulus_fabric_wait(self.open.raw.as_ptr(), wake.as_raw_fd(), milliseconds) })
    }

    fn context(&self, buffer: &Buffer) -> *mut c_void {
        self.open.contexts[buffer.number() as usize].get().cast()
    }

    fn begun(&mut self, step: &str, error: c_int, buffer: Buffer) -> Result<Option<Buffer>, FabricError> {
        if error == AGAIN {
            return Ok(Some(buffer));
        }
        checked(step, error)?;
        let number = buffer.number() as usize;
        self.in_progress[number] = Some(buffer);
        Ok(None)
    }
}

impl Drop for OpenEndpoint {
    fn drop(&mut self) {
        // SAFETY: the endpoint is not used after this; contexts and the memory of buffers are dropped later.
        unsafe { annulus_fabric_close(self.raw.as_ptr()) }
    }
}

/// Returns an object that the C side has opened, or the step that failed.
fn opened<T>(raw: *mut T, error: c_int, step: *const c_char) -> Result<NonNull<T>, FabricError> {
    match NonNull::new(raw).filter(|_| error == 0) {
        Some(raw) => Ok(raw),
        None if step.is_null() => Err(FabricError::new("open an endpoint", reason(error))),
        // SAFETY: a string constant of the C side.
        None => Err(FabricError::new(unsafe { CStr::from_ptr(step) }.to_string_lossy(), reason(error))),
    }
}

fn checked(step: &str, error: c_int) -> Result<(), FabricError> {
    if error == 0 { Ok(()) } else { Err(FabricError::new(step, reason(error))) }
}

fn reason(error: c_int) -> String {
    // SAFETY: libfabric has a string for every number.
    unsafe { CStr::from_ptr(annulus_fabric_reason(error)) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> (Endpoint, Arc<Arena>) {
        let arena = Arena::private(2, 4096).unwrap();
        let registered =
            RegisteredArena::open(FabricDevice { provider: "shm", node: None }, Arc::clone(&arena)).unwrap();
        (Endpoint::open(Arc::new(registered)).unwrap(), arena)
    }

    #[test]
    fn what_is_sent_to_a_dropped_endpoint_of_this_process_is_lost() {
        let ((mut sender, arena), (mut receiver, _)) = (endpoint(), endpoint());
        let address = receiver.address().unwrap();
        let to = sender.add(&address).unwrap().unwrap();
        receiver.add(&sender.address().unwrap()).unwrap();
        let mut buffer = arena.take(0);
        // Until they know each other.
        for _ in 0..1000 {
            let Some(retried) = buffer else { break };
            buffer = sender.send(retried, 64, to).unwrap();
            assert!(receiver.done().unwrap().is_none());
        }
        assert!(buffer.is_none(), "the first message is accepted");
        drop(receiver);
        assert!(sender.send(arena.take(1).unwrap(), 64, to).unwrap().is_none(), "written to its memory");
        sender.done().unwrap();
        drop(sender);
        assert!(endpoint().0.add(&address).unwrap().is_none(), "it is closed by now");
    }
}
