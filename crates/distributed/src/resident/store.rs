//! The shares of tables that a worker keeps.

use std::{
    collections::{BTreeMap, HashMap},
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
use tokio::time::sleep;

use crate::cyclo::RingAccess;

/// The time after which a share that nobody has published is dropped.
const UNPUBLISHED: Duration = Duration::from_secs(10 * 60);
/// The most forms in which a share is kept prepared.
const PREPARED: usize = 4;

/// What the shares of a table have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableInfo {
    /// What no other table has had.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The query that made it.
    pub(crate) definition: String,
    /// The columns by which its rows are spread.
    pub(crate) key: Vec<String>,
    /// The columns, as a stream of Arrow without rows.
    schema: Vec<u8>,
    /// The number of shares.
    pub(crate) shares: usize,
    /// When it was asked for, in nanoseconds. A later table of the same name is not replaced by it.
    pub(crate) asked: u128,
}

impl TableInfo {
    pub(crate) fn new(id: String, name: String, definition: String, key: Vec<String>, schema: &Schema) -> Result<Self> {
        let schema = StreamWriter::try_new(Vec::new(), schema)?.into_inner()?;
        let asked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(Self { id, name, definition, key, schema, shares: 0, asked })
    }

    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        Ok(StreamReader::try_new(&self.schema[..], None)?.schema())
    }

    /// Returns the statement that makes the table again.
    pub(crate) fn statement(&self) -> String {
        let name = quote_identifier(&self.name);
        let columns: Vec<_> = self.key.iter().map(|column| quote_identifier(column)).collect();
        let key = if columns.is_empty() { String::new() } else { format!(" PARTITIONED BY ({})", columns.join(", ")) };
        format!("CREATE OR REPLACE RESIDENT TABLE {name}{key} AS {}", self.definition)
    }
}

/// What a worker says of a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShareInfo {
    pub(crate) table: TableInfo,
    /// The number of the share, from 0.
    pub(crate) index: usize,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// What rows are prepared for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// The join, with the columns of both sides.
    pub(crate) join: Vec<u8>,
    /// The hash partitions, on which all tasks agree.
    pub(crate) partitions: usize,
}

/// A share of a table.
pub(crate) struct Share {
    info: ShareInfo,
    batches: Vec<RecordBatch>,
    /// The rows as joins have prepared them, by what they were prepared for, the last one used last.
    prepared: Mutex<Vec<(Purpose, PreparedBuild, MemoryReservation)>>,
    _memory: Vec<MemoryReservation>,
}

impl Share {
    /// Returns the batches of one of several parts of the share.
    pub(crate) fn part(&self, part: usize, parts: usize) -> impl Iterator<Item = &RecordBatch> {
        self.batches.iter().skip(part).step_by(parts.max(1))
    }

    pub(crate) fn info(&self) -> &ShareInfo {
        &self.info
    }

    /// Returns whether the rows were prepared for a join before.
    pub(crate) fn is_prepared(&self, join: &[u8]) -> bool {
        self.prepared.lock().iter().any(|(known, ..)| known.join == join)
    }

    /// Returns the rows as they were prepared for `purpose` before.
    pub(crate) fn prepared(&self, purpose: &Purpose) -> Option<PreparedBuild> {
        let mut all = self.prepared.lock();
        let place = all.iter().position(|(known, ..)| known == purpose)?;
        let found = all.remove(place);
        let prepared = found.1.clone();
        all.push(found);
        Some(prepared)
    }

    /// Keeps prepared rows for later joins, if there is memory. Those that were not used for longest make
    /// room. Returns whether `memory`, or that of equal rows, accounts for them.
    pub(crate) fn keep_prepared(&self, purpose: Purpose, prepared: &PreparedBuild, memory: MemoryReservation) -> bool {
        let mut all = self.prepared.lock();
        if all.iter().any(|(known, ..)| *known == purpose) {
            // Another join was faster. These go with their join.
            return false;
        }
        let bytes = prepared.memory_bytes();
        while all.len() >= PREPARED {
            all.remove(0);
        }
        while memory.try_grow(bytes).is_err() {
            let others: usize = all.iter().map(|(.., memory)| memory.size()).sum();
            if others < bytes {
                return false;
            }
            all.remove(0);
        }
        all.push((purpose, prepared.clone(), memory));
        true
    }
}

/// The tables of a worker. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ResidentStore(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By name.
    tables: BTreeMap<String, Arc<Share>>,
    /// What is being filled, by the table's id; nothing if it is to be dropped.
    filling: HashMap<String, Option<Filling>>,
}

#[derive(Default)]
struct Filling {
    index: usize,
    batches: Vec<RecordBatch>,
    memory: Vec<MemoryReservation>,
}

impl ResidentStore {
    /// Adds rows to share `index` of a table that is not complete yet. It is dropped if nobody publishes
    /// it.
    pub(crate) fn add(
        &self,
        id: &str,
        (index, access): (usize, Arc<RingAccess>),
        batches: Vec<RecordBatch>,
        memory: MemoryReservation,
    ) {
        let mut state = self.0.lock();
        let filling = state.filling.entry(id.to_owned()).or_insert_with(|| {
            self.end_later(id, access);
            Some(Filling { index, ..Filling::default() })
        });
        if let Some(filling) = filling {
            filling.batches.extend(batches);
            filling.memory.push(memory);
        }
    }

    /// Drops what was added to a table that is not published, and what will be.
    pub(crate) fn forget(&self, id: &str) {
        let mut state = self.0.lock();
        let dropped = state.filling.insert(id.to_owned(), None);
        drop(state);
        drop(dropped);
    }

    /// Drops what was added to a table when its query has ended, after a time in which it could have been
    /// published.
    fn end_later(&self, id: &str, access: Arc<RingAccess>) {
        let (store, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            access.end_of_query().await;
            // A real delay: nothing tells that the process that asked for the table is gone.
            sleep(UNPUBLISHED).await;
            // What comes later is not the whole share.
            let dropped = store.0.lock().filling.get_mut(&id).and_then(Option::take);
            drop(dropped);
        });
    }

    /// Makes a table visible, with the rows that were added. Another one of its name is dropped if it may be
    /// replaced.
    ///
    /// # Errors
    /// If there is one that may not, or this worker has no share.
    pub(crate) fn publish(&self, table: TableInfo, replaces: bool) -> Result<()> {
        let mut state = self.0.lock();
        match state.tables.get(&table.name).map(|share| share.info.table.asked) {
            Some(_) if !replaces => return exec_err!("resident table '{}' exists already", table.name),
            Some(asked) if asked > table.asked => {
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
        let mut state = self.0.lock();
        let is_it = |share: &Arc<Share>| id.is_none_or(|id| share.info.table.id == id);
        let dropped = if state.tables.get(name).is_some_and(is_it) { state.tables.remove(name) } else { None };
        drop(state);
        drop(dropped);
    }

    pub(crate) fn list(&self) -> Vec<ShareInfo> {
        self.0.lock().tables.values().map(|share| share.info.clone()).collect()
    }

    /// Returns the share of the table with this id.
    ///
    /// # Errors
    /// If the worker does not have it.
    pub(crate) fn share(&self, name: &str, id: &str) -> Result<Arc<Share>> {
        let share = self.0.lock().tables.get(name).filter(|share| share.info.table.id == id).map(Arc::clone);
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
    use super::*;

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
