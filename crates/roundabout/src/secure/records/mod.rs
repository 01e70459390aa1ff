//! TLS records (RFC 8446, section 5) once the handshake is over: framing and buffers. rustls's ciphers seal and open them.

mod open;
mod seal;

use rustls::{
    ConnectionTrafficSecrets, Error as TlsError, Tls13CipherSuite,
    crypto::cipher::{AeadKey, Iv, MessageDecrypter, MessageEncrypter},
    kernel::KernelConnection,
};

pub(super) use self::{
    open::{Opener, Progress},
    seal::{BATCH, Sealer},
};

/// Bytes of a record before its content.
pub(super) const HEADER: usize = 5;
/// Most bytes of data in a record.
pub(super) const DATA_MAX: usize = 1 << 14;
/// Most bytes of a record's content, sealed.
pub(super) const SEALED_MAX: usize = DATA_MAX + 256;
/// A message that says that what follows is sealed with the next key, but for its last byte: 1 asks for the same in return, 0 does
/// not (RFC 8446, section 4.6.3).
const KEY_UPDATE: &[u8] = &[24, 0, 0, 1];

/// The next keys of a connection, which rustls derives.
pub(super) trait Keys: Send + Sync {
    /// Those to seal with.
    fn next_to_seal(&mut self) -> Result<ConnectionTrafficSecrets, TlsError>;
    /// Those to open with.
    fn next_to_open(&mut self) -> Result<ConnectionTrafficSecrets, TlsError>;
}

impl<Side: Send + Sync> Keys for KernelConnection<Side> {
    fn next_to_seal(&mut self) -> Result<ConnectionTrafficSecrets, TlsError> {
        self.update_tx_secret().map(|(_, secrets)| secrets)
    }

    fn next_to_open(&mut self) -> Result<ConnectionTrafficSecrets, TlsError> {
        self.update_rx_secret().map(|(_, secrets)| secrets)
    }
}

fn encrypter(
    suite: &Tls13CipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Result<Box<dyn MessageEncrypter>, TlsError> {
    key_and_iv(secrets).map(|(key, iv)| suite.aead_alg.encrypter(key, iv))
}

fn decrypter(
    suite: &Tls13CipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Result<Box<dyn MessageDecrypter>, TlsError> {
    key_and_iv(secrets).map(|(key, iv)| suite.aead_alg.decrypter(key, iv))
}

fn key_and_iv(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), TlsError> {
    use ConnectionTrafficSecrets as Secrets;
    match secrets {
        Secrets::Aes128Gcm { key, iv } | Secrets::Aes256Gcm { key, iv } | Secrets::Chacha20Poly1305 { key, iv } => {
            Ok((key, iv))
        }
        _ => Err(TlsError::General("a cipher without known keys".to_owned())),
    }
}
