//! Tables that stay in the memory of the workers.

mod common;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use annulus_distributed::{Connections, ResidentStatement, ResidentTables, Workers};
use common::{Cluster, analyzed, register, rows, stock, write_tables};
use datafusion::{
    execution::{
        memory_pool::{GreedyMemoryPool, MemoryPool, TrackConsumersPool},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionContext,
    sql::sqlparser::dialect::GenericDialect,
};
use tempfile::TempDir;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

async fn tables() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    folder
}

/// A session, and its resident tables.
async fn session(cluster: &Cluster, folder: &TempDir, settings: &[(&str, &str)]) -> (SessionContext, ResidentTables) {
    let session = cluster.session(settings).await;
    register(&session, folder.path()).await;
    let tables = ResidentTables::new(cluster.workers.clone(), Connections::default());
    tables.install(&session).unwrap();
    (session, tables)
}

async fn run((session, tables): &(SessionContext, ResidentTables), text: &str) -> Result<String, String> {
    let statement = ResidentStatement::parse(text, &GenericDialect {}).unwrap().unwrap();
    let done = async { tables.run(session, statement).await?.to_string().await };
    timeout(LONG, done).await.expect("it ends").map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_read_where_they_are() {
    let folder = tables().await;
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[]).await;
    let made = run(&many, "CREATE RESIDENT TABLE b PARTITIONED BY (k) AS SELECT * FROM big").await.unwrap();
    assert!(made.contains("20000"), "{made}");
    run(&many, "CREATE RESIDENT TABLE s AS SELECT k, g, name FROM small WHERE g < 4").await.unwrap();
    let shown = run(&many, "SHOW RESIDENT TABLES").await.unwrap();
    for part in ["| b ", "complete", "20000", "SELECT * FROM big", "| s "] {
        assert!(shown.contains(part), "{shown}");
    }
    for query in [
        "SELECT k, count(*), sum(id), min(t) FROM BIG GROUP BY k",
        "SELECT count(*), max(t), sum(x) FROM BIG WHERE n > 10",
        "SELECT id, n FROM BIG ORDER BY id DESC LIMIT 7",
        "SELECT b.id, s.name FROM BIG b JOIN SMALL s ON b.k = s.k",
        "SELECT b.id, s.name FROM BIG b LEFT JOIN small s ON b.k = s.k AND s.g < 3",
        "SELECT b.id, s.k FROM big b FULL JOIN SMALL s ON b.id > s.k * 20 AND b.id < s.k * 20 + 9",
        "SELECT count(*) FROM BIG a JOIN BIG b ON a.id BETWEEN b.id - 1 AND b.id + 1",
        "SELECT s.k FROM SMALL s WHERE NOT EXISTS (SELECT 1 FROM BIG b WHERE b.k = s.k)",
        "SELECT k FROM BIG UNION SELECT k FROM SMALL",
        "SELECT b.id FROM (SELECT * FROM BIG ORDER BY id LIMIT 3) b, SMALL s",
    ] {
        let here = query.replace("BIG", "big").replace("SMALL", "(SELECT k, g, name FROM small WHERE g < 4)");
        let there = query.replace("BIG", "resident.b").replace("SMALL", "resident.s");
        let expected = rows(&one, &here).await.unwrap();
        for setting in ["auto", "always", "never"] {
            let set = format!("SET annulus.cyclo_join = '{setting}'");
            many.0.sql(&set).await.unwrap();
            let found = timeout(LONG, rows(&many.0, &there)).await.unwrap();
            let found = found.unwrap_or_else(|error| panic!("{setting}: {there}: {error}"));
            assert!(found == expected, "{setting}: {there}: {} and {} rows", found.len(), expected.len());
        }
    }
    // Another session sees them, and a session without workers has its rows, too.
    let other = session(&cluster, &folder, &[("distributed.file_scan_config_bytes_per_partition", "100000000")]).await;
    assert_eq!(rows(&other.0, "SELECT count(*) FROM resident.b").await.unwrap(), ["20000"]);
    // The result of a join is a table.
    let joined = "CREATE RESIDENT TABLE j AS SELECT b.id, s.g FROM resident.b b JOIN resident.s s ON b.k = s.k";
    run(&many, joined).await.unwrap();
    let expected =
        rows(&one, "SELECT s.g, count(*) FROM big b JOIN small s ON b.k = s.k WHERE g < 4 GROUP BY s.g").await;
    assert_eq!(rows(&many.0, "SELECT g, count(*) FROM resident.j GROUP BY g").await.unwrap(), expected.unwrap());
    for (statement, error) in [
        ("CREATE RESIDENT TABLE b AS SELECT 1 AS one", "exists already"),
        ("CREATE RESIDENT TABLE c PARTITIONED BY (nothing) AS SELECT * FROM small", "no column 'nothing'"),
        ("CREATE RESIDENT TABLE c AS SELECT * FROM nowhere", "nowhere"),
        ("DROP RESIDENT TABLE c", "no resident table 'c'"),
    ] {
        let found = run(&many, statement).await.unwrap_err();
        assert!(found.contains(error), "{found}");
    }
    run(&many, "CREATE RESIDENT TABLE IF NOT EXISTS b AS SELECT 1 AS one").await.unwrap();
    run(&many, "CREATE OR REPLACE RESIDENT TABLE s AS SELECT * FROM small LIMIT 5").await.unwrap();
    assert_eq!(rows(&many.0, "SELECT count(*) FROM resident.s").await.unwrap(), ["5"]);
    run(&many, "DROP RESIDENT TABLE b").await.unwrap();
    assert!(rows(&many.0, "SELECT count(*) FROM resident.b").await.is_err());
}

/// Returns the value of a metric of the join around the ring.
fn metric(plan: &str, name: &str) -> f64 {
    let line = plan.lines().find(|line| line.contains("CycloJoinExec")).unwrap_or_else(|| panic!("{plan}"));
    let value = line.split(&format!("{name}=")).nth(1).unwrap().split([',', ']']).next().unwrap().to_owned();
    let digits: String = value.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let unit = match value[digits.len()..].trim() {
        "s" => 1e9,
        "ms" => 1e6,
        "µs" => 1e3,
        _ => 1.0,
    };
    digits.parse::<f64>().unwrap() * unit
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_join_has_prepared_serves_the_next_one() {
    let folder = tables().await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[("annulus.cyclo_join", "always")]).await;
    let large = "SELECT a.id * 50 + s.g AS k, a.t FROM big a CROSS JOIN (SELECT g FROM small LIMIT 10) s";
    run(&many, &format!("CREATE RESIDENT TABLE b PARTITIONED BY (k) AS {large}")).await.unwrap();
    let query = "SELECT count(*), min(b.t) FROM resident.b b JOIN small s ON b.k BETWEEN s.k * 20 - 9 AND s.k * 20 + 9";
    let first = analyzed(&many.0, query).await;
    let second = analyzed(&many.0, query).await;
    for plan in [&first, &second] {
        assert!(plan.contains("revolutions=3") && metric(plan, "stationary_rows") > 0.0, "{plan}");
        // It did not travel, and was not read again.
        assert!(metric(plan, "read_time") < 1000.0, "{plan}");
    }
    // A join that only looks the same is another one.
    for (text, expected) in [("concat(b.t, 'a', 'b')", "9"), ("concat(b.t, 'a, b')", "11")] {
        let query =
            format!("SELECT max(length({text})) FROM resident.b b JOIN small s ON b.k = s.k AND length({text}) > s.g");
        assert_eq!(rows(&many.0, &query).await.unwrap(), [expected], "{text}");
    }
    for column in ["s.g", "s.k", "length(s.name)"] {
        let query =
            format!("SELECT count(*) FROM resident.b b JOIN (SELECT {column} AS x FROM small s) s ON b.k < s.x");
        rows(&many.0, &query).await.unwrap_or_else(|error| panic!("{column}: {error}"));
    }
    let setup = [&first, &second].map(|plan| metric(plan, "setup_time"));
    // Sorting 200,000 rows takes many times as long as looking them up.
    assert!(setup[1] < setup[0] / 10.0, "{setup:?}: {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_fit_is_refused_and_leaves_nothing() {
    let folder = tables().await;
    let pools: Vec<Arc<dyn MemoryPool>> = (0..3)
        .map(|_| Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(2_000_000), NonZeroUsize::MIN)) as _)
        .collect();
    let runtime = |worker: usize| -> Arc<RuntimeEnv> {
        Arc::new(RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pools[worker])).build().unwrap())
    };
    let cluster = Cluster::start_with(3, runtime).await;
    let many = session(&cluster, &folder, &[]).await;
    let large = "SELECT a.*, s.g FROM big a CROSS JOIN (SELECT g FROM small LIMIT 20) s";
    let error = run(&many, &format!("CREATE RESIDENT TABLE b PARTITIONED BY (id) AS {large}")).await.unwrap_err();
    assert!(error.contains("does not fit in the memory of worker 127.0.0.1"), "{error}");
    assert!(!run(&many, "SHOW RESIDENT TABLES").await.unwrap().contains("| b "));
    let free = async |most: usize| {
        let freed = async {
            while pools.iter().any(|pool| pool.reserved() > most) {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, freed).await.expect("memory is given back");
    };
    // The engine keeps the plans of a query that failed for a while, and its cross join a few rows.
    let few = 10_000;
    free(few).await;
    run(&many, "CREATE RESIDENT TABLE b PARTITIONED BY (id) AS SELECT id, k FROM big").await.unwrap();
    assert!(pools.iter().all(|pool| pool.reserved() > 50_000));
    run(&many, "DROP RESIDENT TABLE b").await.unwrap();
    free(few).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_worker_is_gone_is_lost() {
    let folder = tables().await;
    let mut cluster = Cluster::start(2).await;
    let third = Cluster::start(1).await;
    let urls = cluster.workers.urls().iter().chain(third.workers.urls());
    let all: Vec<String> = urls.map(annulus_distributed::address_of).collect();
    cluster.workers = Workers::new(&all).unwrap();
    let many = session(&cluster, &folder, &[]).await;
    run(&many, "CREATE RESIDENT TABLE s PARTITIONED BY (k) AS SELECT * FROM small").await.unwrap();
    drop(third);
    // Its server ends a moment later.
    let noticed = async {
        while !run(&many, "SHOW RESIDENT TABLES").await.unwrap().contains("lost") {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, noticed).await.unwrap();
    let lost = timeout(LONG, rows(&many.0, "SELECT sum(k) FROM resident.s")).await.unwrap().unwrap_err().to_string();
    assert!(lost.contains("2 of 3 shares") && lost.contains("SELECT * FROM small"), "{lost}");
    // It can be dropped from those that are there.
    assert!(run(&many, "DROP RESIDENT TABLE s").await.is_err());
    assert!(!run(&many, "SHOW RESIDENT TABLES").await.unwrap().contains("| s "));
    // With the workers that are left, it is made again.
    cluster.workers = Workers::new(&all[..2]).unwrap();
    let fewer = session(&cluster, &folder, &[]).await;
    run(&fewer, "CREATE OR REPLACE RESIDENT TABLE s PARTITIONED BY (k) AS SELECT * FROM small").await.unwrap();
    assert_eq!(rows(&fewer.0, "SELECT count(*) FROM resident.s").await.unwrap(), ["501"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_at_once_share_a_table() {
    let folder = tables().await;
    let cluster = Cluster::start(3).await;
    let many = session(&cluster, &folder, &[("annulus.cyclo_join", "always")]).await;
    run(&many, "CREATE RESIDENT TABLE b PARTITIONED BY (k) AS SELECT * FROM big").await.unwrap();
    let query =
        "SELECT s.g, count(*) FROM resident.b b JOIN small s ON b.id BETWEEN s.k * 9 AND s.k * 9 + 20 GROUP BY s.g";
    let expected = rows(&many.0, query).await.unwrap();
    let all = futures::future::join_all((0..8).map(|_| rows(&many.0, query)));
    for found in timeout(LONG, all).await.unwrap() {
        assert_eq!(found.unwrap(), expected);
    }
}
