//! A column chunk, read as codes of a dictionary that it shares with others.

use arrow::{
    array::{BooleanBufferBuilder, UInt16Array},
    buffer::NullBuffer,
};
use bytes::Bytes;
use parquet::{basic::Encoding, column::page::Page, file::metadata::ColumnChunkMetaData};

use super::SharedDictionary;
use crate::{
    buffers::PageBuffers,
    chunk::ChunkBytes,
    column::Column,
    error::{PageError, ScanError},
    hybrid::Hybrid,
    levels,
    pages::{self, DataPage, Pages},
    row_group::is_coded,
};

/// A column chunk whose pages all have codes. Rows are read, or left out, in their order.
pub struct CodesReader {
    column: Column,
    pages: Pages,
    /// The shared code of each of the chunk's codes.
    shared: Vec<u16>,
    page: Option<OpenPage>,
    /// The rows of the pages that are left.
    rows: usize,
    scratch: Vec<u32>,
}

struct OpenPage {
    rows: usize,
    next: usize,
    nulls: Option<NullBuffer>,
    codes: Hybrid,
}

impl CodesReader {
    /// Returns whether a chunk can be read as codes: its metadata says that all of its pages have them.
    pub fn reads(column: &Column, chunk: &ColumnChunkMetaData) -> bool {
        is_coded(chunk) && column.check(chunk).is_ok()
    }

    /// Returns a reader of a chunk of `rows` rows, after its dictionary was merged into `dictionary`; `None` if that
    /// does not take it. `bytes` are those of the chunk.
    ///
    /// # Errors
    /// If the chunk cannot be read, or its dictionary is damaged.
    pub fn try_new(
        column: Column,
        chunk: &ColumnChunkMetaData,
        bytes: Bytes,
        rows: usize,
        dictionary: &SharedDictionary,
    ) -> Result<Option<Self>, ScanError> {
        let mut pages = Pages::new(chunk, ChunkBytes::whole(chunk, bytes), rows, &PageBuffers::default())?;
        let shared = match pages.next(&column)? {
            Some(Page::DictionaryPage { buf, num_values, .. }) => {
                let merged = dictionary.merge(&column, &buf, num_values as usize);
                merged.map_err(|error| column.corrupt(error))?
            }
            Some(_) => return Err(column.corrupt(PageError::Dictionary)),
            None => Some(Vec::new()),
        };
        Ok(shared.map(|shared| Self { column, pages, shared, page: None, rows, scratch: Vec::new() }))
    }

    /// Leaves out the next `rows` rows.
    ///
    /// # Errors
    /// If there are fewer, or the chunk is damaged.
    pub fn skip(&mut self, rows: usize) -> Result<(), ScanError> {
        let mut left = rows;
        while left > 0 {
            let count = self.open_page()?.min(left);
            let (page, column) = (self.page.as_mut(), &self.column);
            page.map_or(Ok(()), |page| page.skip(count)).map_err(|error| column.corrupt(error))?;
            left -= count;
        }
        Ok(())
    }

    /// Returns the codes of the next `rows` rows.
    ///
    /// # Errors
    /// If there are fewer, or the chunk is damaged.
    pub fn read(&mut self, rows: usize) -> Result<UInt16Array, ScanError> {
        let (mut codes, mut valid) = (vec![0; rows], None);
        let mut done = 0;
        while done < rows {
            let count = self.open_page()?.min(rows - done);
            if let Some(page) = &mut self.page {
                let out = &mut codes[done..done + count];
                let read = page.read(out, done, &self.shared, &mut self.scratch, &mut valid);
                read.map_err(|error| self.column.corrupt(error))?;
            }
            done += count;
        }
        let nulls = valid.map(|mut valid| NullBuffer::new(valid.finish()));
        Ok(UInt16Array::new(codes.into(), nulls))
    }

    /// Returns the number of rows that are left of the present page, or of the next one that has some.
    fn open_page(&mut self) -> Result<usize, ScanError> {
        loop {
            match &self.page {
                Some(page) if page.next < page.rows => return Ok(page.rows - page.next),
                _ => self.page = None,
            }
            let page = self.pages.next(&self.column)?;
            let page = page.ok_or_else(|| self.column.corrupt(PageError::Short))?;
            let opened = DataPage::new(page, self.column.is_optional).and_then(|page| {
                self.rows = self.rows.checked_sub(page.rows).ok_or(PageError::Count)?;
                OpenPage::new(page)
            });
            self.page = Some(opened.map_err(|error| self.column.corrupt(error))?);
        }
    }
}

impl OpenPage {
    fn new(page: DataPage) -> Result<Self, PageError> {
        let DataPage { rows, encoding, levels, values } = page;
        if !matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) {
            return Err(PageError::Encoding);
        }
        let nulls = levels.map(|found| levels::validity(found, rows)).transpose()?.flatten();
        Ok(Self { rows, next: 0, nulls, codes: pages::codes(values)? })
    }

    /// Returns which of the next `count` rows have a value, unless all have.
    fn next_nulls(&self, count: usize) -> Option<NullBuffer> {
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(self.next, count));
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    fn skip(&mut self, count: usize) -> Result<(), PageError> {
        let nulls = self.next_nulls(count).map_or(0, |nulls| nulls.null_count());
        self.next += count;
        self.codes.skip(count - nulls)
    }

    /// Fills `out` with the shared codes of the next rows, after `before` rows of the same array.
    fn read(
        &mut self,
        out: &mut [u16],
        before: usize,
        shared: &[u16],
        scratch: &mut Vec<u32>,
        valid: &mut Option<BooleanBufferBuilder>,
    ) -> Result<(), PageError> {
        let Some(nulls) = self.next_nulls(out.len()) else {
            self.next += out.len();
            valid.iter_mut().for_each(|valid| valid.append_n(out.len(), true));
            return self.read_codes(out, shared, scratch);
        };
        self.next += out.len();
        let valid = valid.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(before + out.len());
            bits.append_n(before, true);
            bits
        });
        valid.append_buffer(nulls.inner());
        let (values, _) = out.split_at_mut(out.len() - nulls.null_count());
        self.read_codes(values, shared, scratch)?;
        // From the last one on, each goes to its row, which is not before it.
        let mut next = values.len();
        for row in (0..out.len()).rev().filter(|&row| nulls.is_valid(row)) {
            next -= 1;
            out[row] = out[next];
        }
        Ok(())
    }

    /// Fills `out` with the next codes, as shared ones.
    fn read_codes(&mut self, out: &mut [u16], shared: &[u16], scratch: &mut Vec<u32>) -> Result<(), PageError> {
        scratch.resize(out.len(), 0);
        self.codes.read(scratch)?;
        for (out, code) in out.iter_mut().zip(scratch) {
            *out = *shared.get(*code as usize).ok_or(PageError::Code)?;
        }
        Ok(())
    }
}
