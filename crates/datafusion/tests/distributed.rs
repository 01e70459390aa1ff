//! Sessions whose plans are sent to other processes have DataFusion's own joins.

use annulus_datafusion::{
    AnnulusConfig, SessionStateBuilderExt,
    config::{Joins, PlacementMode},
};
use datafusion::{
    execution::SessionStateBuilder,
    physical_plan::displayable,
    prelude::{SessionConfig, SessionContext},
};

fn session(joins: Joins, is_shipped: bool) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(4);
    config = config.with_option_extension(AnnulusConfig { joins, profile: "none".to_owned(), ..Default::default() });
    if is_shipped {
        config = config.with_option_extension(PlacementMode::Shipped);
    }
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_annulus().build())
}

async fn plan(session: &SessionContext, condition: &str) -> String {
    let query = format!("SELECT count(*) FROM t AS a JOIN t AS b ON {condition}");
    let plan = session.sql(&query).await.unwrap().create_physical_plan().await.unwrap();
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn joins_stay_with_datafusion_in_plans_that_are_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet").display().to_string();
    let write = format!("COPY (SELECT value AS k, value % 7 AS v FROM range(1000)) TO '{path}' STORED AS PARQUET");
    session(Joins::Never, false).sql(&write).await.unwrap().collect().await.unwrap();
    for (condition, ours, stock) in [
        ("a.k = b.v", &["SharedHashJoinExec", "scan=encoded", "keys=["][..], "HashJoinExec"),
        ("a.k BETWEEN b.v - 1 AND b.v + 1", &["BandJoinExec"][..], "NestedLoopJoinExec"),
    ] {
        let mut rows = Vec::new();
        for is_shipped in [false, true] {
            let session = session(Joins::Always, is_shipped);
            session.register_parquet("t", &path, Default::default()).await.unwrap();
            let plan = plan(&session, condition).await;
            for name in ours {
                assert_eq!(plan.contains(name), !is_shipped, "{name}\n{plan}");
            }
            assert!(!is_shipped || plan.contains(stock), "{plan}");
            let query = format!("SELECT 1 FROM t AS a JOIN t AS b ON {condition}");
            rows.push(session.sql(&query).await.unwrap().count().await.unwrap());
        }
        assert!(rows[0] >= 1000 && rows[0] == rows[1], "{rows:?}");
    }
}
