//! Connections between the members of a ring: encrypted, with certificates of the ring's own authority,
//! and what each member may ask of a worker.

use std::{
    collections::BTreeSet,
    future::ready,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use annulus_roundabout::secure::{Identity, Member, Role, SecureError};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, Uri};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    runtime::Handle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls::pki_types::ServerName};
use tokio_util::{either::Either, task::AbortOnDropHandle};
use tonic::{Status, body::Body, transport::server::Connected};
use tower::Service;

use crate::{
    options,
    status::{Refusal, Task, WorkerQueries},
};

/// The name of the protocol over TLS (ALPN).
const PROTOCOL: &[u8] = b"annulus-worker/1";
/// The method by which a coordinator sends a plan.
const SUBMIT: &str = "/CoordinatorChannel";

/// The time to send an alert to the other side of a connection that is refused.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

/// A connection that a worker has accepted.
pub(crate) struct Connection {
    stream: Either<TcpStream, tokio_rustls::server::TlsStream<TcpStream>>,
    peer: Peer,
}

/// The member at the other end, unless connections are not encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Option<Member>);

impl Peer {
    /// Returns the member, if the connection is encrypted.
    pub(crate) fn member(&self) -> Option<&Member> {
        self.0.as_ref()
    }
}

/// Accepts a connection from a member of the ring of `identity`; from any process without one.
///
/// # Errors
/// If the other side is not a member of that ring, or the connection fails.
pub(crate) async fn accept(stream: TcpStream, identity: Option<&Identity>) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let Some(identity) = identity else {
        return Ok(Connection { stream: Either::Left(stream), peer: Peer(None) });
    };
    let terms = identity.accepting(PROTOCOL)?;
    let stream = match TlsAcceptor::from(terms.config()).accept(stream).into_fallible().await {
        Ok(stream) => stream,
        Err((error, stream)) => {
            linger(stream).await;
            return Err(terms.explain(error).into());
        }
    };
    let peer = terms.peer()?;
    Ok(Connection { stream: Either::Right(stream), peer: Peer(Some(peer)) })
}

/// Closes a connection whose handshake has failed. The system would discard the alert that says why if
/// data from the other side were left unread.
async fn linger(mut stream: TcpStream) {
    let mut unread = [0; 4096];
    let end = async {
        stream.shutdown().await?;
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // However it ends, the connection is closed.
    timeout(LINGER_TIME_MAX, end).await.ok();
}

/// Connects to the worker at `uri`, which must be a host of the ring of `identity`.
///
/// # Errors
/// If it is none, or cannot be reached.
pub(crate) async fn connect(
    uri: Uri,
    identity: Option<Identity>,
) -> io::Result<Either<PlainStream, tokio_rustls::client::TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or_default())).await?;
    stream.set_nodelay(true)?;
    let Some(identity) = identity else {
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        return Ok(Either::Left(PlainStream { stream, address, is_known: false }));
    };
    let terms = identity.connecting(PROTOCOL)?;
    // Required by rustls, and never sent: the certificate names the host.
    let name = ServerName::try_from("annulus").map_err(io::Error::other)?;
    let stream = TlsConnector::from(terms.config()).connect(name, stream).await;
    Ok(Either::Right(stream.map_err(|error| match terms.explain(error) {
        SecureError::NotTls => io::Error::new(io::ErrorKind::InvalidData, NOT_TLS),
        error => error.into(),
    })?))
}

/// The first byte of a record of TLS that carries an alert. No frame of HTTP/2 that a server sends first
/// begins with it.
const ALERT: u8 = 21;

const NOT_TLS: &str = "the worker does not speak TLS: it was started without certificates; leave out \
    `certificates`, or start it with certificates";
const SPEAKS_TLS: &str = "the worker speaks TLS: give the certificate of a submitter of its ring (`certificates`)";

/// The addresses of workers that have sent an alert of TLS on a plain connection. A request that waits for
/// the connection then fails with an error that does not have the cause.
static SPEAKING_TLS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns which side of a connection to the worker at `address` does not speak TLS, if the texts of an error
/// say so, or the worker has.
pub(crate) fn of_tls(address: &str, texts: &[String]) -> Option<&'static str> {
    let named = [NOT_TLS, SPEAKS_TLS].into_iter().find(|&known| texts.iter().any(|text| text.contains(known)));
    named.or_else(|| SPEAKING_TLS.lock().contains(address).then_some(SPEAKS_TLS))
}

/// A connection that is not encrypted. It fails with a message if the other side speaks TLS.
pub(crate) struct PlainStream {
    stream: TcpStream,
    address: String,
    /// Whether the other side has sent something else than an alert of TLS.
    is_known: bool,
}

impl AsyncRead for PlainStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if !self.is_known
            && let Some(&first) = buffer.filled().get(before)
        {
            if first == ALERT {
                SPEAKING_TLS.lock().insert(self.address.clone());
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, SPEAKS_TLS)));
            }
            self.is_known = true;
            SPEAKING_TLS.lock().remove(&self.address);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The answers to a coordinator, which end with the query.
struct Answers {
    body: Body,
    _task: Task,
}

impl http_body::Body for Answers {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Refuses what a member may not ask: only submitters send plans. Hosts read each other's rows. What
/// is asked runs on `compute`, and ends if nobody waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S> {
    pub(crate) inner: S,
    pub(crate) compute: Handle,
    pub(crate) queries: WorkerQueries,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<Body>, Future: Send + 'static, Error: Send + 'static>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let submits = request.uri().path().ends_with(SUBMIT);
        let peer = request.extensions().get::<Peer>().and_then(Peer::member);
        if let Some(peer) = peer.filter(|peer| submits && peer.role != Role::Submitter) {
            let text = format!("{peer} may not send queries: a submitter's certificate is needed");
            return ready(Ok(Status::permission_denied(text).into_http())).boxed();
        }
        let task = match submits.then(|| self.queries.begin(options::execution(request.headers()), peer)) {
            Some(Err(refusal)) => {
                let text = refusal.to_string();
                let status = match refusal {
                    Refusal::Ending => Status::unavailable(text),
                    Refusal::Full(_) => Status::resource_exhausted(text),
                };
                return ready(Ok(status.into_http())).boxed();
            }
            Some(Ok(task)) => Some(task),
            None => None,
        };
        let answering = AbortOnDropHandle::new(self.compute.spawn(self.inner.call(request)));
        async {
            let answer = match answering.await {
                Ok(answer) => answer?,
                Err(error) => Status::internal(format!("the worker failed: {error}")).into_http(),
            };
            Ok(match task {
                Some(task) => answer.map(|body| Body::new(Answers { body, _task: task })),
                None => answer,
            })
        }
        .boxed()
    }
}
