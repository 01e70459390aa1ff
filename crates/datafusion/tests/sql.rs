//! The exchange in queries: plans, options, and the same answers as the stock operator's.

mod common;
mod grouping;
mod tpch;

use std::{any::Any, sync::Arc};

use annulus_datafusion::{
    AnnulusConfig, ExchangeTuning, RingRepartition, RingRepartitionExec, RunAggregates, SessionStateBuilderExt,
    config::Joins,
    exchange_report,
    profile::{Cell, Cost, Layout, Profile},
};
use arrow::{
    datatypes::{DataType, Field, Schema},
    util::pretty::pretty_format_batches,
};
use common::{batch, eventually, lines, within};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::MemTable,
    error::Result,
    execution::{SessionStateBuilder, runtime_env::RuntimeEnvBuilder},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, collect, displayable, execute_stream, execution_plan::reset_plan_states,
        repartition::RepartitionExec,
    },
    prelude::{SessionConfig, SessionContext},
};
use futures::StreamExt;

fn config(partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    // Tables this small would otherwise not be partitioned.
    config.options_mut().optimizer.hash_join_single_partition_threshold = 0;
    config.options_mut().optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

fn stock(config: SessionConfig) -> SessionContext {
    let state = SessionStateBuilder::new_with_default_features().with_config(config).build();
    SessionContext::new_with_state(state)
}

/// Returns a session that knows nothing of the machine, whatever profile the user has. Its joins
/// are DataFusion's own, which need repartitions.
fn annulus(config: SessionConfig) -> SessionContext {
    let options = AnnulusConfig { profile: "none".to_owned(), joins: Joins::Never, ..AnnulusConfig::default() };
    let config = config.with_option_extension(options);
    let state = SessionStateBuilder::new_with_default_features().with_config(config).with_annulus().build();
    SessionContext::new_with_state(state)
}

/// Returns a session with tables `t` and `u` of columns `k` and `v`, with four partitions each.
fn with_tables(session: SessionContext) -> SessionContext {
    // Nullable, because outer joins over declared non-null columns fail on stock DataFusion, too.
    let schema = Arc::new(Schema::new(["k", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
    for (name, rows) in [("t", 400), ("u", 100)] {
        let partition = |partition| vec![batch(partition * rows, rows).with_schema(Arc::clone(&schema)).unwrap()];
        let table = MemTable::try_new(Arc::clone(&schema), (0..4).map(partition).collect()).unwrap();
        session.register_table(name, Arc::new(table)).unwrap();
    }
    session
}

/// Returns a measured kind of repartition, of 4 to 3 partitions, where the first way is the
/// cheapest.
fn cell(reads: bool, ways: &[&str]) -> Cell {
    let cost = |(place, way): (usize, &&str)| Cost {
        variant: way.parse().unwrap(),
        open_ns: 1e3,
        row_ns: 1.0 + place as f64,
        spread: 0.0,
        open_spread: 0.0,
    };
    let costs = ways.iter().enumerate().map(cost).collect();
    Cell { inputs: 4, outputs: 3, layout: Layout::Fixed, row_bytes: 16, reads, rows: 1000, rounds: 3, costs }
}

/// Makes a session choose by a profile, for as long as its file exists.
async fn set_profile(session: &SessionContext, cells: Vec<Cell>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, serde_json::to_vec(&Profile::new(2, cells)).unwrap()).unwrap();
    session.sql(&format!("SET annulus.profile = '{}'", file.path().display())).await.unwrap();
    file
}

async fn set_joins(session: &SessionContext, joins: Joins) {
    session.sql(&format!("SET annulus.joins = '{joins}'")).await.unwrap();
}

/// Sets the bounds of exchanges, as a Rust program does.
fn set_tuning(session: &SessionContext, tuning: ExchangeTuning) {
    session.state_ref().write().config_mut().options_mut().extensions.insert(tuning);
}

async fn answer(session: &SessionContext, sql: &str) -> Result<Vec<String>> {
    Ok(lines(&session.sql(sql).await?.collect().await?))
}

async fn plan(session: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    session.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// Returns the text of a plan without the number of groups, which depends on the machine.
fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let mut parts = text.split(", groups=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns how many nodes are ours, and how many a downcast takes for the stock operator.
fn repartitions(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let (mut ours, mut stock) = (0, 0);
    plan.apply(|node| {
        ours += usize::from((node.as_ref() as &dyn Any).is::<RingRepartitionExec>());
        stock += usize::from(node.is::<RepartitionExec>());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (ours, stock)
}

const JOIN: &str = "SELECT t.k, count(*), sum(u.v) FROM t JOIN u ON t.k = u.k GROUP BY t.k ORDER BY t.k";

#[tokio::test]
async fn explain_says_which_strategy_and_why() {
    let session = with_tables(annulus(config(3)));
    let shown = text(&plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await);
    let expected = "RingRepartitionExec: partitioning=Hash([k@0], 3), input_partitions=4, strategy=reserve, \
                    why=columns of fixed width";
    assert!(shown.contains(expected), "{shown}");

    session.sql("SET annulus.strategy = 'RING'").await.unwrap();
    for groups in [1, 4] {
        set_tuning(&session, ExchangeTuning { groups, ..Default::default() });
        let plan = plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let expected = format!("strategy=ring, path=gather, groups={groups}, why=annulus.strategy");
        assert!(shown.contains(&expected), "{shown}");
    }

    let tree = session.sql("EXPLAIN FORMAT TREE SELECT k, count(*) FROM t GROUP BY k").await.unwrap();
    let tree = pretty_format_batches(&tree.collect().await.unwrap()).unwrap().to_string();
    assert!(
        tree.contains("RingRepartitionExec") && tree.contains("strategy: ring") && tree.contains("groups: 4"),
        "{tree}"
    );
}

#[tokio::test]
async fn the_profile_is_asked_for_the_place_in_the_plan() {
    let session = with_tables(annulus(config(3)));
    let _file = set_profile(&session, vec![cell(true, &["channel+gather"]), cell(false, &["ring+cluster"])]).await;

    // The table has 1,600 rows, and a partial grouping may keep them all.
    let grouped = plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await;
    let read = "strategy=channel, path=gather, why=measured channel+gather 3 us for about 1600 rows (nearest \
                kind: 16 B a row, 4x3)";
    assert!(text(&grouped).contains(read), "{}", text(&grouped));

    // Nothing above reads the rows.
    let mut alone = None;
    grouped
        .apply(|node| {
            alone = node.downcast_ref::<RepartitionExec>().cloned().or(alone.take());
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
    let state = session.state();
    let passed_on = RingRepartition::default().optimize(Arc::new(alone.unwrap()), state.config_options()).unwrap();
    assert!(text(&passed_on).contains("strategy=ring, path=cluster"), "{}", text(&passed_on));
}

#[tokio::test]
async fn batches_that_reserved_ranges_cannot_hold_go_through_the_ring() {
    let (ours, theirs) = (with_tables(annulus(config(3))), with_tables(stock(config(3))));
    let expected = answer(&theirs, JOIN).await.unwrap();
    for session in [&ours, &theirs] {
        session.sql("SET datafusion.execution.batch_size = 100000").await.unwrap();
    }
    let ring_is_shown_and_runs = async || {
        let plan = plan(&ours, JOIN).await;
        assert!(text(&plan).contains("strategy=ring, path=gather, why=long batches"), "{}", text(&plan));
        assert_eq!(within("the join", answer(&ours, JOIN)).await.unwrap(), expected);
    };
    ring_is_shown_and_runs().await;
    let _file = set_profile(&ours, vec![cell(true, &["reserve", "ring+gather"])]).await;
    ring_is_shown_and_runs().await;

    // Nor does a plan fail that is executed with longer batches than it was planned for.
    ours.sql("SET datafusion.execution.batch_size = 8192").await.unwrap();
    let plan = plan(&ours, JOIN).await;
    assert!(text(&plan).contains("strategy=reserve, why=measured"), "{}", text(&plan));
    let found = within("the join", collect(plan, theirs.task_ctx())).await.unwrap();
    assert_eq!(lines(&found), expected);
}

#[tokio::test]
async fn a_profile_of_other_settings_is_not_used() {
    let session = with_tables(annulus(config(3)));
    let _file = set_profile(&session, vec![cell(true, &["channel+gather"])]).await;
    for tuning in [(4, 0, 0), (0, 1, 0), (0, 0, 2)] {
        let (groups, slots, domains) = tuning;
        set_tuning(&session, ExchangeTuning { groups, slots, domains });
        let shown = text(&plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await);
        let expected = "why=columns of fixed width (the profile was measured with other settings)";
        assert!(shown.contains("strategy=reserve") && shown.contains(expected), "{tuning:?}: {shown}");
    }
    set_tuning(&session, ExchangeTuning::default());
    let settings =
        [("datafusion.execution.batch_size", "2047", "8192"), ("datafusion.execution.batch_size", "32769", "2048")];
    for (name, value, usual) in settings {
        session.sql(&format!("SET {name} = {value}")).await.unwrap();
        let shown = text(&plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await);
        let expected = "why=columns of fixed width (the profile was measured with other settings)";
        assert!(shown.contains("strategy=reserve") && shown.contains(expected), "{name}: {shown}");
        session.sql(&format!("SET {name} = {usual}")).await.unwrap();
        let shown = text(&plan(&session, "SELECT k, count(*) FROM t GROUP BY k").await);
        assert!(shown.contains("strategy=channel, path=gather, why=measured"), "{name}: {shown}");
    }
}

#[tokio::test]
async fn explain_analyze_shows_the_counters() {
    let session = with_tables(annulus(config(3)));
    let shown = answer(&session, "EXPLAIN ANALYZE SELECT k, count(*) FROM t GROUP BY k").await.unwrap().concat();
    for name in [
        "output_rows",
        "bytes_copied",
        "shared_ops",
        "locks",
        "wakeups",
        "overflow_rows",
        "waits",
        "wait_time",
        "spill_count",
        "spilled_bytes",
        "peak_mem_used",
        "fetch_time",
        "repartition_time",
        "send_time",
    ] {
        assert!(shown.contains(&format!("{name}=")), "{name} is missing in {shown}");
    }
}

#[tokio::test]
async fn options_are_read_when_a_query_is_planned() {
    let session = with_tables(annulus(config(3)));
    assert_eq!(repartitions(&plan(&session, JOIN).await), (2, 2));
    session.sql("SET annulus.strategy = 'stock'").await.unwrap();
    assert_eq!(repartitions(&plan(&session, JOIN).await), (0, 2));
    session.sql("SET annulus.strategy = 'auto+cluster'").await.unwrap();
    set_tuning(&session, ExchangeTuning { slots: 5, ..Default::default() });
    let shown = text(&plan(&session, JOIN).await);
    assert!(shown.contains("strategy=ring, path=cluster, slots=5, why=annulus.strategy"), "{shown}");

    let wrong = session.sql("SET annulus.strategy = 'fast'").await.unwrap_err().to_string();
    assert!(wrong.contains("expected one of stock, auto, ring, ring-per-domain"), "{wrong}");
    set_tuning(&session, ExchangeTuning { groups: 65, ..Default::default() });
    let wrong = session.sql(JOIN).await.unwrap().create_physical_plan().await.unwrap_err().to_string();
    assert!(wrong.contains("invalid groups '65': choose 1 to 64"), "{wrong}");
}

/// Each option can be set, shown and reset by its name in SQL.
#[tokio::test]
async fn all_options_have_names_in_sql() {
    let session = SessionContext::new_with_state(
        SessionStateBuilder::new_with_default_features()
            .with_config(config(3).with_information_schema(true))
            .with_annulus()
            .build(),
    );
    let options = [
        ("strategy", "auto", "ring+cluster"),
        ("overflow_limit", "0", "4096"),
        ("flush_interval", "100", "5"),
        ("joins", "auto", "never"),
        ("keyed_bands", "auto", "always"),
        ("groupings", "auto", "never"),
        ("cyclo_join", "auto", "never"),
        ("retries", "2", "0"),
        ("scans", "auto", "never"),
        ("partitioned_tables", "true", "false"),
        ("profile", "auto", "none"),
    ];
    let listed = answer(&session, "SELECT name FROM information_schema.df_settings WHERE name LIKE 'annulus%'").await;
    assert_eq!(listed.unwrap().len(), options.len());
    for (name, default, other) in options {
        let shown = async || answer(&session, &format!("SHOW annulus.{name}")).await.unwrap();
        assert_eq!(shown().await, [format!("annulus.{name}|{default}")]);
        session.sql(&format!("SET annulus.{name} = '{other}'")).await.unwrap();
        assert_eq!(shown().await, [format!("annulus.{name}|{other}")]);
    }
}

#[tokio::test]
async fn removed_options_name_what_has_taken_their_place() {
    let session = annulus(config(3));
    for (name, remedy) in [
        ("path", "annulus.strategy = 'ring+cluster'"),
        ("groups", "ExchangeTuning"),
        ("slots", "ExchangeTuning"),
        ("domains", "ExchangeTuning"),
        ("skip_partial_aggregation", "annulus.groupings"),
        ("merge_runs", "annulus.groupings"),
        ("broadcast_limit", "annulus.cyclo_join"),
        ("share_memory", "Connections::with_shared_memory"),
        ("explain_as_stock", "annulus.strategy = 'stock'"),
    ] {
        let error = session.sql(&format!("SET annulus.{name} = 1")).await.unwrap_err().to_string();
        let removed = format!("the option 'annulus.{name}' was removed: ");
        assert!(error.contains(&removed) && error.contains(remedy), "{error}");
    }
    let bounds = session.sql("SET annulus_exchange.groups = 1").await.unwrap_err().to_string();
    assert!(bounds.contains("annulus_exchange"), "{bounds}");
}

#[tokio::test]
async fn installing_twice_changes_nothing() {
    let session = annulus(config(3));
    session.sql("SET annulus.overflow_limit = 2").await.unwrap();
    let again = SessionStateBuilder::new_from_existing(session.state()).with_annulus().build();
    let names: Vec<_> = again.physical_optimizers().iter().map(|rule| rule.name().to_string()).collect();
    let at = |name: &str| names.iter().rposition(|found| found == name);
    for rule in [
        RingRepartition::NAME,
        RunAggregates::NAME,
        "UnusedPartitions",
        "KeptPartitions",
        "PartitionsInTurn",
        "FirstRows",
        "YieldingCrossJoins",
    ] {
        assert_eq!(names.iter().filter(|name| *name == rule).count(), 1, "{rule}");
    }
    assert_eq!(at(RingRepartition::NAME).map(|at| at + 1), at(RunAggregates::NAME));
    assert_eq!(at(RunAggregates::NAME).map(|at| at + 1), at("FirstRows"));
    assert_eq!(at("FirstRows").map(|at| at + 1), at("YieldingCrossJoins"));
    assert_eq!(at("YieldingCrossJoins").map(|at| at + 1), at("SanityCheckPlan"));
    assert!(at(RingRepartition::NAME) > at("FilterPushdown(Post)"));
    let session = SessionContext::new_with_state(again);
    session.sql("SET datafusion.catalog.information_schema = true").await.unwrap();
    assert_eq!(answer(&session, "SHOW annulus.overflow_limit").await.unwrap(), ["annulus.overflow_limit|2"]);
}

#[tokio::test]
async fn what_is_not_ours_stays_stock() {
    let session = with_tables(annulus(config(8)));
    let shown = text(&plan(&session, "SELECT k + 1 FROM (SELECT k FROM t LIMIT 100) WHERE k > 3").await);
    assert!(!shown.contains("RingRepartitionExec") && shown.contains("RoundRobin"), "{shown}");
}

#[tokio::test]
async fn a_limit_ends_the_inputs() {
    let session = with_tables(annulus(config(3)));
    let plan = plan(&session, "SELECT k, count(*) FROM t GROUP BY k LIMIT 5").await;
    assert_eq!(repartitions(&plan).0, 1);
    let mut stream = execute_stream(plan, session.task_ctx()).unwrap();
    let mut rows = 0;
    while let Some(batch) = within("the limit", stream.next()).await {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 5);
    drop(stream);
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually("the tasks are gone", || tasks.num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn a_recursive_query_executes_it_again_and_again() {
    const RECURSIVE: &str = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL \
         SELECT r.n + 1 FROM r JOIN (SELECT k, count(*) FROM t GROUP BY k) g ON g.k = r.n WHERE r.n < 40) \
         SELECT n, count(*) FROM r GROUP BY n ORDER BY n";
    let (ours, theirs) = (with_tables(annulus(config(3))), with_tables(stock(config(3))));
    assert!(repartitions(&plan(&ours, RECURSIVE).await).0 >= 2);
    let expected = answer(&theirs, RECURSIVE).await.unwrap();
    assert!(expected.len() > 5);
    for joins in Joins::ALL {
        set_joins(&ours, joins).await;
        assert_eq!(within("the recursion", answer(&ours, RECURSIVE)).await.unwrap(), expected, "{joins}");
    }
}

#[tokio::test]
async fn a_planned_choice_is_kept_though_the_profile_has_gone() {
    let session = with_tables(annulus(config(3)));
    let file = set_profile(&session, vec![cell(true, &["channel+gather"])]).await;
    let plan = plan(&session, JOIN).await;
    file.close().unwrap();
    let again = reset_plan_states(Arc::clone(&plan)).unwrap();
    assert_eq!(text(&again), text(&plan));
    assert!(text(&again).contains("strategy=channel"), "{}", text(&again));
    assert!(!collect(again, session.task_ctx()).await.unwrap().is_empty());
}

#[tokio::test]
async fn joins_of_every_kind_agree_with_stock() {
    let (ours, theirs) = (with_tables(annulus(config(3))), with_tables(stock(config(3))));
    for prefer_hash in ["true", "false"] {
        for session in [&ours, &theirs] {
            session.sql(&format!("SET datafusion.optimizer.prefer_hash_join = {prefer_hash}")).await.unwrap();
        }
        for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"] {
            let sql = format!("SELECT t.v FROM t {kind} u ON t.k = u.k + 3 AND t.v > u.v ORDER BY t.v");
            let expected = answer(&theirs, &sql).await.unwrap();
            for joins in Joins::ALL {
                set_joins(&ours, joins).await;
                assert_eq!(within(kind, answer(&ours, &sql)).await.unwrap(), expected, "{kind}, {joins}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_answers_are_stocks() {
    for partitions in [1, 2, 16] {
        let (ours, theirs) = (annulus(config(partitions)), stock(config(partitions)));
        tpch::register(&ours, 0.01);
        tpch::register(&theirs, 0.01);
        for (name, sql) in tpch::QUERIES {
            let expected = answer(&theirs, sql).await.unwrap();
            for joins in [Joins::Always, Joins::Never] {
                set_joins(&ours, joins).await;
                let at = format!("{name} at {partitions}, joins {joins}");
                let plan = plan(&ours, sql).await;
                let found = within(name, collect(Arc::clone(&plan), ours.task_ctx())).await.unwrap();
                assert_eq!(lines(&found), expected, "{at}");
                // Without repartitions for joins some queries need none.
                let report = exchange_report(&plan);
                if joins == Joins::Never {
                    assert_eq!(report.exchanges > 0, partitions > 1, "{at}");
                }
                assert_eq!(report.rows > 0, report.exchanges > 0, "{at}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_answers_under_a_memory_limit() {
    let limited = RuntimeEnvBuilder::new().with_memory_limit(4 << 20, 1.0).build_arc().unwrap();
    let (mut small, theirs) = (config(4), stock(config(4)));
    small.options_mut().execution.sort_spill_reservation_bytes = 1024;
    let ours = annulus(small);
    let ours = SessionStateBuilder::new_from_existing(ours.state()).with_runtime_env(Arc::clone(&limited)).build();
    let ours = SessionContext::new_with_state(ours);
    tpch::register(&ours, 0.01);
    tpch::register(&theirs, 0.01);
    let (_, sql) = tpch::QUERIES[0];
    assert_eq!(within("the query", answer(&ours, sql)).await.unwrap(), answer(&theirs, sql).await.unwrap());
    eventually("nothing is left", || {
        limited.memory_pool.reserved() == 0 && limited.disk_manager.used_disk_space() == 0
    })
    .await;
}
