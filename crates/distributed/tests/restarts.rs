//! A worker that is lost costs time, and never the query.

mod common;

use std::{
    future::pending,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use annulus_distributed::{
    AnnulusWorker, Connections, ResidentStatement, ResidentTables, Server, SessionStateBuilderExt, WorkerError,
    WorkerErrorKind, WorkerReport, WorkerStatus, Workers,
};
use common::{
    analyzed,
    gate::{Gate, Passage},
    register, rows, stock, write_tables,
};
use datafusion::{
    execution::{
        SessionStateBuilder,
        memory_pool::GreedyMemoryPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::{SessionConfig, SessionContext},
    sql::sqlparser::dialect::GenericDialect,
};
use futures::StreamExt;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

/// The longest time for what should take a moment.
const LONG: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(2);

/// Workers behind gates.
struct Gated {
    gates: Vec<Gate>,
    status: Vec<WorkerStatus>,
    stops: Vec<Option<oneshot::Sender<()>>>,
    connections: Connections,
    _serving: JoinSet<()>,
}

impl Gated {
    async fn start(count: usize) -> Self {
        let connections = Connections::new(SILENCE);
        let (mut gates, mut status, mut stops, mut serving) = (Vec::new(), Vec::new(), Vec::new(), JoinSet::new());
        for _ in 0..count {
            let worker = AnnulusWorker::new(Arc::new(RuntimeEnv::default()), Connections::new(SILENCE));
            status.push(worker.status());
            let server = Server::bind("127.0.0.1:0", worker).await.unwrap().with_silence(SILENCE);
            gates.push(Gate::before(server.address().unwrap().to_string()).await);
            let (stop, stopped) = oneshot::channel::<()>();
            stops.push(Some(stop));
            let stopped = async {
                if stopped.await.is_err() {
                    pending::<()>().await;
                }
            };
            serving.spawn(async move {
                server.serve(stopped, LONG).await.unwrap();
            });
        }
        Self { gates, status, stops, connections, _serving: serving }
    }

    fn workers(&self) -> Workers {
        Workers::new(self.gates.iter().map(|gate| &gate.address)).unwrap()
    }

    async fn session(&self, folder: &Path, settings: &[(&str, &str)]) -> SessionContext {
        self.session_within(Arc::default(), folder, settings).await
    }

    async fn session_within(
        &self,
        runtime: Arc<RuntimeEnv>,
        folder: &Path,
        settings: &[(&str, &str)],
    ) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(3).with_information_schema(true);
        let builder = SessionStateBuilder::new().with_default_features().with_config(config).with_runtime_env(runtime);
        // Each session learns by itself which workers are lost.
        let connections = Connections::new(SILENCE);
        let session = SessionContext::new_with_state(builder.with_annulus_workers(self.workers(), connections).build());
        let tiny = [("distributed.file_scan_config_bytes_per_partition", "1")];
        for (key, value) in tiny.iter().chain(settings) {
            session.sql(&format!("SET {key} = '{value}'")).await.unwrap();
        }
        register(&session, folder).await;
        session
    }

    fn report(&self, worker: usize) -> WorkerReport {
        self.status[worker].report()
    }

    /// Waits until no worker has anything of a query.
    async fn wait_until_idle(&self) {
        let idle = async {
            while (0..self.status.len()).any(|worker| !self.report(worker).queries.is_empty()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, idle).await.expect("tasks are left");
    }

    fn open_all(&self) {
        self.gates.iter().for_each(|gate| gate.set(Passage::Open));
    }
}

async fn tables() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    folder
}

const AROUND: (&str, &str) = ("annulus.cyclo_join", "always");
const GROUPED: &str = "SELECT k, count(*), sum(id), min(t) FROM big GROUP BY k";
const QUERIES: &[&str] = &[
    GROUPED,
    "SELECT * FROM big",
    "SELECT b.id, s.name FROM big b JOIN small s ON b.k = s.k WHERE b.id % 3 = 0",
    "SELECT id, x FROM big ORDER BY x DESC, id LIMIT 25",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_at_any_moment_costs_no_query() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Gated::start(4).await;
    for (settings, queries) in [
        (&[][..], QUERIES),
        (
            &[AROUND],
            &[
                "SELECT s.g, count(*), sum(b.id) FROM big b JOIN small s ON b.k BETWEEN s.k - 1 AND s.k + 1 \
             GROUP BY s.g",
                "SELECT b.id, s.k FROM big b FULL JOIN small s ON b.id > s.k * 20 AND b.id < s.k * 20 + 9",
            ],
        ),
        (&[("distributed.dynamic_task_count", "true")], &[GROUPED]),
    ] {
        for (number, query) in queries.iter().enumerate() {
            let expected = rows(&one, query).await.unwrap();
            // Before it can answer, while it gets plans, while rows are sent, and never.
            for (moment, bytes) in [0, 40, 300, 2_000, 10_000, 60_000, 10_000_000].into_iter().enumerate() {
                let session = cluster.session(folder.path(), settings).await;
                let victim = &cluster.gates[(number + moment) % 4];
                victim.cut_after(bytes);
                let found = timeout(LONG, rows(&session, query)).await.expect(query);
                let found = found.unwrap_or_else(|error| panic!("{query}, {bytes} bytes: {error}"));
                assert!(found == expected, "{query}, {bytes} bytes: {} and {} rows", found.len(), expected.len());
                // The next query of the session does without it.
                assert_eq!(timeout(LONG, rows(&session, query)).await.expect(query).unwrap(), expected);
                cluster.open_all();
                cluster.wait_until_idle().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_frozen_is_found_by_its_silence() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let expected = rows(&one, GROUPED).await.unwrap();
    let cluster = Gated::start(3).await;
    for settings in [&[][..], &[AROUND]] {
        let session = cluster.session(folder.path(), settings).await;
        assert_eq!(rows(&session, GROUPED).await.unwrap(), expected);
        cluster.gates[1].set(Passage::Frozen);
        let start = Instant::now();
        assert_eq!(timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap(), expected);
        assert!(start.elapsed() >= SILENCE / 2, "it was not asked");
        cluster.open_all();
        cluster.wait_until_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_five_workers_and_all_of_them_cost_no_query() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let expected = rows(&one, GROUPED).await.unwrap();
    for (workers, lost, retries) in [(5, 2, "2"), (3, 3, "3")] {
        let cluster = Gated::start(workers).await;
        for bytes in [0, 500] {
            let session = cluster.session(folder.path(), &[("annulus.retries", retries)]).await;
            // It knows that there are workers.
            assert_eq!(rows(&session, GROUPED).await.unwrap(), expected);
            cluster.gates[..lost].iter().for_each(|gate| gate.cut_after(bytes));
            assert_eq!(timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap(), expected, "{lost} of {workers}");
            assert_eq!(timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap(), expected, "after that");
            cluster.open_all();
            cluster.wait_until_idle().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_retries_the_error_names_the_worker() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let session = cluster.session(folder.path(), &[("annulus.retries", "0")]).await;
    cluster.gates[2].set(Passage::Cut);
    let error = timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap_err();
    let found = WorkerError::find_in(&error).unwrap();
    assert_eq!((found.address.as_str(), found.kind), (cluster.gates[2].address.as_str(), WorkerErrorKind::Lost));
    // Rows come as they are found: the first ones before the last ones are sent.
    cluster.open_all();
    let query = "SELECT a.id, b.id FROM big a JOIN big b ON a.n = b.n";
    let mut running = session.sql(query).await.unwrap().execute_stream().await.unwrap();
    running.next().await.unwrap().unwrap();
    assert!((0..3).any(|worker| !cluster.report(worker).queries.is_empty()), "it has ended already");
    drop(running);
    cluster.wait_until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_query_is_not_repeated() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let session = cluster.session(folder.path(), &[]).await;
    for query in ["SELECT k, sum(1 / (n - n)) FROM big GROUP BY k", "SELECT k, max(cast(t AS int)) FROM big GROUP BY k"]
    {
        let before: Vec<_> = (0..3).map(|worker| cluster.report(worker).queries_total).collect();
        let error = timeout(LONG, rows(&session, query)).await.unwrap().unwrap_err().to_string();
        assert!(!error.contains("was started"), "{error}");
        cluster.wait_until_idle().await;
        let after: Vec<_> = (0..3).map(|worker| cluster.report(worker).queries_total).collect();
        assert!(
            before.iter().zip(&after).all(|(before, after)| before + 1 >= *after),
            "{query}: {before:?}, {after:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_cannot_be_saved_says_how_often_it_was_started() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let session = cluster.session(folder.path(), &[("annulus.retries", "1")]).await;
    rows(&session, GROUPED).await.unwrap();
    cluster.gates[0].cut_after(400);
    // It answers when it is asked, and is lost again when it works.
    let reopening = async {
        loop {
            cluster.gates[0].wait_until_cut().await;
            cluster.gates[0].set(Passage::Open);
            cluster.gates[0].cut_after(1200);
        }
    };
    let error = tokio::select! {
        found = timeout(LONG, rows(&session, GROUPED)) => found.unwrap(),
        () = reopening => unreachable!(),
    };
    // It may have been asked too late to take part again.
    if let Err(error) = error {
        assert!(error.to_string().contains("was started 2 times"), "{error}");
        assert_eq!(WorkerError::find_in(&error).unwrap().address, cluster.gates[0].address);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_operators_counted_is_shown_with_the_number_of_retries() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let session = cluster.session(folder.path(), &[]).await;
    let shown = analyzed(&session, GROUPED).await;
    assert!(shown.contains("RestartExec: limit=2") && shown.contains("retries=0"), "{shown}");
    assert!(shown.contains("DistributedExec") && shown.contains("Stage 1"), "{shown}");
    assert!(shown.contains("output_rows=20.00 K") || shown.contains("output_rows=20000"), "{shown}");
    cluster.gates[0].cut_after(700);
    let shown = analyzed(&session, GROUPED).await;
    assert!(shown.contains("retries=1") && shown.contains("Stage 1"), "{shown}");
    let verbose = session.sql(&format!("EXPLAIN ANALYZE VERBOSE {GROUPED}")).await.unwrap().collect().await.unwrap();
    let verbose = common::as_text(&verbose).join("\n");
    assert!(verbose.contains("Plan with Full Metrics") && verbose.contains("Output Rows|1009"), "{verbose}");
    // What is explained only has no such operator.
    let plan = session.sql(&format!("EXPLAIN {GROUPED}")).await.unwrap().collect().await.unwrap();
    assert!(!common::as_text(&plan).join("\n").contains("RestartExec"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_once() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let one = stock();
    register(&one, folder.path()).await;
    for (number, bytes) in [0, 500, 5_000, 40_000].into_iter().enumerate() {
        let session = cluster.session(folder.path(), &[]).await;
        for (format, options) in [("PARQUET", ""), ("CSV", "PARTITIONED BY (t)")] {
            let name = format!("out{number}-{format}");
            let target = folder.path().join(&name);
            cluster.gates[number % 3].cut_after(bytes);
            let copy =
                format!("COPY (SELECT id, k, t FROM big) TO '{}/' STORED AS {format} {options}", target.display());
            let counts = timeout(LONG, rows(&session, &copy)).await.unwrap().unwrap();
            assert_eq!(counts, ["20000"], "{copy}");
            cluster.open_all();
            let reads = if format == "CSV" { "OPTIONS ('format.has_header' 'true')" } else { "" };
            let table =
                format!("CREATE EXTERNAL TABLE \"{name}\" STORED AS {format} LOCATION '{}/' {reads}", target.display());
            one.sql(&table).await.unwrap();
            let found =
                rows(&one, &format!("SELECT count(*), count(DISTINCT id), sum(k) FROM \"{name}\"")).await.unwrap();
            assert_eq!(found, rows(&one, "SELECT count(*), count(DISTINCT id), sum(k) FROM big").await.unwrap());
        }
        cluster.wait_until_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_in_memory_are_held_on_disk() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let one = stock();
    register(&one, folder.path()).await;
    let query =
        "SELECT a.id, a.t, b.name FROM big a JOIN small s ON a.k = s.k JOIN small b ON s.g = b.g WHERE b.k < 60";
    let expected = rows(&one, query).await.unwrap();
    let pool = Arc::new(GreedyMemoryPool::new(4 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let session = cluster.session_within(Arc::clone(&runtime), folder.path(), &[]).await;
    cluster.gates[1].cut_after(100_000);
    assert!(timeout(LONG, rows(&session, query)).await.unwrap().unwrap() == expected);
    cluster.open_all();
    let shown = analyzed(&session, query).await;
    assert!(shown.contains("spill_count=1"), "{shown}");
    assert_eq!((runtime.memory_pool.reserved(), runtime.disk_manager.used_disk_space()), (0, 0), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_about_to_end_costs_no_retry() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let expected = rows(&one, GROUPED).await.unwrap();
    let mut cluster = Gated::start(4).await;
    // It keeps all workers from ending.
    let holding = cluster.session(folder.path(), &[("annulus.retries", "0")]).await;
    let query = "SELECT a.id, b.id FROM big a JOIN big b ON a.n = b.n";
    let mut running = holding.sql(query).await.unwrap().execute_stream().await.unwrap();
    running.next().await.unwrap().unwrap();
    let session = cluster.session(folder.path(), &[("annulus.retries", "1")]).await;
    for worker in 0..2 {
        cluster.stops[worker].take().unwrap().send(()).unwrap();
        let stopping = async {
            while cluster.report(worker).ready {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, stopping).await.unwrap();
    }
    assert_eq!(timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap(), expected);
    assert!((0..2).any(|worker| cluster.report(worker).refused_total > 0));
    let refused: u64 = (0..4).map(|worker| cluster.report(worker).refused_total).sum();
    // Now it is known.
    assert_eq!(timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap(), expected);
    assert_eq!((0..4).map(|worker| cluster.report(worker).refused_total).sum::<u64>(), refused);
    drop(running);
    cluster.wait_until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_never_answered_are_an_error() {
    let folder = tables().await;
    let cluster = Gated::start(2).await;
    cluster.gates.iter().for_each(|gate| gate.set(Passage::Cut));
    let session = cluster.session(folder.path(), &[]).await;
    for _ in 0..2 {
        let error = timeout(LONG, rows(&session, GROUPED)).await.unwrap().unwrap_err();
        assert_eq!(WorkerError::find_in(&error).unwrap().kind, WorkerErrorKind::Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_back_takes_part_again() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let workers = cluster.workers();
    let tasks = async |session: &SessionContext| {
        let plan = session.sql(&format!("EXPLAIN {GROUPED}")).await.unwrap().collect().await.unwrap();
        let text = common::as_text(&plan).join("\n");
        (1..=3).rev().find(|count| text.contains(&format!("tasks={count}"))).unwrap_or(0)
    };
    let session = {
        let builder = SessionStateBuilder::new().with_default_features();
        let config = SessionConfig::new().with_target_partitions(3);
        let state = builder.with_config(config).with_annulus_workers(workers.clone(), cluster.connections.clone());
        SessionContext::new_with_state(state.build())
    };
    session.sql("SET distributed.file_scan_config_bytes_per_partition = '1'").await.unwrap();
    register(&session, folder.path()).await;
    assert_eq!(tasks(&session).await, 3);
    cluster.gates[2].set(Passage::Cut);
    rows(&session, GROUPED).await.unwrap();
    assert_eq!(tasks(&session).await, 2);
    cluster.open_all();
    assert!(cluster.connections.survey(workers.urls()).await.iter().all(Result::is_ok));
    assert_eq!(tasks(&session).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resident_table_of_a_lost_worker_is_an_error() {
    let folder = tables().await;
    let cluster = Gated::start(3).await;
    let session = cluster.session(folder.path(), &[]).await;
    let tables = ResidentTables::new(cluster.workers(), Connections::new(SILENCE));
    tables.install(&session).unwrap();
    let text = "CREATE RESIDENT TABLE b PARTITIONED BY (k) AS SELECT * FROM big";
    let statement = ResidentStatement::parse(text, &GenericDialect {}).unwrap().unwrap();
    tables.run(&session, statement).await.unwrap();
    let query = session.sql("SELECT k, count(*) FROM resident.b GROUP BY k").await.unwrap();
    cluster.gates[1].set(Passage::Cut);
    let error = timeout(LONG, query.collect()).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("CREATE OR REPLACE RESIDENT TABLE b") && error.contains("lost"), "{error}");
}
