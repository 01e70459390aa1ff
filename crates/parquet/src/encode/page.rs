//! A page of a chunk that is written: open, then packed.

use arrow::buffer::NullBuffer;
use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    column::page::{CompressedPage, Page},
    errors::{ParquetError, Result},
};

use super::{codec, encoding::ColumnEncoding, hybrid};
use crate::pages;

/// The rows of the page that is not yet packed.
#[derive(Debug, Default)]
pub(super) struct OpenPage {
    /// The codes of the rows that have a value.
    pub codes: Vec<u32>,
    /// Or their values, as the format writes them.
    pub values: Vec<u8>,
    rows: usize,
    nulls: usize,
    /// The level of each row from the first null on.
    levels: Vec<u32>,
}

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

impl OpenPage {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the levels of rows, whose codes or values follow.
    pub fn add_levels(&mut self, rows: usize, nulls: Option<&NullBuffer>) {
        if let Some(nulls) = nulls {
            self.levels.resize(self.rows, 1);
            self.levels.extend(nulls.iter().map(u32::from));
            self.nulls += nulls.null_count();
        } else if !self.levels.is_empty() {
            self.levels.resize(self.rows + rows, 1);
        }
        self.rows += rows;
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.values.capacity() + (self.codes.capacity() + self.levels.capacity()) * size_of::<u32>()
    }

    /// Packs all rows: codes of `width` bits, whose values have `lengths` if these differ, or values. None are left.
    pub fn pack(&mut self, encoding: &ColumnEncoding, width: Option<u8>, lengths: &[u32]) -> PackedPage {
        let Self { codes, values, rows, nulls, levels } = self;
        let mut body = Vec::new();
        if encoding.is_optional() {
            levels.resize(*rows, 1);
            body.extend_from_slice(&[0; 4]);
            hybrid::encode(levels, 1, &mut body);
            let length = (body.len() - 4) as u32;
            body[..4].copy_from_slice(&length.to_le_bytes());
        }
        let before = body.len();
        if let Some(width) = width {
            body.push(width);
            hybrid::encode(codes, width, &mut body);
            body.shrink_to_fit();
        } else {
            body.append(values);
        }
        let value_bytes = match (encoding.has_lengths(), width) {
            (false, _) => 0,
            (true, Some(_)) => codes.iter().map(|&code| lengths[code as usize] as usize).sum(),
            (true, None) => body.len() - before - 4 * (*rows - *nulls),
        };
        let page = PackedPage {
            body,
            uncompressed: None,
            levels: before,
            rows: *rows,
            nulls: *nulls,
            has_codes: width.is_some(),
            value_bytes,
            ends: None,
        };
        codes.clear();
        levels.clear();
        (*rows, *nulls) = (0, 0);
        page
    }
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
