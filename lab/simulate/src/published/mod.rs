//! The throughput that the paper published, and which half of it is fitted.

use serde::Serialize;

use crate::{Error, Machine, RowSizes, StrategyKind};

/// The table, as printed in the paper.
const CELLS: &str = include_str!("cells.csv");
/// The strategies of the table's last columns.
const COLUMNS: [StrategyKind; 3] = [StrategyKind::Batch, StrategyKind::MutexChannel, StrategyKind::PaperRing];

/// The rule that divides the published rows into two halves. It was written down with the table,
/// before the model was fitted for the first time.
pub const SPLIT_RULE: &str = "rows alternate in reading order: within Table 2 and within each machine of Table 3, \
                              rows 1, 3 and 5 (and so on) are fitted, rows 2, 4 and 6 are held out";

/// One row of the published tables: a machine and a batch, with the throughput of each strategy.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedRow {
    /// The table and the row.
    pub place: String,
    /// The machine.
    pub machine: Machine,
    /// The producers, and as many consumers.
    pub threads: usize,
    /// The mean size of a row, in bytes.
    pub row_bytes: usize,
    /// The distribution of the sizes of rows.
    pub sizes: RowSizes,
    /// Whether the row belongs to the fitted half.
    pub fitted: bool,
    /// GB/s of the strategies that ran.
    pub gb_s: Vec<(StrategyKind, f64)>,
}

impl PublishedRow {
    /// Returns the strategy with the highest throughput, or none if the row has no cell.
    pub fn winner(&self) -> Option<StrategyKind> {
        self.gb_s.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|cell| cell.0)
    }
}

/// Returns the rows of tables 2 and 3 in reading order, divided by the [rule](SPLIT_RULE).
///
/// # Errors
/// If the stored table is damaged.
pub fn published() -> Result<Vec<PublishedRow>, Error> {
    CELLS.lines().filter(|line| !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &str) -> Result<PublishedRow, Error> {
    let wrong = || Error::Table { line: line.to_owned() };
    let fields: Vec<_> = line.split(',').collect();
    let [place, machine, threads, row_bytes, sizes, cells @ ..] = &fields[..] else { return Err(wrong()) };
    let number = place.split(' ').nth(3).and_then(|number| number.parse::<usize>().ok()).ok_or_else(wrong)?;
    let mut gb_s = Vec::new();
    for (strategy, cell) in COLUMNS.into_iter().zip(cells) {
        if !cell.is_empty() {
            gb_s.push((strategy, cell.parse().map_err(|_| wrong())?));
        }
    }
    Ok(PublishedRow {
        place: (*place).to_owned(),
        machine: Machine::named(machine).ok_or_else(wrong)?,
        threads: threads.parse().map_err(|_| wrong())?,
        row_bytes: row_bytes.parse().map_err(|_| wrong())?,
        sizes: if *sizes == "normal" { RowSizes::Normal } else { RowSizes::Uniform },
        fitted: number % 2 == 1,
        gb_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_cells_are_fitted() {
        let rows = published().unwrap();
        let cells = |fitted| rows.iter().filter(|row| row.fitted == fitted).map(|row| row.gb_s.len()).sum::<usize>();
        assert_eq!((rows.len(), cells(true), cells(false)), (24, 28, 28));
        assert_eq!(rows.iter().filter(|row| row.fitted).count(), 12);
    }

    #[test]
    fn the_paper_names_the_winners() {
        let rows = published().unwrap();
        let winner = |place: &str| rows.iter().find(|row| row.place == place).unwrap().winner();
        assert_eq!(winner("Table 2 row 1"), Some(StrategyKind::PaperRing));
        assert_eq!(winner("Table 3 row 3 EPYC"), Some(StrategyKind::MutexChannel));
    }

    #[test]
    fn a_damaged_line_is_an_error() {
        for line in
            ["", "Table 2 row 1,graviton4,192,8", "Table 2 row 1,vax,1,8,uniform,1,2,3", "x,grace,1,8,uniform,1"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("Table 2 row 1,grace,72,8,uniform,,1.x,2").is_err());
    }
}
