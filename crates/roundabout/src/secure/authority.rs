//! The authority, which issues the certificates of a ring.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use aws_lc_rs::{rand::SystemRandom, signature::Ed25519KeyPair};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, SanType, string::Ia5String,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::{
    error::FileError,
    files::{self, PRIVATE, PUBLIC},
    identity::Identity,
    names::{HostName, Member, RingName, Role},
    verify::Trust,
};

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca-key.pem";

const DAY: Duration = Duration::from_secs(86_400);
/// The validity of an authority's certificate.
const AUTHORITY_VALID: Duration = DAY.saturating_mul(3_653);
/// The validity of a host's certificate.
const HOST_VALID: Duration = DAY.saturating_mul(366);
/// The time by which a host's clock may lag that of the authority.
const CLOCK_SKEW: Duration = DAY;

/// The authority of one ring. Its key signs the certificates of all members.
///
/// It is stored in a folder: `ca.pem`, for every member, and `ca-key.pem`, for the authority only.
/// A member needs `ca.pem` and its own two files, but not the folder. Certificates are not revoked.
/// Those of members are valid for a year, and a new authority invalidates all certificates of the
/// old one.
pub struct Authority {
    folder: PathBuf,
    ring: RingName,
    key: KeyPair,
}

/// The paths of a member's certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFiles {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// The member's certificate.
    pub certificate: PathBuf,
    /// The member's key, which only its owner may read.
    pub key: PathBuf,
}

impl HostFiles {
    /// Returns the paths of a host's files in a folder: `host-NAME.pem` and `host-NAME-key.pem`.
    pub fn for_host(folder: &Path, host: &HostName) -> Self {
        Self::for_member(folder, Role::Host, host)
    }

    /// Returns the paths of a member's files in a folder: `ROLE-NAME.pem` and `ROLE-NAME-key.pem`.
    pub fn for_member(folder: &Path, role: Role, name: &HostName) -> Self {
        Self {
            authority: folder.join(CERTIFICATE),
            certificate: folder.join(format!("{role}-{name}.pem")),
            key: folder.join(format!("{role}-{name}-key.pem")),
        }
    }
}

impl Authority {
    /// Creates the authority of a new ring in `folder`, which is created if needed.
    ///
    /// # Errors
    /// If the folder already has an authority, or cannot be written.
    pub fn create(folder: &Path, ring: RingName) -> Result<Self, FileError> {
        let (certificate, key_file) = (folder.join(CERTIFICATE), folder.join(KEY));
        if let Some(path) = [&certificate, &key_file].into_iter().find(|path| path.exists()) {
            return Err(FileError::Exists { path: path.clone() });
        }
        fs::create_dir_all(folder).map_err(|source| files::io_error(folder, source))?;
        let failed = |error: rcgen::Error| FileError::Make { whose: ring.to_string(), reason: error.to_string() };
        let key = new_key().map_err(failed)?;
        let signed = authority_parameters(&ring).and_then(|parameters| parameters.self_signed(&key)).map_err(failed)?;
        write_pair((&key_file, &key.serialize_pem()), (&certificate, &signed.pem()))?;
        Ok(Self { folder: folder.to_owned(), ring, key })
    }

    /// Returns the path of the authority's key in a folder.
    pub fn key_path(folder: &Path) -> PathBuf {
        folder.join(KEY)
    }

    /// Opens the authority in `folder`.
    ///
    /// # Errors
    /// If its files are missing or invalid, or others can read its key.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        let ring = Trust::load(&folder.join(CERTIFICATE))?.ring().clone();
        let path = folder.join(KEY);
        let content = |reason: String| FileError::Content { path: path.clone(), expected: "key", reason };
        let pem = String::from_utf8(files::read_private(&path)?).map_err(|error| content(error.to_string()))?;
        let key = KeyPair::from_pem(&pem).map_err(|error| content(error.to_string()))?;
        Ok(Self { folder: folder.to_owned(), ring, key })
    }

    /// Returns the name of the ring.
    pub fn ring(&self) -> &RingName {
        &self.ring
    }

    /// Creates a host's key and certificate, valid for a year: `host-NAME.pem` and
    /// `host-NAME-key.pem` in the authority's folder.
    ///
    /// Other hosts check the names of the ring and the host. The addresses, IP addresses or host
    /// names, are added for other tools.
    ///
    /// # Errors
    /// If the files exist already, an address is invalid, or the folder cannot be written.
    pub fn add_host(&self, host: &HostName, addresses: &[String]) -> Result<HostFiles, FileError> {
        self.add_member(Role::Host, host, addresses)
    }

    /// Creates the key and certificate of a submitter, as [`add_host`](Self::add_host) does:
    /// `submitter-NAME.pem` and `submitter-NAME-key.pem`.
    pub fn add_submitter(&self, name: &HostName) -> Result<HostFiles, FileError> {
        self.add_member(Role::Submitter, name, &[])
    }

    fn add_member(&self, role: Role, name: &HostName, addresses: &[String]) -> Result<HostFiles, FileError> {
        let paths = HostFiles::for_member(&self.folder, role, name);
        let member = Member { ring: self.ring.clone(), role, host: name.clone() };
        let failed = |error: rcgen::Error| FileError::Make { whose: member.to_string(), reason: error.to_string() };
        let key = new_key().map_err(failed)?;
        let parameters = member_parameters(&member, addresses)?;
        let authority = authority_parameters(&self.ring).map_err(failed)?;
        let signed = parameters.signed_by(&key, &Issuer::from_params(&authority, &self.key)).map_err(failed)?;
        let (certificate_pem, key_pem) = (signed.pem(), key.serialize_pem());
        // Fails here, and not on the first connection, if `ca.pem` and `ca-key.pem` do not match.
        Identity::from_pem(&paths, &files::read(&paths.authority)?, certificate_pem.as_bytes(), key_pem.as_bytes())?;
        write_pair((&paths.key, &key_pem), (&paths.certificate, &certificate_pem))?;
        Ok(paths)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("folder", &self.folder).field("ring", &self.ring).finish_non_exhaustive()
    }
}

/// Returns a new key, as PKCS#8 of version 1: OpenSSL before 3.2 cannot read Ed25519 keys of
/// version 2.
fn new_key() -> Result<KeyPair, rcgen::Error> {
    let key = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(|_| rcgen::Error::RingUnspecified)?;
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(key.as_ref()), &PKCS_ED25519)
}

/// Writes a key and its certificate, or neither.
fn write_pair(key: (&Path, &str), certificate: (&Path, &str)) -> Result<(), FileError> {
    if certificate.0.exists() {
        return Err(FileError::Exists { path: certificate.0.to_owned() });
    }
    files::write_new(key.0, key.1, PRIVATE)?;
    files::write_new(certificate.0, certificate.1, PUBLIC).inspect_err(|_| {
        // A key without a certificate is useless. The first error is reported.
        let _ = fs::remove_file(key.0);
    })
}

/// Returns the authority's certificate. It is derived from the ring's name, so `ca.pem` need not be
/// read to issue certificates.
fn authority_parameters(ring: &RingName) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = parameters(&format!("Annulus ring {ring}"), AUTHORITY_VALID);
    parameters.subject_alt_names = vec![SanType::URI(Ia5String::try_from(ring.uri())?)];
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(parameters)
}

fn member_parameters(member: &Member, addresses: &[String]) -> Result<CertificateParams, FileError> {
    let mut parameters = parameters(member.host.as_str(), HOST_VALID);
    let address_error = |address: &str| FileError::Address { address: address.to_owned() };
    let uri = member.uri();
    parameters.subject_alt_names =
        vec![SanType::URI(Ia5String::try_from(uri.as_str()).map_err(|_| address_error(&uri))?)];
    for address in addresses {
        parameters.subject_alt_names.push(match address.parse() {
            Ok(ip) => SanType::IpAddress(ip),
            Err(_) => SanType::DnsName(Ia5String::try_from(address.as_str()).map_err(|_| address_error(address))?),
        });
    }
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    parameters.use_authority_key_identifier_extension = true;
    Ok(parameters)
}

fn parameters(name: &str, valid: Duration) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let now = SystemTime::now();
    parameters.not_before = (now - CLOCK_SKEW).into();
    parameters.not_after = (now + valid).into();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}
