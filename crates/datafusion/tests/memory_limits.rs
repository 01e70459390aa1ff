//! Joins in pools of any size: an answer is right or refused, and nothing is left.

mod common;

use std::{num::NonZeroUsize, sync::Arc};

use annulus_datafusion::SessionStateBuilderExt;
use common::{eventually, lines};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{
        SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_plan::{collect, displayable},
    prelude::{SessionConfig, SessionContext},
};

/// A query whose join needs memory.
struct Case {
    query: &'static str,
    /// The operator, which is also the name under which it reserves memory.
    operator: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        query: "SELECT count(*), sum(a.v), min(b.s) FROM t AS a JOIN t AS b ON a.k = b.k AND a.v <> b.v",
        operator: "SharedHashJoinExec",
    },
    Case {
        query: "SELECT count(b.s), sum(a.v), min(b.s) FROM t AS a LEFT JOIN t AS b ON a.k = b.v AND a.s = b.s",
        operator: "SharedHashJoinExec",
    },
    Case {
        query: "SELECT count(*), sum(a.v), min(b.s) FROM t AS a JOIN t AS b ON a.v BETWEEN b.v AND b.v + 2",
        operator: "BandJoinExec",
    },
    Case {
        query: "SELECT count(b.v), max(a.v) FROM t AS a FULL JOIN t AS b ON a.v < b.k - 998",
        operator: "BandJoinExec",
    },
];
const ROWS: usize = 3000;

/// Returns a session with the table `t` of [`ROWS`] rows, which takes about 300 KB.
async fn session(pool: Arc<dyn MemoryPool>, partitions: usize, disk: DiskManagerMode) -> SessionContext {
    let disk = DiskManagerBuilder::default().with_mode(disk);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk).build_arc().unwrap();
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(256);
    let config = config.with_sort_spill_reservation_bytes(1 << 12);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config).with_runtime_env(runtime);
    let session = SessionContext::new_with_state(builder.with_annulus().build());
    let table = format!(
        "CREATE TABLE t AS SELECT value AS v, value * 31 % 1009 AS k, 'text of row ' || value || repeat('.', 40) AS s \
         FROM range({ROWS})"
    );
    for statement in [&table, "SET annulus.joins = 'always'"] {
        session.sql(statement).await.unwrap().collect().await.unwrap();
    }
    session
}

/// Returns the answer to a query, whose plan must have this operator.
async fn answer(session: &SessionContext, query: &str, operator: &str) -> Result<Vec<String>> {
    let plan = session.sql(query).await?.create_physical_plan().await?;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains(operator), "{query}\n{shown}");
    Ok(lines(&collect(plan, session.task_ctx()).await?))
}

fn is_refusal(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

fn pool(bytes: usize, is_fair: bool) -> Arc<dyn MemoryPool> {
    let most = NonZeroUsize::new(3).unwrap();
    if is_fair {
        Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), most))
    } else {
        Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(bytes), most))
    }
}

async fn expected(case: &Case) -> Vec<String> {
    let session = session(Arc::new(UnboundedMemoryPool::default()), 2, DiskManagerMode::Disabled).await;
    answer(&session, case.query, case.operator).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_disk_a_join_is_refused_and_named() {
    for case in &CASES {
        for (partitions, is_fair) in [(1, false), (1, true), (4, false), (4, true)] {
            let pool = pool(100_000, is_fair);
            let session = session(Arc::clone(&pool), partitions, DiskManagerMode::Disabled).await;
            let error = answer(&session, case.query, case.operator).await.unwrap_err();
            assert!(is_refusal(&error), "{}: {error}", case.query);
            assert!(error.to_string().contains(case.operator), "{}: {error}", case.query);
            eventually("nothing is reserved", || pool.reserved() == 0).await;
        }
    }
}

/// A band join's refusal names the disk. With it, a query runs in a pool in which it was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_remedy_of_a_band_joins_refusal_helps() {
    for case in CASES.iter().filter(|case| case.operator == "BandJoinExec") {
        let (expected, mut helped) = (expected(case).await, false);
        for bytes in [100_000, 200_000, 300_000, 400_000, 500_000] {
            let refusing = session(pool(bytes, false), 1, DiskManagerMode::Disabled).await;
            let Err(error) = answer(&refusing, case.query, case.operator).await else { break };
            assert!(is_refusal(&error) && error.to_string().contains("enable the disk manager"), "{error}");
            let session = session(pool(bytes, false), 1, DiskManagerMode::OsTmpDirectory).await;
            match answer(&session, case.query, case.operator).await {
                Ok(found) => assert_eq!(found, expected, "{bytes} bytes, {}", case.query),
                Err(error) => {
                    assert!(is_refusal(&error), "{error}");
                    continue;
                }
            }
            helped = true;
        }
        assert!(helped, "{}", case.query);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_right_or_refused_in_any_pool() {
    for case in &CASES {
        let expected = expected(case).await;
        let mut answered = 0;
        for (at, bytes) in (15..24).map(|power| 3 << (power - 1)).enumerate() {
            let (partitions, is_fair) = ([1, 2, 4][at % 3], at % 2 == 0);
            let (pool, folder) = (pool(bytes, is_fair), tempfile::tempdir().unwrap());
            let disk = DiskManagerMode::Directories(vec![folder.path().to_owned()]);
            let session = session(Arc::clone(&pool), partitions, disk).await;
            match answer(&session, case.query, case.operator).await {
                Ok(found) => {
                    assert_eq!(found, expected, "{bytes} bytes, {}", case.query);
                    answered += 1;
                }
                Err(error) if is_refusal(&error) => {}
                Err(error) => panic!("{bytes} bytes, {}: {error}", case.query),
            }
            eventually("nothing is reserved", || pool.reserved() == 0).await;
            drop(session);
            let is_empty = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
            eventually("no file is left", is_empty).await;
        }
        // The largest pool has room for the whole join.
        assert!(answered > 0, "{}", case.query);
    }
}
