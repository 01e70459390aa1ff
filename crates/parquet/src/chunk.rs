//! The bytes of a column chunk.

use std::ops::Range;

use bytes::{Buf, Bytes, buf::Reader};
use parquet::{
    errors::{ParquetError, Result},
    file::{
        metadata::ColumnChunkMetaData,
        page_index::offset_index::OffsetIndexMetaData,
        reader::{ChunkReader, Length},
    },
};

/// What to read of a column chunk for some of its rows: its dictionary, and their pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkRead {
    /// The bytes before the first page. Empty if that is read.
    dictionary: Range<u64>,
    pages: Range<u64>,
    /// The row that the pages begin with.
    first_row: usize,
}

impl ChunkRead {
    /// Returns what to read of a chunk for these rows. The places of its pages are believed if they can be true.
    pub(crate) fn for_rows(
        chunk: &ColumnChunkMetaData,
        pages: Option<&OffsetIndexMetaData>,
        rows: &Range<usize>,
    ) -> Self {
        let (start, length) = chunk.byte_range();
        let bytes = start..start.saturating_add(length);
        pages.and_then(|pages| Self::from_places(&bytes, &places(pages, &bytes)?, rows)).unwrap_or(Self {
            dictionary: start..start,
            pages: bytes,
            first_row: 0,
        })
    }

    /// `places` are those of the pages: their first byte and row.
    fn from_places(bytes: &Range<u64>, places: &[(u64, usize)], rows: &Range<usize>) -> Option<Self> {
        let first = places.partition_point(|&(_, row)| row <= rows.start).checked_sub(1)?;
        let next = places.partition_point(|&(_, row)| row < rows.end).max(first + 1);
        let end = places.get(next).map_or(bytes.end, |&(byte, _)| byte);
        let (byte, first_row) = places[first];
        Some(match first {
            0 => Self { dictionary: bytes.start..bytes.start, pages: bytes.start..end, first_row: 0 },
            _ => Self { dictionary: bytes.start..places[0].0, pages: byte..end, first_row },
        })
    }

    /// Returns the ranges of the file's bytes to read, none of them empty.
    pub fn byte_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        [self.dictionary.clone(), self.pages.clone()].into_iter().filter(|range| !range.is_empty())
    }

    /// Returns the chunks of `reads`, whose [ranges](Self::byte_ranges) have these bytes, in their order. Bytes that
    /// are missing are noticed when they are read.
    pub fn chunks(reads: &[Self], bytes: impl IntoIterator<Item = Bytes>) -> Vec<ChunkBytes> {
        let mut bytes = bytes.into_iter();
        let mut next = |range: &Range<u64>| match range.is_empty() {
            true => Bytes::new(),
            false => bytes.next().unwrap_or_default(),
        };
        let chunk = |read: &Self| ChunkBytes {
            start: read.dictionary.start,
            dictionary: next(&read.dictionary),
            pages: next(&read.pages),
            first_row: read.first_row,
        };
        reads.iter().map(chunk).collect()
    }
}

/// Returns the first byte and row of each page, if they are in order and those of `bytes`.
fn places(pages: &OffsetIndexMetaData, bytes: &Range<u64>) -> Option<Vec<(u64, usize)>> {
    let place = |page: &parquet::file::page_index::offset_index::PageLocation| {
        Some((u64::try_from(page.offset).ok()?, usize::try_from(page.first_row_index).ok()?))
    };
    let places: Vec<_> = pages.page_locations().iter().map(place).collect::<Option<_>>()?;
    let is_sorted = places.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
    let is_within = places.iter().all(|(byte, _)| bytes.contains(byte));
    (is_sorted && is_within && places.first()?.1 == 0).then_some(places)
}

/// Bytes of a column chunk: its dictionary, and some of its pages in a row. They are numbered as if the pages began
/// where the dictionary ends.
#[derive(Debug, Clone)]
pub struct ChunkBytes {
    start: u64,
    dictionary: Bytes,
    pages: Bytes,
    first_row: usize,
}

impl ChunkBytes {
    /// Returns those of a whole chunk.
    pub fn whole(chunk: &ColumnChunkMetaData, bytes: Bytes) -> Self {
        Self { start: chunk.byte_range().0, dictionary: Bytes::new(), pages: bytes, first_row: 0 }
    }

    /// Returns the row of the chunk that the pages begin with.
    pub(crate) fn first_row(&self) -> usize {
        self.first_row
    }

    /// Returns the bytes from `start` on, at least `length`.
    fn from(&self, start: u64, length: usize) -> Result<Bytes> {
        let first = start.checked_sub(self.start).and_then(|first| usize::try_from(first).ok());
        let found = first.map(|first| match first.checked_sub(self.dictionary.len()) {
            Some(first) => (&self.pages, first),
            None => (&self.dictionary, first),
        });
        match found {
            Some((bytes, first)) if first.saturating_add(length) <= bytes.len() => Ok(bytes.slice(first..)),
            _ => Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond a column chunk"))),
        }
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.start + (self.dictionary.len() + self.pages.len()) as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start, 0)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(self.from(start, length)?.slice(..length))
    }
}
