//! Units of a dataset, read by the dataset itself.

use std::{collections::HashMap, fmt, sync::Arc};

use annulus_dataset::{BadRows, Dataset, DatasetError};
use arrow::datatypes::SchemaRef;
use datafusion::{
    common::{Statistics, project_schema, tree_node::TreeNodeRecursion},
    datasource::source::{DataSource, DataSourceExec},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, PhysicalExpr,
        expressions::Column,
        projection::{ProjectionExprs, ProjectionMapping},
    },
    physical_plan::{
        DisplayFormatType, ExecutionPlan, Partitioning,
        limit::LimitStream,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder},
        stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter},
    },
};
use futures::{StreamExt, stream};

use super::{
    OnSkipped,
    file_names::FileNames,
    sent::{ReadAccess, ReceivedDataset, SentDataset, UnitScan},
    skipped,
};

/// Returns the plan by which the dataset reads its units, in `targets` partitions or those that are
/// `declared`. If they are files of `each` process, another one reads all of its own instead.
pub(super) fn scan(
    dataset: &Arc<Dataset>,
    declared: Option<&Partitioning>,
    targets: usize,
    projection: Option<&Vec<usize>>,
    (of_each, on_skipped): (bool, OnSkipped),
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = project_schema(&dataset.schema, projection)?;
    let columns = projection.cloned().unwrap_or_else(|| (0..dataset.schema.fields().len()).collect());
    let groups = match declared {
        Some(declared) => by_partition(dataset, declared.partition_count()),
        None => in_turn(dataset.units.len(), targets),
    };
    let (files, declared) = (Files::Open(Arc::clone(dataset)), declared.cloned());
    let metrics = ExecutionPlanMetricsSet::new();
    let (named, fetch) = (None, None);
    let source = UnitSource { files, groups, of_each, columns, named, schema, declared, fetch, on_skipped, metrics };
    Ok(DataSourceExec::from_data_source(source))
}

/// Deals units out to at most `targets` groups.
fn in_turn(units: usize, targets: usize) -> Vec<Arc<[usize]>> {
    let groups = targets.clamp(1, units.max(1));
    (0..groups).map(|first| (first..units).step_by(groups).collect()).collect()
}

/// Returns the units of each partition of the dataset's layout.
fn by_partition(dataset: &Dataset, partitions: usize) -> Vec<Arc<[usize]>> {
    let mut of_file: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, unit) in dataset.units.iter().enumerate() {
        of_file.entry(unit.path()).or_default().push(index);
    }
    let units = |&file: &usize| of_file.get(dataset.files[file].path.as_str()).into_iter().flatten().copied();
    let layout = dataset.layout.iter().flat_map(|layout| &layout.partitions);
    layout.take(partitions).map(|files| files.iter().flat_map(units).collect()).collect()
}

/// The files of a source.
#[derive(Clone, Debug)]
enum Files {
    Open(Arc<Dataset>),
    ReceivedDataset(Arc<ReceivedDataset>),
}

impl Files {
    /// Returns the dataset, which may have to be opened first.
    fn dataset(&self) -> Result<Arc<Dataset>> {
        match self {
            Self::Open(dataset) => Ok(Arc::clone(dataset)),
            Self::ReceivedDataset(received) => received.dataset(),
        }
    }

    fn schema(&self) -> Result<SchemaRef> {
        match self {
            Self::Open(dataset) => Ok(Arc::clone(&dataset.schema)),
            Self::ReceivedDataset(received) => received.sent.schema(),
        }
    }

    fn format(&self) -> &str {
        match self {
            Self::Open(dataset) => dataset.files.first().map_or("arrow", |file| file.format.name()),
            Self::ReceivedDataset(received) => &received.sent.format,
        }
    }
}

/// A source of the units of a dataset.
#[derive(Clone)]
pub(super) struct UnitSource {
    files: Files,
    /// The units of each partition, which are read one after another.
    groups: Vec<Arc<[usize]>>,
    /// Whether each process has other files, of which another one reads all units.
    of_each: bool,
    /// The columns of the dataset that are read.
    columns: Vec<usize>,
    /// What is computed of these columns, if it has the names of files.
    named: Option<FileNames>,
    schema: SchemaRef,
    /// The partitioning of the groups by the dataset's columns.
    declared: Option<Partitioning>,
    /// The most rows that a partition returns.
    fetch: Option<usize>,
    on_skipped: OnSkipped,
    metrics: ExecutionPlanMetricsSet,
}

impl UnitSource {
    /// Returns the source that `plan` scans, if it is one of units.
    pub(super) fn find_in(plan: &dyn ExecutionPlan) -> Option<&Self> {
        plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()
    }

    /// Returns what receives the number of rows that the source leaves out because they cannot be read; `None` if
    /// such a row is an error.
    pub(super) fn receiver_of_skipped(&self) -> Option<&OnSkipped> {
        let Files::Open(dataset) = &self.files else { return None };
        let origin = dataset.origin.as_ref()?;
        (origin.options.on_bad_row == BadRows::Skip).then_some(&self.on_skipped)
    }

    /// Returns the source for another process, if that can read as this one does.
    pub(super) fn sent(&self) -> Option<UnitScan> {
        let Files::Open(dataset) = &self.files else { return None };
        if self.named.is_some() {
            return None;
        }
        let keys = match &self.declared {
            None => None,
            Some(Partitioning::Hash(keys, _)) => Some(keys.iter().map(column_index).collect::<Option<Vec<_>>>()?),
            Some(_) => return None,
        };
        Some(UnitScan {
            dataset: SentDataset::from_dataset(dataset)?,
            keys,
            groups: self.groups.iter().map(|units| units.to_vec()).collect(),
            of_each: self.of_each,
            columns: self.columns.clone(),
            fetch: self.fetch,
        })
    }

    /// Returns the source that another process has sent. Skipped rows are logged here.
    pub(super) fn received(scan: UnitScan, access: Arc<dyn ReadAccess>) -> Result<Self> {
        let UnitScan { dataset, keys, groups, of_each, columns, fetch } = scan;
        let table = dataset.schema()?;
        let schema = project_schema(&table, Some(&columns))?;
        let key = |column: usize| -> Arc<dyn PhysicalExpr> {
            Arc::new(Column::new(table.fields().get(column).map_or("", |field| field.name()), column))
        };
        let declared = keys.map(|keys| Partitioning::Hash(keys.into_iter().map(key).collect(), groups.len()));
        Ok(Self {
            files: Files::ReceivedDataset(Arc::new(ReceivedDataset::new(dataset, access, !of_each))),
            groups: groups.into_iter().map(Arc::from).collect(),
            of_each,
            columns,
            named: None,
            schema,
            declared,
            fetch,
            on_skipped: Arc::new(log_skipped),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Returns a source for each of `tasks` tasks, which divide the units and declare nothing.
    pub(super) fn divided(&self, tasks: usize) -> Vec<Self> {
        if self.of_each {
            return vec![self.clone(); tasks];
        }
        let partitions = self.groups.len();
        let mut units: Vec<usize> = self.groups.iter().flat_map(|units| units.iter().copied()).collect();
        units.sort_unstable();
        let group = |number: usize| units.iter().copied().skip(number).step_by(partitions * tasks).collect();
        let task = |task: usize| Self {
            groups: (0..partitions).map(|partition| group(partition * tasks + task)).collect(),
            declared: None,
            ..self.clone()
        };
        (0..tasks).map(task).collect()
    }

    /// Returns a source of the partitions that are `chosen`. The others have no units, and keep their numbers.
    pub(super) fn with_partitions(&self, chosen: impl Fn(usize) -> bool) -> Self {
        let groups = self.groups.iter().enumerate();
        let groups = groups.map(|(number, units)| if chosen(number) { Arc::clone(units) } else { Arc::default() });
        Self { groups: groups.collect(), ..self.clone() }
    }

    /// Returns whether each process has other files.
    pub(super) fn is_of_each(&self) -> bool {
        self.of_each
    }

    /// Returns whether the source declares the partitioning of its table.
    pub(super) fn is_declared(&self) -> bool {
        self.declared.is_some()
    }

    /// Returns the partitioning that the source declares, by the dataset's columns.
    pub(super) fn declared(&self) -> Option<&Partitioning> {
        self.declared.as_ref()
    }

    /// Returns the dataset whose units these are, unless another process has opened it.
    pub(super) fn dataset(&self) -> Option<&Arc<Dataset>> {
        match &self.files {
            Files::Open(dataset) => Some(dataset),
            Files::ReceivedDataset(_) => None,
        }
    }

    /// Returns the bytes of the units of each partition; none if another process knows them.
    pub(super) fn bytes(&self) -> Vec<u64> {
        let Some(dataset) = self.dataset() else { return Vec::new() };
        let bytes = |units: &Arc<[usize]>| units.iter().map(|&unit| dataset.units[unit].bytes()).sum();
        self.groups.iter().map(bytes).collect()
    }

    /// Returns a source of the same units in about `targets` groups, which declares nothing.
    pub(super) fn undeclared(&self, targets: usize) -> Self {
        let units = self.groups.iter().map(|units| units.len()).sum();
        Self { groups: in_turn(units, targets), declared: None, ..self.clone() }
    }

    /// Returns the source with only some of its columns, if `projection` is a choice of columns
    /// that keep their names, or names the files of rows.
    fn choosing(&self, projection: &ProjectionExprs) -> Result<Option<Self>> {
        if let Some(named) = FileNames::find_in(projection, &self.schema).filter(|_| self.named.is_none()) {
            return Ok(Some(Self { schema: named.schema()?, named: Some(named), ..self.clone() }));
        }
        let column = |expr: &datafusion::physical_expr::projection::ProjectionExpr| {
            let column = expr.expr.downcast_ref::<Column>()?;
            (column.name() == expr.alias).then_some(column.index())
        };
        let Some(chosen) = projection.iter().map(column).collect::<Option<Vec<_>>>() else { return Ok(None) };
        if let Some(named) = &self.named {
            let named = named.then(projection)?;
            return Ok(Some(Self { schema: named.schema()?, named: Some(named), ..self.clone() }));
        }
        let columns = chosen.iter().map(|&place| self.columns[place]).collect();
        let schema = Arc::new(self.schema.project(&chosen)?);
        Ok(Some(Self { columns, schema, ..self.clone() }))
    }

    /// Starts to read the units of a partition.
    fn read(&self, partition: usize) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let batches = stream.tx();
        let (files, units, columns) = (self.files.clone(), Arc::clone(&self.groups[partition]), self.columns.clone());
        let named = self.named.clone();
        let own = (self.of_each && self.dataset().is_none()).then_some((partition, self.groups.len()));
        let (on_skipped, metrics) = (Arc::clone(&self.on_skipped), self.metrics.clone());
        let bytes_scanned = MetricBuilder::new(&self.metrics).counter("bytes_scanned", partition);
        let outside = |error: DatasetError| DataFusionError::External(error.into());
        stream.spawn_blocking(move || {
            if units.is_empty() && own.is_none() {
                return Ok(());
            }
            let (dataset, mut bad) = (files.dataset()?, 0);
            let units = match own {
                Some((first, partitions)) => (first..dataset.units.len()).step_by(partitions).collect(),
                None => units,
            };
            for unit in units.iter().filter_map(|unit| dataset.units.get(*unit)) {
                let projector = named.as_ref().map(|named| named.of_file(unit.path())).transpose()?;
                for decoded in unit.read_columns(&columns).map_err(outside)? {
                    let decoded = decoded.map_err(outside)?;
                    bad += decoded.bad.len();
                    bytes_scanned.add(decoded.input_bytes as usize);
                    let batch = match &projector {
                        Some(projector) => projector.project_batch(&decoded.batch)?,
                        None => decoded.batch,
                    };
                    if batches.blocking_send(Ok(batch)).is_err() {
                        // The query needs no more rows.
                        return Ok(());
                    }
                }
            }
            if bad > 0 {
                let path = &dataset.files[0].path;
                // Reaches the coordinator of a query on workers.
                let metric = MetricBuilder::new(&metrics).with_new_label(skipped::FILE, path.clone());
                metric.counter(skipped::ROWS, partition).add(bad);
                on_skipped(path, bad as u64);
            }
            Ok(())
        });
        stream.build()
    }
}

/// Returns the index of the column that `key` is.
fn column_index(key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    key.downcast_ref::<Column>().map(Column::index)
}

/// The default for rows that a scan leaves out.
pub(super) fn log_skipped(path: &str, rows: u64) {
    log::warn!("skipped {rows} bad rows of '{path}'");
}

impl fmt::Debug for UnitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitSource").field("files", &self.files).field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl DataSource for UnitSource {
    fn open(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let source = self.clone();
        // Nothing is read before the first batch is asked for.
        let batches = stream::once(async move { source.read(partition) }).flatten();
        let stream: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        // Without a limit, it counts the rows.
        Ok(Box::pin(LimitStream::new(stream, 0, self.fetch, metrics)))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let formats = self.files.format();
        if matches!(format, DisplayFormatType::TreeRender) {
            writeln!(f, "format={formats}")?;
            return self.dataset().map_or(Ok(()), |dataset| writeln!(f, "files={}", dataset.files.len()));
        }
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "partitions={}, projection=[{}]", self.groups.len(), names.join(", "))?;
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.declared.is_some() {
            write!(f, ", output_partitioning={}", self.output_partitioning())?;
        }
        write!(f, ", file_type={formats}")
    }

    fn output_partitioning(&self) -> Partitioning {
        let unknown = Partitioning::UnknownPartitioning(self.groups.len());
        let Some(declared) = &self.declared else { return unknown };
        let Ok(all) = &self.files.schema() else { return unknown };
        let chosen = self.columns.iter().map(|&column| {
            let name = all.field(column).name();
            (Arc::new(Column::new(name, column)) as Arc<dyn PhysicalExpr>, name.clone())
        });
        let Ok(mapping) = ProjectionMapping::try_new(chosen, all) else { return unknown };
        let mut projected = declared.project(&mapping, &EquivalenceProperties::new(Arc::clone(all)));
        if let Some(named) = &self.named {
            let Ok(mapping) = named.projection().projection_mapping(named.input()) else { return unknown };
            projected = projected.project(&mapping, &EquivalenceProperties::new(Arc::clone(named.input())));
        }
        match projected {
            // A key column that is not read leaves the hash of an unknown column.
            Partitioning::Hash(keys, _) if keys.iter().any(|key| !key.is::<Column>()) => unknown,
            projected => projected,
        }
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(self.choosing(projection)?.map(|chosen| Arc::new(chosen) as _))
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
