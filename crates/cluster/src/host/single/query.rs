//! The session and the tables of a join.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_datafusion::{AnnulusConfig, DatasetTable, Joins, SessionStateBuilderExt};
use annulus_join::{Side, Sides};
use datafusion::{
    catalog::TableProvider,
    error::DataFusionError,
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::FairSpillPool,
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::ExecutionPlan,
    prelude::{SessionConfig, SessionContext},
};

use crate::{
    control::{Single, Task},
    host::{load::HostInput, memory::pool_bytes},
};

/// Returns a session with Annulus, which spills to `scratch`. With `is_reduced`, predicates drop
/// rows of the build side, so that keys of the probe side are looked up before its other columns
/// are read.
pub(super) fn session(
    task: &Task,
    single: Single,
    is_reduced: bool,
    scratch: &Path,
) -> Result<SessionContext, DataFusionError> {
    let mut config = SessionConfig::new().with_target_partitions(task.threads());
    let options = config.options_mut();
    // The plan decides about the build side.
    options.optimizer.join_reordering = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = single.key_filter;
    options.execution.parquet.pushdown_filters = single.key_filter && is_reduced;
    options.execution.parquet.schema_force_view_types = true;
    options.extensions.insert(AnnulusConfig {
        joins: Joins::Always,
        // A file for each thread, however many partitions the tables have.
        partitioned_tables: false,
        ..AnnulusConfig::default()
    });
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![scratch.to_owned()]));
    let mut runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(limit) = task.resources.memory_bytes {
        let bytes = pool_bytes(limit).try_into().unwrap_or(usize::MAX);
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    }
    let state =
        SessionStateBuilder::new().with_config(config).with_runtime_env(runtime.build_arc()?).with_default_features();
    Ok(SessionContext::new_with_state(state.with_annulus().build()))
}

/// Both sides of a join as tables.
pub(super) struct Tables(Sides<Table>);

struct Table {
    table: Arc<DatasetTable>,
    bytes: u64,
    /// The rows, if all files state them.
    rows: Option<u64>,
}

impl Tables {
    /// Adds the number of rows that cannot be read to `rows_bad`.
    pub(super) fn new(sides: Sides<HostInput>, config: &SessionConfig, rows_bad: &Arc<AtomicU64>) -> Self {
        Self(sides.map(|HostInput { dataset, .. }| {
            let (bytes, rows) = (dataset.total_bytes, dataset.units.iter().map(|unit| unit.rows()).sum());
            let rows_bad = Arc::clone(rows_bad);
            let count = move |_: &str, rows| {
                rows_bad.fetch_add(rows, Relaxed);
            };
            Table { table: Arc::new(DatasetTable::new(dataset, config).on_skipped(count)), bytes, rows }
        }))
    }

    pub(super) fn providers(&self) -> Sides<Arc<dyn TableProvider>> {
        self.0.as_ref().map(|table| Arc::clone(&table.table) as _)
    }

    /// Returns the side whose table `plan` scans.
    pub(super) fn side_of(&self, plan: &dyn ExecutionPlan) -> Option<Side> {
        Side::BOTH.into_iter().find(|&side| self.0[side].table.is_scanned_by(plan))
    }

    /// Returns the bytes of a side's files that `rows` rows take, or `bytes` if the files do not
    /// state their rows.
    pub(super) fn bytes_of(&self, side: Side, rows: u64, bytes: u64) -> u64 {
        let table = &self.0[side];
        match table.rows {
            Some(all) => (u128::from(table.bytes) * u128::from(rows) / u128::from(all.max(1))) as u64,
            None => bytes,
        }
        .min(table.bytes)
    }
}
