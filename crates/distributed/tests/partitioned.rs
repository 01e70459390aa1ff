//! Workers read partitioned tables by whole partitions. Joins and groupings on the key have the answers of one process,
//! and send no rows between workers.

mod common;

use std::{env, path::Path};

use annulus_datafusion::register_dataset;
use annulus_dataset::{CancelToken, InputOptions, JobSpec, NoProgress, OutputFormat, OutputOptions, split};
use annulus_distributed::{Connections, ResidentStatement, ResidentTables};
use common::{Cluster, analyzed, annulus, rows};
use datafusion::{prelude::SessionContext, sql::sqlparser::dialect::GenericDialect};

/// Hash joins are partitioned, however small their sides are.
const PARTITIONED: [(&str, &str); 2] = [
    ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
];

/// Queries of the tables `a`, `b` and `c`, whose key is `KEY`, and of `p` and `one`, which have no partitions.
const QUERIES: &[&str] = &[
    "SELECT KEY, count(*), sum(v), min(t) FROM a GROUP BY KEY",
    "SELECT k, t, count(*), sum(v) FROM a GROUP BY k, t",
    "SELECT DISTINCT KEY FROM a WHERE v % 3 = 0",
    "SELECT KEY, count(DISTINCT v % 7) FROM a GROUP BY KEY HAVING count(*) > 2",
    "SELECT count(*), sum(v), max(t) FROM a",
    "SELECT count(*), sum(n) FROM (SELECT KEY, count(*) AS n FROM a GROUP BY KEY)",
    "SELECT v % 5, count(*) FROM a GROUP BY v % 5",
    "SELECT a.v, b.v FROM a JOIN b ON a.KEY = b.KEY WHERE b.v % 2 = 0",
    "SELECT a.KEY, sum(b.v), count(*) FROM a JOIN b ON a.KEY = b.KEY GROUP BY a.KEY",
    "SELECT a.KEY, sum(b.v) FROM a LEFT JOIN b ON a.KEY = b.KEY AND b.v > 40 GROUP BY a.KEY",
    "SELECT b.KEY, sum(a.v) FROM a RIGHT JOIN b ON a.KEY = b.KEY GROUP BY b.KEY",
    "SELECT a.v, b.v FROM a FULL JOIN b ON a.KEY = b.KEY",
    "SELECT v FROM a WHERE KEY IN (SELECT KEY FROM b WHERE v < 30)",
    "SELECT v FROM a WHERE KEY NOT IN (SELECT KEY FROM b WHERE v < 90 AND KEY IS NOT NULL)",
    "SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.KEY = a.KEY AND b.v < 60)",
    "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.KEY = a.KEY) OR v % 9 = 2",
    "SELECT x.KEY, count(*) FROM a x JOIN a y ON x.KEY = y.KEY GROUP BY x.KEY",
    "SELECT a.v, b.v FROM a JOIN b ON a.KEY = b.KEY AND a.v % 3 = b.v % 3",
    "SELECT a.v, b.v FROM a JOIN b ON a.v = b.v",
    "SELECT a.v, max(b.v), max(c.v) FROM a JOIN b ON a.KEY = b.KEY JOIN c ON b.KEY = c.KEY GROUP BY a.v",
    "SELECT a.KEY, max(c.v) FROM a LEFT JOIN b ON a.KEY = b.KEY FULL JOIN c ON a.KEY = c.KEY GROUP BY a.KEY",
    "SELECT a.KEY, p.v, count(*) FROM a JOIN p ON a.KEY = p.KEY GROUP BY a.KEY, p.v",
    "SELECT a.v, p.v FROM p FULL JOIN a ON a.KEY = p.KEY",
    "SELECT p.v, a.v FROM p LEFT JOIN a ON a.KEY = p.KEY",
    "SELECT v FROM p WHERE KEY IN (SELECT KEY FROM a)",
    "SELECT v FROM p WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.KEY = p.KEY)",
    "SELECT a.KEY, max(p.v), max(b.v) FROM a JOIN p ON a.KEY = p.KEY LEFT JOIN b ON b.KEY = p.KEY GROUP BY a.KEY",
    "SELECT a.v, max(p.v) FROM (SELECT KEY, max(v) AS v FROM a GROUP BY KEY) a JOIN p ON a.KEY = p.KEY GROUP BY a.v",
    "SELECT one.v, a.v FROM one JOIN a ON one.KEY = a.KEY",
    "SELECT one.v, count(a.v) FROM one LEFT JOIN a ON one.KEY = a.KEY GROUP BY one.v",
    "SELECT a.KEY, count(*) FROM a, one WHERE a.v < one.v GROUP BY a.KEY",
    "SELECT a.KEY, count(*) FROM a LEFT JOIN one ON a.v BETWEEN one.v - 2 AND one.v + 2 GROUP BY a.KEY",
    "SELECT KEY, v, row_number() OVER (PARTITION BY KEY ORDER BY v) FROM a",
    "SELECT KEY, v, sum(v) OVER (PARTITION BY KEY ORDER BY v ROWS 2 PRECEDING), max(v) OVER () FROM a",
    "SELECT KEY, v FROM (SELECT KEY, v, rank() OVER (PARTITION BY KEY ORDER BY v DESC) AS r FROM a) WHERE r < 3",
    "SELECT KEY, sum(n) FROM (SELECT KEY, count(*) n FROM a GROUP BY KEY UNION ALL SELECT KEY, count(*) FROM b
     GROUP BY KEY) GROUP BY KEY",
    "SELECT KEY, sum(v) FROM (SELECT KEY, v FROM a UNION ALL SELECT KEY, v FROM b UNION ALL SELECT KEY, v FROM p)
     GROUP BY KEY",
    "SELECT KEY, sum(n) FROM (SELECT KEY, count(*) n FROM a GROUP BY KEY UNION ALL SELECT KEY, count(*) FROM p
     GROUP BY KEY) GROUP BY KEY",
    "SELECT KEY, count(*) FROM a GROUP BY KEY UNION ALL SELECT KEY, sum(v) FROM b GROUP BY KEY",
    "SELECT u.KEY, count(*) FROM (SELECT KEY FROM a UNION ALL SELECT KEY FROM p) u JOIN b ON u.KEY = b.KEY
     GROUP BY u.KEY",
    "SELECT KEY FROM a INTERSECT SELECT KEY FROM b",
    "SELECT KEY FROM a EXCEPT SELECT KEY FROM b",
    "SELECT KEY FROM a UNION SELECT KEY FROM b",
    "SELECT KEY, n FROM (SELECT KEY, count(*) n FROM a GROUP BY KEY) ORDER BY n DESC, KEY LIMIT 5",
    "SELECT v FROM a ORDER BY v DESC LIMIT 7",
    "SELECT count(*) FROM (SELECT KEY, count(*) FROM a GROUP BY KEY LIMIT 5)",
    "SELECT a.KEY, (SELECT max(v) FROM b) AS m, count(*) FROM a GROUP BY a.KEY",
    "SELECT a.v, b.v FROM (a ASOF JOIN b MATCH_CONDITION (a.v >= b.v) ON a.KEY = b.KEY)",
    "SELECT a.v, p.v FROM (a ASOF JOIN p MATCH_CONDITION (a.v >= p.v) ON a.KEY = p.KEY)",
    "SELECT a.KEY, count(*) FROM a JOIN b ON a.KEY = b.KEY WHERE a.KEY IS NULL OR b.v < 0 GROUP BY a.KEY",
];

/// The keys of tables, as numbers, texts, decimals and dictionaries.
const KEYS: [&str; 4] = ["k", "t", "d", "g"];

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    /// Returns a number from 0 to `end`, without `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Writes `rows` rows with a key of each type, of about `keys` values and null, and a number that is another one in
/// each row. Without keys, all are null.
async fn write(folder: &Path, name: &str, rows: u64, keys: u64, files: u64) {
    let context = annulus();
    for file in 0..files {
        let (first, end) = (rows * file / files, rows * (file + 1) / files);
        let key = format!("CASE WHEN value % 19 = 3 OR {keys} = 0 THEN NULL ELSE value * 7919 % {} END", keys.max(1));
        let query = format!(
            "SELECT k, 'the key ' || k AS t, CAST(k AS DECIMAL(12, 2)) / 4 AS d,
             arrow_cast('g' || k, 'Dictionary(Int32, Utf8)') AS g, v FROM (SELECT {key} AS k, value AS v
             FROM range({first}, {end}))"
        );
        let path = folder.join(format!("{name}/{file}.parquet"));
        let copy = format!("COPY ({query}) TO '{}' STORED AS PARQUET", path.display());
        context.sql(&copy).await.unwrap().collect().await.unwrap();
    }
}

/// Partitions the table `name` below `folder` into the folder of the same name with `-parts`.
fn partition(folder: &Path, name: &str, key: &str, into: usize, format: OutputFormat) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut spec =
        JobSpec::new(vec![path(&format!("{name}/"))], OutputOptions::new(path(&format!("{name}-parts")), format));
    spec.by = vec![key.to_owned()];
    spec.into = Some(into);
    spec.memory_limit = 64 << 20;
    split(&spec.plan().unwrap(), &NoProgress, &CancelToken::new()).unwrap();
}

/// Registers the tables of a test. Those that are partitioned have the names of their folders.
async fn register(context: &SessionContext, folder: &Path) {
    for (name, path) in [("a", "a-parts"), ("b", "b-parts"), ("c", "c-parts"), ("p", "p/"), ("one", "one/")] {
        let path = folder.join(path);
        if path.exists() {
            let path = path.display().to_string();
            register_dataset(context, name, &path, &InputOptions::default()).await.unwrap();
        }
    }
}

async fn set(context: &SessionContext, key: &str, value: &str) {
    context.sql(&format!("SET {key} = '{value}'")).await.unwrap();
}

/// Random numbers of partitions, workers and threads, keys, formats and options. `ANNULUS_PARTITIONED_ROUNDS` sets the
/// number of rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_one_process() {
    let numbers = &mut Numbers(5);
    let clusters = [Cluster::start(2).await, Cluster::start(3).await, Cluster::start(4).await];
    let rounds = env::var("ANNULUS_PARTITIONED_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let key = KEYS[round % KEYS.len()];
        let into = [1 + numbers.below(9), 2 + numbers.below(6)];
        for name in ["a", "b", "c"] {
            let (size, keys) = (numbers.one_of(&[3, 200, 700]), numbers.one_of(&[0, 2, 40, 300]));
            write(folder, name, size, keys, 1).await;
            let into = into[if numbers.below(4) == 0 { 1 } else { 0 }] as usize;
            partition(folder, name, key, into, numbers.one_of(&[OutputFormat::Parquet, OutputFormat::Ipc]));
        }
        write(folder, "p", 90, 50, 4).await;
        write(folder, "one", 8, 5, 1).await;
        let here = annulus();
        register(&here, folder).await;
        set(&here, "annulus.partitioned_tables", "false").await;
        let options = [
            ("annulus.joins", "always"),
            ("annulus.joins", "never"),
            ("annulus.strategy", "stock"),
            ("annulus.cyclo_join", "always"),
            ("annulus.partitioned_tables", "false"),
            ("datafusion.optimizer.prefer_hash_join", "false"),
            ("datafusion.optimizer.prefer_existing_union", "true"),
            ("datafusion.optimizer.repartition_joins", "false"),
            ("distributed.broadcast_joins", "false"),
            ("distributed.children_isolator_unions", "false"),
            ("distributed.partial_reduce", "true"),
        ];
        let threads = numbers.one_of(&["2", "3", "4"]);
        let mut settings = vec![("datafusion.execution.target_partitions", threads)];
        settings.extend(options.into_iter().filter(|_| numbers.below(6) == 0));
        if numbers.below(3) > 0 {
            settings.push(("datafusion.optimizer.preserve_file_partitions", "1"));
        }
        if numbers.below(2) == 0 {
            settings.extend(PARTITIONED);
        }
        let cluster = &clusters[numbers.below(3) as usize];
        let there = cluster.session(&settings).await;
        register(&there, folder).await;
        for query in QUERIES {
            let query = query.replace("KEY", key);
            let expected = rows(&here, &query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
            let why = format!("round {round}, {into:?}, {settings:?}: {query}");
            let found = rows(&there, &query).await.unwrap_or_else(|error| panic!("{why}: {error}"));
            assert!(found == expected, "{why}: {} rows, not {}", found.len(), expected.len());
        }
    }
}

/// Tables with as many partitions, and one without.
async fn tables(folder: &Path, format: OutputFormat) {
    for name in ["a", "b", "c"] {
        write(folder, name, 5000, 900, 1).await;
        partition(folder, name, "k", 5, format);
    }
    write(folder, "p", 2000, 900, 4).await;
}

/// The number of lines of a plan with `name`.
fn count(plan: &str, name: &str) -> usize {
    plan.lines().filter(|line| line.contains(name)).count()
}

/// However small a side is. Rows go to the coordinator alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_and_groupings_on_the_key_send_only_results() {
    let cluster = Cluster::start(4).await;
    for format in [OutputFormat::Parquet, OutputFormat::Ipc] {
        let folder = tempfile::tempdir().unwrap();
        tables(folder.path(), format).await;
        for settings in [&PARTITIONED[..], &[]] {
            let context = cluster.session(settings).await;
            register(&context, folder.path()).await;
            for query in [
                "SELECT k, count(*), sum(v) FROM a GROUP BY k",
                "SELECT a.k, sum(b.v) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
                "SELECT count(*), sum(n) FROM (SELECT a.k, sum(b.v) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k)",
                "SELECT a.v, b.v, c.v FROM a JOIN b ON a.k = b.k FULL JOIN c ON c.k = b.k WHERE a.v < 500",
                "SELECT v FROM a WHERE k IN (SELECT k FROM b WHERE v < 100)",
                "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v) FROM a",
                "SELECT k, sum(v) FROM (SELECT k, v FROM a UNION ALL SELECT k, v FROM b) GROUP BY k",
            ] {
                let plan = analyzed(&context, query).await;
                assert_eq!(count(&plan, "Network"), 1, "{query}: {plan}");
                assert!(plan.contains("NetworkCoalesceExec") && plan.contains("input_tasks=4"), "{query}: {plan}");
                assert!(plan.contains("output_partitioning=Hash([k@0], 5)"), "{query}: {plan}");
                assert_eq!(count(&plan, "InTurnExec: partitions=5, at_a_time=3"), 1, "{query}: {plan}");
            }
        }
    }
}

/// Rows of a table that is not partitioned go to the tasks whose partitions they meet. Those of the table stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_other_side_is_exchanged() {
    let cluster = Cluster::start(4).await;
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), OutputFormat::Parquet).await;
    let context = cluster.session(&PARTITIONED).await;
    register(&context, folder.path()).await;
    let here = annulus();
    register(&here, folder.path()).await;
    let queries = [
        "SELECT a.k, sum(p.v) FROM a JOIN p ON a.k = p.k GROUP BY a.k",
        "SELECT a.k, max(p.v), max(b.v) FROM a JOIN p ON a.k = p.k LEFT JOIN b ON b.k = p.k GROUP BY a.k",
        "SELECT p.v, a.v FROM p LEFT JOIN a ON a.k = p.k WHERE p.v < 300",
    ];
    for query in queries {
        let plan = analyzed(&context, query).await;
        assert_eq!(count(&plan, "TaskPartitionsExec: partitions=5, tasks=4"), 1, "{query}: {plan}");
        assert_eq!(count(&plan, "Network"), 2, "{query}: {plan}");
        assert_eq!(rows(&context, query).await.unwrap(), rows(&here, query).await.unwrap(), "{query}");
    }
    // With task counts that are found while a query runs, exchanges do not follow.
    set(&context, "distributed.dynamic_task_count", "true").await;
    for query in queries {
        let plan = analyzed(&context, query).await;
        assert!(!plan.contains("output_partitioning") && count(&plan, "NetworkShuffle") > 1, "{query}: {plan}");
        assert_eq!(rows(&context, query).await.unwrap(), rows(&here, query).await.unwrap(), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_whose_partitions_are_of_no_use_are_read_by_several_tasks() {
    let cluster = Cluster::start(4).await;
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), OutputFormat::Parquet).await;
    let context = cluster.session(&PARTITIONED).await;
    register(&context, folder.path()).await;
    let on_the_key = "SELECT k, count(*) FROM a GROUP BY k";
    for query in
        ["SELECT v % 5, count(*) FROM a GROUP BY v % 5", "SELECT a.v, b.v FROM a JOIN b ON a.v = b.v", on_the_key]
    {
        if query == on_the_key {
            set(&context, "annulus.partitioned_tables", "false").await;
        }
        let plan = analyzed(&context, query).await;
        assert!(!plan.contains("output_partitioning") && plan.contains("input_tasks=4"), "{query}: {plan}");
        assert!(plan.contains("NetworkShuffleExec"), "{query}: {plan}");
    }
}

/// A resident table is divided otherwise, even by the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resident_tables_are_exchanged() {
    let cluster = Cluster::start(3).await;
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path(), OutputFormat::Parquet).await;
    let context = cluster.session(&PARTITIONED).await;
    register(&context, folder.path()).await;
    let resident = ResidentTables::new(cluster.workers.clone(), Connections::default());
    resident.install(&context).unwrap();
    let create = "CREATE RESIDENT TABLE b PARTITIONED BY (k) AS SELECT * FROM b";
    let create = ResidentStatement::parse(create, &GenericDialect {}).unwrap().unwrap();
    resident.run(&context, create).await.unwrap();
    for query in [
        "SELECT a.k, sum(b.v) FROM a JOIN B b ON a.k = b.k GROUP BY a.k",
        "SELECT a.v, b.v FROM B b LEFT JOIN a ON a.k = b.k WHERE b.v < 900",
    ] {
        let there = query.replace("B b", "resident.b b");
        let plan = analyzed(&context, &there).await;
        assert_eq!(count(&plan, "TaskPartitionsExec: partitions=5, tasks=3"), 1, "{query}: {plan}");
        assert_eq!(rows(&context, &there).await.unwrap(), rows(&context, query).await.unwrap(), "{query}");
    }
}
