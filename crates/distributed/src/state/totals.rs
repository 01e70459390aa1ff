//! Sums of the counters of operators.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::physical_plan::{ExecutionPlan, metrics::MetricValue};

/// Sums of the counters and times of operators, by the operators' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals(BTreeMap<(String, String), f64>);

impl Totals {
    /// Adds the operators of a plan.
    pub(crate) fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        for (name, value) in counters_of(plan) {
            *self.0.entry((plan.name().to_owned(), name)).or_default() += value;
        }
        plan.children().into_iter().for_each(|child| self.add(child));
    }

    /// Returns the operator, the name and the value of each sum.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.0.iter().map(|((operator, name), &value)| (operator.as_str(), name.as_str(), value))
    }
}

/// Returns the counters of an operator at this moment. Times are in seconds.
pub(crate) fn counters_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, f64)> {
    let Some(metrics) = plan.metrics() else { return Vec::new() };
    let metrics = metrics.aggregate_by_name();
    let value = |value: &MetricValue| {
        Some(match value {
            MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. } => time.value() as f64 / 1e9,
            MetricValue::OutputRows(count)
            | MetricValue::SpillCount(count)
            | MetricValue::SpilledBytes(count)
            | MetricValue::SpilledRows(count)
            | MetricValue::Count { count, .. } => count.value() as f64,
            _ => return None,
        })
    };
    let metrics = metrics.iter().filter_map(|metric| {
        let seconds = matches!(metric.value(), MetricValue::ElapsedCompute(_) | MetricValue::Time { .. });
        let name = metric.value().name();
        let name = if seconds { format!("{name}_seconds") } else { name.to_owned() };
        Some((name, value(metric.value())?))
    });
    metrics.collect()
}
