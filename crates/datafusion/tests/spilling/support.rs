//! Random tables, and sessions with little memory.

use std::{path::Path, sync::Arc};

use annulus_datafusion::{SessionStateBuilderExt, SharedHashJoinExec};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use datafusion::{
    common::{
        JoinType,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::MemTable,
    execution::{
        SessionStateBuilder, TaskContext,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::MemoryPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::ExecutionPlan,
    prelude::{SessionConfig, SessionContext},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use crate::common::{JOINS, Plan, Step, batch, context, eventually, run, scripted, within};

pub use crate::common::peak::PeakPool;

/// Returns a runtime on this pool, with a disk.
pub fn runtime(pool: Arc<dyn MemoryPool>) -> Arc<RuntimeEnv> {
    RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap()
}

/// The keys of a table.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub rows: usize,
    /// The number of different keys.
    pub most: i64,
    /// The share of rows that have key 0.
    pub hot: f64,
    /// The share of null keys.
    pub null: f64,
}

/// Returns a table with keys of several types, and a number that is different in each row.
pub fn table(random: &mut StdRng, keys: Keys) -> RecordBatch {
    let key = |random: &mut StdRng| {
        if random.random_bool(keys.null) {
            return None;
        }
        Some(if random.random_bool(keys.hot) { 0 } else { random.random_range(0..keys.most) })
    };
    let numbers: Vec<Option<i64>> = (0..keys.rows).map(|_| key(random)).collect();
    let text = |n: &Option<i64>| n.map(|n| format!("a rather long text {n}"));
    let columns: [(&str, ArrayRef); 6] = [
        ("i", Arc::new(Int64Array::from(numbers.clone()))),
        ("n", Arc::new((0..keys.rows).map(|_| Some(random.random_range(0..20))).collect::<Int64Array>())),
        ("s", Arc::new(numbers.iter().map(text).collect::<StringViewArray>())),
        ("t", Arc::new(numbers.iter().map(|n| n.map(|n| n.to_string())).collect::<StringArray>())),
        ("f", Arc::new(numbers.iter().map(|n| n.map(|n| n as f64)).collect::<Float64Array>())),
        ("r", Arc::new(Int64Array::from_iter_values(0..keys.rows as i64))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

/// Cuts a table into partitions of batches of random lengths.
pub fn partitions(random: &mut StdRng, table: &RecordBatch, most_rows: usize) -> Vec<Vec<RecordBatch>> {
    let mut parts = vec![Vec::new(); random.random_range(1..4)];
    let mut at = 0;
    while at < table.num_rows() {
        let rows = random.random_range(1..=most_rows).min(table.num_rows() - at);
        let part = random.random_range(0..parts.len());
        parts[part].push(table.slice(at, rows));
        at += rows;
    }
    parts
}

pub type Tables = Vec<(&'static str, Vec<Vec<RecordBatch>>)>;

/// Returns a session with these tables: DataFusion's own, or on a runtime and with Annulus.
pub async fn session(ours: Option<Arc<RuntimeEnv>>, batch_rows: usize, tables: &Tables) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(3).with_batch_size(batch_rows);
    // Sorts would not begin in a tiny pool.
    config.options_mut().execution.sort_spill_reservation_bytes = 0;
    let mut builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let is_ours = ours.is_some();
    if let Some(runtime) = ours {
        builder = builder.with_runtime_env(runtime).with_annulus();
    }
    let context = SessionContext::new_with_state(builder.build());
    for (name, parts) in tables {
        let schema = parts.iter().flatten().next().map(RecordBatch::schema).unwrap();
        context.register_table(*name, Arc::new(MemTable::try_new(schema, parts.clone()).unwrap())).unwrap();
    }
    if is_ours {
        context.sql("SET annulus.joins = 'always'").await.unwrap();
    }
    context
}

/// Returns the joins of Annulus in a plan.
pub fn joins(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let mut joins = Vec::new();
    plan.apply(|node| {
        if node.is::<SharedHashJoinExec>() {
            joins.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    joins
}

/// Returns the sum of a metric over these operators, 0 if none has it.
pub fn metric(plans: &[Arc<dyn ExecutionPlan>], name: &str) -> usize {
    let of =
        |plan: &Arc<dyn ExecutionPlan>| Some(plan.metrics()?.sum(|metric| metric.value().name() == name)?.as_usize());
    plans.iter().filter_map(of).sum()
}

/// A runtime with little memory, and what is watched of it.
pub struct Watched {
    pub runtime: Arc<RuntimeEnv>,
    pub pool: Arc<PeakPool>,
    dir: TempDir,
}

impl Watched {
    pub fn new(bytes: usize) -> Self {
        Self::with_disk(bytes, u64::MAX)
    }

    pub fn with_disk(bytes: usize, disk_bytes: u64) -> Self {
        let (pool, dir) = (PeakPool::new(bytes), TempDir::new().unwrap());
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![dir.path().to_owned()]))
            .with_max_temp_directory_size(disk_bytes);
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _).with_disk_manager_builder(disk);
        Self { runtime: runtime.build_arc().unwrap(), pool, dir }
    }

    pub fn context(&self) -> Arc<TaskContext> {
        context(Arc::clone(&self.runtime), 100)
    }

    /// Expects that all memory is given back, and all files are gone.
    pub async fn expect_nothing(&self) {
        eventually("nothing is reserved", || self.runtime.memory_pool.reserved() == 0).await;
        eventually("no file is left", || files(self.dir.path()) == 0).await;
        assert_eq!(self.runtime.disk_manager.used_disk_space(), 0);
    }
}

/// Returns the number of files in a folder and those within it.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

/// Returns the rows of all partitions in order.
pub fn sorted(partitions: Vec<Vec<String>>) -> Vec<String> {
    let mut rows = partitions.concat();
    rows.sort_unstable();
    rows
}

/// Inputs of a join, one of which fails.
pub struct Failing {
    /// The partitions of the build side and of the probe side, of which the second one fails.
    pub inputs: [i64; 2],
    /// The batches of a partition, and the rows of a batch.
    pub batches: (usize, i64),
    /// The memory pool in bytes.
    pub pool: usize,
}

impl Failing {
    /// Expects that each of 40 joins ends with the error or the panic of an input, which comes after
    /// any number of batches, and leaves nothing.
    pub async fn expect_nothing_left(&self, join: impl Fn((Plan, Plan), JoinType) -> Plan) {
        let mut random = StdRng::seed_from_u64(5);
        for case in 0..40 {
            let (of_build, at) = (case % 2 == 0, random.random_range(0..self.batches.0));
            let bad = if case % 3 == 0 { Step::Panic } else { Step::Error };
            let [build, probe] = [(self.inputs[0], of_build), (self.inputs[1], !of_build)]
                .map(|(inputs, fails)| self.side(inputs, fails.then(|| (at, bad.clone()))));
            let watched = Watched::new(self.pool);
            let ours = join((build, probe), JOINS[case % JOINS.len()]);
            let context = watched.context();
            let task = tokio::spawn(async move { run(ours, &context).await });
            match within("the error", task).await {
                Ok(result) => {
                    let error = result.expect_err("an input fails").to_string();
                    assert!(error.contains("scripted"), "{error}");
                }
                // A panic of the probe side is the stream's own.
                Err(error) => assert!(error.is_panic() && !of_build, "{error}"),
            }
            watched.expect_nothing().await;
        }
    }

    /// Returns a side. With `bad`, its second partition has this step in the place of a batch.
    fn side(&self, inputs: i64, bad: Option<(usize, Step)>) -> Plan {
        let (batches, rows) = self.batches;
        let steps = |input: i64| {
            let at = |index| (input * batches as i64 + index) * rows;
            let batches = (0..batches as i64).map(|index| Step::Batch(batch(at(index), rows)));
            let mut steps: Vec<_> = batches.flat_map(|batch| [batch, Step::Yield]).collect();
            if let Some((at, bad)) = bad.clone().filter(|_| input == 1) {
                steps[2 * at] = bad;
            }
            steps
        };
        scripted((0..inputs).map(steps).collect()).0
    }
}
