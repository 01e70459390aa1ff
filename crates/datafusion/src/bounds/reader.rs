//! Files that are opened without bounds that prove nothing.

use std::{collections::HashSet, ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    datasource::{listing::PartitionedFile, physical_plan::parquet::ParquetFileReaderFactory},
    error::Result as PlanResult,
    parquet::{
        arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
        errors::Result,
        file::metadata::ParquetMetaData,
    },
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use futures::{FutureExt, future::BoxFuture};

use super::metadata::sound;

/// Opens files as another factory does. DataFusion sees only metadata that prove what they say.
#[derive(Debug)]
pub(super) struct SoundReaders {
    pub(super) inner: Arc<dyn ParquetFileReaderFactory>,
    /// The columns of the files, by name, by which rows are pruned; all if they are not known.
    pub(super) columns: Option<Arc<HashSet<String>>>,
}

impl ParquetFileReaderFactory for SoundReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> PlanResult<Box<dyn AsyncFileReader + Send>> {
        let inner = self.inner.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(SoundReader { inner, columns: self.columns.clone() }))
    }
}

/// An open file.
struct SoundReader {
    inner: Box<dyn AsyncFileReader + Send>,
    columns: Option<Arc<HashSet<String>>>,
}

impl AsyncFileReader for SoundReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.inner.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.inner.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move { sound(self.inner.get_metadata(options).await?, self.columns.as_deref()) }.boxed()
    }
}
