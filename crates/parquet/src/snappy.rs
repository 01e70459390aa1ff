//! Snappy pages, decompressed into memory that is used again.

use bytes::Bytes;
use parquet::{
    basic::Compression,
    column::page::Page,
    errors::{ParquetError, Result},
    file::metadata::ColumnChunkMetaData,
};
use snap::raw::{Decoder, decompress_len};

use crate::buffers::PageBuffers;

/// No element of the format has more bytes for each of its own: 64 for 3.
const MOST_EXPANSION: usize = 22;

/// Decompresses the pages of a column chunk.
pub(crate) struct Snappy {
    decoder: Decoder,
    buffers: PageBuffers,
}

impl Snappy {
    /// Returns what decompresses a chunk's pages, and the chunk as one that is not compressed, if it is by Snappy.
    pub fn for_chunk(chunk: &ColumnChunkMetaData, buffers: &PageBuffers) -> Option<(Self, ColumnChunkMetaData)> {
        if chunk.compression() != Compression::SNAPPY {
            return None;
        }
        let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build().ok()?;
        Some((Self { decoder: Decoder::new(), buffers: buffers.clone() }, plain))
    }

    /// Returns a page whose bytes are not compressed.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn page(&mut self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = self.bytes(buf, 0)?,
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed: true, .. } => {
                let levels = def_levels_byte_len.saturating_add(*rep_levels_byte_len) as usize;
                *buf = self.bytes(buf, levels)?;
            }
            Page::DataPageV2 { .. } => {}
        }
        Ok(page)
    }

    /// Returns bytes of which the first `levels` were not compressed.
    fn bytes(&mut self, bytes: &Bytes, levels: usize) -> Result<Bytes> {
        let (Some(first), Some(compressed)) = (bytes.get(..levels), bytes.get(levels..)) else {
            return Err(ParquetError::EOF(format!("{levels} bytes of levels in a page of {}", bytes.len())));
        };
        // Without values, there may be nothing to decompress.
        if compressed.is_empty() {
            return Ok(bytes.clone());
        }
        let length = decompress_len(compressed).map_err(damaged)?;
        if length > compressed.len().saturating_mul(MOST_EXPANSION) {
            return Err(ParquetError::General(format!("{} bytes by Snappy cannot be {length}", compressed.len())));
        }
        let decoder = &mut self.decoder;
        self.buffers.filled(levels + length, |out| {
            out[..levels].copy_from_slice(first);
            decoder.decompress(compressed, &mut out[levels..]).map(drop).map_err(damaged)
        })
    }
}

fn damaged(error: snap::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
