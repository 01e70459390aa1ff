//! Serves the activity of workers over HTTP: for probes, for Prometheus, and for people.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST},
    uri::Authority,
};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{all::ClusterReport, metrics, report::WorkerStatus};
use crate::{
    error::ServeError,
    net::{Connections, network_threads},
    workers::Workers,
};

/// The most connections at a time.
const CONNECTIONS: usize = 64;
/// The longest time of a connection. Clients connect again.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest time in which a request arrives.
const REQUEST: Duration = Duration::from_secs(5);
/// The age up to which the answers of several workers are shown again.
const FRESH: Duration = Duration::from_millis(900);
/// The time to wait after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

const PAGE: &str = include_str!("page.html");
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A server for the activity of workers, at an address of its own. It neither encrypts nor authenticates:
/// everyone who reaches it sees plans, with names of files and constants of queries.
///
/// | path | of a worker | of several |
/// |---|---|---|
/// | `/healthz` | 200 while it serves | 200 while this serves |
/// | `/readyz` | 200 while it accepts queries, else 503 | 200 while all of them do |
/// | `/metrics` | for Prometheus | 404: each worker has its own |
/// | `/status.json` | a [`WorkerReport`](super::WorkerReport) | an [`ClusterReport`] |
/// | `/` | a page for people | the same page |
pub struct StatusServer {
    listener: std::net::TcpListener,
    source: Arc<Source>,
}

/// The workers to show.
enum Source {
    One(WorkerStatus),
    Group(Box<WorkerGroup>),
}

/// Workers that are asked, with the rights of this process.
struct WorkerGroup {
    workers: Workers,
    connections: Connections,
    /// The name at which this server listens.
    name: String,
    /// Their last answers, which requests share.
    last: Mutex<Option<(Instant, Arc<ClusterReport>)>>,
}

impl WorkerGroup {
    async fn report(&self) -> Arc<ClusterReport> {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < FRESH
        {
            return Arc::clone(report);
        }
        let report = Arc::new(ClusterReport::ask(&self.workers, &self.connections).await);
        *last = Some((Instant::now(), Arc::clone(&report)));
        report
    }

    /// Returns whether a request names this server. A page of another site that has its name resolved
    /// to this address does not.
    fn is_meant(&self, request: &Request<Incoming>) -> bool {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let Some(Ok(host)) = host.map(str::parse::<Authority>) else { return host.is_none() };
        let name = host.host();
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || name == self.name
    }
}

impl StatusServer {
    /// Listens at `address`, `HOST:PORT`, and shows the activity of a worker of this process. Port 0 takes
    /// any free port.
    ///
    /// # Errors
    /// If the address cannot be listened at.
    pub async fn bind(address: &str, worker: WorkerStatus) -> Result<Self, ServeError> {
        Self::with_source(address, Source::One(worker)).await
    }

    /// Listens at `address`, and shows the activity of these workers, which it asks on `connections`.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_all(address: &str, workers: Workers, connections: Connections) -> Result<Self, ServeError> {
        let name = address.rsplit_once(':').map_or(address, |(name, _)| name).to_owned();
        let all = WorkerGroup { workers, connections, name, last: Mutex::default() };
        Self::with_source(address, Source::Group(Box::new(all))).await
    }

    async fn with_source(address: &str, source: Source) -> Result<Self, ServeError> {
        // Another runtime will accept.
        let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std);
        let listener = listener.map_err(|source| ServeError::Listen { address: address.to_owned(), source })?;
        Ok(Self { listener, source: Arc::new(source) })
    }

    /// Returns the address.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped, on threads that no query keeps busy.
    ///
    /// # Errors
    /// If connections cannot be accepted.
    pub async fn serve(self) -> Result<(), ServeError> {
        let accepting = AbortOnDropHandle::new(network_threads().spawn(accept_all(self.listener, self.source)));
        accepting.await.map_err(|error| ServeError::Task(error.to_string()))?.map_err(ServeError::Accept)
    }
}

async fn accept_all(listener: std::net::TcpListener, source: Arc<Source>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let (mut connections, places) = (JoinSet::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // A real delay: the system does not say when it has files again.
            sleep(PAUSE).await;
            continue;
        };
        let source = Arc::clone(&source);
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let source = Arc::clone(&source);
                async move { Ok::<_, Infallible>(source.answer(&request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST);
            timeout(LONGEST, http.serve_connection(TokioIo::new(stream), answer)).await.ok();
            drop(place);
        });
    }
}

impl Source {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n");
        }
        if let Self::Group(all) = self
            && !all.is_meant(request)
        {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let why = format!(
                "unknown host '{host}': open this page at localhost, by an IP address, or by the name at which it is \
                 served\n"
            );
            return text(StatusCode::FORBIDDEN, "text/plain", why);
        }
        match (request.uri().path(), self) {
            ("/", _) => text(StatusCode::OK, "text/html; charset=utf-8", PAGE),
            ("/healthz", _) => text(StatusCode::OK, "text/plain", "ok\n"),
            ("/readyz", Self::One(worker)) => ready(worker.is_ready(), "stopping\n"),
            ("/readyz", Self::Group(all)) => {
                ready(all.report().await.is_ready(), "a worker is stopping or does not answer\n")
            }
            ("/status.json", Self::One(worker)) => made(serde_json::to_string(&worker.report()), "application/json"),
            ("/status.json", Self::Group(all)) => made(serde_json::to_string(&*all.report().await), "application/json"),
            ("/metrics", Self::One(worker)) => {
                let (report, totals) = worker.with_totals();
                made(metrics::text(report, totals), METRICS)
            }
            _ => text(StatusCode::NOT_FOUND, "text/plain", "nothing is here\n"),
        }
    }
}

fn ready(is_ready: bool, why_not: &'static str) -> Response<Full<Bytes>> {
    match is_ready {
        true => text(StatusCode::OK, "text/plain", "ok\n"),
        false => text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", why_not),
    }
}

fn made<E: ToString>(body: Result<String, E>, kind: &'static str) -> Response<Full<Bytes>> {
    match body {
        Ok(body) => text(StatusCode::OK, kind, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
    }
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
