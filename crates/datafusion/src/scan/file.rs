//! A file of a scan: which row groups are left, and their rows.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use annulus_parquet::{Column, Scan};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Schema, SchemaRef, TimeUnit},
};
use datafusion::{
    common::{ScalarValue, plan_err, tree_node::TreeNode},
    datasource::{
        listing::PartitionedFile,
        physical_plan::parquet::{
            Int96Coercer, ParquetAccessPlan, ParquetFileMetrics, apply_file_schema_type_coercions,
        },
    },
    error::Result,
    parquet::{
        arrow::{
            arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
            async_reader::AsyncFileReader,
            parquet_column,
        },
        file::metadata::{PageIndexPolicy, ParquetMetaData},
    },
    physical_expr::{
        PhysicalExpr,
        expressions::{CastExpr, TryCastExpr},
        projection::{ProjectionExprs, Projector},
        simplifier::PhysicalExprSimplifier,
        utils::reassign_expr_columns,
    },
    physical_expr_adapter::replace_columns_with_literals,
    physical_optimizer::pruning::FilePruner,
    physical_plan::metrics::Count,
};
use futures::{StreamExt, stream};

use super::{
    fetch::Fetcher,
    groups::Groups,
    morsel::ScanPlan,
    predicate::{columns_of, conjunct},
    rows::{FileRows, KeyTrial, Rows},
    version::FileVersion,
};
use crate::arithmetic::with_fast_decimals;

/// Opens a file, and returns its rows; or the reason, in words, why this scan cannot read it.
///
/// # Errors
/// If the file cannot be opened, or its columns do not fit the table.
pub(super) async fn open(plan: Arc<ScanPlan>, file: &PartitionedFile) -> Result<std::result::Result<Rows, String>> {
    if file.extensions.get::<ParquetAccessPlan>().is_some() {
        return Ok(Err("its rows are selected from outside".to_owned()));
    }
    let name = file.object_meta.location.to_string();
    let metrics = ParquetFileMetrics::new(plan.partition, &name, &plan.set);
    if is_ruled_out(&plan, file)? {
        metrics.files_ranges_pruned_statistics.add_pruned(1);
        return Ok(Ok(stream::empty().boxed()));
    }
    metrics.files_ranges_pruned_statistics.add_matched(1);
    let version = match &plan.store {
        Some(store) => Some(FileVersion::open(store, &file.object_meta).await?),
        None => None,
    };
    let hint = file.metadata_size_hint;
    let mut reader: Box<dyn AsyncFileReader> =
        plan.factory.create_reader(plan.partition, file.clone(), hint, &plan.set)?;
    // Pages are pruned only if there is something to prune them by.
    let has_index = plan.pruning.is_some() && plan.options.enable_page_index;
    let policy = if has_index { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    let mut options = ArrowReaderOptions::new().with_page_index_policy(policy);
    if let Some(schema) = &file.arrow_schema {
        options = options.with_schema(Arc::clone(schema));
    }
    let metadata = ArrowReaderMetadata::load_async(&mut reader, options).await?;
    let schema = file_schema(&plan, &metadata)?;
    let adapted = FileScan::new(&plan, file, &schema)?;
    let scan = match adapted.scan(&plan, &schema, metadata.metadata()) {
        Ok(scan) => scan?,
        Err(reason) => return Ok(Err(reason)),
    };
    let groups = match adapted.leaves_out_all()? {
        true => VecDeque::new(),
        false => {
            let pruning = adapted.pruning.as_ref();
            Groups { plan: &plan, file, schema: &schema, metadata: &metadata, metrics: &metrics }.left(pruning).await?
        }
    };
    let rows = FileRows {
        projector: adapted.projector(&scan)?,
        metrics,
        keys: adapted.keys.into_iter().map(KeyTrial::new).collect(),
        columns: adapted.columns,
        schema,
        scan,
        fetcher: Fetcher::new(reader),
        metadata: Arc::clone(metadata.metadata()),
        groups,
        version,
        current: None,
        plan,
    };
    Ok(Ok(rows.into_stream()))
}

/// Returns whether statistics of a file, or the values of its folders, say that it has no rows to read.
fn is_ruled_out(plan: &ScanPlan, file: &PartitionedFile) -> Result<bool> {
    let Some(pruning) = &plan.pruning else { return Ok(false) };
    let pruning = replaced(plan, file, Arc::clone(pruning))?;
    let pruner = FilePruner::try_new(pruning, plan.table.file_schema(), file, Count::new());
    pruner.map_or(Ok(false), |mut pruner| pruner.should_prune())
}

/// Returns an expression with the values of a file's folders in the place of their columns.
fn replaced(plan: &ScanPlan, file: &PartitionedFile, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let folders = plan.table.table_partition_cols().iter().zip(&file.partition_values);
    let literals: HashMap<_, _> = folders.map(|(field, value)| (field.name().clone(), value.clone())).collect();
    if literals.is_empty() { Ok(expr) } else { replace_columns_with_literals(expr, &literals) }
}

/// Returns the types of a file's columns as DataFusion reads them for this table.
fn file_schema(plan: &ScanPlan, metadata: &ArrowReaderMetadata) -> Result<SchemaRef> {
    let mut schema = Arc::clone(metadata.schema());
    if let Some(coerced) = apply_file_schema_type_coercions(plan.table.file_schema(), &schema) {
        schema = Arc::new(coerced);
    }
    if let Some(unit) = &plan.options.coerce_int96 {
        let unit = match unit.to_lowercase().as_str() {
            "ns" => TimeUnit::Nanosecond,
            "us" => TimeUnit::Microsecond,
            "ms" => TimeUnit::Millisecond,
            "s" => TimeUnit::Second,
            other => {
                return plan_err!("datafusion.execution.parquet.coerce_int96 is '{other}': choose ns, us, ms or s");
            }
        };
        let zone = plan.options.coerce_int96_tz.as_deref().map(Arc::from);
        let coercer = Int96Coercer::new(metadata.parquet_schema(), &schema, &unit).with_timezone(zone);
        if let Some(coerced) = coercer.coerce() {
            schema = Arc::new(coerced);
        }
    }
    Ok(schema)
}

/// Returns a simpler expression with the same values. Where a decimal becomes another type, DataFusion's
/// simplifier would compare it as it is, though the cast loses digits (DataFusion 55.2, `unwrap_cast.rs`).
fn simplified(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let loses_digits = |node: &Arc<dyn PhysicalExpr>| -> Result<bool> {
        let is_cast = node.is::<CastExpr>() || node.is::<TryCastExpr>();
        Ok(is_cast && node.children()[0].data_type(schema)?.is_decimal())
    };
    let is_left = expr.exists(loses_digits)?;
    if is_left { Ok(expr) } else { PhysicalExprSimplifier::new(schema).simplify(expr) }
}

/// What a scan asks of a file, over the file's own columns.
struct FileScan {
    projection: ProjectionExprs,
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    pruning: Option<Arc<dyn PhysicalExpr>>,
    /// The columns of the file that the output needs, then those that only conditions need.
    columns: Vec<usize>,
    outputs: usize,
}

impl FileScan {
    fn new(plan: &ScanPlan, file: &PartitionedFile, schema: &SchemaRef) -> Result<Self> {
        let adapter = plan.adapters.create(Arc::clone(plan.table.file_schema()), Arc::clone(schema))?;
        let adapt = |expr: Arc<dyn PhysicalExpr>| simplified(adapter.rewrite(replaced(plan, file, expr)?)?, schema);
        let projection = plan.projection.clone().try_map_exprs(|expr| with_fast_decimals(adapt(expr)?, schema))?;
        let conjuncts = plan.conjuncts.iter().cloned().map(adapt).collect::<Result<Vec<_>>>()?;
        let keys = plan.keys.iter().cloned().map(adapt).collect::<Result<Vec<_>>>()?;
        let pruning = plan.pruning.clone().map(adapt).transpose()?;
        let mut columns = projection.column_indices();
        columns.sort_unstable();
        columns.dedup();
        let outputs = columns.len();
        for column in conjuncts.iter().chain(&keys).flat_map(columns_of) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Ok(Self { projection, conjuncts, keys, pruning, columns, outputs })
    }

    /// Returns the scan of the file's row groups; or the reason why there is none.
    fn scan(
        &self,
        plan: &ScanPlan,
        schema: &Schema,
        metadata: &ParquetMetaData,
    ) -> std::result::Result<Result<Arc<Scan>>, String> {
        let leaves = metadata.file_metadata().schema_descr();
        let mut columns = Vec::with_capacity(self.columns.len());
        for &index in &self.columns {
            let field = schema.field(index);
            let (leaf, _) = parquet_column(leaves, schema, field.name())
                .ok_or_else(|| format!("column '{}' is nested", field.name()))?;
            let column = Column::try_new(leaf, &leaves.column(leaf), field.data_type())?;
            metadata.row_groups().iter().try_for_each(|group| column.check(group.column(leaf)))?;
            columns.push(column);
        }
        let conjuncts = self.conjuncts.iter().filter(|expr| !columns_of(expr).is_empty());
        let conjuncts =
            conjuncts.map(|expr| conjunct(Arc::clone(expr), schema, &self.columns)).collect::<Result<Vec<_>>>();
        let scan = |conjuncts| Scan::new(columns, self.outputs, conjuncts, plan.batch_rows);
        Ok(conjuncts.map(|conjuncts| Arc::new(scan(conjuncts).with_buffers(plan.buffers.clone()))))
    }

    /// Returns whether a condition that reads no column leaves out every row.
    fn leaves_out_all(&self) -> Result<bool> {
        let nothing = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            vec![],
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        for expr in self.conjuncts.iter().filter(|expr| columns_of(expr).is_empty()) {
            let answer = ScalarValue::try_from_array(&expr.evaluate(&nothing)?.into_array(1)?, 0)?;
            if answer != ScalarValue::Boolean(Some(true)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what makes the output of the scan's batches.
    fn projector(&self, scan: &Scan) -> Result<Projector> {
        let moved = self.projection.clone().try_map_exprs(|expr| reassign_expr_columns(expr, scan.schema()))?;
        moved.make_projector(scan.schema())
    }
}
