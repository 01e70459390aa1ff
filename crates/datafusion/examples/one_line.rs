//! A DataFusion session on the Annulus exchange. It prints a plan, runs the query, and reports on
//! the plan's exchanges: `cargo run -p annulus-datafusion --example one_line`

use annulus_datafusion::{SessionStateBuilderExt, exchange_report};
use datafusion::{
    error::Result,
    execution::SessionStateBuilder,
    physical_plan::{collect, displayable},
    prelude::{SessionConfig, SessionContext},
};

#[tokio::main]
async fn main() -> Result<()> {
    let config = SessionConfig::new().with_target_partitions(4);
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_annulus() // the one line
        .build();
    let context = SessionContext::new_with_state(state);

    let query = "SELECT value % 1000 AS bucket, count(*) FROM range(1000000) GROUP BY bucket";
    let plan = context.sql(query).await?.create_physical_plan().await?;
    println!("{}", displayable(plan.as_ref()).indent(false));

    let batches = collect(plan.clone(), context.task_ctx()).await?;
    let groups: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let report = exchange_report(&plan);
    println!("groups: {groups}, exchanges: {}, rows moved: {}", report.exchanges, report.rows);
    Ok(())
}
