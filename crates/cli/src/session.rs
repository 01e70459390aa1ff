//! DataFusion sessions, stock or with Annulus, within the same limits.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use annulus_datafusion::SessionStateBuilderExt;
use anyhow::{Context, Result};
use datafusion::{
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{FairSpillPool, TrackConsumersPool},
        object_store::ObjectStoreRegistry,
        runtime_env::RuntimeEnvBuilder,
    },
    prelude::{SessionConfig, SessionContext},
};

use crate::units;

/// Who repartitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Stock,
    Annulus,
}

/// What bounds a query, on every engine; `None` leaves DataFusion's default.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Limits {
    /// Partitions that the optimizer aims at [default: the number of cores]
    #[arg(long, value_name = "P", value_parser = units::parse_count)]
    pub target_partitions: Option<usize>,
    /// Memory for sorts, joins and aggregates, like 512M or 2G, before they spill or fail; what is
    /// read and on its way comes on top [default: no limit]
    #[arg(long = "memory-limit", value_name = "SIZE", value_parser = units::parse_size)]
    pub memory_bytes: Option<usize>,
}

/// Consumers of memory that an error about exhausted memory lists.
const LISTED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// A fresh session with a runtime of its own, which spills to the folder `spill`. `stores` replaces
/// the default object stores.
pub fn open(
    engine: Engine,
    limits: Limits,
    spill: &Path,
    mut config: SessionConfig,
    stores: Option<Arc<dyn ObjectStoreRegistry>>,
) -> Result<SessionContext> {
    if let Some(partitions) = limits.target_partitions {
        config = config.with_target_partitions(partitions);
    }
    // A folder stands for all files below it, as those that hosts have written.
    config.options_mut().execution.listing_table_ignore_subdirectory = false;
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![spill.to_owned()]));
    let mut runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(bytes) = limits.memory_bytes {
        let pool = TrackConsumersPool::new(FairSpillPool::new(bytes), LISTED_CONSUMERS);
        runtime = runtime.with_memory_pool(Arc::new(pool));
    }
    if let Some(stores) = stores {
        runtime = runtime.with_object_store_registry(stores);
    }
    let state =
        SessionStateBuilder::new().with_config(config).with_runtime_env(runtime.build_arc()?).with_default_features();
    let state = match engine {
        Engine::Stock => state,
        Engine::Annulus => state.with_annulus(),
    };
    Ok(SessionContext::new_with_state(state.build()))
}

/// Sets options as the SQL statement `SET` does, so that those of the runtime and of Annulus are
/// known too.
pub async fn set_options(ctx: &SessionContext, settings: &[(String, String)]) -> Result<()> {
    for (key, value) in settings {
        let statement = format!("SET {key} = '{}'", value.replace('\'', "''"));
        ctx.sql(&statement).await.with_context(|| format!("--set {key}={value} (SHOW ALL lists the options)"))?;
    }
    Ok(())
}
