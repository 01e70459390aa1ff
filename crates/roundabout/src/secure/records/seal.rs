//! Data to records.

use std::{
    io::{self, Write},
    ops::Range,
};

use rustls::{AlertDescription, ConnectionTrafficSecrets, ContentType, Error as TlsError};

use super::{
    DATA_MAX, KEY_UPDATE, Keys,
    key::{RecordKey, SEAL},
};

/// Full records that are sealed before they go out: few enough to stay in a core's cache, enough for few system calls.
const BATCH: usize = 16;
/// The level of an alert that is no failure.
const WARNING: u8 = 1;

/// Seals what is sent, and keeps the records until they are out.
pub(in crate::secure) struct Sealer {
    key: RecordKey,
    /// How many records may be sealed with a key.
    used_max: u64,
    /// The next key is to be taken before more is sealed.
    renew: bool,
    buffer: Box<[u8]>,
    /// Where records are that wait to be written.
    waiting: Range<usize>,
}

impl Sealer {
    /// A key, of which so many records were sealed, of at most `used_max`.
    pub(in crate::secure) fn new(
        secrets: ConnectionTrafficSecrets,
        used: u64,
        used_max: u64,
    ) -> Result<Self, TlsError> {
        // Between data there may be a key update, and after it the farewell.
        let bytes = BATCH * (DATA_MAX + SEAL) + 2 * (KEY_UPDATE.len() + 1 + SEAL);
        let key = RecordKey::new(secrets, used)?;
        Ok(Self { key, used_max, renew: false, buffer: vec![0; bytes].into(), waiting: 0..0 })
    }

    /// Whether records wait to be written.
    pub(in crate::secure) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether what waits must be written before more is sealed.
    pub(in crate::secure) fn is_full(&self) -> bool {
        let room = self.buffer.len() - self.waiting.end;
        room < DATA_MAX + SEAL + 2 * (KEY_UPDATE.len() + 1 + SEAL)
    }

    /// Has the next key taken before more is sealed.
    pub(in crate::secure) fn renew(&mut self) {
        self.renew = true;
    }

    /// Seals as much of some data as goes into one record, unless it is full. The bytes that were sealed.
    pub(in crate::secure) fn seal(&mut self, data: &[u8], keys: &mut dyn Keys) -> Result<usize, TlsError> {
        // One record is left for the key update, and one for the farewell.
        if self.renew || self.key.used() + 2 >= self.used_max {
            self.record(ContentType::Handshake, &[KEY_UPDATE, &[0]].concat())?;
            self.key = RecordKey::new(keys.next_to_seal()?, 0)?;
            self.renew = false;
        }
        let data = &data[..data.len().min(DATA_MAX)];
        self.record(ContentType::ApplicationData, data)?;
        Ok(data.len())
    }

    /// Seals the farewell.
    pub(in crate::secure) fn seal_farewell(&mut self) -> Result<(), TlsError> {
        self.record(ContentType::Alert, &[WARNING, u8::from(AlertDescription::CloseNotify)])
    }

    /// Writes what is sealed. After an error it may be called again.
    pub(in crate::secure) fn write_to(&mut self, to: &mut impl Write) -> io::Result<()> {
        while self.is_waiting() {
            match to.write(&self.buffer[self.waiting.clone()]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.waiting.start += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting = 0..0;
        Ok(())
    }

    fn record(&mut self, kind: ContentType, data: &[u8]) -> Result<(), TlsError> {
        self.waiting.end += self.key.seal(kind, data, &mut self.buffer[self.waiting.end..])?;
        Ok(())
    }
}
