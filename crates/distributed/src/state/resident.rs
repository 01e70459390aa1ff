//! The shares of resident tables in the memory of a worker.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use annulus_cyclo::PreparedBuild;
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Schema, SchemaRef},
        ipc::{reader::StreamReader, writer::StreamWriter},
    },
    common::{exec_datafusion_err, exec_err, utils::quote_identifier},
    error::Result,
    execution::memory_pool::MemoryReservation,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{expiry::Timer, queries::QueryHandle};

/// The time after which a share that was not published is dropped.
const UNPUBLISHED: Duration = Duration::from_secs(10 * 60);
/// The most forms in which a share is kept prepared.
const PREPARED: usize = 4;

/// A resident table: the properties that its shares have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableInfo {
    /// A unique identifier.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The query that the table was created from.
    pub(crate) definition: String,
    /// The columns by which rows are distributed over the workers.
    pub(crate) key: Vec<String>,
    /// The schema, as an Arrow stream without rows.
    schema: Vec<u8>,
    /// The number of shares.
    pub(crate) shares: usize,
    /// The time of the statement, in nanoseconds. The table does not replace a later one of the same name.
    pub(crate) created: u128,
}

impl TableInfo {
    pub(crate) fn new(id: String, name: String, definition: String, key: Vec<String>, schema: &Schema) -> Result<Self> {
        let schema = StreamWriter::try_new(Vec::new(), schema)?.into_inner()?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(Self { id, name, definition, key, schema, shares: 0, created })
    }

    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        Ok(StreamReader::try_new(&self.schema[..], None)?.schema())
    }

    /// Returns the statement that creates the table again.
    pub(crate) fn statement(&self) -> String {
        let name = quote_identifier(&self.name);
        let columns: Vec<_> = self.key.iter().map(|column| quote_identifier(column)).collect();
        let key = if columns.is_empty() { String::new() } else { format!(" PARTITIONED BY ({})", columns.join(", ")) };
        format!("CREATE OR REPLACE RESIDENT TABLE {name}{key} AS {}", self.definition)
    }
}

/// The description of a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShareInfo {
    pub(crate) table: TableInfo,
    /// The number of the share, from 0.
    pub(crate) index: usize,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// One of several parts of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharePart {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl SharePart {
    /// The whole share.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };
}

/// The join that rows are prepared for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// The encoded join, with the columns of both sides.
    pub(crate) join: Vec<u8>,
    /// The number of hash partitions, on which all tasks agree.
    pub(crate) partitions: usize,
}

/// Rows that were prepared for a join.
struct PreparedRows {
    purpose: Purpose,
    rows: PreparedBuild,
    memory: MemoryReservation,
}

/// The rows of a table on one worker.
pub(crate) struct Share {
    info: ShareInfo,
    batches: Vec<RecordBatch>,
    /// The rows in the forms that joins have prepared. The form used last stands last.
    prepared: Mutex<Vec<PreparedRows>>,
    _memory: Vec<MemoryReservation>,
}

impl Share {
    /// Returns the batches of a part of the share.
    pub(crate) fn part(&self, part: SharePart) -> impl Iterator<Item = &RecordBatch> {
        self.batches.iter().skip(part.index).step_by(part.count.max(1))
    }

    pub(crate) fn info(&self) -> &ShareInfo {
        &self.info
    }

    /// Returns whether the rows were prepared for a join before.
    pub(crate) fn is_prepared(&self, join: &[u8]) -> bool {
        self.prepared.lock().iter().any(|known| known.purpose.join == join)
    }

    /// Returns the rows in the form that was prepared for `purpose`.
    pub(crate) fn prepared(&self, purpose: &Purpose) -> Option<PreparedBuild> {
        let mut all = self.prepared.lock();
        let place = all.iter().position(|known| known.purpose == *purpose)?;
        let found = all.remove(place);
        let prepared = found.rows.clone();
        all.push(found);
        Some(prepared)
    }

    /// Keeps prepared rows for later joins, if there is memory. The forms used longest ago are dropped for
    /// them. Returns whether `memory` accounts for the rows now.
    pub(crate) fn keep_prepared(&self, purpose: Purpose, prepared: &PreparedBuild, memory: MemoryReservation) -> bool {
        let mut all = self.prepared.lock();
        if all.iter().any(|known| known.purpose == purpose) {
            // Another join was faster. These rows are dropped with their join.
            return false;
        }
        let bytes = prepared.memory_bytes();
        while all.len() >= PREPARED {
            all.remove(0);
        }
        while memory.try_grow(bytes).is_err() {
            let others: usize = all.iter().map(|known| known.memory.size()).sum();
            if others < bytes {
                return false;
            }
            all.remove(0);
        }
        all.push(PreparedRows { purpose, rows: prepared.clone(), memory });
        true
    }
}

/// The shares of a worker. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ResidentStore {
    state: Arc<Mutex<State>>,
    timer: Timer,
}

impl fmt::Debug for ResidentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentStore").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// By name.
    tables: BTreeMap<String, Arc<Share>>,
    /// The shares that are being filled, by the table's id; `None` if the share is to be dropped.
    filling: HashMap<String, Option<UnpublishedShare>>,
}

/// Rows for a share.
pub(crate) struct ShareRows {
    /// The number of the share, from 0.
    pub(crate) index: usize,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) memory: MemoryReservation,
}

#[derive(Default)]
struct UnpublishedShare {
    index: usize,
    batches: Vec<RecordBatch>,
    memory: Vec<MemoryReservation>,
}

impl ResidentStore {
    /// Adds rows to a share of a table that is not complete yet. The share is dropped some time after the end
    /// of `query` if it was not published.
    pub(crate) fn add(&self, table: &str, rows: ShareRows, query: QueryHandle) {
        let ShareRows { index, batches, memory } = rows;
        let mut state = self.state.lock();
        let filling = state.filling.entry(table.to_owned()).or_insert_with(|| {
            self.expire(table, query);
            Some(UnpublishedShare { index, ..UnpublishedShare::default() })
        });
        if let Some(filling) = filling {
            filling.batches.extend(batches);
            filling.memory.push(memory);
        }
    }

    /// Drops the rows that were added to a table that is not published, and those added later.
    pub(crate) fn forget(&self, id: &str) {
        let mut state = self.state.lock();
        let dropped = state.filling.insert(id.to_owned(), None);
        drop(state);
        drop(dropped);
    }

    /// Drops the rows that were added to a table when its query has ended, after a time in which it could have
    /// been published.
    fn expire(&self, table: &str, query: QueryHandle) {
        let (state, table) = (Arc::clone(&self.state), table.to_owned());
        self.timer.after_query(Some(query), UNPUBLISHED, move || {
            // Rows that come later are not the whole share.
            let dropped = state.lock().filling.get_mut(&table).and_then(Option::take);
            drop(dropped);
        });
    }

    /// Makes a table visible, with the rows that were added. It takes the place of a table of the same name
    /// if it `replaces` that.
    ///
    /// # Errors
    /// If there is such a table and it is not replaced, or this worker has no share.
    pub(crate) fn publish(&self, table: TableInfo, replaces: bool) -> Result<()> {
        let mut state = self.state.lock();
        match state.tables.get(&table.name).map(|share| share.info.table.created) {
            Some(_) if !replaces => return exec_err!("resident table '{}' exists already", table.name),
            Some(created) if created > table.created => {
                return exec_err!("another session has replaced resident table '{}' meanwhile", table.name);
            }
            _ => {}
        }
        let Some(filled) = state.filling.remove(&table.id).flatten() else {
            return exec_err!(
                "resident table '{}' has no rows from here: its tasks must be as many as the workers \
                 (distributed.max_tasks_per_stage = 0)",
                table.name
            );
        };
        let rows = filled.batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let bytes = filled.memory.iter().map(|memory| memory.size() as u64).sum();
        let (name, index) = (table.name.clone(), filled.index);
        let share = Share {
            info: ShareInfo { table, index, rows, bytes },
            batches: filled.batches,
            prepared: Mutex::default(),
            _memory: filled.memory,
        };
        let before = state.tables.insert(name, Arc::new(share));
        drop(state);
        drop(before);
        Ok(())
    }

    /// Drops the share of the table of this name, or only if it has this id. Queries that read it go on.
    pub(crate) fn remove(&self, name: &str, id: Option<&str>) {
        let mut state = self.state.lock();
        let is_it = |share: &Arc<Share>| id.is_none_or(|id| share.info.table.id == id);
        let dropped = if state.tables.get(name).is_some_and(is_it) { state.tables.remove(name) } else { None };
        drop(state);
        drop(dropped);
    }

    pub(crate) fn list(&self) -> Vec<ShareInfo> {
        self.state.lock().tables.values().map(|share| share.info.clone()).collect()
    }

    /// Returns the share of the table with this id.
    ///
    /// # Errors
    /// If the worker does not have it.
    pub(crate) fn share(&self, name: &str, id: &str) -> Result<Arc<Share>> {
        let share = self.state.lock().tables.get(name).filter(|share| share.info.table.id == id).map(Arc::clone);
        share.ok_or_else(|| {
            exec_datafusion_err!(
                "resident table '{name}' is lost on this worker: SHOW RESIDENT TABLES has its definition, to create it \
                 again, or drop it"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::array::{ArrayRef, Int64Array},
        execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool},
    };

    use super::{
        super::{WorkerQueries, expiry::tests::manual},
        *,
    };

    /// Returns a table of this name, and some of its rows.
    fn table(name: &str) -> (TableInfo, ShareRows, Arc<dyn MemoryPool>) {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("k", column)]).unwrap();
        let (definition, key) = ("SELECT 1".to_owned(), Vec::new());
        let info = TableInfo::new(name.to_owned(), name.to_owned(), definition, key, batch.schema_ref()).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let memory = MemoryConsumer::new("a table").register(&pool);
        memory.grow(100);
        (info, ShareRows { index: 0, batches: vec![batch], memory }, pool)
    }

    #[tokio::test]
    async fn a_share_that_is_not_published_is_dropped() {
        let (timer, mut waits) = manual();
        let store = ResidentStore { timer, ..ResidentStore::default() };
        let query = WorkerQueries::new(1).handle("a");
        let (published, rows, kept) = table("published");
        store.add(&published.id, rows, query.clone());
        let (time, first_ends) = waits.recv().await.unwrap();
        assert_eq!(time, UNPUBLISHED);
        let (forgotten, rows, dropped) = table("forgotten");
        store.add(&forgotten.id, rows, query.clone());
        let (_, second_ends) = waits.recv().await.unwrap();
        store.publish(published, false).unwrap();
        drop((first_ends, second_ends));
        while dropped.reserved() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(kept.reserved(), 100);
        let (_, late, dropped) = table("forgotten");
        store.add(&forgotten.id, late, query);
        assert_eq!(dropped.reserved(), 0, "rows that come later are not the whole share");
        assert!(store.publish(forgotten, false).is_err());
        assert_eq!(store.list().len(), 1);
    }

    #[test]
    fn the_statement_makes_the_table_as_it_was() {
        let statement = |name: &str, key: &[&str]| {
            let key = key.iter().map(|&key| key.to_owned()).collect();
            let table = TableInfo::new("1".to_owned(), name.to_owned(), "SELECT 1".to_owned(), key, &Schema::empty());
            table.unwrap().statement()
        };
        assert_eq!(statement("t", &[]), "CREATE OR REPLACE RESIDENT TABLE t AS SELECT 1");
        assert_eq!(
            statement("My t", &["id", "K 2"]),
            "CREATE OR REPLACE RESIDENT TABLE \"My t\" PARTITIONED BY (id, \"K 2\") AS SELECT 1"
        );
    }
}
