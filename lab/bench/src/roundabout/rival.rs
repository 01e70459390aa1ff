//! TLS with the streams of rustls: the rival of a roundabout over TLS.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use anyhow::{Context, Result};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{PrivateKeyDer, ServerName},
    version::TLS13,
};

use super::run::dial;

const NAME: &str = "rival";

/// The settings of both ends.
pub(super) struct Rustls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Rustls {
    /// Makes a certificate, and chooses the cipher that the roundabout prefers.
    pub(super) fn new() -> Result<Self> {
        let cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider = Arc::new(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() });
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.self_signed(&key)?.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::try_from(key.serialize_der()).ok().context("the new key is not valid DER")?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        // An end that only writes would never read the tickets, and would reset the connection at
        // the end.
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    pub(super) fn connect(&self, address: SocketAddr) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let connection = ClientConnection::new(Arc::clone(&self.client), ServerName::try_from(NAME)?)?;
        Ok(StreamOwned::new(connection, dial(address)?))
    }

    pub(super) fn accept(&self, listener: &TcpListener) -> Result<StreamOwned<ServerConnection, TcpStream>> {
        let connection = ServerConnection::new(Arc::clone(&self.server))?;
        Ok(StreamOwned::new(connection, listener.accept()?.0))
    }
}
