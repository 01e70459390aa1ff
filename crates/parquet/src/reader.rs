//! A column chunk, read window by window.

use std::sync::Arc;

use arrow::buffer::NullBuffer;
use parquet::{
    basic::Encoding,
    column::page::{Page, PageMetadata},
    file::metadata::ColumnChunkMetaData,
};

use crate::{
    buffers::PageBuffers,
    chunk::ChunkBytes,
    column::Column,
    error::{PageError, ScanError},
    hybrid::Hybrid,
    levels,
    pages::{self, DataPage, Pages},
    source::Source,
    values,
    window::Window,
};

/// A column chunk. Rows are read, or left out, in their order.
pub(crate) struct ColumnReader {
    column: Column,
    pages: Pages,
    dictionary: Option<Arc<Source>>,
    page: Option<OpenPage>,
    /// The rows before the pages that are left, which cannot be read.
    before: usize,
    /// The rows of the pages that are left.
    rows: usize,
    /// The rows to leave out before the next window.
    pending: usize,
    window: Window,
    /// The codes of a window's rows that are not null.
    codes: Vec<u32>,
    pub pages_skipped: usize,
}

/// A page of which some rows are left.
struct OpenPage {
    rows: usize,
    /// The next row.
    next: usize,
    nulls: Option<NullBuffer>,
    source: Arc<Source>,
    places: Places,
}

/// Where the values of a page's rows are.
enum Places {
    /// At their codes.
    Codes(Hybrid),
    /// One after the other, the next one here.
    Next(usize),
}

impl ColumnReader {
    /// Returns a reader of a chunk of `rows` rows.
    ///
    /// # Errors
    /// If the chunk is compressed in a way that is not known.
    pub fn new(
        column: Column,
        chunk: &ColumnChunkMetaData,
        bytes: ChunkBytes,
        rows: usize,
        buffers: &PageBuffers,
    ) -> Result<Self, ScanError> {
        let before = bytes.first_row();
        let pages = Pages::new(chunk, bytes, rows, buffers)?;
        Ok(Self {
            column,
            pages,
            dictionary: None,
            page: None,
            before,
            rows: rows.saturating_sub(before),
            pending: 0,
            window: Window::default(),
            codes: Vec::new(),
            pages_skipped: 0,
        })
    }

    pub fn column(&self) -> &Column {
        &self.column
    }

    /// Returns the dictionary, if the chunk begins with one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn dictionary(&mut self) -> Result<Option<&Arc<Source>>, ScanError> {
        if self.page.is_none() && self.dictionary.is_none() && self.peek()?.is_some_and(|page| page.is_dict) {
            self.next_page()?;
        }
        Ok(self.dictionary.as_ref())
    }

    /// Leaves out the next rows, and ends the present window. Pages that are left out as a whole are not
    /// decompressed.
    pub fn skip(&mut self, rows: usize) {
        self.window.clear();
        let before = rows.min(self.before);
        self.before -= before;
        self.pending += rows - before;
    }

    /// Ends the present window, of which `rows` rows were to be read. They are left out unless they were.
    pub fn end_window(&mut self, rows: usize) {
        if self.window.len() == 0 {
            self.pending += rows;
        }
        self.window.clear();
    }

    /// Returns the present window, whose `rows` rows (not zero) are read unless they have been.
    ///
    /// # Errors
    /// If the chunk ends before, or is damaged.
    pub fn window(&mut self, rows: usize) -> Result<&Window, ScanError> {
        if self.window.len() == 0 {
            if self.before > 0 {
                return Err(self.corrupt(PageError::Short));
            }
            self.leave_out()?;
            let mut left = rows;
            while left > 0 {
                let count = self.open_page()?.min(left);
                self.read(count)?;
                left -= count;
            }
        }
        Ok(&self.window)
    }

    /// Returns the window that has been read.
    pub fn present(&self) -> &Window {
        &self.window
    }

    fn peek(&mut self) -> Result<Option<PageMetadata>, ScanError> {
        self.pages.peek(&self.column)
    }

    fn corrupt(&self, error: PageError) -> ScanError {
        self.column.corrupt(error)
    }

    /// Leaves out the pending rows.
    fn leave_out(&mut self) -> Result<(), ScanError> {
        let mut left = std::mem::take(&mut self.pending);
        while left > 0 {
            if let Some(page) = &mut self.page {
                let count = left.min(page.rows - page.next);
                page.skip(count).map_err(|error| self.column.corrupt(error))?;
                left -= count;
                if page.next == page.rows {
                    self.page = None;
                }
                continue;
            }
            let next = self.peek()?.ok_or_else(|| self.corrupt(PageError::Short))?;
            match next.num_rows.or(next.num_levels) {
                Some(rows) if !next.is_dict && rows <= left.min(self.rows) => {
                    self.pages.skip(&self.column)?;
                    self.pages_skipped += 1;
                    left -= rows;
                    self.rows -= rows;
                }
                _ => self.next_page()?,
            }
        }
        Ok(())
    }

    /// Returns the number of rows that are left of the present page, or of the next one that has some.
    fn open_page(&mut self) -> Result<usize, ScanError> {
        loop {
            match &self.page {
                Some(page) if page.next < page.rows => return Ok(page.rows - page.next),
                _ => self.page = None,
            }
            self.next_page()?;
        }
    }

    /// Reads the next page: a dictionary, or the values that follow.
    fn next_page(&mut self) -> Result<(), ScanError> {
        match self.pages.next(&self.column)? {
            None => Err(self.corrupt(PageError::Short)),
            Some(Page::DictionaryPage { buf, num_values, .. }) => {
                let entries = values::decode(&self.column, Encoding::PLAIN, buf, num_values as usize)?;
                self.dictionary = Some(Source::new(entries, true));
                Ok(())
            }
            Some(page) => {
                let page = DataPage::new(page, self.column.is_optional).map_err(|error| self.corrupt(error))?;
                // A count is believed only as far as there are rows.
                self.rows = self.rows.checked_sub(page.rows).ok_or_else(|| self.corrupt(PageError::Count))?;
                self.page = Some(self.open(page)?);
                Ok(())
            }
        }
    }

    fn open(&self, page: DataPage) -> Result<OpenPage, ScanError> {
        let DataPage { rows, encoding, levels, values } = page;
        let nulls = levels.map(|found| levels::validity(found, rows)).transpose();
        let nulls = nulls.map_err(|error| self.corrupt(error))?.flatten();
        let count = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
        let is_coded = matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        let (source, places) = if is_coded {
            let dictionary = self.dictionary.as_ref().ok_or_else(|| self.corrupt(PageError::Dictionary))?;
            let codes = pages::codes(values).map_err(|error| self.corrupt(error))?;
            (Arc::clone(dictionary), Places::Codes(codes))
        } else {
            (Source::new(values::decode(&self.column, encoding, values, count)?, false), Places::Next(0))
        };
        Ok(OpenPage { rows, next: 0, nulls, source, places })
    }

    /// Adds the next `count` rows of the present page to the window.
    fn read(&mut self, count: usize) -> Result<(), ScanError> {
        let Some(page) = &mut self.page else { return Ok(()) };
        let read = page.read(count, &mut self.window, &mut self.codes);
        read.map_err(|error| self.column.corrupt(error))
    }
}

impl OpenPage {
    /// Returns which of the next `count` rows have a value, unless all have.
    fn next_nulls(&self, count: usize) -> Option<NullBuffer> {
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(self.next, count));
        nulls.filter(|nulls| nulls.null_count() > 0)
    }

    fn skip(&mut self, count: usize) -> Result<(), PageError> {
        let values = count - self.next_nulls(count).map_or(0, |nulls| nulls.null_count());
        self.next += count;
        match &mut self.places {
            Places::Codes(codes) => codes.skip(values)?,
            Places::Next(next) => *next += values,
        }
        Ok(())
    }

    fn read(&mut self, count: usize, window: &mut Window, scratch: &mut Vec<u32>) -> Result<(), PageError> {
        let nulls = self.next_nulls(count);
        let values = count - nulls.as_ref().map_or(0, NullBuffer::null_count);
        self.next += count;
        let most = self.source.len() as u32;
        match (&mut self.places, nulls) {
            (Places::Codes(codes), None) => {
                window.push_codes(&self.source, count, |out| read_codes(codes, out, most))?
            }
            (Places::Codes(codes), Some(nulls)) => {
                scratch.resize(values, 0);
                read_codes(codes, scratch, most)?;
                window.push_nullable(&self.source, &nulls, scratch);
            }
            (Places::Next(next), None) => {
                window.push_consecutive(&self.source, *next, count);
                *next += values;
            }
            (Places::Next(next), Some(nulls)) => {
                scratch.clear();
                scratch.extend(*next as u32..(*next + values) as u32);
                window.push_nullable(&self.source, &nulls, scratch);
                *next += values;
            }
        }
        Ok(())
    }
}

/// Fills `out` with codes, all below `most`.
fn read_codes(codes: &mut Hybrid, out: &mut [u32], most: u32) -> Result<(), PageError> {
    codes.read(out)?;
    if out.iter().fold(0, |greatest, &code| greatest.max(code)) >= most && !out.is_empty() {
        return Err(PageError::Code);
    }
    Ok(())
}
