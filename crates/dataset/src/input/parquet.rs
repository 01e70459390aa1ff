//! Parquet files: a unit is a row group, or a range of its rows.

use std::{fs::File, sync::Arc};

use arrow::datatypes::SchemaRef;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    basic::{ConvertedType, Encoding, Type},
    file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData},
};

use super::{
    InputOptions, int96,
    paths::InputFile,
    row_group::RowGroup,
    unit::{Part, Source, guard},
};
use crate::error::DatasetError;

/// A Parquet file whose metadata has been read.
pub(super) struct ParquetFile {
    pub(super) path: String,
    pub(super) place: String,
    pub(super) metadata: ArrowReaderMetadata,
    coerces_int96: Option<bool>,
}

impl ParquetFile {
    /// Reads the metadata.
    pub(super) fn open(file: &InputFile, options: &InputOptions) -> Result<Self, DatasetError> {
        let reader = File::open(&file.place).map_err(DatasetError::io("open", &file.path))?;
        let index = if options.page_index { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let reading = ArrowReaderOptions::new().with_page_index_policy(index);
        let (path, place) = (file.path.clone(), file.place.clone());
        guard(&file.path, || {
            let corrupt = |error| DatasetError::corrupt(&file.path, error);
            let metadata = ArrowReaderMetadata::load(&reader, reading.clone()).map_err(corrupt)?;
            check_intervals(&file.path, &metadata)?;
            let Some(schema) = int96::typed(&metadata, &options.int96.0) else {
                return Ok(Self { path, place, metadata, coerces_int96: None });
            };
            let coerces = !int96::has_arrow_schema(&metadata);
            let schema = if coerces { schema } else { int96::plain(&metadata) };
            let metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), reading.with_schema(schema));
            Ok(Self { path, place, metadata: metadata.map_err(corrupt)?, coerces_int96: Some(coerces) })
        })
    }
}

/// Refuses a file with intervals of Parquet, of months, days and milliseconds, unless the file has the
/// schema of Arrow: without one, arrow-rs 59 reads them without their months.
fn check_intervals(path: &str, metadata: &ArrowReaderMetadata) -> Result<(), DatasetError> {
    let leaves = metadata.parquet_schema().columns();
    let found = leaves.iter().find(|leaf| leaf.converted_type() == ConvertedType::INTERVAL);
    match found {
        Some(leaf) if !int96::has_arrow_schema(metadata) => Err(DatasetError::Schema {
            path: path.to_owned(),
            column: leaf.path().string(),
            reason: "the months of its intervals would be lost; write it as text (CAST(x AS VARCHAR)), or without the \
                     column"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

impl Source for ParquetFile {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.metadata.schema())
    }

    fn dictionary_columns(&self) -> Option<Vec<bool>> {
        let metadata = self.metadata.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let mut dictionary = vec![true; self.metadata.schema().fields().len()];
        for leaf in 0..schema.num_columns() {
            let root = schema.get_column_root_idx(leaf);
            dictionary[root] &= metadata.row_groups().iter().all(|group| is_dictionary(group.column(leaf)));
        }
        Some(dictionary)
    }

    fn parquet_metadata(&self) -> Option<Arc<ParquetMetaData>> {
        Some(Arc::clone(self.metadata.metadata()))
    }

    fn coerces_int96(&self) -> Option<bool> {
        self.coerces_int96
    }

    fn parts(self: Box<Self>, schema: &SchemaRef, options: &InputOptions) -> Vec<Box<dyn Part>> {
        let file: Arc<Self> = Arc::from(self);
        let batch_rows = options.batch_rows.max(1);
        let mut parts: Vec<Box<dyn Part>> = Vec::new();
        for group in 0..file.metadata.metadata().num_row_groups() {
            let group_rows = file.rows_of(group);
            let most = options.unit_rows.unwrap_or(usize::MAX).max(1);
            // The ranges have about the same number of rows.
            let ranges = group_rows.div_ceil(most).max(1);
            let border = |range: usize| (group_rows as u128 * range as u128 / ranges as u128) as usize;
            parts.extend((0..ranges).map(|range| {
                let rows = border(range)..border(range + 1);
                let (file, schema) = (Arc::clone(&file), Arc::clone(schema));
                Box::new(RowGroup { file, group, rows, schema, batch_rows }) as Box<dyn Part>
            }));
        }
        parts
    }
}

impl ParquetFile {
    /// Returns the number of rows of a row group.
    pub(super) fn rows_of(&self, group: usize) -> usize {
        self.metadata.metadata().row_group(group).num_rows().max(0) as usize
    }
}

/// Returns whether the chunk's data pages are all dictionary encoded, as far as its metadata says.
/// Without statistics of pages, a dictionary that was given up for plain pages looks the same.
fn is_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let throughout = match chunk.page_encoding_stats_mask() {
        Some(pages) => pages.is_only(Encoding::RLE_DICTIONARY) || pages.is_only(Encoding::PLAIN_DICTIONARY),
        None => chunk.dictionary_page_offset().is_some(),
    };
    throughout && saves_half(chunk)
}

/// Returns whether the chunk is less than half as large as its values without a dictionary, as far
/// as its metadata says. Otherwise most values are rare, and looking each up costs more time than
/// its bytes are worth.
fn saves_half(chunk: &ColumnChunkMetaData) -> bool {
    let values = chunk.num_values();
    let plain = match chunk.column_type() {
        Type::INT32 | Type::FLOAT => 4 * values,
        Type::INT64 | Type::DOUBLE => 8 * values,
        Type::INT96 => 12 * values,
        Type::FIXED_LEN_BYTE_ARRAY => i64::from(chunk.column_descr().type_length()) * values,
        // Each value has its length before it.
        Type::BYTE_ARRAY => match chunk.unencoded_byte_array_data_bytes() {
            Some(bytes) => bytes + 4 * values,
            None => return true,
        },
        Type::BOOLEAN => return true,
    };
    chunk.uncompressed_size() < plain / 2
}
