//! How a column of codes is written.

use std::sync::Arc;

use arrow::datatypes::DataType;
use parquet::{
    basic::Compression,
    errors::Result,
    file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr},
    schema::types::{ColumnDescPtr, ColumnDescriptor},
};

use super::{codec, plain};
use crate::codes::SharedDictionary;

/// A column that is written from codes of a shared dictionary, with the settings of its chunks.
#[derive(Debug)]
pub struct CodesEncoding {
    pub(super) leaf: ColumnDescPtr,
    pub(super) dictionary: SharedDictionary,
    pub(super) codec: Compression,
    pub(super) page_rows: usize,
    /// The properties of a chunk without a dictionary.
    pub(super) plain: WriterPropertiesPtr,
    /// The column as one that is not optional, with the properties of one page.
    pub(super) entries_leaf: ColumnDescPtr,
    pub(super) entries: WriterPropertiesPtr,
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
        let path = leaf.path();
        let codec = properties.compression(path);
        if !codec::is_known(codec) {
            return Err(format!("codes are not compressed with {codec}"));
        }
        let page_bytes = properties.column_dictionary_page_size_limit(path);
        let dictionary =
            SharedDictionary::try_new(leaf, data_type, most_entries, most_bytes)?.with_page_bytes(page_bytes);
        let plain =
            WriterPropertiesBuilder::from(properties.clone()).set_column_dictionary_enabled(path.clone(), false);
        let plain = plain.build();
        let entries = WriterPropertiesBuilder::from(plain.clone())
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(usize::MAX)
            .build();
        Ok(Self {
            dictionary,
            codec,
            page_rows: properties.data_page_row_count_limit().max(1),
            plain: Arc::new(plain),
            entries_leaf: Arc::new(ColumnDescriptor::new(leaf.self_type_ptr(), 0, 0, path.clone())),
            entries: Arc::new(entries),
            leaf: Arc::clone(leaf),
        })
    }

    /// Returns the dictionary.
    pub fn dictionary(&self) -> &SharedDictionary {
        &self.dictionary
    }

    /// Writes values as a page of a dictionary, and returns it with what the column writer found out about
    /// them.
    pub(super) fn write_entries<'a>(
        &self,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(Vec<parquet::column::page::CompressedPage>, parquet::column::writer::ColumnCloseResult)> {
        let sink = plain::PageSink::default();
        let closed = plain::write(&self.entries_leaf, &self.entries, values, None, Box::new(sink.clone()))?;
        Ok((sink.take(), closed))
    }
}
