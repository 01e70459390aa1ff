//! Keys for other uses, which both sides of a connection have and nobody else (RFC 8446, section 7.5).
//!
//! rustls exports keys from its buffered connections only. The secret that they come from reaches us as one to be logged.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use rustls::{
    KeyLog, Tls13CipherSuite,
    crypto::tls13::{HkdfExpander, OkmBlock, expand},
};

/// Where rustls puts the secret that keys are exported from.
#[derive(Default)]
pub(super) struct ExporterSecret(Mutex<Option<OkmBlock>>);

impl ExporterSecret {
    /// What exports keys, once the handshake is over.
    pub(super) fn exporter(&self, suite: &'static Tls13CipherSuite) -> Option<Exporter> {
        let secret = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Exporter { suite, secret: suite.hkdf_provider.expander_for_okm(&secret) })
    }
}

impl fmt::Debug for ExporterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExporterSecret")
    }
}

impl KeyLog for ExporterSecret {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

/// Exports keys of one connection.
pub(super) struct Exporter {
    suite: &'static Tls13CipherSuite,
    secret: Box<dyn HkdfExpander>,
}

impl Exporter {
    /// 32 bytes that depend on the connection, the label and the context.
    pub(super) fn export(&self, label: &[u8], context: &[u8]) -> [u8; 32] {
        let hash = |bytes: &[u8]| self.suite.common.hash_provider.hash(bytes);
        let derived =
            with_label(self.secret.hash_len(), label, hash(&[]).as_ref(), |info| self.secret.expand_block(info));
        let derived = self.suite.hkdf_provider.expander_for_okm(&derived);
        with_label(32, b"exporter", hash(context).as_ref(), |info| expand(&*derived, info))
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) for so many bytes.
fn with_label<T>(bytes: usize, label: &[u8], context: &[u8], expand: impl FnOnce(&[&[u8]]) -> T) -> T {
    const PREFIX: &[u8] = b"tls13 ";
    // Neither hashes nor keys are near these bounds, and longer labels are the caller's mistake, alike on both sides.
    let bytes = (bytes as u16).to_be_bytes();
    let label_bytes = [(PREFIX.len() + label.len()) as u8];
    let context_bytes = [context.len() as u8];
    expand(&[&bytes, &label_bytes, PREFIX, label, &context_bytes, context])
}
