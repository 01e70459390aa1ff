//! The metrics of a worker as text for Prometheus.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::report::WorkerReport;
use crate::state::Totals;

/// The metrics of a worker at a moment.
#[derive(Debug)]
struct Worker {
    report: WorkerReport,
    totals: Totals,
}

/// Returns the text for Prometheus, in the format OpenMetrics.
///
/// # Errors
/// If a metric cannot be encoded.
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
            ("ready", "Whether the worker accepts queries", f64::from(u8::from(report.ready))),
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
        let help = "Counters of the operators of all tasks";
        let mut operators = encoder.encode_descriptor("operator", help, None, MetricType::Counter)?;
        for (operator, name, value) in totals.iter() {
            let labels = [("operator", operator), ("metric", name)];
            ConstCounter::new(value).encode(operators.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
