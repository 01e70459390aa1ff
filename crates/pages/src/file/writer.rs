//! Writing a page file.

use std::io::Write;

use super::{
    FileError, FileHeader,
    index::{self, Entry},
};
use crate::page::{Page, seal};

/// Writes pages to a file, from front to back. What it has written is complete only once it is
/// finished.
#[derive(Debug)]
pub struct PageFileWriter<W> {
    to: W,
    header: FileHeader,
    schema_id: u64,
    entries: Vec<Entry>,
    broken: bool,
}

impl<W: Write> PageFileWriter<W> {
    /// Begins a file. Each page is written by one call, so `to` needs no buffer.
    ///
    /// # Errors
    /// If the schema cannot be written as an IPC message, or `to` fails.
    pub fn new(mut to: W, header: FileHeader) -> Result<Self, FileError> {
        let (bytes, schema_id) = header.to_bytes()?;
        to.write_all(&bytes)?;
        Ok(Self { to, header, schema_id, entries: Vec::new(), broken: false })
    }

    /// What the file's pages say that their data means.
    pub fn schema_id(&self) -> u64 {
        self.schema_id
    }

    /// Pages written so far.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// Seals a page and writes it.
    ///
    /// # Errors
    /// If the page is not of the file's shape or partitions or its writer broke the rules, and the
    /// file stays as it was; or if writing fails, and the file cannot be finished any more.
    pub fn write(&mut self, page: &mut Page) -> Result<(), FileError> {
        if self.broken {
            return Err(FileError::Broken);
        }
        let number = self.entries.len();
        seal(page, self.schema_id).map_err(|error| FileError::Page { page: number, error })?;
        let header = page.header();
        self.header.check_page(number, &header)?;
        self.broken = true;
        self.to.write_all(page.bytes())?;
        self.broken = false;
        self.entries.push(Entry { partition: header.partition, sequence: header.sequence, tuples: header.completed });
        Ok(())
    }

    /// Writes index and end, and flushes.
    ///
    /// # Errors
    /// If writing fails, or has failed before.
    pub fn finish(mut self) -> Result<W, FileError> {
        if self.broken {
            return Err(FileError::Broken);
        }
        self.to.write_all(&index::to_bytes(&self.entries))?;
        self.to.flush()?;
        Ok(self.to)
    }
}
