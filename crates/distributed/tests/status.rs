//! What a worker shows of itself: to probes, to Prometheus, and to people.

mod common;

use std::{sync::Arc, time::Duration};

use annulus_distributed::{
    AnnulusWorker, Connections, Server, SessionStateBuilderExt, StatusServer, WorkerFiles, WorkerReport, Workers,
    address_of,
};
use common::{Cluster, register, rows, write_tables};
use datafusion::{
    execution::{SessionStateBuilder, runtime_env::RuntimeEnv},
    prelude::{SessionConfig, SessionContext},
};
use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

const LONG: Duration = Duration::from_secs(60);
const LARGE: &str = "SELECT a.id, b.id FROM big a JOIN big b ON a.n = b.n";

/// A worker with a status server. The session runs its queries there, and on another one.
struct Shown {
    session: SessionContext,
    status: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
    _others: (JoinSet<()>, Cluster),
}

async fn shown(folder: &std::path::Path, most: usize) -> Shown {
    let worker = AnnulusWorker::with_limits(
        Arc::new(RuntimeEnv::default()),
        Connections::default(),
        WorkerFiles::default(),
        most,
    );
    let status = StatusServer::bind("127.0.0.1:0", worker.status()).await.unwrap();
    let address = status.address().unwrap().to_string();
    let server = Server::bind("127.0.0.1:0", worker).await.unwrap();
    let other = Cluster::start(1).await;
    let addresses = [server.address().unwrap().to_string(), address_of(&other.workers.urls()[0])];
    let workers = Workers::new(addresses).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stopped = async { stopped.await.unwrap_or_default() };
        server.serve(stopped, LONG).await.unwrap()
    });
    let mut showing = JoinSet::new();
    showing.spawn(async { status.serve().await.unwrap() });
    let config = SessionConfig::new().with_target_partitions(3);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let state = builder.with_annulus_workers(workers, Connections::default()).build();
    let session = SessionContext::new_with_state(state);
    // Tests read the first rows of queries that run.
    for (key, value) in [("distributed.file_scan_config_bytes_per_partition", "1"), ("annulus.retries", "0")] {
        session.sql(&format!("SET {key} = '{value}'")).await.unwrap();
    }
    register(&session, folder).await;
    Shown { session, status: address, stop, serving, _others: (showing, other) }
}

/// Returns the status code, and the body.
async fn get(address: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    let answer = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(LONG, answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn report(address: &str) -> WorkerReport {
    serde_json::from_str(&get(address, "/status.json").await.1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_shows_its_queries() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let Shown { session, status, stop, serving, _others } = shown(folder.path(), usize::MAX).await;
    assert_eq!(get(&status, "/healthz").await.0, 200);
    assert_eq!(get(&status, "/readyz").await.0, 200);
    assert_eq!(get(&status, "/elsewhere").await.0, 404);
    assert!(get(&status, "/").await.1.contains("<title>Annulus workers</title>"));
    assert!(report(&status).await.queries.is_empty());
    let mut running = session.sql(LARGE).await.unwrap().execute_stream().await.unwrap();
    running.next().await.unwrap().unwrap();
    let seen = report(&status).await;
    assert!(seen.ready && seen.queries.len() == 1 && seen.queries_total == 1, "{seen:?}");
    // The first rows of the answer may come from another worker.
    let scanning = async {
        loop {
            let seen = report(&status).await;
            let operators = seen.queries[0].plans.iter().flat_map(|task| &task.operators);
            let mut scans = operators.filter(|operator| operator.text.starts_with("DataSourceExec"));
            if scans.any(|scan| scan.depth > 0 && scan.metrics["output_rows"] > 0.0) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, scanning).await.expect("a scan counts its rows");
    // A worker that stops is not ready, but is there until its queries have ended.
    stop.send(()).unwrap();
    let stopping = async {
        while get(&status, "/readyz").await.0 != 503 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, stopping).await.unwrap();
    assert_eq!(get(&status, "/healthz").await.0, 200);
    drop(running);
    assert!(timeout(LONG, serving).await.unwrap().unwrap());
    let after = report(&status).await;
    assert!(after.queries.is_empty() && !after.ready, "{after:?}");
    let metrics = get(&status, "/metrics").await.1;
    for line in ["annulus_ready 0.0", "annulus_queries_total 1", "annulus_queries_running 0.0", "# EOF"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let scanned = metrics.lines().find(|line| {
        line.starts_with("annulus_operator_total")
            && line.contains("DataSourceExec")
            && line.contains("\"output_rows\"")
    });
    let scanned: f64 = scanned.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(scanned > 0.0, "what ended queries have counted is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_refuses_more_queries_than_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let Shown { session, status, stop: _stop, serving: _serving, _others } = shown(folder.path(), 1).await;
    let mut running = session.sql(LARGE).await.unwrap().execute_stream().await.unwrap();
    running.next().await.unwrap().unwrap();
    let query = "SELECT n, count(*) FROM big GROUP BY n";
    let refused = timeout(LONG, rows(&session, query)).await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("runs 1 queries already") && refused.contains("worker 127.0.0.1"), "{refused}");
    drop(running);
    let free = async {
        while !report(&status).await.queries.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, free).await.unwrap();
    assert_eq!(rows(&session, query).await.unwrap().len(), 51);
    assert!(report(&status).await.refused_total > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_at_the_status_port_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let Shown { session, status, stop: _stop, serving: _serving, _others } = shown(folder.path(), usize::MAX).await;
    let mut strangers = Vec::new();
    for number in 0..50 {
        let mut stream = TcpStream::connect(&status).await.unwrap();
        let bytes: &[u8] = match number % 3 {
            0 => b"",
            1 => b"\x16\x03\x01 garbage \r\n\r\n",
            _ => b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n",
        };
        stream.write_all(bytes).await.ok();
        strangers.push(stream);
    }
    assert_eq!(get(&status, "/healthz").await.0, 200);
    assert_eq!(rows(&session, "SELECT n, count(*) FROM big GROUP BY n").await.unwrap().len(), 51);
    drop(strangers);
}
