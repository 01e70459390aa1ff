//! The identity of a host, and the authority by which it checks others.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::RwLock;
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
/// to clone: clones [refresh](Self::refresh) together.
#[derive(Clone)]
pub struct Identity {
    member: Member,
    credentials: Arc<RwLock<Credentials>>,
    provider: Arc<CryptoProvider>,
}

/// What an identity proves itself with, and what it checks others by.
struct Credentials {
    trust: Arc<Trust>,
    certified: Arc<CertifiedKey>,
    /// The files, if they may change.
    files: Option<WatchedFiles>,
}

struct WatchedFiles {
    paths: HostFiles,
    /// The files as they were when they were last read.
    versions: [Option<FileVersion>; 3],
}

/// What differs if a file has been written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl FileVersion {
    fn find(path: &PathBuf) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { modified: found.modified().ok(), bytes: found.len(), inode: found.ino() })
    }

    /// Returns the present versions of the files; those that are missing have none.
    fn find_all(paths: &HostFiles) -> [Option<Self>; 3] {
        [&paths.authority, &paths.certificate, &paths.key].map(Self::find)
    }
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
        // Before they are read: what is written meanwhile is read again.
        let versions = FileVersion::find_all(&paths);
        let identity = Self::read(&paths)?;
        identity.credentials.write().files = Some(WatchedFiles { paths, versions });
        Ok(identity)
    }

    fn read(paths: &HostFiles) -> Result<Self, FileError> {
        let key = files::read_private(&paths.key)?;
        Self::from_pem(paths, &files::read(&paths.authority)?, &files::read(&paths.certificate)?, &key)
    }

    /// Reads the files again that the identity was loaded from, if they have changed, and returns whether they have.
    /// Connections of this identity and its clones that are made afterwards use them; those that exist stay.
    ///
    /// # Errors
    /// As for [`load`](Self::load), and if the certificate is that of another member. What was loaded before stays in
    /// use, and the files are not read again until they change.
    pub fn refresh(&self) -> Result<bool, FileError> {
        let changed = |credentials: &Credentials| {
            let WatchedFiles { paths, versions } = credentials.files.as_ref()?;
            let found = FileVersion::find_all(paths);
            (found != *versions).then(|| (paths.clone(), found))
        };
        if changed(&self.credentials.read()).is_none() {
            return Ok(false);
        }
        let mut credentials = self.credentials.write();
        // Another thread may have read them.
        let Some((paths, versions)) = changed(&credentials) else { return Ok(false) };
        if let Some(files) = &mut credentials.files {
            files.versions = versions;
        }
        let new = Self::read(&paths)?;
        if new.member != self.member {
            return Err(FileError::OtherMember {
                certificate: paths.certificate,
                found: new.member.to_string(),
                expected: self.member.to_string(),
            });
        }
        let new = new.credentials.read();
        (credentials.trust, credentials.certified) = (Arc::clone(&new.trust), Arc::clone(&new.certified));
        Ok(true)
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
        let credentials = Credentials { trust: Arc::new(trust), certified: Arc::new(certified), files: None };
        Ok(Self { member, credentials: Arc::new(RwLock::new(credentials)), provider })
    }

    /// Returns the member and its ring.
    pub fn member(&self) -> &Member {
        &self.member
    }

    fn certified(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.credentials.read().certified)))
    }

    pub(super) fn verifier(&self, expected: ExpectedPeer) -> Arc<Verifier> {
        Verifier::new(Arc::clone(&self.credentials.read().trust), Arc::clone(&self.provider), expected)
    }

    /// Returns the settings of rustls for a connection to another host.
    pub(super) fn client(&self, verifier: Arc<Verifier>, protocol: &[u8]) -> Result<ClientConfig, TlsError> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(self.certified());
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
            .with_cert_resolver(self.certified());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::Authority;

    #[test]
    fn changed_files_are_read_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path(), "ring".parse().unwrap()).unwrap();
        let (alpha, beta) = ("alpha".parse().unwrap(), "beta".parse().unwrap());
        let paths = authority.add_host(&alpha, &[]).unwrap();
        let identity = Identity::in_folder(folder.path(), Role::Host, None).unwrap();
        let clone = identity.clone();
        let certificate = |identity: &Identity| identity.credentials.read().certified.cert.clone();
        let before = certificate(&identity);
        assert!(!identity.refresh().unwrap());
        let renew = |member| {
            fs::remove_file(&paths.certificate).unwrap();
            fs::remove_file(&paths.key).unwrap();
            let new = authority.add_host(member, &[]).unwrap();
            if new != paths {
                fs::rename(&new.certificate, &paths.certificate).unwrap();
                fs::rename(&new.key, &paths.key).unwrap();
            }
        };
        renew(&alpha);
        assert!(clone.refresh().unwrap());
        assert!(!identity.refresh().unwrap() && certificate(&identity) != before);
        let renewed = certificate(&identity);
        // What cannot be used changes nothing, and is reported once.
        let good = fs::read(&paths.certificate).unwrap();
        fs::write(&paths.certificate, "half").unwrap();
        assert!(identity.refresh().unwrap_err().to_string().contains("readable certificate"));
        assert!(!identity.refresh().unwrap() && certificate(&identity) == renewed);
        fs::write(&paths.certificate, good).unwrap();
        assert!(identity.refresh().unwrap());
        renew(&beta);
        let error = identity.refresh().unwrap_err().to_string();
        assert!(error.contains("beta") && error.contains("alpha"), "{error}");
        assert!(certificate(&identity) == renewed);
    }
}
