//! The server of a worker.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use annulus_roundabout::secure::{HANDSHAKE_TIME_MAX, Identity};
use futures::FutureExt;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server as Transport;
use tower::layer::layer_fn;

use super::{AnnulusWorker, guard::Guard};
use crate::{
    error::ServeError,
    net::{CONNECTION_BYTES, Connection, DEFAULT_SILENCE, STREAM_BYTES, accept, network_threads},
};

/// The most connections with an unfinished handshake.
const HANDSHAKES: usize = 256;
/// The time in which connections without queries close.
const CLOSING: Duration = Duration::from_secs(1);
/// The time to wait after the system refused a connection, for want of memory or of files.
const PAUSE: Duration = Duration::from_millis(100);

/// A worker that listens at an address.
pub struct Server {
    listener: std::net::TcpListener,
    worker: AnnulusWorker,
    silence: Duration,
    identity: Option<Identity>,
}

impl Server {
    /// Listens at `address`, `HOST:PORT`. Port 0 takes any free one.
    ///
    /// # Errors
    /// If the address cannot be listened at.
    pub async fn bind(address: &str, worker: AnnulusWorker) -> Result<Self, ServeError> {
        let listen = |source| ServeError::Listen { address: address.to_owned(), source };
        // Another runtime will accept.
        let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std).map_err(listen)?;
        Ok(Self { listener, worker, silence: DEFAULT_SILENCE, identity: None })
    }

    /// Sets the silence after which a coordinator, or a worker that reads, is considered lost.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Accepts members of the ring of `identity` only. Submitters send plans; hosts read rows.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Returns the address.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends. Then the worker accepts no more queries, and waits `grace` for the queries that
    /// run.
    ///
    /// Returns whether all of them ended.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn serve(self, stop: impl Future<Output = ()>, grace: Duration) -> Result<bool, ServeError> {
        let Self { listener, worker, silence, identity } = self;
        let (stopping, stopped) = oneshot::channel::<()>();
        let (accepted, incoming) = mpsc::channel(1);
        let network = network_threads();
        let accepting = AbortOnDropHandle::new(network.spawn(accept_all(listener, identity, accepted)));
        let (compute, queries) = (Handle::current(), worker.queries().clone());
        let guarded = queries.clone();
        let serving = Transport::builder()
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .http2_keepalive_interval(Some(silence / 2))
            .http2_keepalive_timeout(Some(silence / 2))
            .layer(layer_fn(move |inner| Guard { inner, compute: compute.clone(), queries: guarded.clone() }))
            .add_service(worker.inner().clone().into_worker_server())
            .add_service(worker.asks())
            .serve_with_incoming_shutdown(ReceiverStream::new(incoming), stopped.map(|_| ()));
        let mut serving = AbortOnDropHandle::new(network.spawn(serving));
        let ended = |ended: Result<Result<(), _>, JoinError>| match ended {
            Ok(ended) => ended.map(|()| true).map_err(ServeError::from),
            Err(error) => Err(ServeError::Task(error.to_string())),
        };
        tokio::select! {
            result = &mut serving => return ended(result),
            () = stop => {}
        }
        // Until the running queries have ended, their tasks may still connect.
        let all = timeout(grace, queries.end()).await.is_ok();
        drop(accepting);
        stopping.send(()).ok();
        match timeout(CLOSING, serving).await {
            Ok(result) => ended(result).map(|_| all),
            Err(_) => Ok(false),
        }
    }
}

/// Accepts connections and passes them on when their handshake has ended. A slow or silent connection does not
/// block others.
async fn accept_all(
    listener: std::net::TcpListener,
    identity: Option<Identity>,
    accepted: mpsc::Sender<io::Result<Connection>>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            // Ends the server.
            accepted.send(Err(error)).await.ok();
            return;
        }
    };
    let mut handshakes = JoinSet::new();
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        while handshakes.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                // A real delay: the system does not say when it has memory or files again.
                sleep(PAUSE).await;
                continue;
            }
        };
        let (identity, accepted) = (identity.clone(), accepted.clone());
        handshakes.spawn(async move {
            let connection = timeout(HANDSHAKE_TIME_MAX, accept(stream, identity.as_ref())).await;
            drop(place);
            match connection {
                Ok(Ok(connection)) => {
                    accepted.send(Ok(connection)).await.ok();
                }
                Ok(Err(error)) => tracing::warn!("refused a connection from {address}: {error}"),
                Err(_) => tracing::warn!("a connection from {address} was closed, since it was silent"),
            }
        });
    }
}
