//! DataFusion sessions, stock or with Annulus, within the same limits.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use annulus_datafusion::{AnnulusConfig, SessionStateBuilderExt as _};
use annulus_distributed::SessionStateBuilderExt as _;
use anyhow::{Context, Result};
use datafusion::{
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{FairSpillPool, TrackConsumersPool},
        object_store::ObjectStoreRegistry,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::{SessionConfig, SessionContext},
};

use crate::{cluster::Remote, units::Setting};

/// The engine of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Stock,
    Annulus,
}

/// The limits of a query on either engine; `None` keeps DataFusion's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The number of partitions of a plan.
    pub target_partitions: Option<usize>,
    /// The memory for operators.
    pub memory_bytes: Option<usize>,
    /// The disk space for spilled rows.
    pub disk_bytes: Option<usize>,
}

/// The number of memory consumers listed in an error about exhausted memory.
const LISTED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Returns a new session with its own runtime, which spills to the folder `spill`. `stores`
/// replaces the default object stores. The queries of Annulus run on the workers of `remote`, if
/// there are any.
pub fn open(
    engine: Engine,
    limits: Limits,
    spill: &Path,
    mut config: SessionConfig,
    stores: Option<Arc<dyn ObjectStoreRegistry>>,
    remote: Option<&Remote>,
) -> Result<SessionContext> {
    if let Some(partitions) = limits.target_partitions {
        config = config.with_target_partitions(partitions);
    }
    if let Some(retries) = remote.and_then(|remote| remote.retries) {
        let extensions = &mut config.options_mut().extensions;
        let annulus = extensions.get::<AnnulusConfig>().cloned().unwrap_or_default();
        extensions.insert(AnnulusConfig { retries, ..annulus });
    }
    // A folder means all files below it, including those in the folders of hosts.
    config.options_mut().execution.listing_table_ignore_subdirectory = false;
    let runtime = runtime(limits.memory_bytes, limits.disk_bytes, spill, stores)?;
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let state = match (engine, remote) {
        (Engine::Stock, _) => state,
        (Engine::Annulus, None) => state.with_annulus(),
        (Engine::Annulus, Some(Remote { workers, connections, .. })) => {
            state.with_annulus_workers(workers.clone(), connections.clone())
        }
    };
    Ok(SessionContext::new_with_state(state.build()))
}

/// Returns a runtime with this much memory for operators, which spills at most `disk_bytes` to the folder
/// `spill`. `stores` replaces the default object stores.
pub fn runtime(
    memory_bytes: Option<usize>,
    disk_bytes: Option<usize>,
    spill: &Path,
    stores: Option<Arc<dyn ObjectStoreRegistry>>,
) -> Result<Arc<RuntimeEnv>> {
    let mut disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![spill.to_owned()]));
    if let Some(bytes) = disk_bytes {
        disk.set_max_temp_directory_size(bytes as u64);
    }
    let mut runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(bytes) = memory_bytes {
        let pool = TrackConsumersPool::new(FairSpillPool::new(bytes), LISTED_CONSUMERS);
        runtime = runtime.with_memory_pool(Arc::new(pool));
    }
    if let Some(stores) = stores {
        runtime = runtime.with_object_store_registry(stores);
    }
    Ok(runtime.build_arc()?)
}

/// Sets options with the SQL statement `SET`, which also knows those of the runtime and of Annulus.
pub async fn set_options(ctx: &SessionContext, settings: &[Setting]) -> Result<()> {
    for (key, value) in settings {
        let statement = format!("SET {key} = '{}'", value.replace('\'', "''"));
        ctx.sql(&statement).await.with_context(|| format!("--set {key}={value} (SHOW ALL lists the options)"))?;
    }
    Ok(())
}
