//! A dataset as a table. DataFusion reads Parquet files and skips the parts that a query does not
//! need. The dataset itself reads all other files.

mod columns;
mod declared;
mod file_names;
mod groups;
mod parquet;
mod sent;
mod skipped;
mod tasks;
mod units;

use std::{fmt, sync::Arc};

use annulus_dataset::{ColumnType, Dataset, DatasetError, InputOptions};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{TableReference, config_err},
    datasource::{TableType, table_schema::TableSchema},
    error::{DataFusionError, Result},
    logical_expr::Expr,
    physical_plan::{ExecutionPlan, Partitioning},
    prelude::{SessionConfig, SessionContext},
};

use crate::config::AnnulusConfig;

pub use declared::NotPartitioned;
pub use groups::scanned_bytes;
pub(crate) use groups::{is_declared, undeclared};
pub use sent::{ReadAccess, UnitScan, divide_units, is_of_each_process, unit_bytes};
pub use skipped::SkippedRows;
pub(crate) use tasks::order_in_task;
pub use tasks::{divide_partitions, hash_partitions, task_of_partition};

/// A function that is called with a path and the number of its rows that could not be read.
type OnSkipped = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// A table of the rows of a dataset.
///
/// If a run has partitioned the dataset by hash or by ranges of a key, the table declares that to
/// DataFusion, which then joins and groups on the key without an exchange. [`partitioning`] returns
/// what is declared, or why nothing is. A scan declares nothing
///
/// - if the session has more target partitions than the table has partitions: DataFusion would
///   rather exchange than leave threads idle, unless the option
///   `datafusion.optimizer.preserve_file_partitions` has a value from 1 to the number of
///   partitions;
/// - if the session has one target partition, or the query limits the rows of the table alone;
/// - if `annulus.partitioned_tables` is `false`.
///
/// In a session without [Annulus](crate::SessionStateBuilderExt), a scan declares its partitions
/// even if nothing uses them, and all of them run at once.
///
/// [`partitioning`]: Self::partitioning
#[derive(Clone)]
pub struct DatasetTable {
    dataset: Arc<Dataset>,
    schema: SchemaRef,
    /// The schema for DataFusion, if all files are Parquet.
    parquet: Option<TableSchema>,
    partitioning: std::result::Result<Partitioning, NotPartitioned>,
    of_each: bool,
    on_skipped: OnSkipped,
}

impl DatasetTable {
    /// Returns a table of `dataset`. Strings become views if `config` reads Parquet strings as
    /// views. Queries do not read the metadata of Parquet files again if the dataset was opened
    /// with [`InputOptions::page_index`].
    pub fn new(dataset: Dataset, config: &SessionConfig) -> Self {
        let parquet = parquet::schema(&dataset, &config.options().execution.parquet);
        let schema = parquet.as_ref().map_or(&dataset.schema, |parquet| parquet.table_schema());
        let schema = Arc::clone(schema);
        let partitioning = declared::partitioning(&dataset.layout, &schema);
        if let Err(why) = &partitioning {
            log::debug!("a table of {} files is not read as partitioned: {why}", dataset.files.len());
        }
        let on_skipped = Arc::new(units::log_skipped);
        Self { dataset: Arc::new(dataset), schema, parquet, partitioning, of_each: false, on_skipped }
    }

    /// Makes it a table of which each process has a part: other files at the same paths, with the same columns.
    /// On workers, each reads all of its own. Those of this process tell how many rows there may be.
    #[must_use]
    pub fn of_each_process(self) -> Self {
        let schema = Arc::clone(&self.dataset.schema);
        Self { schema, parquet: None, of_each: true, ..self }
    }

    /// Calls `on_skipped` with a path and a count when a query has left out rows of it that could
    /// not be read. By default, they are logged.
    #[must_use]
    pub fn on_skipped(self, on_skipped: impl Fn(&str, u64) + Send + Sync + 'static) -> Self {
        Self { on_skipped: Arc::new(on_skipped), ..self }
    }

    /// Returns the partitioning of the table, by columns of its schema.
    ///
    /// # Errors
    /// The reason why its rows are not known to be partitioned.
    pub fn partitioning(&self) -> std::result::Result<&Partitioning, NotPartitioned> {
        self.partitioning.as_ref().map_err(Clone::clone)
    }

    /// Returns whether `plan` is a scan of this table.
    ///
    /// It is false for a scan of another table of the same files, so the metrics of a plan's scans
    /// can be attributed to tables.
    pub fn is_scanned_by(&self, plan: &dyn ExecutionPlan) -> bool {
        groups::dataset_of(plan).is_some_and(|dataset| Arc::ptr_eq(dataset, &self.dataset))
    }

    /// Returns the partitioning that a scan declares in a session of `config`.
    fn declared(&self, config: &SessionConfig, limit: Option<usize>) -> Option<&Partitioning> {
        let annulus = config.options().extensions.get::<AnnulusConfig>();
        let is_on = annulus.is_none_or(|annulus| annulus.partitioned_tables);
        let partitioning = self.partitioning.as_ref().ok().filter(|_| is_on && limit.is_none() && !self.of_each)?;
        let partitions = partitioning.partition_count();
        let keeps = (1..=partitions).contains(&config.options().optimizer.preserve_file_partitions);
        let targets = config.target_partitions();
        (targets > 1 && partitions > 1 && (partitions >= targets || keeps)).then_some(partitioning)
    }
}

impl fmt::Debug for DatasetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetTable").field("dataset", &self.dataset).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for DatasetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let declared = self.declared(state.config(), limit);
        match &self.parquet {
            Some(table) => parquet::scan(&self.dataset, table, declared, state, projection, limit).await,
            None => {
                let targets = state.config().target_partitions();
                let of = (self.of_each, Arc::clone(&self.on_skipped));
                units::scan(&self.dataset, declared, targets, projection, of)
            }
        }
    }
}

/// Returns `options` for a dataset that is to be a table in sessions of `config`: with the page index
/// of Parquet files, and with the type that `datafusion.execution.parquet.coerce_int96` gives to
/// timestamps of 96 bits.
///
/// # Errors
/// If that is not a unit of time.
pub fn reading_options(options: &InputOptions, config: &SessionConfig) -> Result<InputOptions> {
    let options = options.clone().with_page_index(true).with_hashed_keys(true);
    let parquet = &config.options().execution.parquet;
    let unit = match parquet.coerce_int96.as_deref() {
        None => return Ok(options),
        Some("s") => TimeUnit::Second,
        Some("ms") => TimeUnit::Millisecond,
        Some("us") => TimeUnit::Microsecond,
        Some("ns") => TimeUnit::Nanosecond,
        Some(other) => {
            return config_err!("datafusion.execution.parquet.coerce_int96 is '{other}': choose s, ms, us or ns");
        }
    };
    let zone = parquet.coerce_int96_tz.as_deref().map(Into::into);
    Ok(options.with_int96(ColumnType(DataType::Timestamp(unit, zone))))
}

/// Registers the files at `path` as the table `name`: a file, a folder or a glob of any format that
/// [`Dataset::open`] reads. If `annulus partition` or [`annulus_dataset::split`] wrote the folder,
/// the table is partitioned as its manifest says. All files must have the sizes in the manifest.
///
/// Returns the table, whose [`partitioning`](DatasetTable::partitioning) says whether it is
/// partitioned.
///
/// ```
/// use annulus_datafusion::{SessionStateBuilderExt, register_dataset};
/// use annulus_dataset::{CancelToken, InputOptions, JobSpec, OutputFormat, OutputOptions, NoProgress, split};
/// use datafusion::{
///     execution::SessionStateBuilder,
///     prelude::{SessionConfig, SessionContext},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("a UTF-8 path").to_owned();
/// # std::fs::write(path("orders.csv"), "id,amount\n1,10\n2,20\n1,30\n")?;
/// let output = OutputOptions::new(path("orders"), OutputFormat::Parquet);
/// let mut spec = JobSpec::new(vec![path("orders.csv")], output);
/// spec.by = vec!["id".to_owned()];
/// spec.into = Some(4);
/// split(&spec.plan()?, &NoProgress, &CancelToken::new())?;
///
/// let config = SessionConfig::new().with_target_partitions(4);
/// let builder = SessionStateBuilder::new_with_default_features().with_config(config);
/// let context = SessionContext::new_with_state(builder.with_annulus().build());
/// let table = register_dataset(&context, "orders", &path("orders"), &InputOptions::default()).await?;
/// assert_eq!(table.partitioning()?.to_string(), "Hash([id@0], 4)");
/// let plan = context.sql("EXPLAIN SELECT id, sum(amount) FROM orders GROUP BY id").await?;
/// assert!(!plan.to_string().await?.contains("RepartitionExec"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the files cannot be read, or are not those of the manifest.
pub async fn register_dataset(
    context: &SessionContext,
    name: impl Into<TableReference>,
    path: &str,
    options: &InputOptions,
) -> Result<Arc<DatasetTable>> {
    let outside = |error: DatasetError| DataFusionError::External(error.into());
    let (inputs, options) = ([path.to_owned()], reading_options(options, context.state().config())?);
    let opened = tokio::task::spawn_blocking(move || Dataset::open(&inputs, &options));
    let dataset = opened.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?.map_err(outside)?;
    let table = Arc::new(DatasetTable::new(dataset, context.state().config()));
    context.register_table(name, Arc::clone(&table) as _)?;
    Ok(table)
}
