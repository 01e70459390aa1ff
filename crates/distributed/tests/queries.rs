//! Queries on workers have the answers that DataFusion has on one machine, and run on the operators
//! of Annulus.

mod common;

use common::{Cluster, analyzed, annulus, register, rows, stock, write_tables};

const EXISTING_SORT: (&str, &str) = ("datafusion.optimizer.prefer_existing_sort", "true");

const QUERIES: &[&str] = &[
    "SELECT k, count(*), sum(id), min(t) FROM big GROUP BY k",
    "SELECT t, n, count(DISTINCT k), avg(x) FROM big GROUP BY t, n",
    "SELECT count(*), sum(x), max(t) FROM big WHERE n > 10",
    "SELECT b.id, s.name FROM big b JOIN small s ON b.k = s.k WHERE b.id % 3 = 0",
    "SELECT b.id, s.name FROM big b LEFT JOIN small s ON b.k = s.k AND s.g < 3",
    "SELECT b.id, s.k FROM small s RIGHT JOIN big b ON b.n = s.k",
    "SELECT b.id, s.k FROM big b FULL JOIN small s ON b.id = s.k",
    "SELECT a.t, count(*) FROM big a JOIN big b ON a.id = b.k GROUP BY a.t",
    "SELECT id FROM big WHERE k IN (SELECT k FROM small WHERE g = 1)",
    "SELECT id FROM big WHERE k NOT IN (SELECT k FROM small)",
    "SELECT id FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE s.k = b.k AND s.g <> b.n % 5)",
    "SELECT id FROM big WHERE n NOT IN (SELECT n FROM none)",
    "SELECT count(*) FROM big b JOIN small s ON b.id BETWEEN s.k - 2 AND s.k + 2",
    "SELECT count(*), sum(s.k) FROM big b, small s WHERE b.id < s.k AND b.k > s.k",
    "SELECT id, row_number() OVER (PARTITION BY t ORDER BY id), sum(n) OVER (PARTITION BY k) FROM big",
    "SELECT * FROM (SELECT t, n, k, avg(sum(id)) OVER (PARTITION BY t, n) AS a, rank() OVER (PARTITION BY t ORDER BY \
     n, k) AS r FROM big GROUP BY t, n, k) WHERE n = 3",
    "SELECT * FROM (SELECT t, n, k, avg(sum(id)) OVER (PARTITION BY n) AS a, rank() OVER (PARTITION BY t ORDER BY \
     n, k) AS r FROM big GROUP BY t, n, k) WHERE n = 3",
    "SELECT k FROM big UNION SELECT k FROM small",
    "SELECT 'big' AS which, count(*) FROM big UNION ALL SELECT 'small', count(*) FROM small",
    "SELECT k FROM big INTERSECT SELECT k FROM small",
    "SELECT k FROM big EXCEPT SELECT k FROM small",
    "SELECT id, x FROM big ORDER BY x DESC, id LIMIT 25",
    "SELECT t, sum(n) AS s FROM big GROUP BY t HAVING sum(n) > 100 ORDER BY s, t LIMIT 5 OFFSET 2",
    "SELECT g, (SELECT max(id) FROM big WHERE k = 5) AS m, count(*) FROM small GROUP BY g",
    "SELECT s.g, b.c FROM small s JOIN (SELECT k, count(*) AS c FROM big GROUP BY k) b ON s.k = b.k",
    "SELECT b.id, s.k FROM (SELECT * FROM small ORDER BY k DESC LIMIT 3) s CROSS JOIN big b WHERE b.id < 100",
    "SELECT a.k, count(*) FROM small a JOIN small b ON a.g = b.g GROUP BY a.k",
    "SELECT * FROM none JOIN big ON none.k = big.k",
    "SELECT 1 + 1",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Cluster::start(3).await;
    for settings in [
        &[][..],
        &[("annulus.joins", "always"), ("datafusion.execution.batch_size", "100")],
        &[("annulus.strategy", "stock"), ("annulus.joins", "never")],
        &[("distributed.dynamic_task_count", "true"), ("distributed.dynamic_bytes_per_partition", "10000")],
        &[("distributed.broadcast_joins", "false"), ("annulus.strategy", "ring"), EXISTING_SORT],
        &[("datafusion.optimizer.repartition_file_scans", "false"), ("datafusion.optimizer.prefer_hash_join", "false")],
    ] {
        let many = cluster.session(settings).await;
        register(&many, folder.path()).await;
        for query in QUERIES {
            let expected = rows(&one, query).await.unwrap();
            let found = rows(&many, query).await.unwrap_or_else(|error| panic!("{settings:?}: {query}: {error}"));
            assert!(expected == found, "{settings:?}: {query}: {} and {} rows", expected.len(), found.len());
        }
    }
}

/// Joins of a grouping, beyond an exchange, whose keys a filtered small table has.
const REDUCED: &[&str] = &[
    "SELECT s.k, b.c FROM small s JOIN grouped b ON s.k = b.k WHERE s.g = 1",
    // As in query 17 of TPC-H: the key is that of another join.
    "SELECT o.id FROM small s, big o, grouped b WHERE s.g = 1 AND s.k = o.k AND o.k = b.k AND o.n < b.a",
    "SELECT s.k, b.c FROM small s LEFT JOIN grouped b ON s.k = b.k WHERE s.g = 1",
    "SELECT k FROM small s WHERE g = 1 AND NOT EXISTS (SELECT 1 FROM grouped b WHERE s.k = b.k AND b.c > 13)",
    "SELECT c FROM grouped b WHERE k IN (SELECT k FROM small WHERE g = 1)",
];

/// Joins whose rows the keys of a small table must not drop, or cannot.
const WHOLE: &[&str] = &[
    "SELECT b.k, b.c FROM small s RIGHT JOIN grouped b ON s.k = b.k AND s.g = 1",
    "SELECT c FROM grouped b WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.k = b.k AND g = 1)",
    "SELECT s.k, b.c FROM small s JOIN grouped b ON s.k = b.k",
    "SELECT s.k, b.c FROM small s JOIN grouped b ON s.k = b.c WHERE s.g = 1",
    "SELECT s.k, b.c FROM (SELECT * FROM small WHERE random() >= 0) s JOIN grouped b ON s.k = b.k",
    "SELECT s.k, b.c FROM (SELECT * FROM small WHERE g = 1 ORDER BY k LIMIT 9) s JOIN grouped b ON s.k = b.k",
    "SELECT s.k, b.c FROM small s JOIN (SELECT * FROM grouped ORDER BY c, k LIMIT 9) b ON s.k = b.k WHERE s.g = 1",
];

#[tokio::test(flavor = "multi_thread")]
async fn keys_drop_rows_in_other_stages() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let cluster = Cluster::start(3).await;
    let (one, many) = (stock(), cluster.session(&[]).await);
    for session in [&one, &many] {
        register(session, folder.path()).await;
        let grouped = "CREATE VIEW grouped AS SELECT k, count(*) AS c, avg(n) AS a FROM big GROUP BY k";
        session.sql(grouped).await.unwrap();
    }
    let all = REDUCED.iter().map(|query| (true, query)).chain(WHOLE.iter().map(|query| (false, query)));
    for (is_reduced, query) in all {
        assert_eq!(rows(&many, query).await.unwrap(), rows(&one, query).await.unwrap(), "{query}");
        let plan = rows(&many, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
        let is_scan = |line: &&str| line.contains("/small/") && line.contains("DataSourceExec");
        let scans = plan.lines().filter(is_scan).count();
        assert_eq!(scans, if is_reduced { 2 } else { 1 }, "{query}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_run_on_annulus() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let cluster = Cluster::start(2).await;
    let query = "SELECT a.t, count(*) FROM big a JOIN big b ON a.id = b.k GROUP BY a.t";
    // Both sides of the join are repartitioned.
    let partitioned = [
        ("datafusion.optimizer.hash_join_single_partition_threshold", "0"),
        ("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0"),
    ];
    let plans = async |settings: &[(&str, &str)]| {
        let session = cluster.session(&[&partitioned[..], settings].concat()).await;
        register(&session, folder.path()).await;
        analyzed(&session, query).await
    };
    // What only the operators of Annulus count, and what only those of DataFusion do.
    let (in_exchange, in_stock_join) = ("shared_ops=", "avg_fanout=");
    let ours = plans(&[]).await;
    assert!(!ours.contains(in_stock_join), "{ours}");
    // Metrics are matched by place, so a stage with one operator more would move them.
    let heads: Vec<_> = ours.lines().filter(|line| line.contains("RepartitionExec: partitioning=Hash")).collect();
    assert!(heads.len() == 3 && heads.iter().all(|line| line.contains(in_exchange)), "{ours}");
    let stock = plans(&[("annulus.strategy", "stock"), ("annulus.joins", "never")]).await;
    assert!(!stock.contains(in_exchange) && stock.contains(in_stock_join), "{stock}");
    // `EXPLAIN` shows stages, too.
    let session = cluster.session(&[]).await;
    register(&session, folder.path()).await;
    let explained = rows(&session, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
    assert!(explained.contains("NetworkShuffleExec") && explained.contains("tasks=2"), "{explained}");
    assert!(explained.contains("logical_plan"), "{explained}");
    // What needs no stages has all operators of Annulus.
    let session = cluster.session(&[("distributed.file_scan_config_bytes_per_partition", "1000000")]).await;
    register(&session, folder.path()).await;
    let small = rows(&session, &format!("EXPLAIN {query}")).await.unwrap().join("\n");
    assert!(small.contains("SharedHashJoinExec") && !small.contains("Network"), "{small}");
    let analyzed = analyzed(&session, query).await;
    assert!(analyzed.contains("SharedHashJoinExec") && !analyzed.contains("Network"), "{analyzed}");
}

/// The larger side stays where it is read, and keys of the other side drop rows while it is read.
#[tokio::test(flavor = "multi_thread")]
async fn small_sides_go_to_all_workers_and_filter_the_larger_ones() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let one = stock();
    register(&one, folder.path()).await;
    let cluster = Cluster::start(3).await;
    // DataFusion alone would repartition both sides.
    let (bytes, rows_at_most) = ("hash_join_single_partition_threshold", "hash_join_single_partition_threshold_rows");
    let [bytes, rows_at_most] = [bytes, rows_at_most].map(|option| format!("datafusion.optimizer.{option}"));
    let large = [(bytes.as_str(), "1"), (rows_at_most.as_str(), "1")];
    let unfiltered = ("datafusion.optimizer.enable_join_dynamic_filter_pushdown", "false");
    let rows_read = |plan: &str| {
        // Of the tables, only the large one is read by several tasks.
        let scan = plan.lines().find(|line| line.contains("DistributedLeafExec"));
        let (_, rows) = scan.and_then(|line| line.split_once("output_rows=")).unwrap_or_else(|| panic!("{plan}"));
        let (number, unit) = rows.split_once(' ').expect("thousands");
        assert!(unit.starts_with('K'), "{rows}");
        number.parse::<f64>().unwrap()
    };
    for query in [
        "SELECT b.id, s.name FROM big b JOIN small s ON b.k = s.k WHERE s.g = 1",
        "SELECT id FROM big WHERE k IN (SELECT k FROM small WHERE g = 1)",
        "SELECT b.t, count(*) FROM big b JOIN small s ON b.k = s.k AND b.x > s.k WHERE s.g = 1 GROUP BY b.t",
    ] {
        let [filtered, whole] = [&large[..], &[&large[..], &[unfiltered]].concat()].map(|settings| settings.to_vec());
        let mut read = Vec::new();
        for settings in [filtered, whole] {
            let many = cluster.session(&settings).await;
            register(&many, folder.path()).await;
            assert_eq!(rows(&many, query).await.unwrap(), rows(&one, query).await.unwrap(), "{query}");
            let plan = analyzed(&many, query).await;
            assert!(plan.contains("NetworkBroadcastExec") && !plan.contains("k@1], 3"), "{query}: {plan}");
            read.push(rows_read(&plan));
        }
        assert!(read[0] * 5.0 < read[1], "{query}: {read:?}");
    }
    // A threshold of 0 keeps both sides repartitioned.
    let none = cluster.session(&[(bytes.as_str(), "0"), (rows_at_most.as_str(), "0")]).await;
    register(&none, folder.path()).await;
    let plan = analyzed(&none, "SELECT b.id, s.name FROM big b JOIN small s ON b.k = s.k WHERE s.g = 1").await;
    assert!(!plan.contains("NetworkBroadcastExec"), "{plan}");
}

/// Rows with equal keys meet in a task; without equal keys, one task has all.
#[tokio::test(flavor = "multi_thread")]
async fn asof_joins_have_the_answers_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let one = annulus();
    register(&one, folder.path()).await;
    let cluster = Cluster::start(3).await;
    let many = cluster.session(&[]).await;
    register(&many, folder.path()).await;
    for (query, is_partitioned) in [
        (
            "SELECT a.id, b.id AS other, b.n FROM (big a ASOF JOIN big b MATCH_CONDITION (a.id > b.id) ON a.k = b.k)",
            true,
        ),
        (
            "SELECT a.id, b.x FROM (big a ASOF JOIN big b MATCH_CONDITION (a.x <= b.x - 3 AND b.x < a.x + 90)
             ON a.t = b.t AND a.n = b.n) WHERE a.k > 5",
            true,
        ),
        ("SELECT b.id, s.name FROM (big b ASOF JOIN small s MATCH_CONDITION (b.k < s.k)) WHERE b.n = 7", true),
        ("SELECT count(*), count(s.k), sum(s.k) FROM (big b ASOF JOIN none s MATCH_CONDITION (b.k < s.k))", false),
        // The same rows in other words, as an inner join.
        (
            "SELECT id, other FROM (SELECT a.id, b.id AS other,
             row_number() OVER (PARTITION BY a.id ORDER BY b.id DESC) AS place
             FROM big a JOIN big b ON a.k = b.k AND a.id > b.id) WHERE place = 1",
            true,
        ),
    ] {
        let expected = rows(&one, query).await.expect(query);
        assert_eq!(rows(&many, query).await.expect(query), expected, "{query}");
        let plan = rows(&many, &format!("EXPLAIN {query}")).await.unwrap().concat();
        let mode = plan.split_once("AsOfJoinExec").is_some_and(|(_, join)| join.contains("mode=Partitioned"));
        assert!(mode || !is_partitioned, "{query}: {plan}");
        assert!(rows(&one, &format!("EXPLAIN {query}")).await.unwrap().concat().contains("AsOfJoinExec"), "{query}");
    }
}
