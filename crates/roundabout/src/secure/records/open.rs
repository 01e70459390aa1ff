//! Records to data.

use std::{
    io::{self, Read},
    ops::Range,
};

use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error as TlsError, InvalidMessage, ProtocolVersion,
    Tls13CipherSuite,
    crypto::cipher::{InboundOpaqueMessage, MessageDecrypter},
};

use super::{HEADER, KEY_UPDATE, Keys, SEALED_MAX, decrypter};

/// Most bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// What a record was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::secure) enum Progress {
    /// Data, so many bytes of which are in the caller's buffer now.
    Data(usize),
    /// No record is complete: more must be read.
    Incomplete,
    /// From here on the other side uses its next key; if asked, so must this side before it sends more.
    KeyUpdate { asked: bool },
    /// The other side has said that it is done.
    Farewell,
    /// The other side has ended the connection, and says why.
    Alert(AlertDescription),
}

/// Opens what comes in.
pub(in crate::secure) struct Opener {
    suite: &'static Tls13CipherSuite,
    decrypter: Box<dyn MessageDecrypter>,
    /// Records opened with the present key.
    opened: u64,
    buffer: Box<[u8]>,
    /// Where data is that the caller had no room for.
    data: Range<usize>,
    /// Where bytes are that are not opened yet.
    sealed: Range<usize>,
}

impl Opener {
    pub(in crate::secure) fn new(
        suite: &'static Tls13CipherSuite,
        secrets: ConnectionTrafficSecrets,
        opened: u64,
    ) -> Result<Self, TlsError> {
        let decrypter = decrypter(suite, secrets)?;
        Ok(Self { suite, decrypter, opened, buffer: vec![0; BUFFER].into(), data: 0..0, sealed: 0..0 })
    }

    /// Whether there is something to open, or opened, without reading.
    pub(in crate::secure) fn is_ready(&self) -> bool {
        !self.data.is_empty() || !matches!(self.complete(), Ok(None))
    }

    /// Reads as much as there is and as there is room for. 0 is the end.
    pub(in crate::secure) fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.buffer.copy_within(self.sealed.clone(), 0);
        self.sealed = 0..self.sealed.len();
        let bytes = from.read(&mut self.buffer[self.sealed.end..])?;
        self.sealed.end += bytes;
        Ok(bytes)
    }

    /// Opens one record.
    pub(in crate::secure) fn open(&mut self, into: &mut [u8], keys: &mut dyn Keys) -> Result<Progress, TlsError> {
        if !self.data.is_empty() {
            let bytes = self.data.len().min(into.len());
            into[..bytes].copy_from_slice(&self.buffer[self.data.start..][..bytes]);
            self.data.start += bytes;
            return Ok(Progress::Data(bytes));
        }
        let Some(bytes) = self.complete()? else { return Ok(Progress::Incomplete) };
        let content = self.sealed.start + HEADER..self.sealed.start + HEADER + bytes;
        self.sealed.start = content.end;
        let sealed = &mut self.buffer[content.clone()];
        let message = InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, sealed);
        let opened = self.decrypter.decrypt(message, self.opened)?;
        self.opened += 1;
        match (opened.typ, opened.payload) {
            (ContentType::ApplicationData, data) => {
                let bytes = data.len().min(into.len());
                into[..bytes].copy_from_slice(&data[..bytes]);
                // Records are opened in place.
                self.data = content.start + bytes..content.start + data.len();
                Ok(Progress::Data(bytes))
            }
            (ContentType::Alert, &[_, alert]) => Ok(match AlertDescription::from(alert) {
                AlertDescription::CloseNotify => Progress::Farewell,
                alert => Progress::Alert(alert),
            }),
            (ContentType::Handshake, &[ref update @ .., asked @ (0 | 1)]) if update == KEY_UPDATE => {
                self.decrypter = decrypter(self.suite, keys.next_to_open()?)?;
                self.opened = 0;
                Ok(Progress::KeyUpdate { asked: asked == 1 })
            }
            _ => Err(TlsError::InvalidMessage(InvalidMessage::UnexpectedMessage(
                "neither data nor a farewell nor a key update",
            ))),
        }
    }

    /// How many sealed bytes the next record has, if it is complete.
    fn complete(&self) -> Result<Option<usize>, TlsError> {
        let Some((&[kind, _, _, high, low], rest)) = self.buffer[self.sealed.clone()].split_first_chunk::<HEADER>()
        else {
            return Ok(None);
        };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if ContentType::from(kind) != ContentType::ApplicationData {
            return Err(TlsError::InvalidMessage(InvalidMessage::InvalidContentType));
        }
        if bytes > SEALED_MAX {
            return Err(TlsError::InvalidMessage(InvalidMessage::MessageTooLarge));
        }
        Ok((bytes <= rest.len()).then_some(bytes))
    }
}
