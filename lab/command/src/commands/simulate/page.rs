//! The page of a simulation.

use annulus_charts::{
    lines::{self, Series, Stroke},
    page::{self, escape, table},
};
use annulus_simulate::StrategyKind;

use super::{
    lead,
    report::{LEADS, Line, Report},
};

/// Returns a self-contained page: how well the model agrees, a chart for each number of domains and
/// size of rows, and the tables.
pub fn page(report: &Report) -> String {
    let lead = format!(
        "Predictions of a discrete-event model, and no measurements. Each core runs one producer and one consumer. The \
         first section says how far to trust them. {}.",
        report.origin()
    );
    let verdict: String = report.verdict().iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    let mut sections = vec![format!("<h2>Agreement with the published tables</h2>\n{verdict}{}", compared(report))];
    let same = |a: &Line, b: &Line| (a.row_bytes, a.domains) == (b.row_bytes, b.domains);
    sections.extend(report.predictions.chunk_by(same).map(chart));
    let (header, rows) = (report.prediction_header(), report.prediction_rows());
    sections.push(format!("<h2>Predicted GB/s</h2>\n{}", table(&header, &rows)));
    if !report.leads.is_empty() {
        let leads = table(&lead::HEADER, &report.lead_rows());
        sections.push(format!("<h2>Where ring leads</h2>\n<p>{LEADS}.</p>\n{leads}"));
    }
    let parameters = table(&["parameter", "value", "unit", "source"], &report.parameter_rows());
    sections.push(format!("<h2>Parameters</h2>\n{parameters}"));
    page::page("Exchange between threads, simulated", &lead, &sections)
}

/// Returns the table of published and simulated throughput.
fn compared(report: &Report) -> String {
    let mut rows = Vec::new();
    for row in &report.rows {
        for cell in &row.cells {
            let half = if row.fitted { "fitted" } else { "held out" };
            let gb_s = [cell.published_gb_s, cell.simulated_gb_s].map(|gb_s| format!("{gb_s:.2}"));
            let [published, simulated] = gb_s;
            rows.push(vec![row.place.clone(), half.to_owned(), cell.strategy.to_string(), published, simulated]);
        }
    }
    table(&["row", "half", "strategy", "published GB/s", "simulated GB/s"], &rows)
}

/// Draws the throughput by number of cores, for one number of domains and one size of rows.
fn chart(predictions: &[Line]) -> String {
    let Some(first) = predictions.first() else { return String::new() };
    let strategies = StrategyKind::ALL.into_iter().enumerate();
    let series = strategies.map(|(index, strategy)| Series {
        name: strategy.to_string(),
        stroke: if strategy == StrategyKind::Ring { Stroke::Main } else { Stroke::Thin(index) },
        points: predictions
            .iter()
            .filter(|line| line.strategy == strategy)
            .map(|line| (line.cores, line.gb_s))
            .collect(),
    });
    let series: Vec<_> = series.filter(|series| !series.points.is_empty()).collect();
    let title = format!("Rows of {} bytes, cache domains: {}", first.row_bytes, first.domains);
    format!("<h2>{title}</h2>\n{}", lines::lines(&title, "cores", "GB/s", &series))
}
