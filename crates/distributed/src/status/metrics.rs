//! What operators count, summed, and the text for Prometheus.

use std::{collections::BTreeMap, fmt, sync::Arc};

use datafusion::physical_plan::{ExecutionPlan, metrics::MetricValue};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::report::WorkerReport;

/// Sums of the counters and times of operators, by the operators' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals(BTreeMap<(String, String), f64>);

impl Totals {
    /// Adds the operators of a plan.
    pub(super) fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        for (name, value) in counted(plan) {
            *self.0.entry((plan.name().to_owned(), name)).or_default() += value;
        }
        plan.children().into_iter().for_each(|child| self.add(child));
    }

    /// Returns the operator, the name and the value of each sum.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.0.iter().map(|((operator, name), &value)| (operator.as_str(), name.as_str(), value))
    }
}

/// Returns what an operator has counted until now. Times are in seconds.
pub(super) fn counted(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, f64)> {
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

/// The metrics of a worker at a moment.
#[derive(Debug)]
struct Worker {
    report: WorkerReport,
    totals: Totals,
}

/// Returns the text for Prometheus, in the format OpenMetrics.
///
/// # Errors
/// If it cannot be written.
pub(super) fn text(report: WorkerReport, totals: Totals) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("annulus");
    registry.register_collector(Box::new(Worker { report, totals }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Worker {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self { report, totals } = self;
        let gauges = [
            ("up_seconds", "Seconds since the worker began to serve", report.uptime_seconds),
            ("ready", "Whether the worker takes queries", f64::from(u8::from(report.ready))),
            ("queries_running", "Queries that run", report.queries.len() as f64),
            ("tasks_running", "Tasks that run", report.queries.iter().map(|query| query.tasks).sum::<usize>() as f64),
            ("memory_reserved_bytes", "Memory that operators have reserved", report.memory_bytes as f64),
            ("spilled_bytes", "Bytes on disk that operators have spilled", report.disk_bytes as f64),
            ("spilled_limit_bytes", "Bytes on disk for operators", report.disk_limit_bytes as f64),
        ];
        let limit = report.memory_limit_bytes.map(|bytes| ("memory_limit_bytes", "Memory for operators", bytes as f64));
        for (name, help, value) in gauges.into_iter().chain(limit) {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        for (name, help, value) in [
            ("queries", "Queries that have begun", report.queries_total),
            ("tasks", "Tasks that have begun", report.tasks_total),
            ("tasks_refused", "Tasks that were refused", report.refused_total),
        ] {
            let metric = ConstCounter::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let help = "What the operators of all tasks have counted";
        let mut operators = encoder.encode_descriptor("operator", help, None, MetricType::Counter)?;
        for (operator, name, value) in totals.iter() {
            let labels = [("operator", operator), ("metric", name)];
            ConstCounter::new(value).encode(operators.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
