//! A report of the exchanges in an executed plan.

use std::{any::Any, sync::Arc};

use datafusion::physical_plan::ExecutionPlan;

use crate::{exec::RingRepartitionExec, metrics::ExchangeReport};

/// Returns the sums over the exchanges of `plan`, which has been executed.
///
/// ```
/// use annulus_datafusion::{SessionStateBuilderExt, exchange_report};
/// use datafusion::{
///     execution::SessionStateBuilder,
///     physical_plan::collect,
///     prelude::{SessionConfig, SessionContext},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let config = SessionConfig::new().with_target_partitions(2);
/// let builder = SessionStateBuilder::new_with_default_features().with_config(config);
/// let context = SessionContext::new_with_state(builder.with_annulus().build());
/// let query = "SELECT value % 10, count(*) FROM range(1000) GROUP BY 1";
/// let plan = context.sql(query).await?.create_physical_plan().await?;
/// collect(plan.clone(), context.task_ctx()).await?;
/// assert_eq!(exchange_report(&plan).exchanges, 1);
/// # Ok(())
/// # }
/// ```
pub fn exchange_report(plan: &Arc<dyn ExecutionPlan>) -> ExchangeReport {
    let mut report = ExchangeReport::default();
    let mut rest = vec![plan];
    while let Some(node) = rest.pop() {
        // The plan's own downcast would find the stock operator inside.
        if let Some(exchange) = (node.as_ref() as &dyn Any).downcast_ref::<RingRepartitionExec>() {
            report += exchange.report();
        }
        rest.extend(node.children());
    }
    report
}
