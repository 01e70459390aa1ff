//! What the exchanges of an executed plan did.

use std::{any::Any, ops::AddAssign, sync::Arc};

use datafusion::physical_plan::ExecutionPlan;

use crate::exec::RingRepartitionExec;

/// What the exchanges of an executed plan have moved, and the most memory they held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeReport {
    /// Exchanges in the plan.
    pub exchanges: usize,
    /// Rows that went through them.
    pub rows: u64,
    /// Bytes that were copied into output batches.
    pub bytes: u64,
    /// Bytes they held at most, summed over the exchanges.
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

/// Sums up the exchanges of `plan`, which has been executed.
pub fn exchange_report(plan: &Arc<dyn ExecutionPlan>) -> ExchangeReport {
    let mut report = ExchangeReport::default();
    let mut rest = vec![plan];
    while let Some(node) = rest.pop() {
        // A downcast through the plan's own method would find the stock operator inside.
        if let Some(exchange) = (node.as_ref() as &dyn Any).downcast_ref::<RingRepartitionExec>() {
            report += exchange.report();
        }
        rest.extend(node.children());
    }
    report
}
