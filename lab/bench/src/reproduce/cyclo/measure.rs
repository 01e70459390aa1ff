//! The measurements of the figures. Each is kept when it is done, and not repeated when the run
//! goes on.

use std::collections::BTreeSet;

use annulus_roundabout::RingConfig;
use annulus_terminal::units::counted;
use anyhow::{Context, Result};
use indicatif::ProgressBar;

use super::{
    args::{CycloJoinArgs, Figure},
    cells::{Cell, cells},
    fabric::{Provider, providers},
    network::{self, LimitedRing},
    record::{Record, What},
};
use crate::Stop;
use crate::{
    join::{self, Data, Line, Link, Network, Ring, Tables},
    reproduce::store::Store,
    roundabout::{self, RoundaboutArgs, Transport, cost::Costs},
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
    /// The measurements that this machine cannot make, and the reasons.
    pub(super) absent: BTreeSet<String>,
    /// The links over libfabric that it has.
    pub(super) providers: Vec<Provider>,
}

impl Run<'_> {
    /// Measures all figures.
    ///
    /// # Errors
    /// If a result is not the expected one, a host fails, results cannot be kept, or the run is
    /// stopped.
    pub(super) fn measure(&mut self) -> Result<Vec<Record>> {
        if [Figure::Cost, Figure::Transfer, Figure::Links].iter().any(|figure| self.args.figures.contains(figure)) {
            self.providers = providers(&mut self.absent, self.stop);
            self.stop.check()?;
        }
        let cells = cells(self.args, &self.providers);
        let transfers = if self.args.figures.contains(&Figure::Transfer) {
            transfers(self.args, &self.providers)
        } else {
            Vec::new()
        };
        let costs = self.args.figures.contains(&Figure::Cost);
        let of_costs = if costs { costs_of(self.args, &self.cost_ways(), &self.bar, self.stop).runs() } else { 0 };
        let runs =
            cells.iter().map(|cell| self.runs_of(cell)).sum::<u64>() + transfers.iter().map(transfer_runs).sum::<u64>();
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

    /// Returns how often a cell runs. With a limit, its transfers also run by themselves.
    fn runs_of(&self, cell: &Cell) -> u64 {
        let runs = self.args.rounds as u64 + 1;
        if cell.limit.is_some() { 2 * runs } else { runs }
    }

    /// Returns the ways of figure 3.
    fn cost_ways(&self) -> Vec<Transport> {
        ways(&[Transport::Plain, Transport::Tcp, Transport::Shared], &self.providers)
    }

    /// Measures the costs of all ways.
    fn costs(&mut self, records: &mut Vec<Record>) -> Result<()> {
        let ways = self.cost_ways();
        let Self { args, store, bar, stop, .. } = self;
        let costs = costs_of(args, &ways, bar, stop);
        let end = bar.position() + costs.runs();
        let costs = store.get_or(&format!("figure {}, {ways:?}", Figure::Cost.number()), || costs.measure())?;
        self.bar.set_position(end);
        records.extend(costs.into_iter().map(|cost| Record { figure: Figure::Cost, what: What::Cost(cost) }));
        Ok(())
    }

    /// Measures all ways with elements of one size.
    fn transfer(&mut self, args: &RoundaboutArgs, records: &mut Vec<Record>) -> Result<()> {
        let end = self.bar.position() + transfer_runs(args);
        let key = format!("figure {}, {:?} bytes, {:?}", Figure::Transfer.number(), args.elements, args.ways);
        let lines = self.store.get_or(&key, || roundabout::measure(args, &self.bar, self.stop))?;
        self.bar.set_position(end);
        let lines = lines.into_iter();
        records.extend(lines.map(|line| Record { figure: Figure::Transfer, what: What::Transfer(line) }));
        Ok(())
    }

    /// Measures cells that have the same tables. The tables' memory is freed when this returns.
    fn joins(&mut self, cells: &[Cell], records: &mut Vec<Record>) -> Result<()> {
        let (mut tables, mut alone, mut of_joins) = (None, None, None);
        for cell in cells {
            let end = self.bar.position() + self.runs_of(cell);
            let what = match cell.limit.zip(alone.as_ref()) {
                Some((limit, alone)) => {
                    self.limited(cell, limit, alone, &mut of_joins, &mut tables)?.map(What::LimitedRing)
                }
                None => {
                    let line = self.join(cell, &mut tables)?;
                    if cell.one_at_a_time {
                        (alone, of_joins) = (Some(line.clone()), None);
                    }
                    Some(What::Join(line.into()))
                }
            };
            self.bar.set_position(end);
            records.extend(what.map(|what| Record { figure: cell.figure, what }));
        }
        Ok(())
    }

    /// Measures a join. Generates its tables first if `tables` has none.
    fn join(&mut self, cell: &Cell, tables: &mut Option<Tables>) -> Result<Line> {
        let Self { args, store, bar, stop, .. } = self;
        store.get_or(&cell.key(), || {
            let ring = ring(args, cell, tables, bar, None)?;
            join::measure(&ring, cell.one_at_a_time, args.rounds, &|| bar.inc(1), stop)
        })
    }

    /// Measures a join over links of a limited rate, and predicts it from its joins one at a time
    /// and from its transfers without joins. Returns `None` if this machine cannot make such a
    /// network, and keeps the reason.
    fn limited(
        &mut self,
        cell: &Cell,
        limit: f64,
        alone: &Line,
        of_joins: &mut Option<f64>,
        tables: &mut Option<Tables>,
    ) -> Result<Option<LimitedRing>> {
        // An earlier run may have had rights that this one lacks.
        if let Some(limited) = self.store.get(&cell.key())? {
            return Ok(Some(limited));
        }
        let network = match Network::new(cell.hosts, network::rate(alone, limit) as u64) {
            Ok(network) => network,
            Err(error) => {
                self.stop.check()?;
                self.absent.insert(format!("figure 11 over links of a limited rate: {error:#}"));
                return Ok(None);
            }
        };
        let Self { args, store, bar, stop, .. } = self;
        let times = |limit| if args.quick { 1 } else { network::times(alone, limit) };
        // What predicts is measured first, so that it knows nothing of what it predicts.
        let join_s = match *of_joins {
            Some(join_s) => join_s,
            None => store.get_or(&format!("{} by themselves", Cell { limit: None, ..*cell }.key()), || {
                let ring = Ring { times: times(2.0), ..ring(args, cell, tables, bar, None)? };
                let line = join::measure(&Ring { link: Link::Shared, ..ring }, true, args.rounds, &|| (), stop)?;
                Ok(network::join_s(&line) / ring.times as f64)
            })?,
        };
        *of_joins = Some(join_s);
        let limited = store.get_or(&cell.key(), || {
            let ring = ring(args, cell, tables, bar, Some(&network))?;
            let join_s = network::slowness(cell.hosts) * join_s;
            let ring = Ring { times: times(limit), join_s: Some(join_s), ..ring };
            let transfer = join::measure_transfer(&ring, args.rounds, &|| bar.inc(1), stop)?;
            let line = join::measure(&ring, cell.one_at_a_time, args.rounds, &|| bar.inc(1), stop)?;
            Ok(LimitedRing::new(limit, &ring, alone, join_s, transfer, &line))
        })?;
        Ok(Some(limited))
    }
}

/// Returns the ring of a cell. Generates its tables first if `tables` has none.
fn ring<'a>(
    args: &CycloJoinArgs,
    cell: &Cell,
    tables: &'a mut Option<Tables>,
    bar: &ProgressBar,
    network: Option<&'a Network>,
) -> Result<Ring<'a>> {
    let &Cell { figure, rows, zipf, by, link, hosts, threads, .. } = cell;
    let tables = match tables {
        Some(tables) => tables,
        None => {
            bar.set_message(format!("figure {}, tables", figure.number()));
            let new = Tables::new(Data::Even, rows, zipf, 1.0, args.seed);
            tables.insert(new.context("cannot generate the tables")?)
        }
    };
    bar.set_message(format!("figure {}, {}", figure.number(), counted(hosts.into(), "host")));
    Ok(Ring { tables, by, link, hosts, threads, config: config(args), times: 1, network, join_s: None })
}

/// Returns the configuration of all rings.
fn config(args: &CycloJoinArgs) -> RingConfig {
    join::config(if args.quick { QUICK_ELEMENT } else { ELEMENT }, RingConfig::default().buffers())
}

/// Returns the measurement of figure 3.
fn costs_of<'a>(args: &CycloJoinArgs, ways: &'a [Transport], bar: &'a ProgressBar, stop: &'a Stop) -> Costs<'a> {
    Costs {
        ways,
        element_bytes: ELEMENT,
        // Longer, because the system tells user from system time by samples.
        bytes: 2 * args.bytes as u64,
        rounds: args.rounds,
        bar,
        stop,
    }
}

/// Returns our ways, and those over libfabric.
fn ways(own: &[Transport], providers: &[Provider]) -> Vec<Transport> {
    own.iter().copied().chain(providers.iter().map(|provider| provider.way)).collect()
}

fn transfer_runs(args: &RoundaboutArgs) -> u64 {
    roundabout::runs(args) as u64
}

/// Returns the options of `annulus-lab bench roundabout` for figure 5, for each size of an element.
fn transfers(args: &CycloJoinArgs, providers: &[Provider]) -> Vec<RoundaboutArgs> {
    let of = |bits: u32| RoundaboutArgs {
        elements: vec![1 << bits],
        bytes: args.bytes,
        ways: ways(
            &[Transport::Plain, Transport::Tcp, Transport::Rustls, Transport::Tls, Transport::Shared],
            providers,
        ),
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
