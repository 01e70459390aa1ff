//! One key, and how many records it was used for.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce as AeadNonce, UnboundKey};
use rustls::{
    ConnectionTrafficSecrets, ContentType, Error as TlsError,
    crypto::cipher::{Iv, Nonce, make_tls13_aad},
};

use super::{DATA_MAX, HEADER};

/// Bytes that prove that a record was sealed with the key.
const TAG: usize = 16;
/// Bytes that sealing adds to a record's data: header, kind and tag.
pub(super) const SEAL: usize = HEADER + 1 + TAG;

/// A key for one direction, for records in their order.
pub(super) struct RecordKey {
    key: LessSafeKey,
    iv: Iv,
    used: u64,
}

impl RecordKey {
    /// A key that was used for so many records.
    pub(super) fn new(secrets: ConnectionTrafficSecrets, used: u64) -> Result<Self, TlsError> {
        use ConnectionTrafficSecrets as Secrets;
        let failed = |reason: &str| TlsError::General(reason.to_owned());
        let (algorithm, key, iv) = match secrets {
            Secrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            Secrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(failed("the cipher is not known here")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| failed("the key has the wrong length"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, used })
    }

    /// Records sealed or opened.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Makes a record of at most [`DATA_MAX`] bytes. It needs [`SEAL`] bytes more; their sum is given back.
    pub(super) fn seal(&mut self, kind: ContentType, data: &[u8], record: &mut [u8]) -> Result<usize, TlsError> {
        debug_assert!(data.len() <= DATA_MAX);
        let bytes = data.len() + SEAL;
        let aad = make_tls13_aad(bytes - HEADER);
        let (header, sealed) = record[..bytes].split_at_mut(HEADER);
        // What is authenticated is the header (section 5.2).
        header.copy_from_slice(&aad);
        let (sealed, end) = sealed.split_at_mut(data.len());
        self.key
            .seal_out_of_place_scatter(self.nonce(), Aad::from(aad), data, sealed, &[u8::from(kind)], end)
            .map_err(|_| TlsError::EncryptError)?;
        self.used += 1;
        Ok(bytes)
    }

    /// Opens a record's content into `into` if it has room for it, else in place.
    pub(super) fn open(&mut self, sealed: &mut [u8], into: &mut [u8]) -> Result<Opened, TlsError> {
        let aad = Aad::from(make_tls13_aad(sealed.len()));
        let content = sealed.len().checked_sub(TAG).ok_or(TlsError::DecryptError)?;
        let (sealed, tag) = sealed.split_at_mut(content);
        let there = into.len() >= content;
        let opened = if there {
            let into = &mut into[..content];
            self.key.open_separate_gather(self.nonce(), aad, sealed, tag, into).map(|()| into)
        } else {
            self.key.open_in_place_separate_tag(self.nonce(), aad, tag, sealed)
        };
        let content = &*opened.map_err(|_| TlsError::DecryptError)?;
        self.used += 1;
        // Zeros may follow the data and its kind (section 5.4).
        let bytes = content.iter().rposition(|byte| *byte != 0).ok_or(TlsError::DecryptError)?;
        if bytes > DATA_MAX {
            return Err(TlsError::PeerSentOversizedRecord);
        }
        Ok(Opened { kind: ContentType::from(content[bytes]), bytes, there })
    }

    fn nonce(&self) -> AeadNonce {
        AeadNonce::assume_unique_for_key(Nonce::new(&self.iv, self.used).0)
    }
}

/// What a record holds, and where it is.
pub(super) struct Opened {
    pub(super) kind: ContentType,
    /// Bytes of data.
    pub(super) bytes: usize,
    /// Whether it is where the caller wanted it, and not in place.
    pub(super) there: bool,
}
