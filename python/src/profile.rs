//! What the operators of a running query have done.

use std::sync::{Arc, OnceLock};

use datafusion::physical_plan::{
    ExecutionPlan, displayable,
    statistics::{StatisticsArgs, StatisticsContext},
};
use serde_json::{Value, json};

use crate::work::Progress;

/// The operators of a query, once they run.
#[derive(Clone, Debug, Default)]
pub struct Profile(Arc<OnceLock<Arc<dyn ExecutionPlan>>>);

impl Profile {
    pub fn begin(&self, operators: &Arc<dyn ExecutionPlan>) {
        // A query begins once.
        self.0.set(Arc::clone(operators)).ok();
    }

    /// Returns the operators as JSON: for each its `name`, its `details`, the `rows`, `bytes` and nanoseconds
    /// of its metrics, and its `inputs`.
    pub fn json(&self) -> String {
        self.0.get().map_or(Value::Null, node).to_string()
    }
}

impl Progress for Profile {
    /// Returns the rows that scans have read, and the rows that they will read, if all scans know that.
    fn so_far(&self) -> (u64, Option<u64>) {
        let Some(operators) = self.0.get() else { return (0, None) };
        let (mut done, mut all) = (0, Some(0));
        add_scans(operators, &mut done, &mut all);
        (done, all.filter(|all| *all >= done))
    }
}

fn add_scans(plan: &Arc<dyn ExecutionPlan>, done: &mut u64, all: &mut Option<u64>) {
    let inputs = plan.children();
    if !inputs.is_empty() {
        return inputs.into_iter().for_each(|input| add_scans(input, done, all));
    }
    *done += plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) as u64;
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = known.ok().and_then(|known| known.num_rows.get_value().copied());
    *all = all.zip(rows).map(|(all, rows)| all + rows as u64);
}

fn node(plan: &Arc<dyn ExecutionPlan>) -> Value {
    let metrics = plan.metrics().map(|metrics| metrics.aggregate_by_name());
    let number = |name: &str| {
        let value = metrics.as_ref()?.sum_by_name(name)?;
        Some(value.as_usize() as u64)
    };
    let details = displayable(plan.as_ref()).one_line().to_string();
    json!({
        "name": plan.name(),
        "details": details.trim(),
        "rows": metrics.as_ref().and_then(|metrics| metrics.output_rows()),
        "bytes": number("output_bytes"),
        "nanoseconds": metrics.as_ref().and_then(|metrics| metrics.elapsed_compute()),
        "spilled_bytes": metrics.as_ref().and_then(|metrics| metrics.spilled_bytes()),
        "partitions": plan.properties().partitioning.partition_count(),
        "inputs": plan.children().into_iter().map(node).collect::<Vec<_>>(),
    })
}
