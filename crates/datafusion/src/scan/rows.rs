//! The rows of a file: a row group at a time, with what joins above need of it at present.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use annulus_parquet::{ChunkRead, Conjunct, RowGroupReader, Scan, ScanError};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{
    common::DataFusionError,
    datasource::physical_plan::parquet::ParquetFileMetrics,
    error::Result,
    parquet::file::metadata::ParquetMetaData,
    physical_expr::{PhysicalExpr, projection::Projector},
    physical_expr_common::physical_expr::snapshot_generation,
};
use futures::{StreamExt, stream, stream::BoxStream};

use super::{
    fetch::Fetcher,
    morsel::ScanPlan,
    predicate::{columns_of, key},
    version::FileVersion,
};
use crate::join::{current, is_worthwhile};

/// Rows after which a scan without output lets other tasks run.
const ROWS_BEFORE_YIELD: u64 = 1 << 18;

/// The number of a row group, and its rows that are left.
pub(super) type Group = (usize, Vec<Range<usize>>);

pub(super) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// What a join above needs, and the condition that it is at present.
pub(super) struct KeyTrial {
    filter: Arc<dyn PhysicalExpr>,
    /// With its number among those that the filter has been.
    current: Option<(u64, Arc<Conjunct>)>,
}

impl KeyTrial {
    pub fn new(filter: Arc<dyn PhysicalExpr>) -> Self {
        Self { filter, current: None }
    }

    /// Returns the present condition, if there is one and it leaves out enough rows.
    fn conjunct(&mut self, schema: &Schema, columns: &[usize]) -> Result<Option<Arc<Conjunct>>> {
        let generation = snapshot_generation(&self.filter);
        let Some(filter) = current(&self.filter)? else { return Ok(None) };
        // One that reads no column says nothing about rows.
        if columns_of(&filter).is_empty() {
            return Ok(None);
        }
        let conjunct = match &self.current {
            Some((known, conjunct)) if *known == generation => Arc::clone(conjunct),
            _ => {
                let conjunct = key(filter, schema, columns)?;
                self.current = Some((generation, Arc::clone(&conjunct)));
                conjunct
            }
        };
        let (asked, kept) = conjunct.asked();
        Ok(is_worthwhile(asked as usize, kept as usize).then_some(conjunct))
    }
}

/// A file of which some row groups are left.
pub(super) struct FileRows {
    pub plan: Arc<ScanPlan>,
    pub schema: SchemaRef,
    pub columns: Vec<usize>,
    pub keys: Vec<KeyTrial>,
    pub scan: Arc<Scan>,
    pub metrics: ParquetFileMetrics,
    pub projector: Projector,
    pub fetcher: Fetcher,
    pub metadata: Arc<ParquetMetaData>,
    pub groups: VecDeque<Group>,
    pub version: Option<FileVersion>,
    pub current: Option<RowGroupReader>,
}

impl FileRows {
    pub fn into_stream(self) -> Rows {
        stream::try_unfold(self, |mut rows| async move {
            match rows.next().await {
                Ok(batch) => Ok(batch.map(|batch| (batch, rows))),
                Err(error) => Err(explained(error, rows.version.take()).await),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(current) = &mut self.current {
                let before = current.counts().rows;
                let timer = self.plan.metrics.decoding.timer();
                let batch = current.next_batch().map_err(from_scan)?;
                drop(timer);
                let is_long = current.counts().rows - before > ROWS_BEFORE_YIELD;
                if let Some(batch) = batch {
                    return self.output(batch).map(Some);
                }
                self.end_group();
                if is_long {
                    tokio::task::yield_now().await;
                }
            }
            if !self.begin_group().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the bytes of the next row group. Returns whether there is one.
    async fn begin_group(&mut self) -> Result<bool> {
        let Some((number, ranges)) = self.groups.pop_front() else { return Ok(false) };
        let reads = self.reads(number, &ranges);
        let bytes = self.fetcher.fetch(reads.iter().flat_map(ChunkRead::byte_ranges).collect()).await?;
        let chunks = ChunkRead::chunks(&reads, bytes);
        // After the last bytes: what changes from here on is not read.
        if self.groups.is_empty()
            && let Some(version) = &self.version
        {
            version.check().await?;
        }
        // Bytes of local files come at once. With a limit, more may not be needed.
        if let (None, None, Some((next, ranges))) = (&self.plan.store, self.plan.limit, self.groups.front()) {
            let reads = self.reads(*next, ranges);
            self.fetcher.fetch_ahead(reads.iter().flat_map(ChunkRead::byte_ranges).collect());
        }
        let mut conjuncts = self.scan.conjuncts().to_vec();
        for key in &mut self.keys {
            conjuncts.extend(key.conjunct(&self.schema, &self.columns)?);
        }
        let timer = self.plan.metrics.decoding.timer();
        let scan = Arc::new(self.scan.with_conjuncts(conjuncts));
        let current = RowGroupReader::try_new(scan, self.metadata.row_group(number), ranges, chunks);
        drop(timer);
        self.current = Some(current.map_err(from_scan)?);
        Ok(true)
    }

    /// Returns what to read of a row group's columns for these rows.
    fn reads(&self, number: usize, ranges: &[Range<usize>]) -> Vec<ChunkRead> {
        let pages = self.metadata.offset_index().and_then(|index| index.get(number));
        self.scan.reads(self.metadata.row_group(number), pages.map(Vec::as_slice), ranges)
    }

    fn end_group(&mut self) {
        if let Some(ended) = self.current.take() {
            let (counts, metrics) = (ended.counts(), &self.plan.metrics);
            self.metrics.pushdown_rows_matched.add(counts.kept as usize);
            self.metrics.pushdown_rows_pruned.add((counts.rows - counts.kept) as usize);
            metrics.pages_skipped.add(counts.pages_skipped as usize);
            metrics.row_groups_skipped.add(counts.row_groups_skipped as usize);
        }
    }

    /// Returns the output of a batch.
    fn output(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = self.projector.project_batch(&batch)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().to_vec();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.plan.output), columns, &options)?)
    }
}

impl Drop for FileRows {
    fn drop(&mut self) {
        self.end_group();
    }
}

/// Returns the reason for an error, if that is a file that has changed.
async fn explained(error: DataFusionError, version: Option<FileVersion>) -> DataFusionError {
    match version {
        Some(version) => version.check().await.err().unwrap_or(error),
        None => error,
    }
}

fn from_scan(error: ScanError) -> DataFusionError {
    match error {
        ScanError::Parquet(error) => DataFusionError::ParquetError(Box::new(error)),
        ScanError::Arrow(error) => DataFusionError::ArrowError(Box::new(error), None),
        error => DataFusionError::External(Box::new(error)),
    }
}
