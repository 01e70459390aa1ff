//! What a scan reads: the files of DataFusion's source, with conditions.

use std::{
    fmt::{self, Formatter},
    sync::Arc,
};

use annulus_parquet::PageBuffers;
use datafusion::{
    common::{
        internal_err,
        tree_node::{TreeNodeIterator, TreeNodeRecursion},
    },
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileScanConfig, FileSource, ParquetSource, parquet::DefaultParquetFileReaderFactory},
        table_schema::TableSchema,
    },
    error::Result,
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs},
    physical_expr_adapter::DefaultPhysicalExprAdapterFactory,
    physical_plan::{
        DisplayFormatType,
        metrics::{ExecutionPlanMetricsSet, MetricBuilder},
    },
};
use datafusion_datasource::{file_stream::FileOpener, morsel::Morselizer};

use super::{
    morsel::{EncodedMorselizer, ScanMetrics, ScanPlan, StockFilter},
    parts::in_parts,
};

/// A source of Parquet files whose rows are filtered on their codes.
#[derive(Clone)]
pub struct EncodedParquetSource {
    /// What DataFusion would read, without the conditions. It prunes by them, and reads what this source
    /// cannot.
    stock: ParquetSource,
    /// The columns of the output, over the table's.
    projection: ProjectionExprs,
    filter: Option<StockFilter>,
    /// The conditions over the table's columns.
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// What joins above need of rows, over the table's columns. It may be known while the scan runs only.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    batch_rows: Option<usize>,
    /// The streams of a scan whose files are read in parts, so that all of them end at the same time.
    streams: Option<usize>,
}

impl EncodedParquetSource {
    /// Returns a source that reads what `stock` does.
    ///
    /// # Errors
    /// If the stock source has no projection.
    pub(crate) fn try_new(stock: &ParquetSource) -> Result<Self> {
        let Some(projection) = stock.projection().cloned() else {
            return internal_err!("a source of Parquet files has no projection");
        };
        Ok(Self {
            stock: stock.clone(),
            projection,
            filter: None,
            conjuncts: Vec::new(),
            keys: Vec::new(),
            batch_rows: None,
            streams: None,
        })
    }

    /// Returns a source of those rows that meet `predicate`, with those columns of its output that are in
    /// `columns`, or all. `conjuncts` are the parts of the predicate, over the table's columns.
    pub(crate) fn filtered(
        self,
        predicate: Arc<dyn PhysicalExpr>,
        columns: Option<Vec<usize>>,
        conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Self {
        let projection = match &columns {
            Some(columns) => {
                let all: Vec<_> = self.projection.iter().cloned().collect();
                ProjectionExprs::new(columns.iter().map(|&column| all[column].clone()))
            }
            None => self.projection,
        };
        Self { projection, filter: Some(StockFilter { predicate, columns }), conjuncts, ..self }
    }

    /// Returns a source whose files are read in parts by this number of streams, if they share a queue of files.
    pub(crate) fn in_parts(self, streams: usize) -> Self {
        Self { streams: Some(streams), ..self }
    }

    /// Returns a source that leaves out rows which joins above do not need, as far as it can tell. `keys` are
    /// over the table's columns.
    pub(crate) fn with_keys(&self, keys: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { keys, ..self.clone() }
    }
}

impl FileSource for EncodedParquetSource {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        _base_config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        internal_err!("this source opens files by morsels")
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let factory = self.stock.parquet_file_reader_factory().cloned();
        let factory =
            factory.unwrap_or_else(|| Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(&object_store))));
        let adapters = base_config.expr_adapter_factory.clone();
        let options = self.stock.table_parquet_options().global.clone();
        let Some(batch_rows) = self.batch_rows else { return internal_err!("a scan without a size of its batches") };
        let table = self.stock.table_schema().clone();
        let output = Arc::new(self.projection.project_schema(table.table_schema())?);
        let mut plan = ScanPlan {
            partition,
            factory,
            store: None,
            adapters: adapters.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            table,
            options,
            projection: self.projection.clone(),
            output,
            conjuncts: self.conjuncts.clone(),
            keys: self.keys.clone(),
            pruning: self.stock.filter(),
            filter: self.filter.clone(),
            limit: base_config.limit,
            preserves_order: base_config.preserve_order,
            batch_rows,
            buffers: PageBuffers::default(),
            metrics: ScanMetrics::new(self.stock.metrics(), partition),
            set: self.stock.metrics().clone(),
        };
        // Elsewhere, each question costs a round trip, and files are not written to in place.
        let is_local = base_config.object_store_url.as_str().starts_with("file:");
        plan.store = is_local.then(|| Arc::clone(&object_store));
        let stock = self.stock.create_morselizer(object_store, base_config, partition)?;
        Ok(Box::new(EncodedMorselizer::new(plan, stock)))
    }

    fn table_schema(&self) -> &TableSchema {
        self.stock.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        let sized = self.stock.with_batch_size(batch_size);
        let stock = sized.downcast_ref::<ParquetSource>().cloned().unwrap_or_else(|| self.stock.clone());
        Arc::new(Self { stock, batch_rows: Some(batch_size), ..self.clone() })
    }

    /// It is asked for the order of the queue that the streams of a scan share, if they do, each time it runs.
    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        let files = self.stock.reorder_files(files);
        match self.streams {
            Some(streams) => in_parts(files, streams),
            None => files,
        }
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.stock.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.stock.metrics()
    }

    fn file_type(&self) -> &str {
        self.stock.file_type()
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return self.stock.fmt_extra(format, f);
        }
        write!(f, ", scan=encoded")?;
        if !self.conjuncts.is_empty() {
            let conjuncts: Vec<_> = self.conjuncts.iter().map(ToString::to_string).collect();
            write!(f, ", filters=[{}]", conjuncts.join(", "))?;
        }
        if !self.keys.is_empty() {
            let keys: Vec<_> = self.keys.iter().map(ToString::to_string).collect();
            write!(f, ", keys=[{}]", keys.join(", "))?;
        }
        self.stock.fmt_extra(format, f)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let own = self.conjuncts.iter().chain(&self.keys).cloned().chain(self.projection.expr_iter());
        match own.apply_until_stop(|expr| f(&expr))? {
            TreeNodeRecursion::Stop => Ok(TreeNodeRecursion::Stop),
            _ => self.stock.apply_expressions(f),
        }
    }
}

impl ScanMetrics {
    fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            pages_skipped: count("pages_skipped"),
            row_groups_skipped: count("row_groups_skipped_by_dictionary"),
            stock_files: count("files_read_by_stock"),
            decoding: MetricBuilder::new(set).subset_time("decode_time", partition),
        }
    }
}
