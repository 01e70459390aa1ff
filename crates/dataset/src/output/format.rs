//! The encodings of output files.

use std::sync::Arc;

use annulus_parquet::{CodesEncoding, ValuesEncoding};
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Schema, SchemaRef},
    error::ArrowError,
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use parquet::{
    arrow::ArrowSchemaConverter,
    basic::{Compression as Codec, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::{ColumnDescPtr, ColumnPath, SchemaDescriptor},
};

use super::{
    Compression, OutputError, OutputFormat, OutputOptions,
    csv::CsvWriter,
    pages::PagesEncoding,
    types::{cast_to, for_arrow, for_parquet, for_parquet_writer},
};
use crate::error::DatasetOption;

/// The least memory of an open column of Parquet: smaller chunks have more overhead than content.
const PARQUET_COLUMN_FLOOR_BYTES: usize = 32 << 10;
const IPC_FLOOR_BYTES: usize = 32 << 10;
const TEXT_FLOOR_BYTES: usize = 64 << 10;

/// The columns of Parquet files, and the options of their writers.
pub(crate) struct ParquetEncoding {
    pub(crate) schema: SchemaRef,
    pub(crate) properties: WriterProperties,
    /// The columns that are written here, by number: flat ones of most types.
    pub(crate) values: Arc<[Option<ValuesEncoding>]>,
}

/// A format with its options, for files of one schema.
pub(crate) enum Encoding {
    Parquet(Box<ParquetEncoding>),
    Ipc { schema: SchemaRef, options: IpcWriteOptions },
    Pages(Arc<PagesEncoding>),
    Csv { schema: SchemaRef },
    Json { schema: SchemaRef },
}

impl Encoding {
    /// Returns the encoding of files of `schema`, in a dataset of `partitions` partitions. In
    /// Parquet, column `i` begins with a dictionary if `dictionary(i)` is true.
    ///
    /// # Errors
    /// If the format cannot hold a column's type, or does not support the compression.
    pub(crate) fn try_new(
        output: &OutputOptions,
        schema: &SchemaRef,
        partitions: usize,
        dictionary: impl Fn(usize) -> bool,
    ) -> Result<Self, OutputError> {
        let OutputOptions { format, compression, page_bytes, .. } = *output;
        let unfit = |message: String| OutputError::Encode { path: format!("*.{}", format.extension()).into(), message };
        match format {
            OutputFormat::Parquet => {
                let schema = &for_parquet(schema).map_err(|error| unfit(error.to_string()))?;
                let encoding = ParquetEncoding::try_new(schema, compression, partitions, dictionary);
                Ok(Self::Parquet(Box::new(encoding.map_err(|error| unfit(error.to_string()))?)))
            }
            OutputFormat::Ipc => {
                let codec = match compression {
                    Compression::None => None,
                    Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
                    Compression::Zstd => Some(CompressionType::ZSTD),
                    Compression::Snappy => {
                        return Err(unfit("Arrow files cannot be compressed with snappy; choose lz4 or zstd".into()));
                    }
                };
                let options = IpcWriteOptions::default().try_with_compression(codec);
                let options = options.map_err(|error| unfit(error.to_string()))?;
                Ok(Self::Ipc { schema: for_arrow(schema), options })
            }
            OutputFormat::Csv | OutputFormat::Json if compression != Compression::None => {
                Err(unfit(format!("CSV and JSON files are not compressed; leave {} out", DatasetOption::Compression)))
            }
            OutputFormat::Csv => {
                CsvWriter::new(std::io::sink(), b',', schema).map_err(|error| unfit(error.to_string()))?;
                Ok(Self::Csv { schema: for_arrow(schema) })
            }
            OutputFormat::Json => Ok(Self::Json { schema: for_arrow(schema) }),
            OutputFormat::Pages if compression != Compression::None => {
                Err(unfit(format!("page files are not compressed; leave {} out", DatasetOption::Compression)))
            }
            OutputFormat::Pages => {
                let encoding = PagesEncoding::new(schema, page_bytes, partitions).map_err(unfit)?;
                Ok(Self::Pages(Arc::new(encoding)))
            }
        }
    }

    /// Returns the columns of the files.
    pub(crate) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Parquet(encoding) => &encoding.schema,
            Self::Ipc { schema, .. } | Self::Csv { schema } | Self::Json { schema } => schema,
            Self::Pages(encoding) => &encoding.header.schema,
        }
    }

    /// Returns the least memory, in bytes, with which keeping a file open is worthwhile.
    pub(crate) fn floor_bytes(&self) -> usize {
        match self {
            Self::Parquet(encoding) => encoding.schema.fields().len() * PARQUET_COLUMN_FLOOR_BYTES,
            Self::Ipc { .. } => IPC_FLOOR_BYTES,
            Self::Pages(encoding) => encoding.header.shape.page_bytes(),
            Self::Csv { .. } | Self::Json { .. } => TEXT_FLOOR_BYTES,
        }
    }

    /// Returns the batch with its columns cast to the types of the files.
    pub(crate) fn adapt(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        match self {
            Self::Parquet(encoding) => for_parquet_writer(batch, &encoding.schema),
            _ => cast_to(batch, self.schema()),
        }
    }
}

/// The size of a Parquet page. Every column of every open file holds an unfinished page, so pages
/// are shorter than usual. Compression does not suffer: that of Snappy reaches back 64 KiB.
const PAGE_BYTES: usize = 256 << 10;
/// The rows of a page. The unfinished pages of all files have about as many as `PAGES_ROWS`, within limits.
const MAX_PAGE_ROWS: usize = 8192;
const MIN_PAGE_ROWS: usize = 2048;
const PAGES_ROWS: usize = 1 << 19;

impl ParquetEncoding {
    /// Returns the encoding of files of `schema`. Statistics are of whole chunks: those of pages cost a tenth of
    /// the encoding time.
    fn try_new(
        schema: &SchemaRef,
        compression: Compression,
        partitions: usize,
        dictionary: impl Fn(usize) -> bool,
    ) -> Result<Self, parquet::errors::ParquetError> {
        let codec = match compression {
            Compression::None => Codec::UNCOMPRESSED,
            Compression::Snappy => Codec::SNAPPY,
            Compression::Lz4 => Codec::LZ4_RAW,
            Compression::Zstd => Codec::ZSTD(ZstdLevel::try_new(1)?),
        };
        let mut properties = WriterProperties::builder()
            .set_compression(codec)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_data_page_row_count_limit((PAGES_ROWS / partitions.max(1)).clamp(MIN_PAGE_ROWS, MAX_PAGE_ROWS))
            .set_dictionary_enabled(true);
        let leaves = ArrowSchemaConverter::new().convert(schema)?;
        for leaf in 0..leaves.num_columns() {
            if !dictionary(leaves.get_column_root_idx(leaf)) {
                let path: ColumnPath = leaves.column(leaf).path().clone();
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        let properties = properties.build();
        let values = schema.fields().iter().enumerate().map(|(column, field)| {
            ValuesEncoding::try_new(&leaf_of(&leaves, column)?, field.data_type(), &properties).ok()
        });
        let values = values.collect();
        Ok(Self { schema: Arc::clone(schema), properties, values })
    }

    /// Returns the leaves of all columns of a dataset.
    pub(crate) fn leaves(schema: &Schema) -> Result<SchemaDescriptor, parquet::errors::ParquetError> {
        ArrowSchemaConverter::new().convert(&*for_parquet(schema)?)
    }

    /// Returns the encoding of a column of the dataset that has `leaves` as codes; `None` if it is not flat, or of a
    /// type that is written as values.
    pub(crate) fn codes(
        &self,
        leaves: &SchemaDescriptor,
        column: usize,
        data_type: &DataType,
        most_entries: usize,
        most_bytes: usize,
    ) -> Option<CodesEncoding> {
        let leaf = leaf_of(leaves, column)?;
        CodesEncoding::try_new(&leaf, data_type, &self.properties, most_entries, most_bytes).ok()
    }
}

/// Returns the first leaf of a column.
fn leaf_of(leaves: &SchemaDescriptor, column: usize) -> Option<ColumnDescPtr> {
    let leaf = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == column)?;
    Some(leaves.column(leaf))
}
