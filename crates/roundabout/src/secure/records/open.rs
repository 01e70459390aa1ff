//! Records to data.

use std::{
    io::{self, Read},
    ops::Range,
};

use rustls::{AlertDescription, ConnectionTrafficSecrets, ContentType, Error as TlsError, InvalidMessage};

use super::{HEADER, KEY_UPDATE, Keys, SEALED_MAX, key::RecordKey};

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
    key: RecordKey,
    buffer: Box<[u8]>,
    /// Where data is that the caller had no room for.
    data: Range<usize>,
    /// Where bytes are that are not opened yet.
    sealed: Range<usize>,
}

impl Opener {
    /// A key, with which so many records were opened.
    pub(in crate::secure) fn new(secrets: ConnectionTrafficSecrets, used: u64) -> Result<Self, TlsError> {
        let key = RecordKey::new(secrets, used)?;
        Ok(Self { key, buffer: vec![0; BUFFER].into(), data: 0..0, sealed: 0..0 })
    }

    /// Whether there is something to open, or opened, without reading.
    pub(in crate::secure) fn is_ready(&self) -> bool {
        !self.data.is_empty() || !matches!(self.complete(), Ok(None))
    }

    /// Reads as much as there is and as there is room for. 0 is the end.
    pub(in crate::secure) fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        if self.sealed.start > 0 {
            self.buffer.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
        loop {
            match from.read(&mut self.buffer[self.sealed.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    let bytes = result?;
                    self.sealed.end += bytes;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Opens one record, straight into the caller's memory if that has room for it.
    pub(in crate::secure) fn open(&mut self, into: &mut [u8], keys: &mut dyn Keys) -> Result<Progress, TlsError> {
        if !self.data.is_empty() {
            return Ok(Progress::Data(self.take(into)));
        }
        let Some(bytes) = self.complete()? else { return Ok(Progress::Incomplete) };
        let start = self.sealed.start + HEADER;
        self.sealed.start = start + bytes;
        let opened = self.key.open(&mut self.buffer[start..start + bytes], into)?;
        if opened.kind == ContentType::ApplicationData && opened.there {
            return Ok(Progress::Data(opened.bytes));
        }
        let content = start..start + opened.bytes;
        if opened.kind == ContentType::ApplicationData {
            self.data = content;
            return Ok(Progress::Data(self.take(into)));
        }
        let message = if opened.there { &into[..opened.bytes] } else { &self.buffer[content] };
        match (opened.kind, message) {
            (ContentType::Alert, &[_, alert]) => Ok(match AlertDescription::from(alert) {
                AlertDescription::CloseNotify => Progress::Farewell,
                alert => Progress::Alert(alert),
            }),
            (ContentType::Handshake, &[ref update @ .., asked @ (0 | 1)]) if update == KEY_UPDATE => {
                self.key = RecordKey::new(keys.next_to_open()?, 0)?;
                Ok(Progress::KeyUpdate { asked: asked == 1 })
            }
            _ => Err(TlsError::InvalidMessage(InvalidMessage::UnexpectedMessage(
                "neither data nor a farewell nor a key update",
            ))),
        }
    }

    /// Copies what was opened in place. The bytes that there was room for.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let bytes = self.data.len().min(into.len());
        into[..bytes].copy_from_slice(&self.buffer[self.data.start..][..bytes]);
        self.data.start += bytes;
        bytes
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
