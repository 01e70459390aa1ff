//! The first bytes of an encoded fragment.

use std::ops::Range;

use super::{ALIGN, padded};
use crate::error::JoinError;

const MAGIC: [u8; 8] = *b"ANNFRAG1";

/// The fields of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// The bytes of the whole fragment.
    pub(super) bytes: u64,
    pub(super) rows: u32,
    /// The number of partitions that the side is clustered into.
    pub(super) partitions: u32,
    /// The first partition that the fragment has rows of.
    pub(super) first: u32,
    /// The number of starts of partitions.
    pub(super) starts: u32,
    pub(super) buffers: u32,
}

impl Heading {
    /// # Errors
    /// [`JoinError::Fragment`] if `bytes` is not a whole fragment.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, JoinError> {
        let Some((magic, numbers)) = bytes.get(..ALIGN).and_then(|heading| heading.split_first_chunk::<8>()) else {
            return Err(JoinError::Fragment { what: "it is shorter than a heading" });
        };
        if *magic != MAGIC {
            return Err(JoinError::Fragment { what: "its first bytes are not those of a fragment" });
        }
        let word = |at: usize| u32::from_le_bytes(numbers.as_chunks::<4>().0[at]);
        let heading = Self {
            bytes: u64::from(word(1)) << 32 | u64::from(word(0)),
            rows: word(2),
            partitions: word(3),
            first: word(4),
            starts: word(5),
            buffers: word(6),
        };
        if heading.bytes > bytes.len() as u64 || heading.front() as u64 > heading.bytes {
            return Err(JoinError::Fragment { what: "it is cut off" });
        }
        Ok(heading)
    }

    /// Writes the first 64 bytes.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let [low, high] = [self.bytes as u32, (self.bytes >> 32) as u32];
        let words = [low, high, self.rows, self.partitions, self.first, self.starts, self.buffers];
        bytes[..ALIGN].fill(0);
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        for (place, word) in bytes[MAGIC.len()..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
    }

    /// Returns the range of the match bits and their padding.
    fn match_bytes(&self) -> Range<usize> {
        ALIGN..ALIGN + padded((self.rows as usize).div_ceil(8))
    }

    /// Returns the range of the starts of the partitions.
    pub(super) fn start_bytes(&self) -> Range<usize> {
        let begin = self.match_bytes().end;
        begin..begin + self.starts as usize * size_of::<u32>()
    }

    /// Returns the range of the offsets and lengths of the buffers.
    pub(super) fn buffer_bytes(&self) -> Range<usize> {
        let begin = padded(self.start_bytes().end);
        begin..begin + self.buffers as usize * 2 * size_of::<u64>()
    }

    /// Returns the number of bytes before the first buffer.
    pub(super) fn front(&self) -> usize {
        padded(self.buffer_bytes().end)
    }
}
