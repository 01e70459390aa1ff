//! The pages of a column chunk, decompressed, with what they have before their values taken off.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use parquet::{
    basic::Encoding,
    column::page::{Page, PageMetadata, PageReader},
    errors::Result,
    file::{metadata::ColumnChunkMetaData, serialized_reader::SerializedPageReader},
};

use crate::{
    buffers::PageBuffers,
    chunk::ChunkBytes,
    column::Column,
    error::{PageError, ScanError},
    hybrid::Hybrid,
    levels::Levels,
    snappy::Snappy,
    values::prefixed,
};

/// The pages of a column chunk, one after the other.
pub(crate) struct Pages {
    reader: SerializedPageReader<ChunkBytes>,
    /// What decompresses pages that the reader does not.
    snappy: Option<Snappy>,
}

impl Pages {
    /// Returns the pages of a chunk of `rows` rows, as far as `bytes` has them.
    ///
    /// # Errors
    /// If the chunk is compressed in a way that is not known.
    pub fn new(chunk: &ColumnChunkMetaData, bytes: ChunkBytes, rows: usize, buffers: &PageBuffers) -> Result<Self> {
        let (snappy, plain) = Snappy::for_chunk(chunk, buffers).unzip();
        let reader = SerializedPageReader::new(Arc::new(bytes), plain.as_ref().unwrap_or(chunk), rows, None)?;
        Ok(Self { reader, snappy })
    }

    /// Returns the next page, if there is one.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn next(&mut self, column: &Column) -> std::result::Result<Option<Page>, ScanError> {
        let page = self.ask(column, PageReader::get_next_page)?;
        Ok(match (page, &mut self.snappy) {
            (Some(page), Some(snappy)) => Some(snappy.page(page)?),
            (page, _) => page,
        })
    }

    /// Returns what the header of the next page says.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn peek(&mut self, column: &Column) -> std::result::Result<Option<PageMetadata>, ScanError> {
        self.ask(column, PageReader::peek_next_page)
    }

    /// Leaves the next page out. It is not decompressed.
    ///
    /// # Errors
    /// If its header is damaged.
    pub fn skip(&mut self, column: &Column) -> std::result::Result<(), ScanError> {
        self.ask(column, PageReader::skip_next_page)
    }

    /// Asks the reader, which may panic where a header is damaged (the `parquet` crate, 59.3).
    fn ask<T>(
        &mut self,
        column: &Column,
        ask: impl FnOnce(&mut SerializedPageReader<ChunkBytes>) -> Result<T>,
    ) -> std::result::Result<T, ScanError> {
        // The reader is of no use after an error, so it does not matter what the panic left of it.
        let answer = catch_unwind(AssertUnwindSafe(|| ask(&mut self.reader)));
        Ok(answer.map_err(|_| column.corrupt(PageError::Header))??)
    }
}

/// Returns the codes of a page, from the bytes of its values.
///
/// # Errors
/// If codes have no such width.
pub(crate) fn codes(values: Bytes) -> std::result::Result<Hybrid, PageError> {
    // The width comes first. Pages without values need not have it.
    match values.first() {
        Some(&width) => Hybrid::new(values.slice(1..), width),
        None => Hybrid::new(values, 0),
    }
}

/// A data page.
#[derive(Debug)]
pub(crate) struct DataPage {
    pub rows: usize,
    pub encoding: Encoding,
    /// What says which rows have a value, if the column is optional.
    pub levels: Option<Levels>,
    pub values: Bytes,
}

impl DataPage {
    /// Takes a data page of a flat column apart.
    ///
    /// # Errors
    /// If its parts do not fit into it, or its levels have an encoding that is out of use.
    pub fn new(page: Page, is_optional: bool) -> std::result::Result<Self, PageError> {
        match page {
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let mut next = 0;
                #[expect(deprecated, reason = "old files have it")]
                let levels = match def_level_encoding {
                    _ if !is_optional => None,
                    Encoding::RLE => Some(Levels::Hybrid(prefixed(&buf, &mut next)?)),
                    Encoding::BIT_PACKED => {
                        next = (num_values as usize).div_ceil(8);
                        Some(Levels::Bits(buf.get(..next).map(|_| buf.slice(..next)).ok_or(PageError::Short)?))
                    }
                    _ => return Err(PageError::Encoding),
                };
                Ok(Self { rows: num_values as usize, encoding, levels, values: buf.slice(next..) })
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let start = rep_levels_byte_len as usize;
                let end = start.saturating_add(def_levels_byte_len as usize);
                if end > buf.len() {
                    return Err(PageError::Short);
                }
                let levels = is_optional.then(|| Levels::Hybrid(buf.slice(start..end)));
                Ok(Self { rows: num_values as usize, encoding, levels, values: buf.slice(end..) })
            }
            Page::DictionaryPage { .. } => Err(PageError::Dictionary),
        }
    }
}
