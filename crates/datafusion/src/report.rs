//! A report of the exchanges in an executed plan.

use std::{any::Any, ops::AddAssign, sync::Arc};

use datafusion::physical_plan::ExecutionPlan;

use crate::exec::RingRepartitionExec;

/// The rows and bytes that the exchanges of an executed plan moved, and the most memory they held.
///
/// [`exchange_report`] sums up a plan, [`RingRepartitionExec::report`] one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeReport {
    /// The number of exchanges in the plan.
    pub exchanges: usize,
    /// The rows that passed through them.
    pub rows: u64,
    /// The bytes copied into output batches.
    pub bytes: u64,
    /// The peak memory in bytes, summed over the exchanges.
    pub peak_bytes: u64,
}

impl AddAssign for ExchangeReport {
    fn add_assign(&mut self, other: Self) {
        self.exchanges += other.exchanges;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.peak_bytes += other.peak_bytes;
    }
}

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
