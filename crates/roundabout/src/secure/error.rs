//! The errors of files and of connections.

use std::{io, path::PathBuf, time::Duration};

use rustls::{AlertDescription as Alert, CertificateError, Error as TlsError, PeerIncompatible};
use thiserror::Error;

use super::names::{HostName, Member, NameError, RingName, Role};

/// The reason why certificates or keys could not be created or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file already exists, and is not overwritten.
    #[error("{} exists already: choose another folder or name, or remove it if it is no longer \
        needed", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A key is readable by others.
    #[error("{} can be read or written by others (mode {mode:04o}): run chmod 600 on it, or replace it if others \
        may have read it", .path.display())]
    OpenEndpoint {
        /// The file.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// A file has invalid content.
    #[error("{} has no readable {expected}: {reason}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The reason.
        reason: String,
    },
    /// A key does not belong to the certificate.
    #[error(
        "'{}' is not the key of the certificate '{}': give two files that were made together",
        .key.display(), .certificate.display()
    )]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The authority did not issue the certificate, or it is invalid.
    #[error("{} cannot be used with {}: {refusal}", .certificate.display(), .authority.display())]
    Certificate {
        /// The certificate's file.
        certificate: PathBuf,
        /// The authority's file.
        authority: PathBuf,
        /// The reason.
        refusal: Refusal,
    },
    /// A certificate that took the place of another one is that of another member.
    #[error("{} is the certificate of {found}, not of {expected}", .certificate.display())]
    OtherMember {
        /// The certificate's file.
        certificate: PathBuf,
        /// The member in it.
        found: String,
        /// The member whose certificate it was.
        expected: String,
    },
    /// A folder has no key of a member with this role, or not that of this member.
    #[error("no '{}': create it with annulus worker add-{role} {}, on the machine of the ring's authority",
        .folder.join(format!("{role}-{}-key.pem", member(.name))).display(), member(.name))]
    NoKey {
        /// The folder.
        folder: PathBuf,
        /// The role.
        role: Role,
        /// The member, if it was named.
        name: Option<HostName>,
    },
    /// A folder has keys of several members with this role.
    #[error("several keys of {role}s in '{}': name the one to use", .folder.display())]
    SeveralKeys {
        /// The folder.
        folder: PathBuf,
        /// The role.
        role: Role,
    },
    /// An address is neither an IP address nor a name that certificates can hold.
    #[error("invalid address {address:?} for a certificate: give IP addresses or plain host names")]
    Address {
        /// The address.
        address: String,
    },
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A certificate or key could not be created.
    #[error("cannot create the certificate of {whose}: {reason}")]
    Make {
        /// The host or ring.
        whose: String,
        /// The reason.
        reason: String,
    },
}

fn member(name: &Option<HostName>) -> &str {
    name.as_ref().map_or("NAME", HostName::as_str)
}

/// The reason why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The certificate was not issued by the ring's authority.
    #[error("it was not issued by the authority of ring {ring}{}; {}", stranger(.ring, .claim), ONE_AUTHORITY)]
    Stranger {
        /// The ring that was expected.
        ring: RingName,
        /// The host that the certificate names, without proof.
        claim: Option<Box<Member>>,
    },
    /// The ring's authority issued it, but not for a host of the ring.
    #[error("it does not name a host of ring {ring}{}", claimed(.claim))]
    NotOfRing {
        /// The ring that was expected.
        ring: RingName,
        /// The host that it names.
        claim: Option<Box<Member>>,
    },
    /// The certificate belongs to a member of the ring with another role.
    #[error("it is that of {} {}, and this connection is for a {}", .found.role, .found.host, expected)]
    WrongRole {
        /// The role that was expected.
        expected: Role,
        /// The member that it belongs to.
        found: Box<Member>,
    },
    /// The certificate belongs to another host.
    #[error("it is that of host {found}, not of host {expected}")]
    WrongHost {
        /// The expected host.
        expected: HostName,
        /// The actual host.
        found: HostName,
    },
    /// The certificate has expired.
    #[error("it expired {} ago: issue a new one, or set this host's clock right", days(*.ago))]
    Expired {
        /// The time since it expired.
        ago: Duration,
    },
    /// The certificate is not valid yet.
    #[error("it is valid only in {}: set the clocks right", days(*.ahead))]
    NotYetValid {
        /// The time until it is valid.
        ahead: Duration,
    },
    /// The certificate is not suitable for this use, or cannot be read.
    #[error("it cannot be used: {0}")]
    Unusable(String),
}

/// The remedy for certificates of several authorities.
const ONE_AUTHORITY: &str = "ca.pem and the certificates must come from one authority: copy them again";

/// Returns the host that a certificate of another authority names.
fn stranger(ring: &RingName, claim: &Option<Box<Member>>) -> String {
    match claim {
        Some(member) if member.ring == *ring => {
            format!(", but by another authority of the same name; it names {} {}", member.role, member.host)
        }
        claim => claimed(claim),
    }
}

fn claimed(claim: &Option<Box<Member>>) -> String {
    claim.as_ref().map(|member| format!("; it names {member}")).unwrap_or_default()
}

fn days(time: Duration) -> String {
    match time.as_secs() / 86_400 {
        0 => format!("{} s", time.as_secs()),
        days => format!("{days} days"),
    }
}

/// The reason why a connection was not made, or broke.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecureError {
    /// The other side does not speak TLS.
    #[error("the other side does not speak TLS: check that it is an Annulus host, and that both sides encrypt rows")]
    NotTls,
    /// The other side speaks TLS, but not 1.3.
    #[error("the other side does not offer TLS 1.3")]
    OldTls,
    /// The other side speaks TLS 1.3, but not this protocol.
    #[error("the other side speaks another protocol over TLS, or another version of Annulus")]
    OtherProtocol,
    /// The other side was silent or slow.
    #[error("the handshake took longer than {} ms: the other side is silent, overloaded or no Annulus \
        host", .limit.as_millis())]
    TooSlow {
        /// The time for the whole handshake.
        limit: Duration,
    },
    /// The other side closed the connection before the handshake was over.
    #[error("the other side closed the connection during the handshake; its log may say why")]
    Closed,
    /// The other side sent no certificate.
    #[error("the other side showed no certificate")]
    NoCertificate,
    /// The other side's certificate was not accepted.
    #[error("the other side's certificate was refused: {0}")]
    Refused(Refusal),
    /// The other side refused this host, because of its certificate or for another reason.
    #[error("the other side refused this host: {}", alert(*.0))]
    RefusedUs(Alert),
    /// The connection ended without a close: data may be missing.
    #[error("the connection ended before the other side closed it; data may be missing")]
    Truncated,
    /// The data was changed in transit, or the other side violated TLS.
    #[error("TLS failed: {0}")]
    Tls(TlsError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Returns the meaning of an alert.
fn alert(alert: Alert) -> String {
    let meaning = match alert {
        Alert::UnknownCA => {
            return format!("its certificate is not from an authority that the other side knows; {ONE_AUTHORITY}");
        }
        Alert::AccessDenied => "its certificate is that of another member, role or ring than the other side expected",
        Alert::CertificateExpired => "its certificate has expired or is not valid yet, by the other side's clock",
        Alert::CertificateRequired => "it showed no certificate",
        Alert::NoApplicationProtocol => "the other side speaks another protocol or another version",
        other => return format!("it sent the alert {other:?}"),
    };
    meaning.to_owned()
}

impl SecureError {
    /// Converts an error that rustls reports during a handshake.
    pub(super) fn from_tls(error: TlsError) -> Self {
        match error {
            TlsError::AlertReceived(Alert::ProtocolVersion) => Self::OldTls,
            TlsError::AlertReceived(alert) => Self::RefusedUs(alert),
            TlsError::NoCertificatesPresented => Self::NoCertificate,
            TlsError::NoApplicationProtocol => Self::OtherProtocol,
            TlsError::InvalidMessage(_) => Self::NotTls,
            TlsError::PeerIncompatible(
                PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::Tls12NotOfferedOrEnabled,
            ) => Self::OldTls,
            other => Self::Tls(other),
        }
    }
}

impl From<SecureError> for io::Error {
    fn from(error: SecureError) -> Self {
        let kind = match error {
            SecureError::Io(error) => return error,
            SecureError::Truncated | SecureError::Closed => io::ErrorKind::UnexpectedEof,
            SecureError::TooSlow { .. } => io::ErrorKind::TimedOut,
            SecureError::RefusedUs(_) | SecureError::Refused(_) => io::ErrorKind::ConnectionAborted,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl Refusal {
    /// Returns the rustls error that sends the other side the most specific alert.
    pub(super) fn as_tls(&self) -> TlsError {
        TlsError::InvalidCertificate(match self {
            Self::Stranger { .. } => CertificateError::UnknownIssuer,
            Self::NotOfRing { .. } | Self::WrongRole { .. } | Self::WrongHost { .. } => {
                CertificateError::ApplicationVerificationFailure
            }
            Self::Expired { .. } => CertificateError::Expired,
            Self::NotYetValid { .. } => CertificateError::NotValidYet,
            Self::Unusable(_) => CertificateError::BadEncoding,
        })
    }
}
