//! What a simulation found, as text, JSON and CSV.

use std::fmt;

use annulus_simulate::{Agreement, ComparedRow, Parameter, Prediction, SPLIT_RULE, StrategyKind};
use annulus_terminal::{machine, plain::table};
use serde::Serialize;

use super::{
    args::ExchangeArgs,
    lead::{self, Lead},
};

/// The note on the table of leads.
pub const LEADS: &str = "From how many of these cores on ring is faster, and its GB/s / the rival's";

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    annulus: &'static str,
    command: String,
    seed: u64,
    rows_a_batch: usize,
    split_rule: &'static str,
    pub parameters: Vec<Parameter>,
    pub fitted: Agreement,
    pub held_out: Agreement,
    pub rows: Vec<ComparedRow>,
    pub predictions: Vec<Line>,
    pub leads: Vec<Lead>,
}

/// The prediction for one machine, one size of rows and one strategy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Line {
    pub cores: usize,
    pub domains: usize,
    pub row_bytes: usize,
    pub strategy: StrategyKind,
    pub gb_s: f64,
    pub operations_a_batch: f64,
    pub locks_a_batch: f64,
    pub wakes_a_batch: f64,
    pub winner: bool,
}

impl Report {
    pub fn new(
        parameters: Vec<Parameter>,
        fitted: Agreement,
        held_out: Agreement,
        rows: Vec<ComparedRow>,
        predictions: &[Prediction],
        args: &ExchangeArgs,
    ) -> Self {
        let lines = |prediction: &Prediction| {
            let winner = prediction.winner();
            let &Prediction { cores, domains, row_bytes, .. } = prediction;
            let line = move |&(strategy, outcome): &(StrategyKind, annulus_simulate::Outcome)| Line {
                cores,
                domains,
                row_bytes,
                strategy,
                gb_s: outcome.gb_s,
                operations_a_batch: outcome.operations_a_batch,
                locks_a_batch: outcome.locks_a_batch,
                wakes_a_batch: outcome.wakes_a_batch,
                winner: winner == Some(strategy),
            };
            prediction.outcomes.iter().map(line).collect::<Vec<_>>()
        };
        let predictions: Vec<_> = predictions.iter().flat_map(lines).collect();
        Self {
            annulus: env!("CARGO_PKG_VERSION"),
            command: machine::command_line(),
            seed: args.seed,
            rows_a_batch: args.rows_a_batch,
            split_rule: SPLIT_RULE,
            parameters,
            fitted,
            held_out,
            rows,
            leads: Lead::all(&predictions),
            predictions,
        }
    }

    /// Returns the version, the seed and the command as one line.
    pub fn origin(&self) -> String {
        format!("annulus {}; seed {}; {}", self.annulus, self.seed, self.command)
    }

    /// Returns where the ring leads, as rows of a table.
    pub fn lead_rows(&self) -> Vec<Vec<String>> {
        self.leads.iter().map(Lead::cells).collect()
    }

    /// Returns the parameters as rows of a table.
    pub fn parameter_rows(&self) -> Vec<Vec<String>> {
        let value = |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let row = |parameter: &Parameter| {
            vec![parameter.name.clone(), value(parameter.value), parameter.unit.into(), parameter.source.into()]
        };
        self.parameters.iter().map(row).collect()
    }

    /// Returns the two halves as sentences.
    pub fn verdict(&self) -> Vec<String> {
        let half = |name: &str, half: &Agreement| {
            format!(
                "{name}: {} cells, median error {:.0} %, worst {:.0} %; winner right in {} of {} rows \
                 (always naming paper-ring: {})",
                half.cells,
                100.0 * half.median_error,
                100.0 * half.worst_error,
                half.winners_right,
                half.rows,
                half.right_without_model
            )
        };
        let mut lines = vec![half("fitted half", &self.fitted), half("held-out half", &self.held_out)];
        for row in self.rows.iter().filter(|row| !row.is_right()) {
            lines.push(format!(
                "  not named: {} ({} bytes, {}): {} won by {:.0} %, the simulation says {}",
                row.place,
                row.row_bytes,
                if row.fitted { "fitted" } else { "held out" },
                row.winner,
                100.0 * row.published_lead(),
                row.simulated_winner
            ));
        }
        lines
    }

    /// Returns the names of the columns of [`Self::prediction_rows`].
    pub fn prediction_header(&self) -> Vec<&'static str> {
        let mut header = vec!["row bytes", "domains", "cores"];
        header.extend(self.machine_lines().next().unwrap_or_default().iter().map(|line| line.strategy.name()));
        header.push("winner");
        header
    }

    /// Returns a row for each machine: GB/s of each strategy, and the winner.
    pub fn prediction_rows(&self) -> Vec<Vec<String>> {
        let row = |lines: &[Line]| {
            let mut cells: Vec<_> = lines
                .iter()
                .take(1)
                .flat_map(|line| [line.row_bytes, line.domains, line.cores])
                .map(|n| n.to_string())
                .collect();
            cells.extend(lines.iter().map(|line| format!("{:.2}", line.gb_s)));
            cells.push(lines.iter().find(|line| line.winner).map_or("", |line| line.strategy.name()).to_owned());
            cells
        };
        self.machine_lines().map(row).collect()
    }

    /// Returns the lines of each machine with each size of rows.
    pub fn machine_lines(&self) -> impl Iterator<Item = &[Line]> {
        self.predictions.chunk_by(|a, b| (a.row_bytes, a.domains, a.cores) == (b.row_bytes, b.domains, b.cores))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters =
            table(&["parameter", "value", "unit", "source"], &[0, 2, 3], self.parameter_rows().into_iter());
        writeln!(f, "{parameters}\n\nHalves: {}.", self.split_rule)?;
        for line in self.verdict() {
            writeln!(f, "{line}")?;
        }
        let header = self.prediction_header();
        let words = [header.len() - 1];
        let predictions = table(&header, &words, self.prediction_rows().into_iter());
        writeln!(f, "\nPredicted GB/s, {} rows a batch:\n{predictions}", self.rows_a_batch)?;
        if self.leads.is_empty() {
            return Ok(());
        }
        let leads = table(&lead::HEADER, &[2], self.lead_rows().into_iter());
        writeln!(f, "\n{LEADS}:\n{leads}")
    }
}

/// Returns the predictions as CSV.
pub fn csv(report: &Report) -> String {
    let mut text =
        "cores,domains,row_bytes,strategy,gb_s,operations_a_batch,locks_a_batch,wakes_a_batch,winner\n".to_owned();
    for line in &report.predictions {
        let Line { cores, domains, row_bytes, strategy, gb_s, .. } = line;
        let Line { operations_a_batch, locks_a_batch, wakes_a_batch, winner, .. } = line;
        text += &format!("{cores},{domains},{row_bytes},{strategy},{gb_s},");
        text += &format!("{operations_a_batch},{locks_a_batch},{wakes_a_batch},{winner}\n");
    }
    text
}
