//! The identity of a host, and the authority by which it checks others.

use std::{fmt, fs, path::Path, sync::Arc};

use rustls::{
    ClientConfig, Error as TlsError, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::NoServerSessionStorage,
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use webpki::KeyUsage;

use super::{
    authority::HostFiles,
    error::FileError,
    files,
    names::{HostName, Member, Role},
    verify::{ExpectedPeer, Trust, Verifier},
};

/// The name of the protocol over TLS (ALPN).
pub(super) const PROTOCOL: &[u8] = b"annulus/1";

/// A member of a ring: its name and role, its certificate and key, and its ring's authority. Cheap
/// to clone.
#[derive(Clone)]
pub struct Identity {
    member: Member,
    trust: Arc<Trust>,
    certified: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

impl Identity {
    /// Loads an identity from PEM files: the certificate of the ring's authority, and the
    /// certificate and key of the host.
    ///
    /// # Errors
    /// If the key can be read by others, if the files do not belong together, or if the certificate
    /// is not valid now.
    pub fn load(authority: &Path, certificate: &Path, key: &Path) -> Result<Self, FileError> {
        let paths =
            HostFiles { authority: authority.to_owned(), certificate: certificate.to_owned(), key: key.to_owned() };
        let key = files::read_private(key)?;
        Self::from_pem(&paths, &files::read(authority)?, &files::read(certificate)?, &key)
    }

    /// Loads the identity of the member `name` with this role from the folder of certificates, or of
    /// the only one whose key is there.
    ///
    /// # Errors
    /// As for [`load`](Self::load). Also if the folder has no such key, or has several and no `name`
    /// is given.
    pub fn in_folder(folder: &Path, role: Role, name: Option<&HostName>) -> Result<Self, FileError> {
        let no_key = || FileError::NoKey { folder: folder.to_owned(), role, name: name.cloned() };
        let name = match name {
            Some(name) => name.clone(),
            None => {
                let entries = fs::read_dir(folder);
                let entries = entries.map_err(|source| FileError::Io { path: folder.to_owned(), source })?;
                let mut keys = entries.filter_map(|entry| role.of_key(entry.ok()?.file_name().to_str()?));
                let name = keys.next().ok_or_else(no_key)?;
                if keys.next().is_some() {
                    return Err(FileError::SeveralKeys { folder: folder.to_owned(), role });
                }
                name
            }
        };
        let HostFiles { authority, certificate, key } = HostFiles::for_member(folder, role, &name);
        if key.exists() { Self::load(&authority, &certificate, &key) } else { Err(no_key()) }
    }

    /// Like [`load`](Self::load), from the contents of the files. The paths are for errors.
    pub(super) fn from_pem(
        paths: &HostFiles,
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
    ) -> Result<Self, FileError> {
        let provider = Arc::new(provider());
        let trust = Trust::from_pem(&paths.authority, authority)?;
        let content =
            |path: &Path, expected, reason: String| FileError::Content { path: path.to_owned(), expected, reason };
        let certificate = CertificateDer::from_pem_slice(certificate)
            .map_err(|error| content(&paths.certificate, "certificate", error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| content(&paths.key, "key", error.to_string()))?;
        let refused = |refusal| FileError::Certificate {
            certificate: paths.certificate.clone(),
            authority: paths.authority.clone(),
            refusal,
        };
        let now = UnixTime::now();
        let member = trust.check(&certificate, now, KeyUsage::server_auth(), &provider).map_err(refused)?;
        trust.check(&certificate, now, KeyUsage::client_auth(), &provider).map_err(refused)?;
        let certified = CertifiedKey::from_der(vec![certificate], key, &provider).map_err(|error| match error {
            TlsError::InconsistentKeys(_) => {
                FileError::KeyMismatch { certificate: paths.certificate.clone(), key: paths.key.clone() }
            }
            other => content(&paths.key, "key", other.to_string()),
        })?;
        Ok(Self { member, trust: Arc::new(trust), certified: Arc::new(certified), provider })
    }

    /// Returns the member and its ring.
    pub fn member(&self) -> &Member {
        &self.member
    }

    pub(super) fn verifier(&self, expected: ExpectedPeer) -> Arc<Verifier> {
        Verifier::new(Arc::clone(&self.trust), Arc::clone(&self.provider), expected)
    }

    /// Returns the settings of rustls for a connection to another host.
    pub(super) fn client(&self, verifier: Arc<Verifier>, protocol: &[u8]) -> Result<ClientConfig, TlsError> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        // The certificate names the host; the name in the clear would reveal it.
        config.enable_sni = false;
        Ok(config)
    }

    /// Returns the settings of rustls for a connection from another host.
    pub(super) fn server(&self, verifier: Arc<Verifier>, protocol: &[u8]) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A side that only writes would never read the tickets.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("member", &self.member).finish_non_exhaustive()
    }
}

/// Returns the allowed algorithms. AES-128 comes first: it is as strong as the keys of the
/// certificates, and faster than AES-256.
fn provider() -> CryptoProvider {
    use aws_lc_rs::{cipher_suite, kx_group};
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        // The first protects traffic recorded today against a later quantum computer.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..aws_lc_rs::default_provider()
    }
}
