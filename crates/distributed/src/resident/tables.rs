//! The resident tables that a session knows.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, StringArray, UInt64Array},
        datatypes::{Field, Schema},
    },
    catalog::{SchemaProvider, TableProvider, default_table_source::provider_as_source},
    common::{exec_datafusion_err, exec_err},
    error::Result,
    logical_expr::{LogicalPlanBuilder, TableType, dml::InsertOp},
    prelude::{DataFrame, SessionContext},
};
use datafusion_distributed::WorkerResolver;
use futures::future::join_all;
use parking_lot::Mutex;
use url::Url;
use uuid::Uuid;

use super::{
    keep::KeepExec,
    scan::Shares,
    service::TableRequest,
    statement::{NewResidentTable, ResidentStatement},
    table::ResidentTable,
};
use crate::{
    inserts::{Inserts, count_batch, sum_of_counts},
    net::Connections,
    state::{ShareInfo, TableInfo},
    workers::address_of,
};

/// The SQL schema of the resident tables.
const SCHEMA: &str = "resident";

/// Tables that stay in the memory of the workers, distributed by a key. Joins around a ring keep the rows
/// that they have prepared.
///
/// In a session, the tables are in the schema `resident`. They belong to the workers: each session with these
/// workers sees them until they are dropped or the workers end.
#[derive(Clone)]
pub struct ResidentTables(Arc<Known>);

struct Known {
    workers: Arc<dyn WorkerResolver>,
    connections: Connections,
    /// The tables of the last listing that have all their shares.
    names: Mutex<Vec<String>>,
}

impl fmt::Debug for ResidentTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentTables").finish_non_exhaustive()
    }
}

/// A share on a worker.
struct FoundShare {
    worker: Url,
    rows: u64,
    bytes: u64,
}

/// A table of which workers have shares.
struct TableShares {
    info: TableInfo,
    /// The shares, by their numbers.
    shares: BTreeMap<usize, FoundShare>,
}

impl TableShares {
    fn is_whole(&self) -> bool {
        self.shares.len() == self.info.shares
    }

    fn rows(&self) -> u64 {
        self.shares.values().map(|share| share.rows).sum()
    }

    fn bytes(&self) -> u64 {
        self.shares.values().map(|share| share.bytes).sum()
    }
}

impl ResidentTables {
    /// Returns the tables of these workers.
    pub fn new(workers: impl WorkerResolver + 'static, connections: Connections) -> Self {
        Self(Arc::new(Known { workers: Arc::new(workers), connections, names: Mutex::default() }))
    }

    /// Adds the schema `resident` to the default catalog of a session, whose queries run on the same workers.
    /// The session asks the workers when a statement names a table of the schema.
    ///
    /// # Errors
    /// If the session has no default catalog.
    pub fn install(&self, session: &SessionContext) -> Result<()> {
        let name = session.copied_config().options().catalog.default_catalog.clone();
        let catalog = session.catalog(&name);
        let catalog = catalog.ok_or_else(|| exec_datafusion_err!("the session has no catalog '{name}'"))?;
        catalog.register_schema(SCHEMA, Arc::new(self.clone()))?;
        Ok(())
    }

    /// Asks the workers for their tables, for listings of the session's tables. Listings without a refresh
    /// have the tables of the last statement that asked.
    ///
    /// # Errors
    /// If no worker answers.
    pub async fn refresh(&self) -> Result<()> {
        self.all().await.map(drop)
    }

    /// Runs a statement about resident tables, and returns its answer: the number of rows of a new table, or a
    /// list of all tables.
    ///
    /// # Errors
    /// If its query fails, a worker has too little memory or does not answer, a new table exists already, or a
    /// table to drop does not exist.
    pub async fn run(&self, session: &SessionContext, statement: ResidentStatement) -> Result<DataFrame> {
        match statement {
            ResidentStatement::Create(table) => {
                if table.keeps_existing && self.find(&table.name).await?.is_some() {
                    return counted(session, 0);
                }
                let rows = self.create(session, table).await?;
                counted(session, rows)
            }
            ResidentStatement::Drop { name, if_exists } => {
                if self.find(&name).await?.is_none() && !if_exists {
                    return exec_err!("there is no resident table '{name}' (SHOW RESIDENT TABLES lists them)");
                }
                self.ask_all(&TableRequest::Remove { name, id: None }).await?;
                counted(session, 0)
            }
            ResidentStatement::Show => self.show(session).await,
        }
    }

    /// Creates a table, and returns the number of its rows.
    async fn create(&self, session: &SessionContext, table: NewResidentTable) -> Result<u64> {
        let NewResidentTable { name, key, query, replaces, .. } = table;
        if self.find(&name).await?.is_some() && !replaces {
            return exec_err!("resident table '{name}' exists already: CREATE OR REPLACE replaces it");
        }
        let rows = annulus_datafusion::sql(session, &query).await?;
        let schema = Arc::clone(rows.schema().inner());
        if let Some(column) = key.iter().find(|column| schema.field_with_name(column).is_err()) {
            let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return exec_err!("the query has no column '{column}': expected one of {}", columns.join(", "));
        }
        let workers = self.0.workers.get_urls()?.len();
        if workers < 2 {
            return exec_err!("resident tables are distributed over workers: name two or more");
        }
        let mut table = TableInfo::new(Uuid::new_v4().simple().to_string(), name, query, key, &schema)?;
        let (info, name) = (Arc::new(table.clone()), format!("resident table '{}'", table.name));
        let operator = move |input| Arc::new(KeepExec::new(input, Arc::clone(&info), workers)) as _;
        let new = Inserts { name, schema, operator };
        let plan = rows.into_unoptimized_plan();
        let target = provider_as_source(Arc::new(new));
        let plan = LogicalPlanBuilder::insert_into(plan, table.name.as_str(), target, InsertOp::Append)?.build()?;
        let kept = session.execute_logical_plan(plan).await?.collect().await;
        let forget = TableRequest::Forget { id: table.id.clone() };
        let counts = match kept {
            Ok(counts) => counts,
            Err(error) => {
                // A worker that cannot be asked now drops the rows by itself.
                self.ask_all(&forget).await.ok();
                return Err(error);
            }
        };
        table.shares = workers;
        let remove = TableRequest::Remove { name: table.name.clone(), id: Some(table.id.clone()) };
        let publish = TableRequest::Publish { table, replaces };
        if let Err(error) = self.ask_all(&publish).await {
            for request in [forget, remove] {
                self.ask_all(&request).await.ok();
            }
            return Err(error);
        }
        Ok(sum_of_counts(&counts))
    }

    async fn show(&self, session: &SessionContext) -> Result<DataFrame> {
        let all: Vec<TableShares> = self.all().await?.into_values().collect();
        let texts = |of: &dyn Fn(&TableShares) -> String| {
            Arc::new(all.iter().map(of).map(Some).collect::<StringArray>()) as ArrayRef
        };
        let numbers = |of: &dyn Fn(&TableShares) -> u64| {
            Arc::new(all.iter().map(of).map(Some).collect::<UInt64Array>()) as ArrayRef
        };
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("table_name", texts(&|table| table.info.name.clone())),
            ("state", texts(&|table| if table.is_whole() { "complete" } else { "lost" }.to_owned())),
            ("rows", numbers(&|table| table.rows())),
            ("bytes", numbers(&|table| table.bytes())),
            ("partitioned_by", texts(&|table| table.info.key.join(", "))),
            (
                "workers",
                texts(&|table| {
                    let workers = table.shares.values().map(|share| address_of(&share.worker));
                    workers.collect::<Vec<_>>().join(", ")
                }),
            ),
            ("definition", texts(&|table| table.info.definition.clone())),
        ];
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect())?;
        session.read_batch(batch)
    }

    /// Asks all workers, even if one of them refuses. The first refusal is the error.
    async fn ask_all(&self, request: &TableRequest) -> Result<()> {
        let workers = self.0.workers.get_urls()?;
        let asked = workers.iter().map(|worker| self.ask(worker, request));
        join_all(asked).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    async fn ask(&self, worker: &Url, request: &TableRequest) -> Result<Vec<ShareInfo>> {
        self.0.connections.ask(worker, request).await
    }

    async fn find(&self, name: &str) -> Result<Option<TableShares>> {
        Ok(self.all().await?.remove(name))
    }

    /// Returns all tables, by name. A worker that does not answer has no shares.
    async fn all(&self) -> Result<BTreeMap<String, TableShares>> {
        let workers = self.0.workers.get_urls()?;
        let answers = join_all(workers.iter().map(|worker| self.ask(worker, &TableRequest::List))).await;
        if answers.iter().all(Result::is_err) {
            answers.into_iter().collect::<Result<Vec<_>>>()?;
            return Ok(BTreeMap::new());
        }
        let mut all: BTreeMap<String, TableShares> = BTreeMap::new();
        for (worker, answer) in workers.into_iter().zip(answers) {
            let Ok(shares) = answer else { continue };
            for ShareInfo { table, index, rows, bytes } in shares {
                let found = TableShares { info: table.clone(), shares: BTreeMap::new() };
                let found = all.entry(table.name.clone()).or_insert(found);
                // This worker was away when a table of this name was replaced.
                if found.info.id == table.id {
                    found.shares.insert(index, FoundShare { worker: worker.clone(), rows, bytes });
                }
            }
        }
        // A client that reads all tables of a listing should not fail because one is lost.
        let whole = all.iter().filter(|(_, table)| table.is_whole());
        *self.0.names.lock() = whole.map(|(name, _)| name.clone()).collect();
        Ok(all)
    }
}

/// Returns a number of rows as the answer to a statement.
fn counted(session: &SessionContext, rows: u64) -> Result<DataFrame> {
    session.read_batch(count_batch(rows)?)
}

#[async_trait]
impl SchemaProvider for ResidentTables {
    fn table_names(&self) -> Vec<String> {
        self.0.names.lock().clone()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(found) = self.find(name).await? else { return Ok(None) };
        if !found.is_whole() {
            let (there, all) = (found.shares.len(), found.info.shares);
            return exec_err!(
                "resident table '{name}' has {there} of {all} shares: a worker has lost the others; create it again \
                 with {}",
                found.info.statement()
            );
        }
        let (rows, bytes) = (found.rows(), found.bytes());
        let workers = found.shares.values().map(|share| share.worker.to_string()).collect();
        let schema = found.info.schema()?;
        let shares = Arc::new(Shares { table: found.info, workers, rows, bytes });
        Ok(Some(Arc::new(ResidentTable { shares, schema, connections: self.0.connections.clone() })))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.names.lock().iter().any(|known| known == name)
    }
}
