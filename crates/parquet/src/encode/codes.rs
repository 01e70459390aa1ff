//! A column chunk that is written from codes of a shared dictionary.

use std::sync::Arc;

use arrow::array::{Array, UInt16Array};
use parquet::errors::{ParquetError, Result};

use super::{
    CodesEncoding,
    chunk::{ChunkPages, EncodedChunk},
};
use crate::codes::Entries;

/// A code that the chunk has no entry for yet.
const UNSEEN: u16 = u16::MAX;

/// Writes a column chunk: codes of rows, in pages, until it is [finished](Self::finish). Pages are kept as they
/// are packed, and compressed at the end.
#[derive(Debug)]
pub struct CodesWriter {
    encoding: Arc<CodesEncoding>,
    /// The chunk's code of each shared code.
    own: Vec<u16>,
    /// The shared code of each of the chunk's codes.
    shared: Vec<u16>,
    pages: ChunkPages,
}

impl CodesWriter {
    /// Begins a chunk.
    pub fn new(encoding: Arc<CodesEncoding>) -> Self {
        let pages = ChunkPages::new(Arc::clone(&encoding.column), true);
        Self { encoding, own: Vec::new(), shared: Vec::new(), pages }
    }

    /// Adds rows: codes of the shared dictionary, or null.
    ///
    /// # Errors
    /// If a code is beyond the dictionary, or a row is null though the column is not optional.
    pub fn write(&mut self, rows: &UInt16Array) -> Result<()> {
        let encoding = Arc::clone(&self.encoding);
        let nulls = rows.nulls().filter(|nulls| nulls.null_count() > 0);
        let codes = encoding.dictionary.with_entries(|entries| {
            let values = rows.values();
            match nulls {
                Some(nulls) => self.number(nulls.valid_indices().map(|row| values[row]), entries),
                None => self.number(values.iter().copied(), entries),
            }
        })?;
        self.pages.add_codes(rows.len(), nulls, &codes)
    }

    /// Returns the chunk's codes for shared ones.
    fn number(&mut self, codes: impl Iterator<Item = u16>, entries: &Entries) -> Result<Vec<u32>> {
        self.own.resize(entries.len().max(self.own.len()), UNSEEN);
        let mut numbered = Vec::with_capacity(codes.size_hint().0);
        for code in codes {
            let own = match self.own.get(usize::from(code)) {
                Some(&own) if own != UNSEEN => own,
                Some(_) => self.add_entry(code, entries),
                None => return Err(ParquetError::General(format!("code {code} of {} entries", entries.len()))),
            };
            numbered.push(u32::from(own));
        }
        Ok(numbered)
    }

    /// Gives a shared code one of the chunk's.
    fn add_entry(&mut self, code: u16, entries: &Entries) -> u16 {
        self.pages.add_entry(entries.value(u32::from(code)).len());
        let own = self.shared.len() as u16;
        self.own[usize::from(code)] = own;
        self.shared.push(code);
        own
    }

    /// Returns the memory in use, in bytes, without that of the shared dictionary.
    pub fn memory(&self) -> usize {
        self.pages.memory() + (self.own.capacity() + self.shared.capacity()) * size_of::<u16>()
    }

    /// Returns the approximate size in bytes that the chunk would have if it ended here.
    pub fn size_estimate(&self) -> usize {
        self.pages.size_estimate()
    }

    /// Ends the chunk. It has a dictionary, unless its values are shorter without one.
    ///
    /// # Errors
    /// If a page cannot be compressed or written.
    pub fn finish(self) -> Result<EncodedChunk> {
        let Self { encoding, shared, mut pages, .. } = self;
        encoding.dictionary.with_entries(|entries| {
            let values: Vec<&[u8]> = shared.iter().map(|&code| entries.value(u32::from(code))).collect();
            let has_dictionary = pages.end_codes(|code| values[code as usize])? < 1.0;
            pages.finish(has_dictionary.then_some(&values), (!has_dictionary).then_some(&values))
        })
    }
}
