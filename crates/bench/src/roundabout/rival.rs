//! TLS as a program has it that uses rustls's own streams.

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

/// Both ends' settings.
pub(super) struct Rustls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Rustls {
    /// With the cipher that the roundabout takes first.
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
        let key = PrivateKeyDer::try_from(key.serialize_der()).ok().context("a key")?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        // Whoever only writes would never read the tickets, and reset the connection in the end.
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
