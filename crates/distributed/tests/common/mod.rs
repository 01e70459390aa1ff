//! Workers in this process, and tables that they read.
#![allow(dead_code)]

pub mod gate;

use std::{future::pending, path::Path, sync::Arc, time::Duration};

use annulus_distributed::{AnnulusWorker, Connections, Roots, Server, SessionStateBuilderExt, WorkerFiles, Workers};
use annulus_roundabout::secure::Identity;
use datafusion::{
    arrow::{
        array::RecordBatch,
        util::display::{ArrayFormatter, FormatOptions},
    },
    error::Result,
    execution::{SessionStateBuilder, runtime_env::RuntimeEnv},
    prelude::{SessionConfig, SessionContext},
};
use tokio::task::JoinSet;

/// Workers that end when this is dropped.
pub struct Cluster {
    pub workers: Workers,
    _serving: JoinSet<()>,
}

impl Cluster {
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, |_| Arc::new(RuntimeEnv::default())).await
    }

    pub async fn start_with(count: usize, runtime: impl Fn(usize) -> Arc<RuntimeEnv>) -> Self {
        Self::start_as((0..count).map(|number| (runtime(number), None))).await
    }

    /// Starts workers whose rings use connections, although they are on one machine.
    pub async fn start_apart(count: usize) -> Self {
        let workers = (0..count).map(|_| (Arc::default(), None));
        Self::start_all(workers, |connections| connections.with_shared_memory(false)).await
    }

    /// Starts a worker for each runtime, and each identity.
    pub async fn start_as(workers: impl IntoIterator<Item = (Arc<RuntimeEnv>, Option<Identity>)>) -> Self {
        Self::start_all(workers, |connections| connections).await
    }

    async fn start_all(
        workers: impl IntoIterator<Item = (Arc<RuntimeEnv>, Option<Identity>)>,
        configure: impl Fn(Connections) -> Connections,
    ) -> Self {
        let (mut addresses, mut serving) = (Vec::new(), JoinSet::new());
        let read = Roots::new(&[std::env::temp_dir()]).unwrap();
        for (runtime, identity) in workers {
            let files = WorkerFiles { read: read.clone(), ..WorkerFiles::default() };
            let connections = configure(connections(identity.clone()));
            let worker = AnnulusWorker::with_limits(runtime, connections, files, usize::MAX);
            let mut server = Server::bind("127.0.0.1:0", worker).await.unwrap();
            if let Some(identity) = identity {
                server = server.with_identity(identity);
            }
            addresses.push(server.address().unwrap().to_string());
            serving.spawn(async move {
                server.serve(pending(), Duration::ZERO).await.unwrap();
            });
        }
        Self { workers: Workers::new(addresses).unwrap(), _serving: serving }
    }

    /// Returns a session whose queries run on the workers, however small its tables are.
    pub async fn session(&self, settings: &[(&str, &str)]) -> SessionContext {
        self.session_of(None, settings).await
    }

    /// Returns such a session, which connects as this member.
    pub async fn session_of(&self, identity: Option<Identity>, settings: &[(&str, &str)]) -> SessionContext {
        let builder = SessionStateBuilder::new().with_default_features().with_config(config());
        let state = builder.with_annulus_workers(self.workers.clone(), connections(identity)).build();
        let context = SessionContext::new_with_state(state);
        let tiny = [("distributed.file_scan_config_bytes_per_partition", "1")];
        for (key, value) in tiny.iter().chain(settings) {
            context.sql(&format!("SET {key} = '{value}'")).await.unwrap();
        }
        context
    }
}

fn connections(identity: Option<Identity>) -> Connections {
    identity.into_iter().fold(Connections::default(), Connections::with_identity)
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(3).with_information_schema(true)
}

/// Returns a session of DataFusion alone.
pub fn stock() -> SessionContext {
    SessionContext::new_with_config(config())
}

/// Returns a session of Annulus in this process.
pub fn annulus() -> SessionContext {
    use annulus_datafusion::SessionStateBuilderExt;
    let builder = SessionStateBuilder::new().with_default_features().with_config(config());
    SessionContext::new_with_state(builder.with_annulus().build())
}

/// Writes tables below `folder`: `big` has several files, `small` and `none` one each.
pub async fn write_tables(folder: &Path) {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let write = async |query: &str, file: &str| {
        let path = folder.join(file);
        let copy = format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display());
        context.sql(&copy).await.unwrap().collect().await.unwrap();
    };
    for part in 0..5 {
        let query = format!(
            "SELECT value AS id, value * 37 % 1009 AS k, CASE WHEN value % 11 = 0 THEN NULL ELSE value % 50 END AS n, \
             concat('text ', value % 23) AS t, value / 8.0 AS x FROM generate_series({}, {})",
            part * 4000,
            part * 4000 + 3999
        );
        write(&query, &format!("big/{part}.parquet")).await;
    }
    let small = "SELECT value AS k, value % 5 AS g, concat('name ', value) AS name FROM generate_series(0, 1500, 3)";
    write(small, "small/0.parquet").await;
    write("SELECT value AS k, value AS n FROM generate_series(1, 1) WHERE value > 1", "none/0.parquet").await;
}

pub async fn register(context: &SessionContext, folder: &Path) {
    register_all(context, folder, &["big", "small", "none"]).await;
}

/// Registers the tables of these names below `folder`.
pub async fn register_all(context: &SessionContext, folder: &Path, names: &[&str]) {
    for &name in names {
        let path = folder.join(name).display().to_string();
        context.register_parquet(name, path, Default::default()).await.unwrap();
    }
}

/// Returns the rows of an answer as text, sorted.
pub async fn rows(context: &SessionContext, query: &str) -> Result<Vec<String>> {
    let batches = context.sql(query).await?.collect().await?;
    Ok(as_text(&batches))
}

/// Returns the rows as lines, sorted.
pub fn as_text(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
            values.join("|")
        }));
    }
    rows.sort_unstable();
    rows
}

/// Returns the plan and its metrics, from all workers.
pub async fn analyzed(context: &SessionContext, query: &str) -> String {
    let batches = context.sql(&format!("EXPLAIN ANALYZE {query}")).await.unwrap().collect().await.unwrap();
    as_text(&batches).join("\n")
}
