//! The writer of page files.

use std::io::Write;

use super::{
    FileError, FileHeader,
    index::{self, Entry},
};
use crate::page::{Page, seal};

/// Writes pages to a file, from front to back. The file is complete only after
/// [`finish`](Self::finish). The example of the [module](super) uses it.
#[derive(Debug)]
pub struct PageFileWriter<W> {
    to: W,
    header: FileHeader,
    schema_id: u64,
    entries: Vec<Entry>,
    broken: bool,
}

impl<W: Write> PageFileWriter<W> {
    /// Begins a file. One call of `to` writes each page, so `to` needs no buffer.
    ///
    /// # Errors
    /// If the schema cannot be written as an IPC message, or `to` fails.
    pub fn new(mut to: W, header: FileHeader) -> Result<Self, FileError> {
        let (bytes, schema_id) = header.to_bytes()?;
        to.write_all(&bytes)?;
        Ok(Self { to, header, schema_id, entries: Vec::new(), broken: false })
    }

    /// Returns the id of the schema, which the file's pages carry.
    pub fn schema_id(&self) -> u64 {
        self.schema_id
    }

    /// Returns the number of written pages.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// Seals a page and writes it.
    ///
    /// # Errors
    /// If the page does not have the file's shape and one of its partitions, or is damaged. The
    /// file is then unchanged. If writing fails, the file cannot be finished any more.
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
