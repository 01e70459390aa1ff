//! How well a simulation agrees with the published cells.

use serde::Serialize;

use crate::{Cell, PublishedRow, StrategyKind};

/// A row of the published tables, and what the simulation says of it.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The table and the row.
    pub place: String,
    /// The machine.
    pub machine: String,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Whether the row was fitted.
    pub fitted: bool,
    /// The cells of the row.
    pub cells: Vec<ComparedCell>,
    /// The winner as published.
    pub winner: StrategyKind,
    /// The winner of the simulation.
    pub simulated_winner: StrategyKind,
}

/// A published cell and its simulation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ComparedCell {
    /// The strategy.
    pub strategy: StrategyKind,
    /// GB/s as published.
    pub published_gb_s: f64,
    /// GB/s as simulated.
    pub simulated_gb_s: f64,
}

impl ComparedRow {
    /// Returns whether the simulation names the winner.
    pub fn is_right(&self) -> bool {
        self.winner == self.simulated_winner
    }

    /// Returns by which part the published winner is ahead of the next strategy.
    pub fn published_lead(&self) -> f64 {
        let mut values: Vec<_> = self.cells.iter().map(|cell| cell.published_gb_s).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        values.first().zip(values.get(1)).map_or(0.0, |(first, second)| first / second - 1.0)
    }
}

/// The agreement on one half of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The cells.
    pub cells: usize,
    /// The median of the relative errors of their throughput.
    pub median_error: f64,
    /// The largest relative error.
    pub worst_error: f64,
    /// The rows.
    pub rows: usize,
    /// The rows whose winner is named.
    pub winners_right: usize,
    /// The rows that would be right if one always named the paper's ring.
    pub right_without_model: usize,
}

/// Returns the rows of which `cells` are the simulated cells.
pub fn compare(rows: &[PublishedRow], cells: &[Cell]) -> Vec<ComparedRow> {
    let same_row = |first: &Cell, second: &Cell| first.row == second.row;
    cells.chunk_by(same_row).filter_map(|cells| compare_row(rows, cells)).collect()
}

fn compare_row(rows: &[PublishedRow], cells: &[Cell]) -> Option<ComparedRow> {
    let row = rows.get(cells.first()?.row)?;
    let simulated_winner = cells.iter().max_by(|a, b| a.simulated.total_cmp(&b.simulated))?.strategy;
    let compared = cells.iter().map(|cell| ComparedCell {
        strategy: cell.strategy,
        published_gb_s: cell.published,
        simulated_gb_s: cell.simulated,
    });
    Some(ComparedRow {
        place: row.place.clone(),
        machine: row.machine.name.clone(),
        row_bytes: row.row_bytes,
        fitted: row.fitted,
        cells: compared.collect(),
        winner: row.winner()?,
        simulated_winner,
    })
}

/// Returns the agreement on the rows that were `fitted`, or on the others. It is none if there are
/// no such rows.
pub fn agreement(rows: &[ComparedRow], fitted: bool) -> Option<Agreement> {
    let rows: Vec<_> = rows.iter().filter(|row| row.fitted == fitted).collect();
    let cells = rows.iter().flat_map(|row| &row.cells);
    let mut errors: Vec<_> = cells.map(|cell| (cell.simulated_gb_s / cell.published_gb_s - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let upper = *errors.get(errors.len() / 2)?;
    let median = if errors.len() % 2 == 1 { upper } else { (errors[errors.len() / 2 - 1] + upper) / 2.0 };
    Some(Agreement {
        cells: errors.len(),
        median_error: median,
        worst_error: *errors.last()?,
        rows: rows.len(),
        winners_right: rows.iter().filter(|row| row.is_right()).count(),
        right_without_model: rows.iter().filter(|row| row.winner == StrategyKind::PaperRing).count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    /// Returns the cells of all rows, simulated as `simulated` says.
    fn compared(simulated: impl Fn(StrategyKind, f64) -> f64) -> Vec<ComparedRow> {
        let rows = published().unwrap();
        let mut cells = Vec::new();
        for (row, published) in rows.iter().enumerate() {
            cells.extend(published.gb_s.iter().map(|&(strategy, gb_s)| Cell {
                row,
                strategy,
                published: gb_s,
                simulated: simulated(strategy, gb_s),
            }));
        }
        compare(&rows, &cells)
    }

    #[test]
    fn the_published_values_agree_with_themselves() {
        let rows = compared(|_, gb_s| gb_s);
        for fitted in [true, false] {
            let half = agreement(&rows, fitted).unwrap();
            let expected =
                Agreement { cells: 28, median_error: 0.0, worst_error: 0.0, rows: 12, winners_right: 12, ..half };
            assert_eq!(half, expected);
        }
        assert_eq!(agreement(&rows, false).unwrap().right_without_model, 10);
        assert!((rows[0].published_lead() - (11.61 / 5.64 - 1.0)).abs() < 1e-9);
        assert_eq!(agreement(&[], true), None);
    }

    #[test]
    fn errors_are_relative_and_winners_may_be_wrong() {
        let rows =
            compared(|strategy, gb_s| if strategy == StrategyKind::MutexChannel { gb_s * 100.0 } else { gb_s * 0.5 });
        let half = agreement(&rows, false).unwrap();
        assert_eq!((half.median_error, half.worst_error, half.winners_right), (0.5, 99.0, 2));
    }
}
