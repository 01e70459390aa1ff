//! Rings, sockets and peers that behave as a test requires.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    ops::DerefMut,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use annulus_roundabout::secure::{
    Authority, HostName, Identity, Secure, SecureError, accept_submitter, accept_within, connect_within,
};
use rcgen::{Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, SideData,
    SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// A time that is long enough for every handshake that can succeed, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);
/// The time limit for handshakes that cannot succeed.
pub const SHORT: Duration = Duration::from_millis(200);

pub fn host(name: &str) -> HostName {
    HostName::new(name).unwrap()
}

/// A ring and its files.
pub struct Ring {
    pub folder: tempfile::TempDir,
    pub authority: Authority,
}

impl Ring {
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path(), name.parse().unwrap()).unwrap();
        Self { folder, authority }
    }

    pub fn identity(&self, name: &str) -> Identity {
        let files = self.authority.add_host(&host(name), &[]).unwrap();
        Identity::load(&files.authority, &files.certificate, &files.key).unwrap()
    }

    pub fn submitter(&self, name: &str) -> Identity {
        let files = self.authority.add_submitter(&host(name)).unwrap();
        Identity::load(&files.authority, &files.certificate, &files.key).unwrap()
    }

    /// Issues a certificate that this ring's authority would never issue.
    pub fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Credentials {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = named(&format!("Annulus ring {}", self.authority.ring()));
        let key = KeyPair::from_pem(&fs::read_to_string(self.folder.path().join("ca-key.pem")).unwrap()).unwrap();
        let issuer = Issuer::new(authority, key);
        let (key, mut params) = (KeyPair::generate().unwrap(), host_params());
        change(&mut params);
        Credentials { certificate: params.signed_by(&key, &issuer).unwrap(), key }
    }
}

/// A certificate and its key.
pub struct Credentials {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Credentials {
    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        (vec![self.certificate.der().clone()], key)
    }
}

/// Returns a certificate that only its holder has signed.
pub fn self_signed(uri: &str) -> Credentials {
    let (key, mut params) = (KeyPair::generate().unwrap(), host_params());
    name(&mut params, uri);
    Credentials { certificate: params.self_signed(&key).unwrap(), key }
}

/// Makes a certificate name a host.
pub fn name(params: &mut CertificateParams, uri: &str) {
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
}

fn named(name: &str) -> rcgen::DistinguishedName {
    let mut names = rcgen::DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn host_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = (SystemTime::now() - Duration::from_secs(60)).into();
    params.not_after = (SystemTime::now() + Duration::from_secs(3600)).into();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Returns the two ends of a connection over loopback. The second one waits for data for a long
/// time, but not forever, in case a test fails.
pub fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    far.set_read_timeout(Some(LONG)).unwrap();
    (near, far)
}

/// The outcomes of both sides of a handshake.
pub type Outcome = (Result<Secure, SecureError>, Result<(Secure, HostName), SecureError>);

pub fn meet(near: &Identity, expected: &str, far: &Identity) -> Outcome {
    handshake(near, expected, |socket| accept_within(socket, far, LONG))
}

/// Does the same, but `far` accepts submitters.
pub fn order(near: &Identity, expected: &str, far: &Identity) -> Outcome {
    handshake(near, expected, |socket| accept_submitter(socket, far, LONG))
}

fn handshake(
    near: &Identity,
    expected: &str,
    accept: impl FnOnce(TcpStream) -> Result<(Secure, HostName), SecureError> + Send,
) -> Outcome {
    let (near_socket, far_socket) = sockets();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| accept(far_socket));
        let connected = connect_within(near_socket, near, &host(expected), LONG);
        (connected, accepting.join().unwrap())
    })
}

/// Returns a connection from host a to host b of a new ring.
pub fn connection() -> (Secure, Secure) {
    let ring = Ring::new("one");
    let (connected, accepted) = meet(&ring.identity("a"), "b", &ring.identity("b"));
    (connected.unwrap(), accepted.unwrap().0)
}

/// Runs `peer` at the other end of a connection that this host makes to host b.
pub fn connect_to<T: Send>(
    near: &Identity,
    limit: Duration,
    peer: impl FnOnce(TcpStream) -> T + Send,
) -> (Result<Secure, SecureError>, T) {
    let (socket, other) = sockets();
    thread::scope(|scope| {
        let peer = scope.spawn(|| peer(other));
        let connected = connect_within(socket, near, &host("b"), limit);
        (connected, peer.join().unwrap())
    })
}

/// Runs `peer` at the other end of a connection that this host accepts.
pub fn accept_from<T: Send>(
    near: &Identity,
    limit: Duration,
    peer: impl FnOnce(TcpStream) -> T + Send,
) -> (Result<(Secure, HostName), SecureError>, T) {
    let (socket, other) = sockets();
    thread::scope(|scope| {
        let peer = scope.spawn(|| peer(other));
        let accepted = accept_within(socket, near, limit);
        (accepted, peer.join().unwrap())
    })
}

/// Returns rustls's own client with these credentials, which accepts any server.
pub fn client(credentials: Option<&Credentials>, version: &'static SupportedProtocolVersion) -> ClientConnection {
    client_for(credentials, version, &["annulus/1"])
}

/// Like `client`, for these protocols.
pub fn client_for(
    credentials: Option<&Credentials>,
    version: &'static SupportedProtocolVersion,
    protocols: &[&str],
) -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone));
    let mut config = match credentials {
        Some(credentials) => {
            let (chain, key) = credentials.der();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    ClientConnection::new(Arc::new(config), ServerName::try_from("b").unwrap()).unwrap()
}

/// Returns rustls's own server with these credentials, which accepts any client.
pub fn server(credentials: &Credentials, version: &'static SupportedProtocolVersion) -> ServerConnection {
    let (chain, key) = credentials.der();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Anyone))
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"annulus/1".to_vec()];
    config.send_tls13_tickets = 0;
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Does a handshake with rustls alone, and reads until the end or an error, which it returns.
pub fn run<S: SideData>(
    connection: &mut impl DerefMut<Target = ConnectionCommon<S>>,
    mut socket: TcpStream,
) -> Option<rustls::Error> {
    let mut stream = rustls::Stream::new(connection, &mut socket);
    let error = stream.flush().and_then(|()| stream.read_to_end(&mut Vec::new()).map(drop)).err()?;
    error.downcast::<rustls::Error>().ok()
}

#[derive(Debug)]
struct Anyone;

macro_rules! any_signature {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    any_signature!();
}

impl ClientCertVerifier for Anyone {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    any_signature!();
}
