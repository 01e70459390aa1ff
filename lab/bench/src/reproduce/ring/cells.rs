//! The cells of each figure, as command lines of `annulus-lab bench exchange`.

use annulus_exchange::Strategy;
use annulus_terminal::units::Shape;
use annulus_transports::Rival;

use super::args::RingArgs;
use crate::exchange::{ExchangeArgs, Keys, Sizes};

/// A figure or a table, or what the paper left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Figure 5, and table 1.
    Threads,
    /// Tables 2 and 3.
    Uniform,
    /// Table 2 and figure 6.
    Normal,
    /// Figure 7.
    Groups,
    /// M and N that differ.
    Unequal,
    /// Keys by Zipf's law.
    Skew,
    /// One ring and two, wherever the threads are.
    Domains,
}

impl Part {
    /// Returns its word in the files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Threads => "figure-5",
            Self::Uniform => "table-2-uniform",
            Self::Normal => "table-2-normal",
            Self::Groups => "figure-7",
            Self::Unequal => "unequal",
            Self::Skew => "skew",
            Self::Domains => "two-rings",
        }
    }
}

/// Returns all cells, each with its part. A cell has one shape and one size of rows.
pub fn cells(args: &RingArgs) -> Vec<(Part, ExchangeArgs)> {
    let full = args.full();
    let base = |part: Part, (inputs, outputs): (usize, usize), row_bytes: u32| {
        let mut cell = ExchangeArgs::new(Shape { inputs, outputs }, row_bytes, args.volume);
        cell.rounds = args.rounds();
        cell.seed = args.seed;
        (part, cell)
    };
    let mut cells: Vec<_> =
        args.threads().into_iter().map(|threads| base(Part::Threads, (threads, threads), 8)).collect();
    for &bytes in args.row_bytes() {
        cells.push(base(Part::Uniform, (full, full), bytes));
    }
    for &bytes in args.row_bytes() {
        let (part, mut cell) = base(Part::Normal, (full, full), bytes);
        cell.sizes = Sizes::Normal;
        cells.push((part, cell));
    }
    for groups in 1..=4 {
        for &bytes in args.row_bytes() {
            let (part, mut cell) = base(Part::Groups, (full, full), bytes);
            cell.groups = groups;
            cell.set_strategies(&[Strategy::Ring, Rival::PaperRing.strategy()]);
            cells.push((part, cell));
        }
    }
    for shape in [(full, 4 * full), (4 * full, full)] {
        cells.push(base(Part::Unequal, shape, 8));
    }
    let (part, mut cell) = base(Part::Skew, (4 * full, 4 * full), 8);
    cell.keys = Keys::Zipf;
    cells.push((part, cell));
    let (part, mut cell) = base(Part::Domains, (full, full), 8);
    cell.domains = Some(2);
    cell.set_strategies(&[Strategy::Ring, Strategy::RingPerDomain]);
    cells.push((part, cell));
    cells
}
