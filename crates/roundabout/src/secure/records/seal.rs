//! Data to records.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, Write},
};

use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error as TlsError, ProtocolVersion, Tls13CipherSuite,
    crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage},
};

use super::{DATA_MAX, KEY_UPDATE, Keys, encrypter};

/// Records that are sealed before they go out: few enough to stay in a core's cache, enough for few system calls.
pub(in crate::secure) const BATCH: usize = 16;

/// The level of an alert that is no failure.
const WARNING: u8 = 1;

/// Seals what is sent, and keeps the records until they are out.
pub(in crate::secure) struct Sealer {
    suite: &'static Tls13CipherSuite,
    encrypter: Box<dyn MessageEncrypter>,
    /// Records sealed with the present key.
    sealed: u64,
    /// How many may be, before the next key is taken.
    sealed_max: u64,
    /// The next key is to be taken before more is sealed.
    renew: bool,
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of the first that are out.
    written: usize,
}

impl Sealer {
    pub(in crate::secure) fn new(
        suite: &'static Tls13CipherSuite,
        secrets: ConnectionTrafficSecrets,
        sealed: u64,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            suite,
            encrypter: encrypter(suite, secrets)?,
            sealed,
            sealed_max: suite.common.confidentiality_limit,
            renew: false,
            waiting: VecDeque::new(),
            written: 0,
        })
    }

    /// How many records wait to be written.
    pub(in crate::secure) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Has the next key taken before more is sealed.
    pub(in crate::secure) fn renew(&mut self) {
        self.renew = true;
    }

    /// Seals data.
    pub(in crate::secure) fn seal(&mut self, data: &[u8], keys: &mut dyn Keys) -> Result<(), TlsError> {
        for data in data.chunks(DATA_MAX) {
            // One record is left for the key update, and one for the farewell.
            if self.renew || self.sealed + 2 >= self.sealed_max {
                self.record(ContentType::Handshake, &[KEY_UPDATE, &[0]].concat())?;
                self.encrypter = encrypter(self.suite, keys.next_to_seal()?)?;
                (self.sealed, self.renew) = (0, false);
            }
            self.record(ContentType::ApplicationData, data)?;
        }
        Ok(())
    }

    /// Seals the farewell.
    pub(in crate::secure) fn seal_farewell(&mut self) -> Result<(), TlsError> {
        self.record(ContentType::Alert, &[WARNING, u8::from(AlertDescription::CloseNotify)])
    }

    /// Writes what is sealed. After an error it may be called again.
    pub(in crate::secure) fn write_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let mut slices = [IoSlice::new(&[]); 64];
            let mut start = self.written;
            for (slice, record) in slices.iter_mut().zip(&self.waiting) {
                *slice = IoSlice::new(&record[start..]);
                start = 0;
            }
            let count = self.waiting.len().min(slices.len());
            match to.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        while let Some(first) = self.waiting.front().filter(|first| self.written >= first.len()) {
            self.written -= first.len();
            self.waiting.pop_front();
        }
    }

    fn record(&mut self, kind: ContentType, data: &[u8]) -> Result<(), TlsError> {
        let payload = OutboundChunks::Single(data);
        let plain = OutboundPlainMessage { typ: kind, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.encrypter.encrypt(plain, self.sealed)?;
        self.sealed += 1;
        self.waiting.push_back(record.encode());
        Ok(())
    }
}
