//! A join as the user describes it, as a query of DataFusion.
//!
//! ```text
//! on, condition -> condition.rs: one predicate over both sides
//! select        -> select.rs: the expressions that come out
//!               -> plan.rs: a plan over the tables of both sides
//! ```
//! DataFusion parses, plans and evaluates the expressions (sql.rs).

mod condition;
mod error;
mod plan;
mod select;
mod sql;

use std::{path::Path, sync::Arc};

use annulus_datafusion::{DatasetTable, reading_options};
use annulus_dataset::{
    Collection, Dataset, InputOptions, JoinKey, JoinSettings, OutputFormat, Settings, input_that_reads, type_of_column,
};
use annulus_join::{JoinType, Side, Sides};
use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::TableProvider,
    error::DataFusionError,
    logical_expr::{Expr, LogicalPlan},
    prelude::{SessionConfig, SessionContext},
};
use tokio::task::spawn_blocking;

use self::condition::Condition;
pub use self::{error::QueryError, plan::Fallible};
use super::values::{NearestArg, TypeArg};
use crate::{
    inputs::{InputSource, Inputs},
    objects,
};

/// The inputs and the condition of a join, and the rows and columns to output.
#[derive(Clone)]
pub struct Query {
    pub sides: Sides<Input>,
    /// Pairs of columns, of the left and the right side, that must be equal.
    pub on: Vec<(String, String)>,
    /// A SQL predicate that pairs of rows must satisfy. The names of the inputs qualify their columns.
    pub condition: Option<String>,
    /// A SQL comparison of times, if each row of the left side is to be joined with its nearest row alone.
    pub asof: Option<String>,
    /// The order of the right side's rows, if each row of the left side is to be joined with the nearest ones.
    pub nearest: Option<NearestArg>,
    /// The rows to output.
    pub join: TypeArg,
    /// The expressions to output, as in SQL between `SELECT` and `FROM`. All columns if `None`.
    pub select: Option<String>,
    /// The suffix of a column of the right side if another column has the same name.
    pub suffix: String,
}

/// An input dataset.
#[derive(Clone)]
pub struct Input {
    /// The name that qualifies its columns in SQL.
    pub name: String,
    /// A file, a folder or a glob, or the URL of objects.
    pub path: String,
    /// How its files are read.
    pub options: InputOptions,
}

/// A query whose inputs are open.
pub struct OpenQuery {
    query: Query,
    condition: Condition,
    /// The expressions that come out.
    output: Vec<Expr>,
    sides: Sides<Source>,
}

/// Parts of files that are small enough for several workers to share few files.
const UNIT_BYTES: usize = 512 << 10;
const UNIT_ROWS: usize = 64 << 10;

impl Query {
    /// Checks the query, whose inputs are open, with the options of `session`. Its result is to be written to the
    /// folder `output`.
    ///
    /// # Errors
    /// If an input lies in the output folder, or the query is invalid.
    pub fn check(
        self,
        sides: Sides<Source>,
        output: Option<&Path>,
        format: OutputFormat,
        session: &SessionConfig,
    ) -> Result<OpenQuery, QueryError> {
        if self.suffix.is_empty() {
            let reason = "must not be empty: both sides may have a column of the same name".to_owned();
            return Err(QueryError::Option { option: "suffix", reason });
        }
        if let Some(output) = output {
            // A dataset to be overwritten is deleted before the inputs are read.
            sides.iter().filter_map(Source::files).try_for_each(|side| side.refuse_inputs_in(output))?;
            self.refuse_nested(output, format)?;
        }
        let schemas = sides.as_ref().map(Source::schema);
        self.check_types(&schemas)?;
        let condition = Condition::new(&self, schemas.as_ref(), session)?;
        let output = condition.output(&self)?;
        Ok(OpenQuery { query: self, condition, output, sides })
    }

    /// Refuses an output folder whose files an input would read: workers open their inputs while others write.
    fn refuse_nested(&self, output: &Path, format: OutputFormat) -> Result<(), QueryError> {
        let file = Collection::member_dir(output, 0).join(format!("part-00000.{}", format.extension()));
        let reads = |input: &&Input| input_that_reads(std::slice::from_ref(&input.path), &file).is_some();
        match self.sides.iter().find(reads) {
            Some(input) => Err(QueryError::Nested { output: output.to_owned(), input: input.path.clone() }),
            None => Ok(()),
        }
    }

    /// Refuses a type for a column that neither side has.
    fn check_types(&self, schemas: &Sides<SchemaRef>) -> Result<(), QueryError> {
        let has = |column: &str| schemas.iter().any(|schema| type_of_column(schema, column).is_some());
        let given = self.sides.iter().flat_map(|input| &input.options.types.columns);
        match given.map(|(column, _)| column).find(|column| !has(column)) {
            None => Ok(()),
            Some(column) => {
                let reason = format!("no input has a column '{column}'");
                Err(QueryError::Option { option: "types", reason })
            }
        }
    }

    /// Returns the settings that the manifest of its result records.
    pub fn settings(&self) -> Settings {
        let key = |(left, right): &(String, String)| JoinKey { left: left.clone(), right: right.clone() };
        Settings::Join(Box::new(JoinSettings {
            left: self.sides.left.path.clone(),
            right: self.sides.right.path.clone(),
            on: self.on.iter().map(key).collect(),
            condition: self.condition.clone(),
            asof: self.asof.clone(),
            nearest: self.nearest.as_ref().map(ToString::to_string),
            join_type: self.join.name().to_owned(),
            select: self.select.clone(),
        }))
    }

    fn join_type(&self) -> JoinType {
        self.join.into()
    }
}

impl Input {
    /// Opens the input: reads the metadata of its files, and samples of text files. Parquet of a URL is a table
    /// of DataFusion; other objects and pipes are copied, as `inputs` keeps them.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn open(&self, session: &SessionContext, inputs: &Inputs) -> Result<Source, QueryError> {
        let runtime = session.runtime_env();
        let found = inputs.find(&self.path, &self.options, Some(&runtime)).await;
        let (paths, options) = match found.map_err(|error| DataFusionError::External(error.into()))? {
            InputSource::Parquet(url) => return Ok(Source::Objects(objects::table(&session.state(), &url).await?)),
            InputSource::Paths(paths, options) => (paths, *options),
        };
        let mut options = reading_options(&options, session.state().config())?;
        (options.unit_bytes, options.unit_rows) = (UNIT_BYTES, Some(UNIT_ROWS));
        let opened = spawn_blocking(move || Dataset::open(&paths, &options)).await;
        let dataset = opened.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        Ok(Source::Files(Box::new(dataset)))
    }
}

/// An input that is open.
pub enum Source {
    /// Local files.
    Files(Box<Dataset>),
    /// Objects of a store, which DataFusion reads.
    Objects(Arc<dyn TableProvider>),
}

impl Source {
    pub fn files(&self) -> Option<&Dataset> {
        match self {
            Self::Files(dataset) => Some(dataset),
            Self::Objects(_) => None,
        }
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::Files(dataset) => Arc::clone(&dataset.schema),
            Self::Objects(table) => table.schema(),
        }
    }
}

impl OpenQuery {
    /// Plans the query for sessions of `config`. With `each`, each process has its own files. `on_skipped` is
    /// called with the number of rows that could not be read, if rows may be skipped.
    ///
    /// # Errors
    /// If DataFusion refuses it.
    pub fn plan(
        self,
        config: &SessionConfig,
        each: bool,
        on_skipped: impl Fn(u64) + Clone + Send + Sync + 'static,
    ) -> Result<PlannedQuery, QueryError> {
        let Self { query, condition, output, sides } = self;
        let hints = sides.as_ref().map(|side| side.files().map(|files| &files.hints));
        let pays = |place: Option<(Side, usize)>| {
            place.is_none_or(|(side, column)| hints[side].and_then(|hints| hints.dictionary(column)).unwrap_or(true))
        };
        let dictionaries = output.iter().map(|expr| pays(condition.column_of(expr))).collect();
        let bytes = sides.iter().filter_map(Source::files).map(|files| files.total_bytes).sum();
        let sides = sides.map(|side| match side {
            Source::Objects(table) => (table, None),
            Source::Files(dataset) => {
                let on_skipped = on_skipped.clone();
                let table = DatasetTable::new(*dataset, config).on_skipped(move |_, rows| on_skipped(rows));
                let table = Arc::new(if each { table.of_each_process() } else { table });
                (Arc::clone(&table) as _, Some(table))
            }
        });
        let plan = plan::plan(&condition, query.join_type(), output, sides.as_ref().map(|side| &side.0))?;
        let tables = sides.map(|side| side.1);
        Ok(PlannedQuery { plan, tables, dictionaries, bytes, fallible: Fallible::new(&condition, &query)? })
    }
}

/// A query as a plan of DataFusion.
pub struct PlannedQuery {
    pub plan: LogicalPlan,
    /// The tables of local files that it scans.
    pub tables: Sides<Option<Arc<DatasetTable>>>,
    /// For each column of the result, whether a dictionary is expected to pay for it in a file: true, unless it
    /// is a column of an input whose files say otherwise.
    pub dictionaries: Vec<bool>,
    /// The bytes of the local files.
    pub bytes: u64,
    /// The expressions that may fail on a value.
    pub fallible: Fallible,
}
