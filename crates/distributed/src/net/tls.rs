//! Connections between the members of a ring, encrypted with certificates of the ring's own authority.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use annulus_roundabout::secure::{Identity, Member, SecureError};
use http::Uri;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls::pki_types::ServerName};
use tokio_util::either::Either;
use tonic::transport::server::Connected;

use super::{mismatch::TlsMismatch, plain::PlainStream};

/// The name of the protocol over TLS (ALPN).
const PROTOCOL: &[u8] = b"annulus-worker/1";
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

/// Reads renewed certificates, if there are any.
fn refresh(identity: &Identity) {
    match identity.refresh() {
        Ok(true) => tracing::info!("the certificate of {} has been renewed", identity.member()),
        Ok(false) => {}
        Err(error) => tracing::warn!("{error}; the certificate that was read before stays in use"),
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
    refresh(identity);
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
/// If the worker is not a member of that ring, or cannot be reached.
pub(super) async fn connect(
    uri: Uri,
    identity: Option<Identity>,
) -> io::Result<Either<PlainStream, tokio_rustls::client::TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or_default())).await?;
    stream.set_nodelay(true)?;
    let Some(identity) = identity else {
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        return Ok(Either::Left(PlainStream::new(stream, address)));
    };
    refresh(&identity);
    let terms = identity.connecting(PROTOCOL)?;
    // Required by rustls, and never sent: the certificate names the host.
    let name = ServerName::try_from("annulus").map_err(io::Error::other)?;
    let stream = TlsConnector::from(terms.config()).connect(name, stream).await;
    Ok(Either::Right(stream.map_err(|error| match terms.explain(error) {
        SecureError::NotTls => io::Error::from(TlsMismatch::Worker),
        error => error.into(),
    })?))
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
