//! A column chunk that is written from codes.

use std::sync::Arc;

use arrow::array::{Array, UInt16Array};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, PageType, Type},
    column::{
        page::{CompressedPage, Page, PageWriteSpec, PageWriter},
        writer::ColumnCloseResult,
    },
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, LevelHistogram, OffsetIndexBuilder, PageEncodingStats},
        properties::EnabledStatistics,
        writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite},
    },
};

use super::{CodesEncoding, codec, hybrid, plain};
use crate::{
    codes::Entries,
    levels,
    pages::{self, DataPage},
};

/// A code that the chunk has no entry for yet.
const UNSEEN: u16 = u16::MAX;

/// Writes a column chunk: codes of rows, in pages, until it is [finished](Self::finish). Pages are kept as they
/// are packed, and compressed at the end.
#[derive(Debug)]
pub struct CodesWriter {
    encoding: Arc<CodesEncoding>,
    /// The chunk's code of each shared code.
    own: Vec<u16>,
    /// The shared code of each of the chunk's codes.
    shared: Vec<u16>,
    /// The lengths of the entries, if they have different ones.
    lengths: Vec<u32>,
    /// The codes of the open page's rows that have a value, and the level of each of its rows from the first
    /// null on.
    codes: Vec<u16>,
    levels: Vec<u16>,
    rows: usize,
    pages: Vec<CodesPage>,
    /// The bytes of the pages, and those of the entries.
    bytes: usize,
    entries_bytes: usize,
}

/// A page, not yet compressed.
#[derive(Debug)]
struct CodesPage {
    body: Vec<u8>,
    rows: usize,
    nulls: usize,
    /// The bytes of the values, if they have different lengths.
    value_bytes: i64,
}

/// A complete column chunk.
#[derive(Debug)]
pub struct EncodedChunk {
    bytes: Bytes,
    close: ColumnCloseResult,
}

impl EncodedChunk {
    /// Appends the chunk to a row group, as its next column.
    ///
    /// # Errors
    /// If that column is another one, or the file cannot be written.
    pub fn append_to<W: std::io::Write + Send>(self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        group.append_column(&self.bytes, self.close)
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> &ColumnChunkMetaData {
        &self.close.metadata
    }
}

impl CodesWriter {
    /// Begins a chunk.
    pub fn new(encoding: Arc<CodesEncoding>) -> Self {
        Self {
            encoding,
            own: Vec::new(),
            shared: Vec::new(),
            lengths: Vec::new(),
            codes: Vec::new(),
            levels: Vec::new(),
            rows: 0,
            pages: Vec::new(),
            bytes: 0,
            entries_bytes: 0,
        }
    }

    /// Adds rows: codes of the shared dictionary, or null.
    ///
    /// # Errors
    /// If a code is beyond the dictionary, or a row is null though the column is not optional.
    pub fn write(&mut self, rows: &UInt16Array) -> Result<()> {
        let encoding = Arc::clone(&self.encoding);
        let entries = encoding.dictionary.entries();
        self.own.resize(entries.len().max(self.own.len()), UNSEEN);
        let mut first = 0;
        while first < rows.len() {
            let count = (encoding.page_rows - self.rows).min(rows.len() - first);
            self.add(&rows.slice(first, count), &entries)?;
            first += count;
            if self.rows == encoding.page_rows {
                self.end_page();
            }
        }
        Ok(())
    }

    /// Adds rows to the open page, which has room for them.
    fn add(&mut self, rows: &UInt16Array, entries: &Entries) -> Result<()> {
        let nulls = rows.nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = nulls {
            if self.encoding.leaf.max_def_level() == 0 {
                return Err(ParquetError::General(format!("column '{}' has no nulls", self.encoding.leaf.name())));
            }
            self.levels.resize(self.rows, 1);
            self.levels.extend(nulls.iter().map(u16::from));
            let values = rows.values();
            self.add_codes(nulls.valid_indices().map(|row| values[row]), entries)?;
        } else {
            if !self.levels.is_empty() {
                self.levels.resize(self.rows + rows.len(), 1);
            }
            self.add_codes(rows.values().iter().copied(), entries)?;
        }
        self.rows += rows.len();
        Ok(())
    }

    fn add_codes(&mut self, codes: impl Iterator<Item = u16>, entries: &Entries) -> Result<()> {
        self.codes.reserve(codes.size_hint().0);
        for code in codes {
            let own = match self.own.get(usize::from(code)) {
                Some(&own) if own != UNSEEN => own,
                Some(_) => self.number(code, entries),
                None => return Err(ParquetError::General(format!("code {code} of {} entries", entries.len()))),
            };
            self.codes.push(own);
        }
        Ok(())
    }

    /// Gives a shared code one of the chunk's.
    fn number(&mut self, code: u16, entries: &Entries) -> u16 {
        let length = entries.value(code).len();
        if self.has_lengths() {
            self.lengths.push(length as u32);
            self.entries_bytes += 4;
        }
        self.entries_bytes += length;
        let own = self.shared.len() as u16;
        self.own[usize::from(code)] = own;
        self.shared.push(code);
        own
    }

    /// Packs the rows of the open page.
    fn end_page(&mut self) {
        let mut body = Vec::new();
        if self.encoding.leaf.max_def_level() > 0 {
            self.levels.resize(self.rows, 1);
            body.extend_from_slice(&[0; 4]);
            hybrid::encode(&self.levels, 1, &mut body);
            let length = (body.len() - 4) as u32;
            body[..4].copy_from_slice(&length.to_le_bytes());
        }
        let width = hybrid::width(self.shared.len().saturating_sub(1));
        body.push(width);
        hybrid::encode(&self.codes, width, &mut body);
        body.shrink_to_fit();
        self.bytes += body.len();
        let length = |&code: &u16| self.lengths.get(usize::from(code)).map_or(0, |&length| i64::from(length));
        let value_bytes = self.codes.iter().map(length).sum();
        let nulls = self.rows - self.codes.len();
        self.pages.push(CodesPage { body, rows: self.rows, nulls, value_bytes });
        self.rows = 0;
        self.codes.clear();
        self.levels.clear();
    }

    /// Returns the memory in use, in bytes, without that of the shared dictionary.
    pub fn memory(&self) -> usize {
        let codes = self.own.capacity() + self.shared.capacity() + self.codes.capacity() + self.levels.capacity();
        self.bytes + codes * size_of::<u16>() + self.lengths.capacity() * size_of::<u32>()
    }

    /// Returns the approximate size in bytes that the chunk would have if it ended here.
    pub fn size_estimate(&self) -> usize {
        self.bytes + self.entries_bytes + self.codes.len() * usize::from(hybrid::width(self.shared.len())) / 8
    }

    /// Ends the chunk. It has a dictionary, unless its values are shorter without one.
    ///
    /// # Errors
    /// If a page cannot be compressed or written.
    pub fn finish(mut self) -> Result<EncodedChunk> {
        if self.rows > 0 || self.pages.is_empty() {
            self.end_page();
        }
        // The writers of the `parquet` crate know nothing of the entries' lock.
        let encoding = Arc::clone(&self.encoding);
        let entries = encoding.dictionary.entries();
        if self.plain_size() < self.size_estimate() {
            return self.finish_plain(&entries);
        }
        let values = self.shared.iter().map(|&code| entries.value(code));
        let (pages, of_entries) = encoding.write_entries(values)?;
        drop(entries);
        let mut out = TrackedWrite::new(Vec::with_capacity(self.bytes));
        let mut chunk = Chunk::default();
        chunk.add(write_page(&mut out, dictionary_page(pages, self.shared.len())?)?, None);
        let mut offsets = OffsetIndexBuilder::new();
        for page in &self.pages {
            let spec = write_page(&mut out, page.compressed(encoding.codec)?)?;
            offsets.append_row_count(page.rows as i64);
            offsets.append_unencoded_byte_array_data_bytes(self.has_lengths().then_some(page.value_bytes));
            offsets.append_offset_and_size(spec.offset as i64, spec.compressed_size as i32);
            chunk.add(spec, Some(page));
        }
        let has_offsets = !encoding.plain.offset_index_disabled();
        let metadata = self.metadata(&chunk, &of_entries.metadata)?;
        let close = ColumnCloseResult {
            bytes_written: out.bytes_written() as u64,
            rows_written: chunk.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: has_offsets.then(|| offsets.build()),
        };
        Ok(EncodedChunk { bytes: out.into_inner()?.into(), close })
    }

    fn has_lengths(&self) -> bool {
        self.encoding.leaf.physical_type() == Type::BYTE_ARRAY
    }

    /// Returns the bytes that the values have without a dictionary.
    fn plain_size(&self) -> usize {
        let values: usize = self.pages.iter().map(|page| page.rows - page.nulls).sum();
        let value_bytes: i64 = self.pages.iter().map(|page| page.value_bytes).sum();
        let width = self.encoding.dictionary.width();
        width.map_or(value_bytes as usize + 4 * values, |width| width * values)
    }

    fn metadata(&self, chunk: &Chunk, of_entries: &ColumnChunkMetaData) -> Result<ColumnChunkMetaData> {
        let encoding = &self.encoding;
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut builder = ColumnChunkMetaData::builder(Arc::clone(&encoding.leaf))
            .set_compression(encoding.codec)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, self.pages.len() as i32),
            ])
            .set_total_compressed_size(chunk.compressed)
            .set_total_uncompressed_size(chunk.uncompressed)
            .set_num_values(chunk.rows)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(chunk.data_offset);
        if encoding.plain.statistics_enabled(encoding.leaf.path()) != EnabledStatistics::None {
            if let Some(statistics) = of_entries.statistics() {
                builder = builder.set_statistics(plain::with_nulls(statistics, chunk.nulls as u64));
            }
            let histogram = vec![chunk.nulls, chunk.rows - chunk.nulls];
            let histogram = (encoding.leaf.max_def_level() > 0).then(|| LevelHistogram::from(histogram));
            builder = builder
                .set_unencoded_byte_array_data_bytes(self.has_lengths().then_some(chunk.value_bytes))
                .set_definition_level_histogram(histogram);
        }
        builder.build()
    }

    /// Ends the chunk without a dictionary.
    fn finish_plain(&self, entries: &Entries) -> Result<EncodedChunk> {
        let is_optional = self.encoding.leaf.max_def_level() > 0;
        let (mut rows, mut codes) = (Vec::new(), Vec::new());
        for page in &self.pages {
            page.unpack(is_optional, &mut rows, &mut codes)?;
        }
        let values = codes.iter().map(|&code| entries.value(self.shared[code as usize]));
        let mut out = TrackedWrite::new(Vec::new());
        let levels = is_optional.then_some(&rows[..]);
        let pages = Box::new(SerializedPageWriter::new(&mut out));
        let close = plain::write(&self.encoding.leaf, &self.encoding.plain, values, levels, pages)?;
        Ok(EncodedChunk { bytes: out.into_inner()?.into(), close })
    }
}

impl CodesPage {
    fn compressed(&self, codec: parquet::basic::Compression) -> Result<CompressedPage> {
        let mut buf = Vec::new();
        codec::compress(codec, &self.body, &mut buf)?;
        let page = Page::DataPage {
            buf: buf.into(),
            num_values: self.rows as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        Ok(CompressedPage::new(page, self.body.len()))
    }

    /// Appends the level of each row and the code of each value.
    fn unpack(&self, is_optional: bool, rows: &mut Vec<i16>, codes: &mut Vec<u32>) -> Result<()> {
        let corrupt = |error| ParquetError::External(Box::new(error));
        let page = self.compressed(parquet::basic::Compression::UNCOMPRESSED)?;
        let page = DataPage::new(page.compressed_page().clone(), is_optional).map_err(corrupt)?;
        let valid = page.levels.map(|found| levels::validity(found, self.rows)).transpose().map_err(corrupt)?;
        match valid.flatten() {
            Some(valid) => rows.extend(valid.iter().map(i16::from)),
            None => rows.resize(rows.len() + self.rows, 1),
        }
        let start = codes.len();
        codes.resize(start + self.rows - self.nulls, 0);
        let read = pages::codes(page.values).and_then(|mut packed| packed.read(&mut codes[start..]));
        read.map_err(corrupt)
    }
}

/// What the pages of a chunk add up to.
#[derive(Debug, Default)]
struct Chunk {
    compressed: i64,
    uncompressed: i64,
    rows: i64,
    nulls: i64,
    value_bytes: i64,
    /// The place of the first data page.
    data_offset: i64,
}

impl Chunk {
    /// Counts a page: one of data, or the dictionary.
    fn add(&mut self, spec: PageWriteSpec, data: Option<&CodesPage>) {
        self.compressed += spec.compressed_size as i64;
        self.uncompressed += spec.uncompressed_size as i64;
        match data {
            None => self.data_offset = self.compressed,
            Some(page) => {
                self.rows += page.rows as i64;
                self.nulls += page.nulls as i64;
                self.value_bytes += page.value_bytes;
            }
        }
    }
}

/// Returns the dictionary page with the values that a column writer has written, in one page or none.
fn dictionary_page(pages: Vec<CompressedPage>, entries: usize) -> Result<CompressedPage> {
    let page = |buf, bytes| {
        let (num_values, encoding) = (entries as u32, Encoding::PLAIN);
        CompressedPage::new(Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }, bytes)
    };
    match &pages[..] {
        [only] => Ok(page(only.compressed_page().buffer().clone(), only.uncompressed_size())),
        _ => Err(ParquetError::General(format!("a dictionary has {} pages", pages.len()))),
    }
}

fn write_page(out: &mut TrackedWrite<Vec<u8>>, page: CompressedPage) -> Result<PageWriteSpec> {
    SerializedPageWriter::new(out).write_page(page)
}
