//! Where plans have no exchange.

use std::sync::Arc;

use annulus_datafusion::{AnnulusConfig, Joins};
use annulus_dataset::{OutputFormat, PlacementSpec};
use arrow::{array::RecordBatch, compute::cast, datatypes::DataType};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::{SeedableRng, rngs::StdRng};

use crate::support::{Split, Tables, answer, by, count, plan, register, rows, session, session_with};

const JOIN: &str = "SELECT a.k, sum(b.v) FROM a JOIN b ON a.k = b.k GROUP BY a.k";

/// Two tables that are partitioned, and one that is not.
struct Three {
    _tables: Tables,
    paths: [(&'static str, String); 3],
}

fn three(a: &Split, b: &Split) -> Three {
    let mut random = StdRng::seed_from_u64(1);
    let tables = Tables::new();
    let mut rows = || rows(&mut random, 200, 50);
    let paths =
        [("a", tables.split("a", &rows(), a)), ("b", tables.split("b", &rows(), b)), ("p", tables.plain("p", &rows()))];
    Three { _tables: tables, paths }
}

impl Three {
    async fn plan(&self, targets: usize, query: &str) -> String {
        self.plan_in(session(targets), query).await
    }

    /// The plan with DataFusion's joins, which need exchanges where ours need none.
    async fn plan_of_stock_joins(&self, targets: usize, query: &str) -> String {
        self.plan_in(stock_joins(targets), query).await
    }

    async fn plan_in(&self, context: SessionContext, query: &str) -> String {
        for (name, path) in &self.paths {
            register(&context, name, path).await;
        }
        plan(&context, query).await
    }
}

fn stock_joins(targets: usize) -> SessionContext {
    session_with(targets, |config| {
        config.options_mut().extensions.get_mut::<AnnulusConfig>().expect("options").joins = Joins::Never;
    })
}

/// Each format, each with as many and with more partitions than the session's.
#[tokio::test]
async fn a_join_and_a_grouping_on_the_key_need_no_exchange() {
    for format in [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages] {
        let how = Split { format, ..by(&["k"], 6) };
        let tables = three(&how, &how);
        for (targets, turns) in [(6, 0), (2, 1), (4, 1)] {
            let shown = tables.plan(targets, JOIN).await;
            assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
            assert_eq!(count(&shown, "output_partitioning=Hash([k@0], 6)"), 2, "{shown}");
            assert_eq!(count(&shown, &format!("InTurnExec: partitions=6, at_a_time={targets}")), turns, "{shown}");
            assert!(shown.contains("mode=FinalPartitioned") && shown.contains(", groups=few"), "{shown}");
            assert_eq!(count(&shown, "SharedHashJoinExec: mode=Partitioned"), 1, "{shown}");
            let stock = tables.plan_of_stock_joins(targets, JOIN).await;
            let ours =
                [("SharedHashJoinExec: ", "HashJoinExec: "), (", algorithm=hash, why=auto: partitioned alike", "")];
            let ours = ours.into_iter().fold(shown, |shown, (ours, stock)| shown.replace(ours, stock));
            let without_filter = |line: &str| line.split(", predicate=").next().unwrap_or_default().to_owned();
            assert!(ours.lines().map(without_filter).eq(stock.lines().map(without_filter)), "{ours}\n{stock}");
        }
    }
}

/// The place of a key depends neither on its encoding nor on the format of the files.
#[tokio::test]
async fn tables_of_other_formats_and_encodings_lie_together() {
    let random = &mut StdRng::seed_from_u64(2);
    let tables = Tables::new();
    let (plain, more) = (rows(random, 200, 50), rows(random, 200, 50));
    let encoded = |data_type: &DataType| {
        let columns = [("t", cast(&more["t"], data_type).expect("a cast")), ("v", Arc::clone(&more["v"]))];
        RecordBatch::try_from_iter(columns).expect("rows")
    };
    let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let formats = [OutputFormat::Parquet, OutputFormat::Ipc, OutputFormat::Pages];
    let left = tables.split("a", &plain, &by(&["t"], 4));
    let query = "SELECT a.v, b.v FROM a JOIN b ON a.t = b.t";
    let mut answers = Vec::new();
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, coded.clone()] {
        for format in formats {
            let name = format!("b-{data_type:?}-{}", format.name()).replace([' ', '(', ')', ','], "");
            let right = tables.split(&name, &encoded(&data_type), &Split { format, ..by(&["t"], 4) });
            let context = session(4);
            register(&context, "a", &left).await;
            register(&context, "b", &right).await;
            let shown = plan(&context, query).await;
            // A dictionary in Parquet is read as one, which has another hash.
            if data_type != coded || format != OutputFormat::Parquet {
                assert_eq!(count(&shown, "RepartitionExec"), 0, "{name}: {shown}");
            }
            answers.push(answer(&context, query).await);
        }
    }
    assert!(answers[0].len() > 100 && answers.iter().all(|answer| *answer == answers[0]));
}

#[tokio::test]
async fn windows_need_no_exchange_and_keep_their_order() {
    let tables = three(&by(&["k"], 4), &by(&["k"], 4));
    let query = "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) FROM a";
    let shown = tables.plan(2, query).await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
    let shown = tables.plan(2, &format!("{query} ORDER BY k")).await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
}

#[tokio::test]
async fn equal_keys_of_other_names_need_no_exchange() {
    let tables = three(&by(&["k"], 4), &by(&["v"], 4));
    let shown = tables.plan(2, "SELECT a.k, count(*) FROM a JOIN b ON a.k = b.v GROUP BY a.k").await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
}

#[tokio::test]
async fn several_keys_need_no_exchange() {
    let tables = three(&by(&["t", "k"], 4), &by(&["t", "k"], 4));
    let shown = tables.plan(4, "SELECT a.v, b.v FROM a JOIN b ON a.t = b.t AND a.k = b.k").await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
    let shown = tables.plan(4, "SELECT k, t, count(*) FROM a GROUP BY t, k").await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
}

#[tokio::test]
async fn a_union_of_tables_needs_no_exchange() {
    let tables = three(&by(&["k"], 4), &by(&["k"], 4));
    let query = "SELECT k, sum(v) FROM (SELECT k, v FROM a UNION ALL SELECT k, v FROM b) GROUP BY k";
    for (targets, turns) in [(4, 0), (2, 1)] {
        let shown = tables.plan(targets, query).await;
        assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
        assert_eq!(count(&shown, "InTurnExec: partitions=4, at_a_time=2"), turns, "{shown}");
    }
}

/// More columns than the key: groups of one key are in one partition.
#[tokio::test]
async fn a_grouping_on_more_than_the_key_needs_no_exchange() {
    let tables = three(&by(&["k"], 4), &by(&["k"], 4));
    let shown = tables.plan(4, "SELECT k, t, count(*) FROM a GROUP BY k, t").await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
}

#[tokio::test]
async fn ranges_need_no_exchange_if_their_points_are_equal() {
    let points = |points: &[&str]| PlacementSpec::Ranges(points.iter().map(|&point| vec![point.to_owned()]).collect());
    let split = |at: &[&str]| Split { placing: Some(points(at)), ..by(&["k"], 3) };
    let tables = three(&split(&["5", "10"]), &split(&["5", "10"]));
    let shown = tables.plan(2, JOIN).await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
    assert!(shown.contains("Range([k@0 ASC], [(5), (10)], 3)"), "{shown}");
    let tables = three(&split(&["5", "10"]), &split(&["5", "11"]));
    let shown = tables.plan_of_stock_joins(2, JOIN).await;
    assert_eq!(count(&shown, "RepartitionExec"), 2, "{shown}");
    // As many partitions by hash are others: the ranges are exchanged into them.
    let tables = three(&split(&["5", "10"]), &by(&["k"], 3));
    for targets in [2, 3] {
        let shown = tables.plan_of_stock_joins(targets, JOIN).await;
        assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash([k@0], 3)"), 1, "{shown}");
        assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash"), 1, "{shown}");
    }
}

#[tokio::test]
async fn a_table_that_is_not_partitioned_is_the_only_one_that_is_exchanged() {
    let tables = three(&by(&["k"], 4), &by(&["k"], 4));
    for query in [
        "SELECT a.k, sum(p.v) FROM a JOIN p ON a.k = p.k GROUP BY a.k",
        "SELECT a.k, max(p.v), max(b.v) FROM a JOIN p ON a.k = p.k JOIN b ON b.k = p.k GROUP BY a.k",
        "SELECT p.k, sum(a.v) FROM p LEFT JOIN a ON a.k = p.k GROUP BY p.k",
    ] {
        for targets in [4, 2, 3] {
            let shown = tables.plan_of_stock_joins(targets, query).await;
            assert_eq!(count(&shown, "RingRepartitionExec: partitioning=Hash([k@0], 4)"), 1, "{targets}: {shown}");
            assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash"), 1, "{targets}: {shown}");
        }
    }
}

/// Our joins need no exchange, but read a whole side into memory.
#[tokio::test]
async fn tables_that_do_not_match_are_joined_by_our_operator() {
    let tables = three(&by(&["k"], 4), &by(&["k"], 6));
    for query in ["SELECT a.v FROM a JOIN p ON a.k = p.k", "SELECT a.v FROM a JOIN b ON a.k = b.k"] {
        let shown = tables.plan(2, query).await;
        assert_eq!(count(&shown, "SharedHashJoinExec"), 1, "{shown}");
        assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash"), 0, "{shown}");
    }
}

/// The table with more rows keeps its partitions.
#[tokio::test]
async fn the_smaller_of_two_tables_is_exchanged() {
    let mut random = StdRng::seed_from_u64(2);
    let tables = Tables::new();
    let paths = [
        ("a", tables.split("a", &rows(&mut random, 900, 50), &by(&["k"], 6))),
        ("b", tables.split("b", &rows(&mut random, 100, 50), &by(&["k"], 4))),
        ("p", String::new()),
    ];
    for targets in [2, 4] {
        let context = stock_joins(targets);
        for (name, path) in &paths[..2] {
            register(&context, name, path).await;
        }
        let shown = plan(&context, JOIN).await;
        assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash([k@0], 6)"), 1, "{shown}");
        assert_eq!(count(&shown, "RepartitionExec: partitioning=Hash"), 1, "{shown}");
    }
}

/// With more target partitions, DataFusion exchanges unless it is asked to keep partitions.
#[tokio::test]
async fn fewer_partitions_than_targets_are_kept_on_request() {
    let tables = three(&by(&["k"], 3), &by(&["k"], 3));
    assert_eq!(count(&tables.plan(8, JOIN).await, "RepartitionExec"), 2);
    let context = session_with(8, |config| config.options_mut().optimizer.preserve_file_partitions = 3);
    for (name, path) in &tables.paths {
        register(&context, name, path).await;
    }
    let shown = plan(&context, JOIN).await;
    assert_eq!(count(&shown, "RepartitionExec"), 0, "{shown}");
}

/// Without the rules of Annulus, DataFusion makes less of the partitions, but no mistake.
#[tokio::test]
async fn a_session_without_annulus_reads_partitions() {
    let tables = three(&by(&["k"], 6), &by(&["k"], 6));
    for targets in [2, 6, 8] {
        let stock = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(targets));
        let ours = session(targets);
        for (name, path) in &tables.paths {
            register(&stock, name, path).await;
            register(&ours, name, path).await;
        }
        let shown = plan(&stock, "SELECT k, count(*) FROM a GROUP BY k").await;
        assert_eq!(shown.contains("RepartitionExec"), targets == 8, "{shown}");
        for query in [JOIN, "SELECT count(*) FROM a", "SELECT a.v, p.v FROM a JOIN p ON a.k = p.k"] {
            assert_eq!(answer(&stock, query).await, answer(&ours, query).await, "{query}");
        }
    }
}

/// A partitioning that nothing uses is not declared, so files are divided as ever.
#[tokio::test]
async fn what_is_not_used_is_not_declared() {
    let tables = three(&by(&["k"], 8), &by(&["k"], 8));
    let joins = "SELECT a.v, b.v FROM a JOIN b ON a.t = b.t";
    for query in ["SELECT count(*) FROM a", "SELECT t, count(*) FROM a GROUP BY t", "SELECT v FROM a ORDER BY v", joins]
    {
        let shown = tables.plan(2, query).await;
        assert!(!shown.contains("output_partitioning") && !shown.contains("InTurnExec"), "{query}: {shown}");
        assert!(!shown.contains("8 groups"), "{query}: {shown}");
    }
}
