//! Connections that an asynchronous library makes.

use std::{io, sync::Arc};

use rustls::{ClientConfig, Error as TlsError, ServerConfig};

use super::{
    error::SecureError,
    identity::Identity,
    names::{Member, Role},
    verify::{ExpectedPeer, Verifier},
};

/// The settings of rustls for one connection, and what its handshake has found out.
#[derive(Debug)]
pub struct Terms<C> {
    config: Arc<C>,
    verifier: Arc<Verifier>,
}

impl Identity {
    /// Returns the terms on which this member accepts a connection from any member of its ring, for a
    /// protocol of this name (ALPN).
    ///
    /// # Errors
    /// If rustls refuses the settings.
    pub fn accepting(&self, protocol: &[u8]) -> Result<Terms<ServerConfig>, SecureError> {
        let verifier = self.verifier(ExpectedPeer::Member);
        let config = self.server(Arc::clone(&verifier), protocol).map_err(SecureError::Tls)?;
        Ok(Terms { config: Arc::new(config), verifier })
    }

    /// Returns the terms on which this member connects to any host of its ring.
    ///
    /// In TLS 1.3, this side's handshake ends before the other one has checked its certificate: a
    /// refusal comes with the first data.
    ///
    /// # Errors
    /// If rustls refuses the settings.
    pub fn connecting(&self, protocol: &[u8]) -> Result<Terms<ClientConfig>, SecureError> {
        let verifier = self.verifier(ExpectedPeer::Any(Role::Host));
        let config = self.client(Arc::clone(&verifier), protocol).map_err(SecureError::Tls)?;
        Ok(Terms { config: Arc::new(config), verifier })
    }
}

impl<C> Terms<C> {
    /// Returns the settings.
    pub fn config(&self) -> Arc<C> {
        Arc::clone(&self.config)
    }

    /// Returns the member at the other end, after the handshake.
    ///
    /// # Errors
    /// If the handshake has not ended, or the member was refused.
    pub fn peer(&self) -> Result<Member, SecureError> {
        match self.verifier.peer() {
            Some(peer) => peer.map_err(SecureError::Refused),
            None => Err(SecureError::NoCertificate),
        }
    }

    /// Returns why the handshake failed with this error.
    pub fn explain(&self, error: io::Error) -> SecureError {
        match (self.verifier.peer(), error.downcast::<TlsError>()) {
            (Some(Err(refusal)), _) => SecureError::Refused(refusal),
            (_, Ok(error)) => SecureError::from_tls(error),
            (_, Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => SecureError::Closed,
            (_, Err(error)) => SecureError::Io(error),
        }
    }
}
