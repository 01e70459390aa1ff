//! The pages of a chunk as they are in a file.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use parquet::{
    column::page::{CompressedPage, PageWriteSpec, PageWriter},
    errors::Result,
    file::{
        reader::{ChunkReader, Length},
        writer::{SerializedPageWriter, TrackedWrite},
    },
};

/// Pages with their headers, one after the other. Each is memory of its own: a chunk is never there twice.
#[derive(Debug, Default)]
pub(super) struct StoredPages {
    pages: Vec<Bytes>,
    len: u64,
}

impl StoredPages {
    /// Adds a page, and returns where it is.
    ///
    /// # Errors
    /// If its header cannot be written.
    pub fn add(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let mut out = TrackedWrite::new(Vec::new());
        let mut spec = SerializedPageWriter::new(&mut out).write_page(page)?;
        spec.offset += self.len;
        let page: Bytes = out.into_inner()?.into();
        self.len += page.len() as u64;
        self.pages.push(page);
        Ok(spec)
    }

    fn from(&self, start: u64) -> StoredPagesReader {
        let mut reader = StoredPagesReader { pages: self.pages.clone().into_iter(), page: Bytes::new() };
        let mut left = usize::try_from(start).unwrap_or(usize::MAX);
        while left > 0 && reader.next_page() {
            let skipped = left.min(reader.page.len());
            reader.page.advance(skipped);
            left -= skipped;
        }
        reader
    }
}

impl Length for StoredPages {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for StoredPages {
    type T = StoredPagesReader;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        self.from(start).read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads pages one after the other.
pub(super) struct StoredPagesReader {
    pages: std::vec::IntoIter<Bytes>,
    page: Bytes,
}

impl StoredPagesReader {
    /// Returns whether there are bytes left, in this page or in the next ones.
    fn next_page(&mut self) -> bool {
        while self.page.is_empty() {
            match self.pages.next() {
                Some(page) => self.page = page,
                None => return false,
            }
        }
        true
    }
}

impl Read for StoredPagesReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.next_page() {
            return Ok(0);
        }
        let count = out.len().min(self.page.len());
        self.page.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}
