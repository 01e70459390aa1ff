//! A page of a chunk that is written.

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    column::page::{CompressedPage, Page},
    errors::{ParquetError, Result},
};

use super::codec;
use crate::pages;

/// A page, compressed or not.
#[derive(Debug)]
pub(super) struct PackedPage {
    pub body: Vec<u8>,
    /// The bytes of the body before it was compressed, if it was.
    pub uncompressed: Option<usize>,
    /// The bytes of the levels, which come first.
    pub levels: usize,
    pub rows: usize,
    pub nulls: usize,
    pub has_codes: bool,
    /// The bytes of the values, if they have different lengths.
    pub value_bytes: usize,
    /// The least and the greatest value, if they are known.
    pub ends: Option<[Vec<u8>; 2]>,
}

impl PackedPage {
    /// Compresses the page.
    ///
    /// # Errors
    /// Those of the codec.
    pub fn compress(&mut self, codec: Compression) -> Result<()> {
        let mut compressed = Vec::new();
        codec::compress(codec, &self.body, &mut compressed)?;
        self.uncompressed = Some(self.body.len());
        // Without the room for what cannot be compressed.
        self.body = compressed.as_slice().into();
        Ok(())
    }

    /// Returns the page as a file takes it, without its bytes here.
    pub fn take(&mut self) -> CompressedPage {
        let body = std::mem::take(&mut self.body);
        let uncompressed = self.uncompressed.unwrap_or(body.len());
        let page = Page::DataPage {
            buf: body.into(),
            num_values: self.rows as u32,
            encoding: if self.has_codes { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN },
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        CompressedPage::new(page, uncompressed)
    }

    /// Returns the codes again, of a page that is not compressed.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn codes(&self) -> Result<Vec<u32>> {
        let mut codes = vec![0; self.rows - self.nulls];
        let packed = Bytes::copy_from_slice(&self.body[self.levels..]);
        let read = pages::codes(packed).and_then(|mut packed| packed.read(&mut codes));
        read.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(codes)
    }

    /// Puts the values in the place of their codes.
    ///
    /// # Errors
    /// If the codes cannot be read.
    pub fn decode<'a>(&mut self, has_lengths: bool, value: &impl Fn(u32) -> &'a [u8]) -> Result<()> {
        let codes = self.codes()?;
        self.body.truncate(self.levels);
        for code in codes {
            let value = value(code);
            if has_lengths {
                self.body.extend_from_slice(&(value.len() as u32).to_le_bytes());
            }
            self.body.extend_from_slice(value);
        }
        self.has_codes = false;
        Ok(())
    }
}

/// Returns the dictionary page with the values that a column writer has written, in one page or none.
///
/// # Errors
/// If there are more.
pub(super) fn dictionary_page(pages: Vec<CompressedPage>, entries: usize) -> Result<CompressedPage> {
    let page = |buf, bytes| {
        let (num_values, encoding) = (entries as u32, Encoding::PLAIN);
        CompressedPage::new(Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }, bytes)
    };
    match &pages[..] {
        [only] => Ok(page(only.compressed_page().buffer().clone(), only.uncompressed_size())),
        _ => Err(ParquetError::General(format!("a dictionary has {} pages", pages.len()))),
    }
}
