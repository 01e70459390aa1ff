//! The encodings of output files.

use std::sync::Arc;

use annulus_parquet::FileEncoding;
use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use parquet::{
    arrow::ArrowSchemaConverter,
    basic::{Compression as Codec, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnPath,
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

/// A format with its options, for files of one schema.
pub(crate) enum Encoding {
    Parquet(Arc<FileEncoding>),
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
                let encoding = parquet_encoding(schema, compression, partitions, dictionary);
                Ok(Self::Parquet(Arc::new(encoding.map_err(|error| unfit(error.to_string()))?)))
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
            Self::Parquet(encoding) => encoding.schema(),
            Self::Ipc { schema, .. } | Self::Csv { schema } | Self::Json { schema } => schema,
            Self::Pages(encoding) => &encoding.header.schema,
        }
    }

    /// Returns the least memory, in bytes, with which keeping a file open is worthwhile.
    pub(crate) fn floor_bytes(&self) -> usize {
        match self {
            Self::Parquet(encoding) => encoding.schema().fields().len() * PARQUET_COLUMN_FLOOR_BYTES,
            Self::Ipc { .. } => IPC_FLOOR_BYTES,
            Self::Pages(encoding) => encoding.header.shape.page_bytes(),
            Self::Csv { .. } | Self::Json { .. } => TEXT_FLOOR_BYTES,
        }
    }

    /// Returns the batch with its columns cast to the types of the files.
    pub(crate) fn adapt(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        match self {
            Self::Parquet(encoding) => for_parquet_writer(batch, encoding.schema()),
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

/// Returns the encoding of files of `schema`. Statistics are of whole chunks: those of pages cost a tenth of the
/// encoding time.
fn parquet_encoding(
    schema: &SchemaRef,
    compression: Compression,
    partitions: usize,
    dictionary: impl Fn(usize) -> bool,
) -> Result<FileEncoding, parquet::errors::ParquetError> {
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
    FileEncoding::try_new(Arc::clone(schema), properties.build())
}
