//! A network around a machine that can be cut: what is sent then arrives nowhere, and nobody is
//! told.

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

/// Ways that are cut together.
#[derive(Default)]
pub struct Network(Arc<State>);

#[derive(Default)]
struct State {
    /// Bytes that went over all ways since it was mended.
    passed: AtomicU64,
    /// After so many it is cut; 0 if it is not to be.
    limit: AtomicU64,
    /// How often it was mended: connections from before stay dead.
    mended: AtomicU64,
    /// No end of a connection learns that the other is gone.
    held: Mutex<Vec<TcpStream>>,
}

impl Network {
    /// Another address of `to`, over this network.
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

    /// How many bytes it has passed since it was mended.
    pub fn passed(&self) -> u64 {
        self.0.passed.load(SeqCst)
    }

    /// Passes so many bytes, and no more.
    pub fn cut_after(&self, bytes: u64) {
        self.0.limit.store(bytes.max(1), SeqCst);
    }

    /// Passes what comes by connections that are made from now on.
    pub fn mend(&self) {
        self.0.mended.fetch_add(1, SeqCst);
        self.0.limit.store(0, SeqCst);
        self.0.passed.store(0, SeqCst);
    }
}

/// A connection to who may not listen yet: that would be asked again, and here it is the network
/// that asks.
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
    /// A clone of a connection, which stays open as long as the network.
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
        // Ends are passed on, too.
        to.shutdown(std::net::Shutdown::Write).ok();
    }
}
