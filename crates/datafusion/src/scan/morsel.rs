//! The files of a scan, opened one after the other.

use std::{fmt, sync::Arc};

use annulus_parquet::PageBuffers;
use datafusion::{
    arrow::{array::RecordBatch, datatypes::SchemaRef},
    common::config::ParquetOptions,
    datasource::{
        listing::PartitionedFile, physical_plan::parquet::ParquetFileReaderFactory, table_schema::TableSchema,
    },
    error::Result,
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs},
    physical_expr_adapter::PhysicalExprAdapterFactory,
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Time},
};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;

use super::{file, stock::FilteredPlanner};

/// What all files of a scan have in common.
pub(super) struct ScanPlan {
    pub partition: usize,
    pub factory: Arc<dyn ParquetFileReaderFactory>,
    /// The store that is asked whether a file has changed.
    pub store: Option<Arc<dyn ObjectStore>>,
    pub adapters: Arc<dyn PhysicalExprAdapterFactory>,
    pub table: TableSchema,
    pub options: ParquetOptions,
    /// The output over the table's columns, and its schema.
    pub projection: ProjectionExprs,
    pub output: SchemaRef,
    /// The conditions over the table's columns.
    pub conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins above need, over the table's columns.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// What row groups and pages are pruned by: those and more.
    pub pruning: Option<Arc<dyn PhysicalExpr>>,
    pub filter: Option<StockFilter>,
    /// The most rows of the output. A scan with conditions has none.
    pub limit: Option<usize>,
    pub preserves_order: bool,
    pub batch_rows: usize,
    /// The memory of decompressed pages.
    pub buffers: PageBuffers,
    pub metrics: ScanMetrics,
    pub set: ExecutionPlanMetricsSet,
}

/// The conditions over the output of DataFusion's source, and which of its columns are those of the scan, if not
/// all.
#[derive(Clone)]
pub(super) struct StockFilter {
    pub predicate: Arc<dyn PhysicalExpr>,
    pub columns: Option<Vec<usize>>,
}

/// What a scan counts.
#[derive(Debug, Clone)]
pub(super) struct ScanMetrics {
    pub pages_skipped: Count,
    pub row_groups_skipped: Count,
    pub stock_files: Count,
    pub decoding: Time,
}

/// Opens the files of a partition.
pub(super) struct EncodedMorselizer {
    plan: Arc<ScanPlan>,
    stock: Arc<dyn Morselizer>,
}

impl EncodedMorselizer {
    /// `stock` opens those that the scan cannot read.
    pub fn new(plan: ScanPlan, stock: Box<dyn Morselizer>) -> Self {
        Self { plan: Arc::new(plan), stock: Arc::from(stock) }
    }
}

impl fmt::Debug for EncodedMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedMorselizer").finish_non_exhaustive()
    }
}

impl Morselizer for EncodedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(Planner::Closed(Arc::clone(&self.plan), Arc::clone(&self.stock), Box::new(file))))
    }
}

/// A file on its way to its rows.
enum Planner {
    Closed(Arc<ScanPlan>, Arc<dyn Morselizer>, Box<PartitionedFile>),
    Open(BoxStream<'static, Result<RecordBatch>>),
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Open(_)) { "Open" } else { "Closed" })
    }
}

impl MorselPlanner for Planner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        match *self {
            Self::Open(stream) => Ok(Some(MorselPlan::new().with_morsels(vec![Box::new(Rows(stream))]))),
            Self::Closed(plan, stock, file) => Ok(Some(MorselPlan::new().with_pending_planner(async move {
                match file::open(Arc::clone(&plan), &file).await? {
                    Ok(stream) => Ok(Box::new(Self::Open(stream)) as _),
                    Err(reason) => {
                        log::debug!("'{}' is read by DataFusion: {reason}", file.object_meta.location);
                        plan.metrics.stock_files.add(1);
                        let inner = stock.plan_file(*file)?;
                        Ok(Box::new(FilteredPlanner::new(plan, inner)) as _)
                    }
                }
            }))),
        }
    }
}

/// The rows of a file.
struct Rows(BoxStream<'static, Result<RecordBatch>>);

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

impl Morsel for Rows {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        self.0
    }
}
