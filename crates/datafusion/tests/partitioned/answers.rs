//! Partitioned tables give the answers that they give when nothing is declared.

use annulus_dataset::{OutputFormat, PlacementSpec};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::support::{Tables, answer, by, plan, register, rows, session_with};

const QUERIES: [&str; 21] = [
    "SELECT k, count(*), sum(v), min(t) FROM a GROUP BY k",
    "SELECT t, count(*), sum(v) FROM a GROUP BY t",
    "SELECT k, t, count(*) FROM a GROUP BY k, t",
    "SELECT DISTINCT k FROM a WHERE v % 3 = 0",
    "SELECT k, count(DISTINCT t) FROM a GROUP BY k HAVING count(*) > 2",
    "SELECT count(*) FROM a WHERE k = 3",
    "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k WHERE b.v % 2 = 0",
    "SELECT a.k, sum(b.v), count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "SELECT a.k, sum(b.v) FROM a LEFT JOIN b ON a.k = b.k AND b.v > 40 GROUP BY a.k",
    "SELECT b.k, sum(a.v) FROM a RIGHT JOIN b ON a.k = b.k GROUP BY b.k",
    "SELECT a.v, b.v FROM a FULL JOIN b ON a.k = b.k WHERE a.v IS NULL OR b.v IS NULL OR a.v % 7 = 0",
    "SELECT v FROM a WHERE k IN (SELECT k FROM b WHERE v < 30)",
    "SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v < 60)",
    "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k AND a.t = b.t",
    "SELECT x.k, count(*) FROM a x JOIN a y ON x.k = y.k GROUP BY x.k",
    "SELECT a.k, p.v, count(*) FROM a JOIN p ON a.k = p.k GROUP BY a.k, p.v",
    "SELECT a.k, max(p.v), max(b.v) FROM a JOIN p ON a.k = p.k LEFT JOIN b ON b.k = p.k GROUP BY a.k",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) FROM a",
    "SELECT k, sum(n) FROM (SELECT k, count(*) n FROM a GROUP BY k UNION ALL
     SELECT k, count(*) FROM b GROUP BY k) GROUP BY k",
    "SELECT k, t, sum(v) FROM (SELECT k, t, v FROM a UNION ALL SELECT k, t, v FROM b) GROUP BY k, t",
    "SELECT k, n FROM (SELECT k, count(*) n FROM a GROUP BY k) ORDER BY n DESC, k LIMIT 5",
];

/// Random tables, keys, formats and numbers of partitions, with fewer, as many and more target
/// partitions, and with and without memory of the joins' sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_partitions_change_no_answer() {
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..8 {
        let tables = Tables::new();
        let partitions = [1, 2, 3, 5, 8][random.random_range(0..5)];
        let others = if random.random() { partitions } else { random.random_range(1..9) };
        let by_key = [&["k"][..], &["t"], &["k", "t"]][random.random_range(0..3)];
        let formats = [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages];
        let mut split = |name: &str, into| {
            let mut how = by(if random.random_ratio(3, 4) { by_key } else { &["k"] }, into);
            how.format = formats[random.random_range(0..3)];
            how.split_hot_keys = random.random_ratio(1, 3);
            let keys = [3, 40, 400][random.random_range(0..3)];
            let (size, path) = (random.random_range(1..400), name);
            tables.split(path, &rows(&mut random, size, keys), &how)
        };
        let paths = [("a", split("a", partitions)), ("b", split("b", others))];
        let plain = tables.plain("p", &rows(&mut random, 50, 40));
        for targets in [1, 2, 3, partitions, 2 * partitions] {
            let small_joins = random.random();
            let context = session_with(targets, |config| {
                let optimizer = &mut config.options_mut().optimizer;
                optimizer.preserve_file_partitions = random.random_range(0..2);
                if small_joins {
                    optimizer.hash_join_single_partition_threshold_rows = 1 << 17;
                    optimizer.hash_join_single_partition_threshold = 1 << 20;
                }
                optimizer.prefer_hash_join = random.random_ratio(3, 4);
                config.options_mut().execution.parquet.pushdown_filters = random.random();
                *config = config.clone().with_batch_size(16);
            });
            for (name, path) in &paths {
                register(&context, name, path).await;
            }
            register(&context, "p", &plain).await;
            for query in QUERIES {
                let declared = answer(&context, query).await;
                let shown = plan(&context, query).await;
                context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
                let expected = answer(&context, query).await;
                context.sql("SET annulus.partitioned_tables = true").await.expect("an option");
                assert_eq!(
                    declared, expected,
                    "round {round}, {partitions} and {others} to {targets}: {query}\n{shown}"
                );
            }
        }
    }
}

/// Ranges of the key, with nulls, which come first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_change_no_answer() {
    let mut random = StdRng::seed_from_u64(8);
    let tables = Tables::new();
    let points = |points: &[&str]| PlacementSpec::Ranges(points.iter().map(|&point| vec![point.to_owned()]).collect());
    let mut how = by(&["k"], 4);
    how.placing = Some(points(&["5", "10", "30"]));
    let a = tables.split("a", &rows(&mut random, 300, 40), &how);
    let b = tables.split("b", &rows(&mut random, 300, 50), &how);
    let p = tables.plain("p", &rows(&mut random, 50, 40));
    for targets in [2, 4, 8] {
        let context = session_with(targets, |config| {
            config.options_mut().optimizer.preserve_file_partitions = 1;
        });
        for (name, path) in [("a", &a), ("b", &b), ("p", &p)] {
            register(&context, name, path).await;
        }
        for query in QUERIES {
            let declared = answer(&context, query).await;
            context.sql("SET annulus.partitioned_tables = false").await.expect("an option");
            assert_eq!(declared, answer(&context, query).await, "{query}");
            context.sql("SET annulus.partitioned_tables = true").await.expect("an option");
        }
    }
}
