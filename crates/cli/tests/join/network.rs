//! A network around a machine that can be cut. Bytes sent after the cut are lost, and neither end
//! gets an error.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// Connections that are cut together.
#[derive(Default)]
pub struct Network(Arc<State>);

#[derive(Default)]
struct State {
    /// The number of bytes passed over all connections since the network was mended.
    passed: AtomicU64,
    /// The number of bytes after which the network is cut; 0 for never.
    limit: AtomicU64,
    /// How often the network was mended: connections from before stay dead.
    mended: AtomicU64,
    /// Clones of all connections, so that neither end learns that the other is gone.
    held: Mutex<Vec<TcpStream>>,
}

impl Network {
    /// Returns another address of `to`, over this network.
    pub fn way(&self, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::clone(&self.0);
        thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Some(to) = connect(to) else { continue };
                for stream in [&from, &to] {
                    stream.set_nodelay(true).expect("TCP");
                }
                let both = [(state.hold(&from), state.hold(&to)), (to, from)];
                let mended = state.mended.load(SeqCst);
                for (from, to) in both {
                    let state = Arc::clone(&state);
                    thread::spawn(move || state.pass(from, to, mended));
                }
            }
        });
        address
    }

    /// Returns how many bytes it has passed since it was mended.
    pub fn passed(&self) -> u64 {
        self.0.passed.load(SeqCst)
    }

    /// Cuts the network after `bytes` bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.0.limit.store(bytes.max(1), SeqCst);
    }

    /// Mends the network for connections that are made from now on.
    pub fn mend(&self) {
        self.0.mended.fetch_add(1, SeqCst);
        self.0.limit.store(0, SeqCst);
        self.0.passed.store(0, SeqCst);
    }
}

/// Connects to an address that may not be listening yet. The network retries, as the caller would.
fn connect(to: SocketAddr) -> Option<TcpStream> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(to) {
            Ok(stream) => return Some(stream),
            Err(_) if Instant::now() < deadline => thread::yield_now(),
            Err(_) => return None,
        }
    }
}

impl State {
    /// Returns a clone of a connection, which stays open as long as the network exists.
    fn hold(&self, stream: &TcpStream) -> TcpStream {
        let clone = || stream.try_clone().expect("a clone");
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(clone());
        clone()
    }

    /// Passes bytes until the sender ends, or the network is cut.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, mended: u64) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read) = from.read(&mut bytes) {
            let (passed, limit) = (self.passed.load(SeqCst), self.limit.load(SeqCst));
            if self.mended.load(SeqCst) != mended || (limit > 0 && passed >= limit) {
                return;
            }
            self.passed.fetch_add(read as u64, SeqCst);
            if read == 0 || to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        // The end of a stream is passed on, too.
        to.shutdown(std::net::Shutdown::Write).ok();
    }
}
