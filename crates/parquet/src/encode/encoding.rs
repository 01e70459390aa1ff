//! How a column is written.

use std::sync::Arc;

use arrow::datatypes::DataType;
use parquet::{
    basic::{Compression, Type},
    column::{page::CompressedPage, writer::ColumnCloseResult},
    errors::Result,
    file::{
        page_index::column_index::ColumnIndexMetaData,
        properties::{
            EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr, WriterVersion,
        },
    },
    schema::types::{ColumnDescPtr, ColumnDescriptor},
};

use super::{codec, plain};
use crate::{codes::SharedDictionary, column::Column};

/// The settings of a column's chunks.
#[derive(Debug)]
pub(super) struct ColumnEncoding {
    pub(super) leaf: ColumnDescPtr,
    pub(super) codec: Compression,
    /// The rows of a page, at most, and the bytes of its values at which one without codes ends.
    pub(super) page_rows: usize,
    pub(super) page_bytes: usize,
    /// The bytes of the values in a dictionary, at most; 0 if there is none.
    pub(super) dictionary_bytes: usize,
    pub(super) has_statistics: bool,
    pub(super) has_offsets: bool,
    /// The column as one that is not optional, with the properties of one page.
    entries_leaf: ColumnDescPtr,
    entries: WriterPropertiesPtr,
    /// With the properties of pages of two values, if each page has statistics.
    ends: Option<WriterPropertiesPtr>,
}

/// A column that is written from codes of a shared dictionary, with the settings of its chunks.
#[derive(Debug)]
pub struct CodesEncoding {
    pub(super) column: Arc<ColumnEncoding>,
    pub(super) dictionary: SharedDictionary,
}

/// A column that is written from values, with the settings of its chunks.
#[derive(Debug, Clone)]
pub struct ValuesEncoding {
    pub(super) column: Arc<ColumnEncoding>,
    pub(super) is_unsigned: bool,
}

impl ColumnEncoding {
    /// Returns the encoding of a column that is written as `leaf`, in files of `properties`.
    fn try_new(leaf: &ColumnDescPtr, properties: &WriterProperties) -> std::result::Result<Self, String> {
        let path = leaf.path();
        let codec = properties.compression(path);
        if !codec::is_known(codec) {
            return Err(format!("pages are not compressed with {codec}"));
        }
        let dictionary_bytes = match properties.dictionary_enabled(path) {
            true => properties.column_dictionary_page_size_limit(path),
            false => 0,
        };
        let entries = WriterPropertiesBuilder::from(properties.clone())
            .set_column_dictionary_enabled(path.clone(), false)
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(usize::MAX)
            .build();
        let has_index = properties.statistics_enabled(path) == EnabledStatistics::Page;
        let ends = has_index.then(|| {
            WriterPropertiesBuilder::from(entries.clone())
                .set_data_page_row_count_limit(2)
                .set_write_batch_size(2)
                .build()
        });
        Ok(Self {
            codec,
            page_rows: properties.data_page_row_count_limit().max(1),
            page_bytes: properties.column_data_page_size_limit(path),
            dictionary_bytes,
            has_statistics: properties.statistics_enabled(path) != EnabledStatistics::None,
            has_offsets: !properties.offset_index_disabled(),
            entries_leaf: Arc::new(ColumnDescriptor::new(leaf.self_type_ptr(), 0, 0, path.clone())),
            entries: Arc::new(entries),
            ends: ends.map(Arc::new),
            leaf: Arc::clone(leaf),
        })
    }

    pub(super) fn is_optional(&self) -> bool {
        self.leaf.max_def_level() > 0
    }

    /// Returns whether a value has its length before it.
    pub(super) fn has_lengths(&self) -> bool {
        self.leaf.physical_type() == Type::BYTE_ARRAY
    }

    /// Writes values as a page of a dictionary, and returns it with what the column writer found out about
    /// them.
    pub(super) fn write_entries(&self, values: &[&[u8]]) -> Result<(Vec<CompressedPage>, ColumnCloseResult)> {
        let sink = plain::PageSink::default();
        let closed = plain::write(&self.entries_leaf, &self.entries, values, Box::new(sink.clone()))?;
        Ok((sink.take(), closed))
    }

    /// Returns whether each page has statistics.
    pub(super) fn has_index(&self) -> bool {
        self.ends.is_some()
    }

    /// Writes the least and the greatest value of each page as a page, and returns the index of these.
    pub(super) fn index_of(&self, ends: &[&[u8]]) -> Result<Option<ColumnIndexMetaData>> {
        let Some(properties) = &self.ends else { return Ok(None) };
        let pages = Box::new(plain::PageSink::default());
        Ok(plain::write(&self.entries_leaf, properties, ends, pages)?.column_index)
    }
}

impl CodesEncoding {
    /// Returns the encoding of a column that is written as `leaf`, in files of `properties`. Its dictionary takes up
    /// to `most_entries` entries, and about `most_bytes` bytes of memory.
    ///
    /// # Errors
    /// If the column is not written as codes, the reason in words.
    pub fn try_new(
        leaf: &ColumnDescPtr,
        data_type: &DataType,
        properties: &WriterProperties,
        most_entries: usize,
        most_bytes: usize,
    ) -> std::result::Result<Self, String> {
        let column = ColumnEncoding::try_new(leaf, properties)?;
        let page_bytes = properties.column_dictionary_page_size_limit(leaf.path());
        let dictionary =
            SharedDictionary::try_new(leaf, data_type, most_entries, most_bytes)?.with_page_bytes(page_bytes);
        Ok(Self { column: Arc::new(column), dictionary })
    }

    /// Returns the dictionary.
    pub fn dictionary(&self) -> &SharedDictionary {
        &self.dictionary
    }
}

impl ValuesEncoding {
    /// Returns the encoding of a column that is written as `leaf`, in files of `properties`. Its arrays have
    /// `data_type`, or are views of such texts or bytes. They are written as codes of a dictionary if the properties
    /// say so, and plain once that is full, as the `parquet` crate writes them.
    ///
    /// # Errors
    /// If another writer has to write the column, the reason in words: it is nested, or the values, pages or
    /// statistics are of a kind that this one does not write.
    pub fn try_new(
        leaf: &ColumnDescPtr,
        data_type: &DataType,
        properties: &WriterProperties,
    ) -> std::result::Result<Self, String> {
        let path = leaf.path();
        let column = Column::try_new(0, leaf, data_type)?;
        if matches!(column.physical, Type::BOOLEAN | Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY)
            || matches!(data_type, DataType::Decimal256(..) | DataType::Date64)
        {
            return Err(format!("values of type {data_type} are not written here"));
        }
        if properties.encoding(path).is_some() || properties.writer_version() != WriterVersion::PARQUET_1_0 {
            return Err("pages of version 1, plain or with a dictionary, are written here only".into());
        }
        let bloom = properties.bloom_filter_properties(path).is_some();
        if bloom || properties.write_page_header_statistics(path) {
            return Err("Bloom filters and statistics in pages are not written here".into());
        }
        let is_unsigned = data_type.is_unsigned_integer();
        Ok(Self { column: Arc::new(ColumnEncoding::try_new(leaf, properties)?), is_unsigned })
    }
}
