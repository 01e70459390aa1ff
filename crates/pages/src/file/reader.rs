//! The reader of page files, which may hold any bytes.

use std::io::{Read, Seek, SeekFrom};

use super::{
    FileError, FileHeader,
    header::FIXED_BYTES,
    index::{self, END_BYTES, ENTRY_BYTES, Entry},
};
use crate::page::{Header, PageReader, PayloadSize};

/// Reads the pages of a complete file, in any order. The example of the [module](super) uses it.
///
/// It keeps the index (16 bytes a page) and the schema in memory.
#[derive(Debug)]
pub struct PageFileReader<R> {
    from: R,
    header: FileHeader,
    schema_id: u64,
    /// The offset of the first page.
    start: u64,
    entries: Vec<Entry>,
    /// The numbers of the pages, by partition and sequence.
    by_partition: Vec<u32>,
    tuples: u64,
}

impl<R: Read + Seek> PageFileReader<R> {
    /// Opens a file: reads header, schema and index.
    ///
    /// # Errors
    /// A [`FileError`] with the reason why the file is invalid.
    pub fn open(mut from: R) -> Result<Self, FileError> {
        let length = from.seek(SeekFrom::End(0))?;
        from.rewind()?;
        if length < FIXED_BYTES as u64 {
            return Err(FileError::Magic);
        }
        let mut fixed = [0; FIXED_BYTES];
        from.read_exact(&mut fixed)?;
        let schema_bytes = FileHeader::schema_bytes(&fixed)?;
        let start = FileHeader::padded_bytes(schema_bytes) as u64;
        let end_at = length.checked_sub(END_BYTES as u64).filter(|&end| end >= start).ok_or(FileError::Incomplete)?;
        let mut padded = vec![0; start as usize - FIXED_BYTES];
        from.read_exact(&mut padded)?;
        let (schema, padding) = padded.split_at(schema_bytes);
        if padding.iter().any(|&byte| byte != 0) {
            return Err(FileError::Damaged("there are bytes between its schema and its pages"));
        }
        let (header, schema_id) = FileHeader::from_bytes(fixed, schema)?;
        let mut end = [0; END_BYTES];
        from.seek(SeekFrom::Start(end_at))?;
        from.read_exact(&mut end)?;
        let pages = index::pages(&end)?;
        let page_bytes = header.shape.page_bytes() as u64;
        let index_at = pages.checked_mul(page_bytes).and_then(|bytes| bytes.checked_add(start));
        let whole =
            |&at: &u64| pages.checked_mul(ENTRY_BYTES as u64).and_then(|bytes| at.checked_add(bytes)) == Some(end_at);
        let index_at = index_at.filter(whole).filter(|_| u32::try_from(pages).is_ok());
        let index_at = index_at.ok_or(FileError::Damaged("its length is not that of its pages and its index"))?;
        // The file has this number of bytes, which bounds the size of the buffer.
        let mut bytes = vec![0; (length - index_at) as usize];
        from.seek(SeekFrom::Start(index_at))?;
        from.read_exact(&mut bytes)?;
        let (entries, tuples) = index::from_bytes(&bytes)?;
        if entries.iter().any(|entry| entry.partition >= header.partitions) {
            return Err(FileError::Damaged("a page's partition is not one of the file's"));
        }
        let mut by_partition: Vec<u32> = (0..entries.len() as u32).collect();
        by_partition.sort_by_key(|&page| (entries[page as usize].partition, entries[page as usize].sequence));
        Ok(Self { from, header, schema_id, start, entries, by_partition, tuples })
    }

    /// Returns the header: shape, partitions and schema.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of tuples on all pages.
    pub fn tuples(&self) -> u64 {
        self.tuples
    }

    /// Returns the numbers of a partition's pages, by sequence.
    pub fn pages_of(&self, partition: u32) -> &[u32] {
        let of = |&page: &u32| self.entries[page as usize].partition;
        let start = self.by_partition.partition_point(|page| of(page) < partition);
        let end = self.by_partition.partition_point(|page| of(page) <= partition);
        &self.by_partition[start..end]
    }

    /// Returns the number of a partition's tuples.
    pub fn tuples_of(&self, partition: u32) -> u64 {
        self.pages_of(partition).iter().map(|&page| u64::from(self.entries[page as usize].tuples)).sum()
    }

    /// Reads a page into `buffer`, in place of its content.
    ///
    /// # Errors
    /// If reading fails, or the page does not exist. Also if the page is damaged, not sealed, or
    /// differs from its index entry.
    pub fn read<'b>(&mut self, page: usize, buffer: &'b mut Vec<u8>) -> Result<PageReader<'b>, FileError> {
        let entry = self.entries.get(page).ok_or(FileError::NoPage { page, pages: self.entries.len() })?;
        let bytes = self.header.shape.page_bytes();
        // The content is overwritten.
        buffer.resize(bytes, 0);
        self.from.seek(SeekFrom::Start(self.start + page as u64 * bytes as u64))?;
        self.from.read_exact(buffer)?;
        let reader = PageReader::sealed(buffer).map_err(|error| FileError::Page { page, error })?;
        let header = reader.header();
        self.header.check_page(page, header)?;
        same(page, "schema", self.schema_id, header.schema_id)?;
        same(page, "partition", entry.partition.into(), header.partition.into())?;
        same(page, "sequence", entry.sequence.into(), header.sequence.into())?;
        same(page, "number of tuples", entry.tuples.into(), header.completed.into())?;
        Ok(reader)
    }
}

impl FileHeader {
    /// Checks that a page has the file's shape and one of its partitions.
    pub(super) fn check_page(&self, page: usize, header: &Header) -> Result<(), FileError> {
        let size = |payload| match payload {
            PayloadSize::Fixed(bytes) => u64::from(bytes),
            PayloadSize::Variable => u64::MAX,
        };
        same(page, "size", self.shape.page_bytes() as u64, header.page_bytes.into())?;
        same(page, "layout", self.shape.layout() as u64, header.layout.into())?;
        same(page, "payload size", size(self.shape.payload()), size(header.payload()))?;
        let (partition, partitions) = (header.partition, self.partitions);
        if partition < partitions { Ok(()) } else { Err(FileError::Partition { page, partition, partitions }) }
    }
}

fn same(page: usize, field: &'static str, expected: u64, found: u64) -> Result<(), FileError> {
    if expected == found { Ok(()) } else { Err(FileError::Foreign { page, field, expected, found }) }
}
