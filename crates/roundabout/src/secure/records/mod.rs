//! TLS records (RFC 8446, section 5) once the handshake is over: from the caller's memory to the wire and back, each byte touched
//! once. rustls gives keys, nonces and what is authenticated with a record; AWS-LC seals and opens.

mod key;
mod open;
mod seal;
#[cfg(test)]
mod tests;

use rustls::{ConnectionTrafficSecrets, Error as TlsError, kernel::KernelConnection};

pub(super) use self::{
    open::{Opener, Progress},
    seal::Sealer,
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
