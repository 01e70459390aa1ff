//! From a TCP connection to a secure one.

use std::{io::IoSlice, net::TcpStream, sync::Arc, time::Duration};

use rustls::{
    Error as TlsError, client::UnbufferedClientConnection, pki_types::ServerName, server::UnbufferedServerConnection,
};

use super::{
    error::SecureError,
    exporter::ExporterSecret,
    identity::Identity,
    names::HostName,
    shake::{Shaken, shake},
    stream::Secure,
    timed::Timed,
};

/// How long a handshake may take if nothing else is said.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// The first data of the host that was connected to: it has accepted the other side.
///
/// In TLS 1.3 whoever connects is done before its certificate is looked at. If it only writes from then on, it would not learn why
/// the connection ends.
const WELCOME: &[u8] = b"welcome";

/// Makes a connection secure that this host has made to `expected`. Takes at most [`HANDSHAKE_TIME_MAX`].
///
/// When it returns, the other side has accepted this host, too. The socket is made one that blocks; its time limits stay as they are.
pub fn connect(stream: TcpStream, identity: &Identity, expected: &HostName) -> Result<Secure, SecureError> {
    connect_within(stream, identity, expected, HANDSHAKE_TIME_MAX)
}

/// As [`connect`], with another limit on the time for the whole handshake.
pub fn connect_within(
    stream: TcpStream,
    identity: &Identity,
    expected: &HostName,
    limit: Duration,
) -> Result<Secure, SecureError> {
    let timed = Timed::new(stream, limit)?;
    let verifier = identity.verifier(Some(expected.clone()));
    let secret = Arc::new(ExporterSecret::default());
    let config = identity.client(Arc::clone(&verifier), secret.clone()).map_err(SecureError::Tls)?;
    // Asked for by rustls, and never sent: the verifier knows whom it expects.
    let name = ServerName::try_from("annulus").map_err(|error| TlsError::General(error.to_string()));
    let connection =
        name.and_then(|name| UnbufferedClientConnection::new(Arc::new(config), name)).map_err(SecureError::Tls)?;
    let mut shaken = shake(&timed, connection, &verifier, &secret)?;
    let mut welcome = [0; WELCOME.len()];
    let mut read = 0;
    while read < welcome.len() {
        match shaken.channel.read(&mut &timed, &mut welcome[read..]) {
            Ok(0) => return Err(SecureError::Closed),
            Ok(bytes) => read += bytes,
            Err(error) => return Err(timed.explain(error)),
        }
    }
    if welcome == WELCOME { finish(timed, shaken) } else { Err(SecureError::OtherProtocol) }
}

/// Makes a connection secure that another host of the ring has made to this one. Takes at most [`HANDSHAKE_TIME_MAX`].
///
/// Any host of the ring is accepted; who it is, is given back.
pub fn accept(stream: TcpStream, identity: &Identity) -> Result<(Secure, HostName), SecureError> {
    accept_within(stream, identity, HANDSHAKE_TIME_MAX)
}

/// As [`accept`], with another limit on the time for the whole handshake.
pub fn accept_within(
    stream: TcpStream,
    identity: &Identity,
    limit: Duration,
) -> Result<(Secure, HostName), SecureError> {
    let timed = Timed::new(stream, limit)?;
    let verifier = identity.verifier(None);
    let secret = Arc::new(ExporterSecret::default());
    let config = identity.server(Arc::clone(&verifier), secret.clone()).map_err(SecureError::Tls)?;
    let connection = UnbufferedServerConnection::new(Arc::new(config)).map_err(SecureError::Tls)?;
    let mut shaken = shake(&timed, connection, &verifier, &secret)?;
    let welcome = [IoSlice::new(WELCOME)];
    let mut to = &timed;
    shaken
        .channel
        .write(&mut to, &welcome)
        .and_then(|_| shaken.channel.flush(&mut to))
        .map_err(|e| timed.explain(e))?;
    let secure = finish(timed, shaken)?;
    let peer = secure.peer().clone();
    Ok((secure, peer))
}

fn finish(timed: Timed, shaken: Shaken) -> Result<Secure, SecureError> {
    Ok(Secure::new(timed.finish()?, shaken.peer, shaken.exporter, shaken.channel))
}
