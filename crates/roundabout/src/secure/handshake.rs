//! The handshake, which turns a TCP connection into a secure one.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    ops::DerefMut,
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConnection, ConnectionCommon, Error as TlsError, ServerConnection, SideData, Stream, pki_types::ServerName,
};

use super::{
    error::SecureError,
    identity::{Identity, PROTOCOL},
    names::{HostName, Role},
    stream::Secure,
    timed::DeadlineStream,
    verify::{ExpectedPeer, Verifier},
};

/// The default time limit of a handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// The first data from the accepting host. It shows that the host accepted the certificate of the
/// other side.
///
/// In TLS 1.3 the handshake of the connecting side ends before its certificate is checked. If it
/// only wrote from then on, it would not learn why the connection ends.
const WELCOME: &[u8] = b"welcome";

/// Secures a connection that this host made to `expected`. Takes at most [`HANDSHAKE_TIME_MAX`].
///
/// When it returns, the other side has accepted this host, too. The socket is switched to blocking;
/// its time limits are kept.
///
/// # Errors
/// If the other side is not `expected`, refuses this host, or does not finish the handshake in
/// time.
pub fn connect(stream: TcpStream, identity: &Identity, expected: &HostName) -> Result<Secure, SecureError> {
    connect_within(stream, identity, expected, HANDSHAKE_TIME_MAX)
}

/// Like [`connect`], with another time limit for the whole handshake.
///
/// # Errors
/// As [`connect`].
pub fn connect_within(
    stream: TcpStream,
    identity: &Identity,
    expected: &HostName,
    limit: Duration,
) -> Result<Secure, SecureError> {
    let timed = DeadlineStream::new(stream, limit)?;
    let verifier = identity.verifier(ExpectedPeer::Host(expected.clone()));
    let config = identity.client(Arc::clone(&verifier), PROTOCOL).map_err(SecureError::Tls)?;
    // Required by rustls, and never sent: the verifier knows the expected host.
    let name = ServerName::try_from("annulus").map_err(|error| TlsError::General(error.to_string()));
    let mut connection =
        name.and_then(|name| ClientConnection::new(Arc::new(config), name)).map_err(SecureError::Tls)?;
    let peer = shake(&timed, &mut connection, &verifier)?;
    let mut welcome = [0; WELCOME.len()];
    let mut socket = &timed;
    let read = Stream::new(&mut connection, &mut socket).read_exact(&mut welcome);
    read.map_err(|error| explain(&timed, error))?;
    if welcome != WELCOME {
        return Err(SecureError::OtherProtocol);
    }
    Ok(Secure::new(timed.finish()?, peer, connection.into()))
}

/// Secures a connection that another host of the ring made to this one. Takes at most
/// [`HANDSHAKE_TIME_MAX`]. Accepts any host of the ring, and returns its name.
///
/// # Errors
/// If the other side is not a host of the ring, or does not finish the handshake in time.
pub fn accept(stream: TcpStream, identity: &Identity) -> Result<(Secure, HostName), SecureError> {
    accept_within(stream, identity, HANDSHAKE_TIME_MAX)
}

/// Like [`accept`], with another time limit for the whole handshake.
///
/// # Errors
/// As [`accept`].
pub fn accept_within(
    stream: TcpStream,
    identity: &Identity,
    limit: Duration,
) -> Result<(Secure, HostName), SecureError> {
    accept_role(stream, identity, Role::Host, limit)
}

/// Like [`accept_within`], but accepts any submitter of the ring, and no host.
pub fn accept_submitter(
    stream: TcpStream,
    identity: &Identity,
    limit: Duration,
) -> Result<(Secure, HostName), SecureError> {
    accept_role(stream, identity, Role::Submitter, limit)
}

fn accept_role(
    stream: TcpStream,
    identity: &Identity,
    role: Role,
    limit: Duration,
) -> Result<(Secure, HostName), SecureError> {
    let timed = DeadlineStream::new(stream, limit)?;
    let verifier = identity.verifier(ExpectedPeer::Any(role));
    let config = identity.server(Arc::clone(&verifier), PROTOCOL).map_err(SecureError::Tls)?;
    let mut connection = ServerConnection::new(Arc::new(config)).map_err(SecureError::Tls)?;
    let peer = shake(&timed, &mut connection, &verifier)?;
    let mut socket = &timed;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(WELCOME).and_then(|()| stream.flush()).map_err(|error| explain(&timed, error))?;
    Ok((Secure::new(timed.finish()?, peer.clone(), connection.into()), peer))
}

/// Performs this side's part of the handshake. Returns the host at the other end.
fn shake<S: SideData>(
    timed: &DeadlineStream,
    connection: &mut impl DerefMut<Target = ConnectionCommon<S>>,
    verifier: &Verifier,
) -> Result<HostName, SecureError> {
    let mut socket = timed;
    while connection.is_handshaking() || connection.wants_write() {
        if let Err(error) = connection.complete_io(&mut socket) {
            return Err(match verifier.peer() {
                Some(Err(refusal)) => SecureError::Refused(refusal),
                _ => explain(timed, error),
            });
        }
    }
    if connection.alpn_protocol() != Some(PROTOCOL) {
        return Err(SecureError::OtherProtocol);
    }
    verifier.peer().and_then(Result::ok).map(|peer| peer.host).ok_or(SecureError::NoCertificate)
}

/// Converts an error of rustls or of the socket during the handshake.
fn explain(timed: &DeadlineStream, error: io::Error) -> SecureError {
    match error.downcast() {
        Ok(error) => SecureError::from_tls(error),
        Err(error) => timed.explain(error),
    }
}
