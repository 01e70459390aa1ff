//! The check of certificates: accepts hosts of the ring whose certificates its authority issued.

use std::{
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime, pem::PemObject},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyUsage, anchor_from_trusted_cert};

use super::{
    error::{FileError, Refusal},
    files,
    names::{HostName, Member, RingName, Role},
};

/// A ring's authority, as trusted by its hosts.
#[derive(Debug)]
pub(super) struct Trust {
    ring: RingName,
    anchor: TrustAnchor<'static>,
}

impl Trust {
    pub(super) fn load(path: &Path) -> Result<Self, FileError> {
        Self::from_pem(path, &files::read(path)?)
    }

    /// `path` is for errors.
    pub(super) fn from_pem(path: &Path, pem: &[u8]) -> Result<Self, FileError> {
        let error = |reason: String| FileError::Content {
            path: path.to_owned(),
            expected: "certificate of a ring's authority",
            reason,
        };
        let der = CertificateDer::from_pem_slice(pem).map_err(|reason| error(reason.to_string()))?;
        let anchor = anchor_from_trusted_cert(&der).map_err(|reason| error(reason.to_string()))?.to_owned();
        let certificate = EndEntityCert::try_from(&der).map_err(|reason| error(reason.to_string()))?;
        let ring = certificate.valid_uri_names().find_map(RingName::from_uri);
        Ok(Self { ring: ring.ok_or_else(|| error("it names no ring".to_owned()))?, anchor })
    }

    pub(super) fn ring(&self) -> &RingName {
        &self.ring
    }

    /// Returns the member that a certificate is for. The authority must have issued it for a member
    /// of its ring, and it must be valid now.
    pub(super) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
        usage: impl ExtendedKeyUsageValidator,
        provider: &CryptoProvider,
    ) -> Result<Member, Refusal> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| Refusal::Unusable(error.to_string()))?;
        let claim = parsed.valid_uri_names().find_map(Member::from_uri).map(Box::new);
        let algorithms = provider.signature_verification_algorithms.all;
        let anchors = std::slice::from_ref(&self.anchor);
        // An authority issues its hosts' certificates itself, without intermediates.
        parsed
            .verify_for_usage(algorithms, anchors, &[], now, usage, None, None)
            .map_err(|error| self.refusal(error, claim.clone()))?;
        match claim {
            Some(member) if member.ring == self.ring => Ok(*member),
            claim => Err(Refusal::NotOfRing { ring: self.ring.clone(), claim }),
        }
    }

    fn refusal(&self, error: webpki::Error, claim: Option<Box<Member>>) -> Refusal {
        use webpki::Error as E;
        let between = |later: UnixTime, earlier: UnixTime| {
            std::time::Duration::from_secs(later.as_secs().saturating_sub(earlier.as_secs()))
        };
        match error {
            E::CertExpired { time, not_after } => Refusal::Expired { ago: between(time, not_after) },
            E::CertNotValidYet { time, not_before } => Refusal::NotYetValid { ahead: between(not_before, time) },
            E::UnknownIssuer | E::InvalidSignatureForPublicKey | E::CaUsedAsEndEntity => {
                Refusal::Stranger { ring: self.ring.clone(), claim }
            }
            other => Refusal::Unusable(other.to_string()),
        }
    }
}

/// The member that may be at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) enum ExpectedPeer {
    /// This host.
    Host(HostName),
    /// Any member with this role.
    Any(Role),
    /// Any member.
    Member,
}

impl ExpectedPeer {
    fn check(&self, found: Member) -> Result<Member, Refusal> {
        let role = match self {
            Self::Host(_) => Role::Host,
            Self::Any(role) => *role,
            Self::Member => return Ok(found),
        };
        if found.role != role {
            return Err(Refusal::WrongRole { expected: role, found: Box::new(found) });
        }
        match self {
            Self::Host(expected) if *expected != found.host => {
                Err(Refusal::WrongHost { expected: expected.clone(), found: found.host })
            }
            _ => Ok(found),
        }
    }
}

/// Checks the other side of one connection. Stores which member it is, or the reason why it was
/// refused.
pub(super) struct Verifier {
    trust: Arc<Trust>,
    provider: Arc<CryptoProvider>,
    expected: ExpectedPeer,
    peer: OnceLock<Result<Member, Refusal>>,
}

impl Verifier {
    /// Returns the check for a connection with `expected`.
    pub(super) fn new(trust: Arc<Trust>, provider: Arc<CryptoProvider>, expected: ExpectedPeer) -> Arc<Self> {
        Arc::new(Self { trust, provider, expected, peer: OnceLock::new() })
    }

    /// Returns the outcome, or `None` before the other side has sent a certificate.
    pub(super) fn peer(&self) -> Option<Result<Member, Refusal>> {
        self.peer.get().cloned()
    }

    fn verify(&self, certificate: &CertificateDer<'_>, now: UnixTime, usage: KeyUsage) -> Result<(), TlsError> {
        let found = self.trust.check(certificate, now, usage, &self.provider);
        let checked = found.and_then(|found| self.expected.check(found));
        self.peer.get_or_init(|| checked).as_ref().map(|_| ()).map_err(Refusal::as_tls)
    }

    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("ring", &self.trust.ring).field("expected", &self.expected).finish()
    }
}

/// Refuses TLS 1.2, which is never negotiated.
fn no_tls12() -> Result<HandshakeSignatureValid, TlsError> {
    Err(TlsError::General("TLS 1.2 is not supported".to_owned()))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        self.verify(certificate, now, KeyUsage::server_auth()).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verify_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        self.verify(certificate, now, KeyUsage::client_auth()).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verify_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
