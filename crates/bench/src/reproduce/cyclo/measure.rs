//! The measurements of the figures. Each is kept when it is done, and not repeated when the run
//! goes on.

use annulus_roundabout::RingConfig;
use annulus_terminal::{Stop, units::counted};
use anyhow::{Context, Result};
use indicatif::ProgressBar;

use super::{
    args::{CycloJoinArgs, Figure},
    cells::{Cell, cells},
    record::{Record, What},
};
use crate::{
    join::{self, Data, Ring, Tables},
    reproduce::store::Store,
    roundabout::{self, RoundaboutArgs, Way, cost::Costs},
};

const ELEMENT: u32 = 1 << 20;
/// The size of buffers of a quick run: smaller, so that few rows still fill several fragments.
const QUICK_ELEMENT: u32 = 16 << 10;

/// The run, and what all its measurements need.
pub(super) struct Run<'a> {
    pub(super) args: &'a CycloJoinArgs,
    pub(super) store: &'a mut Store,
    pub(super) bar: ProgressBar,
    pub(super) stop: &'a Stop,
}

impl Run<'_> {
    /// Measures all figures.
    ///
    /// # Errors
    /// If a result is not the expected one, a host fails, results cannot be kept, or the run is
    /// stopped.
    pub(super) fn measure(&mut self) -> Result<Vec<Record>> {
        let cells = cells(self.args);
        let transfers = if self.args.figures.contains(&Figure::Transfer) { transfers(self.args) } else { Vec::new() };
        let costs = self.args.figures.contains(&Figure::Cost);
        let of_costs = if costs { costs_of(self.args, &self.bar, self.stop).runs() } else { 0 };
        let runs = self.runs() * cells.len() as u64 + transfers.iter().map(transfer_runs).sum::<u64>();
        self.bar.set_length(runs + of_costs);
        let mut records = Vec::new();
        if costs {
            self.costs(&mut records)?;
        }
        for transfer in &transfers {
            self.transfer(transfer, &mut records)?;
        }
        // Cells with the same tables are consecutive.
        for same in cells.chunk_by(|a, b| (a.rows, a.zipf) == (b.rows, b.zipf)) {
            self.joins(same, &mut records)?;
        }
        Ok(records)
    }

    /// Returns how often a cell runs.
    fn runs(&self) -> u64 {
        self.args.rounds as u64 + 1
    }

    /// Measures the costs of all ways.
    fn costs(&mut self, records: &mut Vec<Record>) -> Result<()> {
        let costs = costs_of(self.args, &self.bar, self.stop);
        let end = self.bar.position() + costs.runs();
        let key = format!("figure {}", Figure::Cost.number());
        let costs = self.store.get_or(&key, || costs.measure())?;
        self.bar.set_position(end);
        records.extend(costs.into_iter().map(|cost| Record { figure: Figure::Cost, what: What::Cost(cost) }));
        Ok(())
    }

    /// Measures all ways with elements of one size.
    fn transfer(&mut self, args: &RoundaboutArgs, records: &mut Vec<Record>) -> Result<()> {
        let end = self.bar.position() + transfer_runs(args);
        let key = format!("figure {}, {:?} bytes", Figure::Transfer.number(), args.elements);
        let lines = self.store.get_or(&key, || roundabout::measure(args, &self.bar, self.stop))?;
        self.bar.set_position(end);
        let lines = lines.into_iter();
        records.extend(lines.map(|line| Record { figure: Figure::Transfer, what: What::Transfer(line) }));
        Ok(())
    }

    /// Measures cells that have the same tables. The tables' memory is freed when this returns.
    fn joins(&mut self, cells: &[Cell], records: &mut Vec<Record>) -> Result<()> {
        let (mut tables, runs) = (None, self.runs());
        let Self { args, store, bar, stop } = self;
        for cell in cells {
            let &Cell { figure, rows, zipf, by, link, hosts, threads, one_at_a_time } = cell;
            let end = bar.position() + runs;
            let line = store.get_or(&cell.key(), || {
                if tables.is_none() {
                    bar.set_message(format!("figure {}, tables", figure.number()));
                    let new = Tables::new(Data::Even, rows, zipf, 1.0, args.seed);
                    tables = Some(new.context("cannot generate the tables")?);
                }
                let tables = tables.as_ref().context("tables")?;
                bar.set_message(format!("figure {}, {}", figure.number(), counted(hosts.into(), "host")));
                let ring = Ring { tables, by, link, hosts, threads, config: config(args) };
                join::measure(&ring, one_at_a_time, args.rounds, &|| bar.inc(1), stop)
            })?;
            bar.set_position(end);
            records.push(Record { figure, what: What::Join(line.into()) });
        }
        Ok(())
    }
}

/// Returns the configuration of all rings.
fn config(args: &CycloJoinArgs) -> RingConfig {
    join::config(if args.quick { QUICK_ELEMENT } else { ELEMENT }, RingConfig::default().buffers())
}

/// Returns the measurement of figure 3.
fn costs_of<'a>(args: &CycloJoinArgs, bar: &'a ProgressBar, stop: &'a Stop) -> Costs<'a> {
    Costs {
        ways: &[Way::Plain, Way::Tcp, Way::Shared],
        element_bytes: ELEMENT,
        // Longer, because the system tells user from system time by samples.
        bytes: 2 * args.bytes as u64,
        rounds: args.rounds,
        bar,
        stop,
    }
}

fn transfer_runs(args: &RoundaboutArgs) -> u64 {
    roundabout::runs(args) as u64
}

/// Returns the options of `annulus bench roundabout` for figure 5, for each size of an element.
fn transfers(args: &CycloJoinArgs) -> Vec<RoundaboutArgs> {
    let of = |bits: u32| RoundaboutArgs {
        elements: vec![1 << bits],
        bytes: args.bytes,
        ways: vec![Way::Plain, Way::Tcp, Way::Rustls, Way::Tls, Way::Shared],
        // These ways do not use it.
        #[cfg(feature = "ofi")]
        fabric: String::new(),
        places: 6,
        own: 4,
        rounds: args.rounds,
        json: false,
    };
    [12, 14, 16, 18, 20, 22].map(of).into()
}
