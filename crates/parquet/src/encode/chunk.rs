//! The pages of a column chunk, and what its metadata say.

use std::sync::Arc;

use arrow::buffer::NullBuffer;
use parquet::{
    basic::{BoundaryOrder, Encoding, PageType},
    column::{page::PageWriteSpec, writer::ColumnCloseResult},
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, ColumnIndexBuilder, LevelHistogram, OffsetIndexBuilder, PageEncodingStats},
        page_index::column_index::ColumnIndexMetaData,
        reader::Length,
        statistics::Statistics,
        writer::SerializedRowGroupWriter,
    },
};

use super::{
    encoding::ColumnEncoding,
    hybrid,
    page::{OpenPage, PackedPage, dictionary_page},
    plain,
    stored::StoredPages,
};

/// A complete column chunk.
#[derive(Debug)]
pub struct EncodedChunk {
    pages: StoredPages,
    close: ColumnCloseResult,
}

impl EncodedChunk {
    /// Appends the chunk to a row group, as its next column.
    ///
    /// # Errors
    /// If that column is another one, or the file cannot be written.
    pub fn append_to<W: std::io::Write + Send>(self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        group.append_column(&self.pages, self.close)
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> &ColumnChunkMetaData {
        &self.close.metadata
    }
}

/// The pages of a chunk, as they are packed: of codes of its own dictionary, and of values once it
/// [has none](Self::end_codes). Those of codes are not compressed before it is known that they stay.
#[derive(Debug)]
pub(super) struct ChunkPages {
    encoding: Arc<ColumnEncoding>,
    /// The lengths of the entries, if they have different ones.
    lengths: Vec<u32>,
    entries: usize,
    entries_bytes: usize,
    open: OpenPage,
    pages: Vec<PackedPage>,
    /// The bytes of the pages.
    bytes: usize,
    has_codes: bool,
}

impl ChunkPages {
    /// Begins a chunk, of codes if it may have a dictionary.
    pub fn new(encoding: Arc<ColumnEncoding>, has_codes: bool) -> Self {
        Self {
            encoding,
            lengths: Vec::new(),
            entries: 0,
            entries_bytes: 0,
            open: OpenPage::default(),
            pages: Vec::new(),
            bytes: 0,
            has_codes,
        }
    }

    /// Returns the number of rows that the open page has room for, and the bytes of values.
    pub fn room(&self) -> (usize, usize) {
        let bytes = self.encoding.page_bytes.saturating_sub(self.open.values.len());
        (self.encoding.page_rows - self.open.rows(), bytes)
    }

    /// Counts an entry of the dictionary, of `length` bytes.
    pub fn add_entry(&mut self, length: usize) {
        self.entries += 1;
        self.entries_bytes += length;
        if self.encoding.has_lengths() {
            self.lengths.push(length as u32);
            self.entries_bytes += 4;
        }
    }

    /// Returns the number of entries of the dictionary.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Adds rows with the codes of those that are not null.
    ///
    /// # Errors
    /// If a row is null though the column is not optional.
    pub fn add_codes(&mut self, rows: usize, nulls: Option<&NullBuffer>, mut codes: &[u32]) -> Result<()> {
        let mut first = 0;
        while first < rows {
            let count = self.room().0.min(rows - first);
            let nulls = nulls.map(|nulls| nulls.slice(first, count));
            let valid = count - nulls.as_ref().map_or(0, NullBuffer::null_count);
            let (page, rest) = codes.split_at(valid);
            self.add_rows(count, nulls, |open| open.codes.extend_from_slice(page))?;
            (first, codes) = (first + count, rest);
        }
        Ok(())
    }

    /// Adds rows to the open page, which has room for them. `add` adds the codes or the values of those that are
    /// not null. Returns whether the page has ended with them.
    ///
    /// # Errors
    /// If a row is null though the column is not optional.
    pub fn add_rows(
        &mut self,
        rows: usize,
        nulls: Option<NullBuffer>,
        add: impl FnOnce(&mut OpenPage),
    ) -> Result<bool> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if nulls.is_some() && !self.encoding.is_optional() {
            return Err(ParquetError::General(format!("column '{}' has no nulls", self.encoding.leaf.name())));
        }
        self.open.add_levels(rows, nulls.as_ref());
        add(&mut self.open);
        let (rows, bytes) = self.room();
        let has_ended = rows == 0 || bytes == 0;
        if has_ended {
            self.end_page()?;
        }
        Ok(has_ended)
    }

    /// Ends the open page. Returns whether it had rows.
    ///
    /// # Errors
    /// If it cannot be compressed.
    pub fn end_open(&mut self) -> Result<bool> {
        let has_rows = self.open.rows() > 0;
        if has_rows {
            self.end_page()?;
        }
        Ok(has_rows)
    }

    /// Sets the least and the greatest value of the last page.
    pub fn set_ends(&mut self, ends: Option<[Vec<u8>; 2]>) {
        if let Some(page) = self.pages.last_mut() {
            page.ends = ends;
        }
    }

    /// Calls `ends_of` with the codes of each page, which returns the least and the greatest value of them.
    ///
    /// # Errors
    /// If the codes cannot be read again.
    pub fn set_ends_of_codes(&mut self, mut ends_of: impl FnMut(&[u32]) -> Option<[Vec<u8>; 2]>) -> Result<()> {
        for page in self.pages.iter_mut().filter(|_| self.encoding.has_index()) {
            page.ends = ends_of(&page.codes()?);
        }
        Ok(())
    }

    /// Packs the rows of the open page.
    fn end_page(&mut self) -> Result<()> {
        let width = self.has_codes.then(|| hybrid::width(self.entries.saturating_sub(1)));
        let mut page = self.open.pack(&self.encoding, width, &self.lengths);
        if !page.has_codes {
            page.compress(self.encoding.codec)?;
        }
        self.bytes += page.body.len();
        self.pages.push(page);
        Ok(())
    }

    /// Ends the open page, if it has rows, so that those after it are added as values. Pages of codes stay, unless
    /// they are longer than their values, of which `value` returns that of a code. Returns the share of the bytes of
    /// the values that they take with their dictionary: 1 or more if they do not stay.
    ///
    /// # Errors
    /// If the codes cannot be read again.
    pub fn end_codes<'a>(&mut self, value: impl Fn(u32) -> &'a [u8]) -> Result<f64> {
        self.end_open()?;
        self.has_codes = false;
        let share = match self.entries {
            0 => 1.0,
            _ => (self.entries_bytes + self.bytes) as f64 / self.plain_size().max(1) as f64,
        };
        let stay = share < 1.0;
        self.bytes = 0;
        for page in &mut self.pages {
            if !stay {
                page.decode(self.encoding.has_lengths(), &value)?;
            }
            page.compress(self.encoding.codec)?;
            self.bytes += page.body.len();
        }
        if !stay {
            (self.entries, self.entries_bytes) = (0, 0);
        }
        Ok(share)
    }

    /// Returns the bytes that the values of all pages have without a dictionary.
    fn plain_size(&self) -> usize {
        let values: usize = self.pages.iter().map(|page| page.rows - page.nulls).sum();
        match self.encoding.has_lengths() {
            true => self.pages.iter().map(|page| page.value_bytes).sum::<usize>() + 4 * values,
            false => values * self.entries_bytes / self.entries.max(1),
        }
    }

    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.open.memory() + self.lengths.capacity() * size_of::<u32>()
    }

    /// Returns the approximate size in bytes that the chunk would have if it ended here.
    pub fn size_estimate(&self) -> usize {
        let open = self.open.codes.len() * usize::from(hybrid::width(self.entries)) / 8 + self.open.values.len();
        self.bytes + self.entries_bytes + open
    }

    /// Ends the chunk, which has the dictionary `entries`, if any. Its statistics are those of `values`, or of all
    /// entries.
    ///
    /// # Errors
    /// If a page cannot be compressed or written.
    pub fn finish(mut self, entries: Option<&[&[u8]]>, values: Option<&[&[u8]]>) -> Result<EncodedChunk> {
        if self.open.rows() > 0 || self.pages.is_empty() {
            self.end_page()?;
        }
        let encoding = Arc::clone(&self.encoding);
        let mut out = StoredPages::default();
        let mut totals = Totals::default();
        let mut written = values.map(|values| encoding.write_entries(values)).transpose()?;
        if let Some(entries) = entries {
            let (pages, closed) = encoding.write_entries(entries)?;
            written.get_or_insert((Vec::new(), closed));
            totals.add(&out.add(dictionary_page(pages, self.entries)?)?);
            totals.dictionary_bytes = totals.compressed;
        }
        let mut offsets = OffsetIndexBuilder::new();
        for page in &mut self.pages {
            let spec = out.add(page.take())?;
            offsets.append_row_count(page.rows as i64);
            offsets.append_unencoded_byte_array_data_bytes(encoding.has_lengths().then_some(page.value_bytes as i64));
            offsets.append_offset_and_size(spec.offset as i64, spec.compressed_size as i32);
            totals.add(&spec);
            totals.rows += page.rows as i64;
            totals.nulls += page.nulls as i64;
            totals.value_bytes += page.value_bytes as i64;
        }
        let statistics = written.as_ref().and_then(|(_, closed)| closed.metadata.statistics());
        let close = ColumnCloseResult {
            bytes_written: out.len(),
            rows_written: totals.rows as u64,
            metadata: self.metadata(&totals, statistics)?,
            bloom_filter: None,
            column_index: self.column_index()?,
            offset_index: encoding.has_offsets.then(|| offsets.build()),
        };
        Ok(EncodedChunk { pages: out, close })
    }

    /// Returns the statistics of pages; `None` if there are none, or a page has only values without an order.
    fn column_index(&self) -> Result<Option<ColumnIndexMetaData>> {
        let is_known = |page: &PackedPage| page.ends.is_some() || page.rows == page.nulls;
        if !self.encoding.has_index() || !self.pages.iter().all(is_known) {
            return Ok(None);
        }
        let ends: Vec<&[u8]> =
            self.pages.iter().flat_map(|page| page.ends.iter().flatten().map(Vec::as_slice)).collect();
        let index = self.encoding.index_of(&ends)?.unwrap_or(ColumnIndexMetaData::NONE);
        let mut builder = ColumnIndexBuilder::new(self.encoding.leaf.physical_type());
        builder.set_boundary_order(index.get_boundary_order().unwrap_or(BoundaryOrder::ASCENDING));
        let mut place = 0;
        for page in &self.pages {
            let nulls = page.nulls as i64;
            match &page.ends {
                Some(_) => {
                    let [least, greatest] = plain::ends_of(&index, place);
                    builder.append(false, least, greatest, nulls);
                    place += 1;
                }
                None => builder.append(true, Vec::new(), Vec::new(), nulls),
            }
            let histogram = LevelHistogram::from(vec![nulls, page.rows as i64 - nulls]);
            builder.append_histograms(&None, &self.encoding.is_optional().then_some(histogram));
        }
        builder.build().map(Some)
    }

    fn metadata(&self, totals: &Totals, statistics: Option<&Statistics>) -> Result<ColumnChunkMetaData> {
        let encoding = &self.encoding;
        let has_dictionary = totals.dictionary_bytes > 0;
        let coded = self.pages.iter().filter(|page| page.has_codes).count();
        let (mut encodings, mut stats) = (vec![Encoding::PLAIN, Encoding::RLE], Vec::new());
        let mut count = |page_type, encoding, count: usize| {
            if count > 0 {
                stats.push(PageEncodingStats { page_type, encoding, count: count as i32 });
            }
        };
        count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, usize::from(has_dictionary));
        count(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, coded);
        count(PageType::DATA_PAGE, Encoding::PLAIN, self.pages.len() - coded);
        if has_dictionary {
            encodings.push(Encoding::RLE_DICTIONARY);
        }
        let mut builder = ColumnChunkMetaData::builder(Arc::clone(&encoding.leaf))
            .set_compression(encoding.codec)
            .set_encodings(encodings)
            .set_page_encoding_stats(stats)
            .set_total_compressed_size(totals.compressed)
            .set_total_uncompressed_size(totals.uncompressed)
            .set_num_values(totals.rows)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_data_page_offset(totals.dictionary_bytes);
        if encoding.has_statistics {
            if let Some(statistics) = statistics {
                builder = builder.set_statistics(plain::with_nulls(statistics, totals.nulls as u64));
            }
            let histogram = vec![totals.nulls, totals.rows - totals.nulls];
            let histogram = encoding.is_optional().then(|| LevelHistogram::from(histogram));
            builder = builder
                .set_unencoded_byte_array_data_bytes(encoding.has_lengths().then_some(totals.value_bytes))
                .set_definition_level_histogram(histogram);
        }
        builder.build()
    }
}

/// What the pages of a chunk add up to.
#[derive(Debug, Default)]
struct Totals {
    compressed: i64,
    uncompressed: i64,
    rows: i64,
    nulls: i64,
    value_bytes: i64,
    dictionary_bytes: i64,
}

impl Totals {
    fn add(&mut self, page: &PageWriteSpec) {
        self.compressed += page.compressed_size as i64;
        self.uncompressed += page.uncompressed_size as i64;
    }
}
