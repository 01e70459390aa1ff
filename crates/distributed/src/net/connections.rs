//! The connections of a process to workers.

use std::{collections::HashMap, fmt, io, sync::Arc, time::Duration};

use annulus_roundabout::secure::Identity;
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest, WorkerChannel, grpc};
use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;
use url::Url;

use super::{
    channel::RemoteChannel,
    failures::RunningQueries,
    naming::{ErrorForm, WorkerName},
    restarts::{LostWorkers, RestartReceiver},
    runtime::{CONNECTION_BYTES, Executor, STREAM_BYTES},
    tls,
};
use crate::error::WorkerErrorKind;

/// The default time without an answer after which a worker or a coordinator is considered lost.
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(10);

/// The connections of a process to workers: one for each worker, shared by all queries. Clones share them.
///
/// A connection that is lost is opened again when it is next needed. A query that was running on it fails
/// with a [`WorkerError`](crate::WorkerError).
#[derive(Clone)]
pub struct Connections {
    open: Arc<Mutex<HashMap<Url, Channel>>>,
    queries: RunningQueries,
    lost: LostWorkers,
    restarts: RestartReceiver,
    silence: Duration,
    identity: Option<Identity>,
    ring: RingTransport,
    error_form: ErrorForm,
}

/// How the fragments of joins around a ring are sent.
#[derive(Clone, Debug)]
pub(crate) struct RingTransport {
    /// The provider of libfabric, `PROVIDER` or `PROVIDER@ADDRESS`.
    pub(crate) fabric: Option<Arc<str>>,
    /// Whether workers on one machine use shared memory.
    pub(crate) shares_memory: bool,
}

impl Default for RingTransport {
    fn default() -> Self {
        Self { fabric: None, shares_memory: true }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new(DEFAULT_SILENCE)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("silence", &self.silence).finish_non_exhaustive()
    }
}

impl Connections {
    /// Returns connections that are considered lost if the other side answers nothing for `silence`, not even
    /// the keep-alive requests of the connection.
    pub fn new(silence: Duration) -> Self {
        Self {
            open: Arc::default(),
            queries: RunningQueries::default(),
            lost: LostWorkers::default(),
            restarts: RestartReceiver::default(),
            silence,
            identity: None,
            ring: RingTransport::default(),
            error_form: ErrorForm::default(),
        }
    }

    /// Encrypts connections, with `identity` on this side and hosts of its ring on the other. Workers
    /// accept plans from submitters only.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Sends fragments of joins around a ring through libfabric if all tasks of a join name the same
    /// provider: `PROVIDER` or `PROVIDER@ADDRESS`. Fragments are encrypted if connections are.
    #[cfg(feature = "ofi")]
    #[must_use]
    pub fn with_fabric(mut self, name: &str) -> Self {
        self.ring.fabric = Some(name.into());
        self
    }

    /// Sets whether the tasks of a join around a ring pass fragments on in shared memory if all of them are on
    /// one machine. They do by default, wherever it works; tests and measurements turn it off.
    #[must_use]
    pub fn with_shared_memory(mut self, shares_memory: bool) -> Self {
        self.ring.shares_memory = shares_memory;
        self
    }

    /// Calls `receiver` with a sentence whenever a query starts again because a worker was lost. Without a
    /// receiver, the sentence is logged as a warning.
    #[must_use]
    pub fn with_restart_receiver(mut self, receiver: fn(&str)) -> Self {
        self.restarts = RestartReceiver::new(receiver);
        self
    }

    /// Returns the version of the worker at `url`.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses this side. The error names it.
    pub async fn version_of(&self, url: &Url) -> Result<String> {
        let mut channel = self.get_worker_client_for_url(url).await?;
        Ok(channel.get_worker_info(GetWorkerInfoRequest {}).await?.version)
    }

    /// Returns the same connections for the tasks of a worker, whose errors travel on to other processes.
    pub(crate) fn for_worker(&self) -> Self {
        Self { error_form: ErrorForm::Context, ..self.clone() }
    }

    /// Returns the silence after which the other side is considered lost.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    /// Returns the identity of this side, if connections are encrypted.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the workers that take no queries, as far as this process knows.
    pub(crate) fn lost(&self) -> &LostWorkers {
        &self.lost
    }

    /// Returns the receiver of sentences about queries that start again.
    pub(crate) fn restarts(&self) -> &RestartReceiver {
        &self.restarts
    }

    /// Returns the identifier of an execution of the query with this number, if it runs.
    pub(crate) fn execution_of(&self, number: u128) -> Option<String> {
        self.queries.find(number).map(|query| query.execution())
    }

    /// Returns how fragments of joins are sent.
    pub(crate) fn ring(&self) -> &RingTransport {
        &self.ring
    }

    /// Returns an error that names the worker at `url`, unless it names one already.
    pub(crate) fn name_worker(&self, url: &Url, error: DataFusionError) -> DataFusionError {
        self.name_of(url).put_on(error)
    }

    /// Returns the error of the worker at `url` that is lost.
    pub(crate) fn name_lost(&self, url: &Url, error: DataFusionError) -> DataFusionError {
        self.name_of(url).put_kind_on(WorkerErrorKind::Lost, error)
    }

    /// Returns the name of a worker, for its errors.
    pub(super) fn name_of(&self, url: &Url) -> WorkerName {
        WorkerName { url: url.clone(), form: self.error_form }
    }

    /// Returns the connection to a worker, which is opened when it is used.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub(super) fn channel(&self, url: &Url) -> Result<Channel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(|error| DataFusionError::Configuration(format!("invalid worker '{url}': {error}")))?
            .connect_timeout(self.silence)
            .executor(Executor)
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .http2_keep_alive_interval(self.silence / 2)
            .keep_alive_timeout(self.silence / 2);
        let identity = self.identity.clone();
        let connect = move |uri: Uri| {
            let connecting = tls::connect(uri, identity.clone());
            async { Ok::<_, io::Error>(TokioIo::new(connecting.await?)) }
        };
        let channel = endpoint.connect_with_connector_lazy(service_fn(connect));
        open.insert(url.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Connections {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = grpc::BoxCloneSyncChannel::new(self.channel(url)?);
        let inner = grpc::create_worker_client(channel);
        let (worker, queries, lost) = (self.name_of(url), self.queries.clone(), self.lost.clone());
        Ok(Box::new(RemoteChannel { worker, inner, queries, lost }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::WorkerError, workers::address_of};

    #[tokio::test]
    async fn a_worker_that_is_not_there_is_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        drop(listener);
        let error = Connections::default().version_of(&url).await.unwrap_err();
        assert_eq!(WorkerError::find_in(&error).unwrap().address, address_of(&url));
        assert!(error.to_string().contains(&format!("worker {}", address_of(&url))), "{error}");
    }
}
