//! `CREATE EXTERNAL TABLE ... STORED AS CSV`, `JSON`, `AVRO`, `PARQUET` and `ARROW`, read as all
//! commands read these formats. The last two are left to DataFusion if the statement says
//! more than where the files are.

use std::{
    fmt, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use annulus_dataset::{ColumnType, Format, InputOptions};
use anyhow::{Result, bail};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider, TableProviderFactory},
    datasource::{TableType, listing::ListingTableUrl},
    error::{DataFusionError, Result as EngineResult},
    execution::SessionState,
    logical_expr::{CreateExternalTable, Expr, dml::InsertOp},
    physical_plan::ExecutionPlan,
    prelude::SessionContext,
};
use parking_lot::Mutex;

use super::tables::table_of;
use crate::{
    inputs::Inputs,
    objects::{self, is_url},
};

/// Makes external tables in `ctx` read like all inputs.
pub fn install(ctx: &SessionContext, inputs: &Arc<Inputs>, options: &InputOptions) {
    let state = ctx.state_ref();
    let mut state = state.write();
    for (name, format) in [
        ("CSV", Format::Csv),
        ("JSON", Format::Json),
        ("NDJSON", Format::Json),
        ("AVRO", Format::Avro),
        ("PARQUET", Format::Parquet),
        ("ARROW", Format::Ipc),
    ] {
        let Some(stock) = state.table_factories().get(name).cloned() else { continue };
        let (inputs, options) = (Arc::clone(inputs), options.clone().with_format(Some(format)));
        state.table_factories_mut().insert(name.to_owned(), Arc::new(Factory { inputs, options, stock }));
    }
}

/// Creates external tables of one format.
#[derive(Debug)]
struct Factory {
    inputs: Arc<Inputs>,
    options: InputOptions,
    /// The factory of tables that rows are inserted into.
    stock: Arc<dyn TableProviderFactory>,
}

#[async_trait]
impl TableProviderFactory for Factory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> EngineResult<Arc<dyn TableProvider>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return self.stock.create(session, command).await;
        };
        let is_left = matches!(self.options.format, Some(Format::Parquet | Format::Ipc)) && !is_plain(command);
        if is_left || command.unbounded || has_no_files(state, &command.locations).await {
            return self.stock.create(session, command).await;
        }
        let table = self.table(state, command).await;
        table.map(|table| Arc::new(table) as _).map_err(|error| DataFusionError::External(error.into()))
    }
}

/// Returns whether a statement says only where the files are.
fn is_plain(command: &CreateExternalTable) -> bool {
    command.schema.fields().is_empty() && command.options.is_empty() && command.order_exprs.is_empty()
}

/// Returns whether a table has no files yet: rows can be inserted into it.
async fn has_no_files(state: &SessionState, locations: &[String]) -> bool {
    let [location] = locations else { return false };
    if is_url(location) {
        let Ok(url) = ListingTableUrl::parse(location) else { return true };
        let Ok(store) = state.runtime_env().object_store(&url) else { return true };
        return url.is_collection() && objects::list(&url, &*store).await.is_err();
    }
    if location.contains(['*', '?', '[', '{', '~']) || location == "-" {
        return false;
    }
    match Path::new(location) {
        folder if folder.is_dir() => fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()),
        file => !file.exists(),
    }
}

impl Factory {
    async fn table(&self, state: &SessionState, command: &CreateExternalTable) -> Result<ExternalTable> {
        let declared = command.schema.fields();
        let options = with_types(with_settings(self.options.clone(), command)?, command);
        let table = table_of(state, &self.inputs, &command.locations, &options).await?;
        let found = table.schema();
        let mut columns = vec![];
        for field in declared {
            match found.index_of(field.name()) {
                Ok(column) => columns.push(column),
                Err(_) => bail!("'{}' has no column '{}': check the names", command.locations.join(", "), field.name()),
            }
        }
        if let Some(folder) = command.table_partition_cols.iter().find(|name| found.index_of(name).is_err()) {
            bail!("'{}' has no folders '{folder}=...': check the names", command.locations.join(", "));
        }
        if columns.is_empty() {
            columns = (0..found.fields().len()).collect();
        }
        let schema = Arc::new(found.project(&columns)?);
        let mut command = command.clone();
        command.schema = Arc::new(Schema::clone(&schema).try_into()?);
        Ok(ExternalTable {
            inputs: Arc::clone(&self.inputs),
            options,
            stock: Arc::clone(&self.stock),
            command,
            schema,
            columns,
            table: Mutex::new(table),
            has_new_rows: AtomicBool::new(false),
        })
    }
}

/// Returns `options` with those of the statement.
fn with_settings(mut options: InputOptions, command: &CreateExternalTable) -> Result<InputOptions> {
    for (key, value) in &command.options {
        let name = key.strip_prefix("format.").unwrap_or(key);
        let is_usual = match name {
            // Fields may always have line ends, and doubled quotes.
            "newlines_in_values" => true,
            "double_quote" => value == "true",
            // Names tell it.
            "compression" => {
                let compression = value.to_ascii_lowercase();
                let extension = match compression.as_str() {
                    "gzip" => ".gz",
                    "bzip2" => ".bz2",
                    "zstd" => ".zst",
                    "xz" => ".xz",
                    _ => "",
                };
                matches!(compression.as_str(), "" | "none" | "uncompressed")
                    || command.locations.iter().all(|location| location.ends_with(extension) || location.ends_with('/'))
            }
            _ => false,
        };
        if is_usual {
            continue;
        }
        options.set(name, value).map_err(|error| anyhow::anyhow!("option '{key}': {error}"))?;
    }
    Ok(options)
}

/// Returns `options` with the columns that the statement declares: names by position for CSV, and
/// types.
fn with_types(mut options: InputOptions, command: &CreateExternalTable) -> InputOptions {
    let is_own = |name: &str| command.table_partition_cols.iter().all(|other| other != name);
    for field in command.schema.fields() {
        if options.format == Some(Format::Csv) && is_own(field.name()) {
            options.csv.names.push(field.name().clone());
        }
        let data_type = match field.data_type() {
            text if text.is_string() => DataType::Utf8,
            nested if nested.is_nested() => continue,
            other => other.clone(),
        };
        options.types.columns.retain(|(column, _)| column != field.name());
        options.types.columns.push((field.name().clone(), ColumnType(data_type)));
    }
    options
}

/// A table of files, into which rows can be inserted.
struct ExternalTable {
    inputs: Arc<Inputs>,
    options: InputOptions,
    stock: Arc<dyn TableProviderFactory>,
    command: CreateExternalTable,
    schema: SchemaRef,
    /// The columns of `schema` in the files' table.
    columns: Vec<usize>,
    table: Mutex<Arc<dyn TableProvider>>,
    /// Whether rows were inserted since the files were opened.
    has_new_rows: AtomicBool,
}

impl ExternalTable {
    /// Returns the table of the files that are there now.
    async fn files(&self, session: &dyn Session) -> EngineResult<Arc<dyn TableProvider>> {
        let state = session.as_any().downcast_ref::<SessionState>();
        let Some(state) = state.filter(|_| self.has_new_rows.swap(false, Relaxed)) else {
            return Ok(Arc::clone(&self.table.lock()));
        };
        let table = table_of(state, &self.inputs, &self.command.locations, &self.options).await;
        let table = table.map_err(|error| DataFusionError::External(error.into()))?;
        if table.schema().project(&self.columns)?.fields() != self.schema.fields() {
            let text = format!("the files of '{}' have other columns now: create the table again", self.command.name);
            return Err(DataFusionError::Execution(text));
        }
        *self.table.lock() = Arc::clone(&table);
        Ok(table)
    }
}

impl fmt::Debug for ExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalTable").field("name", &self.command.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for ExternalTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.command.definition.as_deref()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let table = self.files(session).await?;
        let columns = match projection {
            Some(chosen) => chosen.iter().map(|column| self.columns[*column]).collect(),
            None => self.columns.clone(),
        };
        table.scan(session, Some(&columns), filters, limit).await
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let table = self.stock.create(session, &self.command).await?;
        self.has_new_rows.store(true, Relaxed);
        table.insert_into(session, input, operation).await
    }
}
