//! A gate between a worker and those that reach it, which can be shut.

use std::sync::{
    Arc,
    atomic::{
        AtomicI64,
        Ordering::{AcqRel, Release},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

/// What a gate does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// Connections are closed, and no others are accepted: as if the worker had been killed.
    Cut,
    /// Nothing is passed on: as if it were frozen.
    Frozen,
}

/// A gate: connections to its address are passed on to a worker.
pub struct Gate {
    pub address: String,
    passage: Arc<watch::Sender<Passage>>,
    /// The bytes that the worker may still send.
    bytes: Arc<AtomicI64>,
    _serving: AbortOnDropHandle<()>,
}

impl Gate {
    /// Returns an open gate before the worker at `target`.
    pub async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (passage, bytes) = (Arc::new(watch::Sender::new(Passage::Open)), Arc::new(AtomicI64::new(i64::MAX)));
        let (shut, left) = (Arc::clone(&passage), Arc::clone(&bytes));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (target, shut, left) = (target.clone(), Arc::clone(&shut), Arc::clone(&left));
                tokio::spawn(async move { forward(stream, &target, &shut, &left).await });
            }
        });
        Self { address, passage, bytes, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn set(&self, passage: Passage) {
        self.bytes.store(i64::MAX, Release);
        self.passage.send_replace(passage);
    }

    /// Cuts the connections when the worker has sent this many bytes.
    pub fn cut_after(&self, bytes: i64) {
        self.bytes.store(bytes, Release);
    }

    /// Waits until the connections are cut.
    pub async fn wait_until_cut(&self) {
        self.passage.subscribe().wait_for(|passage| *passage == Passage::Cut).await.unwrap();
    }
}

async fn forward(client: TcpStream, target: &str, passage: &watch::Sender<Passage>, bytes: &AtomicI64) {
    let mut state = passage.subscribe();
    if *state.borrow_and_update() == Passage::Cut {
        return;
    }
    let Ok(worker) = TcpStream::connect(target).await else { return };
    client.set_nodelay(true).unwrap();
    worker.set_nodelay(true).unwrap();
    let ((client_reads, client_writes), (worker_reads, worker_writes)) = (client.into_split(), worker.into_split());
    let cut = async { state.wait_for(|passage| *passage == Passage::Cut).await.map(drop) };
    let to_worker = pass(client_reads, worker_writes, passage, |_| true);
    let to_client = pass(worker_reads, client_writes, passage, |count| {
        let is_open = bytes.fetch_sub(count, AcqRel) > count;
        if !is_open {
            passage.send_replace(Passage::Cut);
        }
        is_open
    });
    // Either end may close first.
    tokio::select! {
        _ = cut => {}
        () = to_worker => {}
        () = to_client => {}
    }
}

/// Passes bytes on while `allows` their number and the gate is not frozen.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    passage: &watch::Sender<Passage>,
    allows: impl Fn(i64) -> bool,
) {
    let (mut state, mut buffer) = (passage.subscribe(), vec![0; 1024]);
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if count == 0 || !allows(count as i64) || state.wait_for(|passage| *passage != Passage::Frozen).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
