//! `annulus reproduce cyclo-join`: the figures of the paper's evaluation, on this machine.

mod args;
mod cells;
mod page;
mod paper;
mod record;

use annulus_roundabout::RingConfig;
use annulus_terminal::{Stop, machine, progress, units::counted};
use anyhow::{Context, Result};
pub use args::{CycloJoinArgs, Figure};
use indicatif::ProgressBar;
use serde_json::json;

use self::{
    cells::{Cell, cells},
    record::{Record, What, csv, json_lines},
};
use super::Files;
use crate::{
    join::{self, Data, Ring, Tables},
    roundabout::{self, RoundaboutArgs, Way},
};

const ELEMENT: u32 = 1 << 20;
/// The size of buffers of a quick run: smaller, so that few rows still fill several fragments.
const QUICK_ELEMENT: u32 = 16 << 10;

/// Measures the figures in `args` and writes the three files.
///
/// # Errors
/// If a result is not the expected one, a host fails, a file cannot be written, or `stop` is set.
pub fn run(args: &CycloJoinArgs, stop: &Stop) -> Result<()> {
    let files = Files::create(&args.out, ["cyclo-join.jsonl", "cyclo-join.csv", "cyclo-join.html"])?;
    let args = args.sized();
    let machine = machine::label();
    let records = measure(&args, stop)?;
    let setting = json!({
        "machine": machine,
        "quick": args.quick,
        "rounds": args.rounds,
        "paper_machines": paper::MACHINES,
    });
    files.finish([json_lines(&setting, &records)?, csv(&records)?, page::page(&machine, &args, &records)])
}

fn measure(args: &CycloJoinArgs, stop: &Stop) -> Result<Vec<Record>> {
    let cells = cells(args);
    let transfer = args.figures.contains(&Figure::Transfer).then(|| transfer(args));
    let runs = (args.rounds + 1) * cells.len() + transfer.as_ref().map_or(0, roundabout::runs);
    let bar = progress::bar(runs as u64, "runs");
    let mut records = Vec::new();
    if let Some(args) = transfer {
        let lines = roundabout::measure(&args, &bar, stop)?.into_iter();
        records.extend(lines.map(|line| Record { figure: Figure::Transfer, what: What::Transfer(line) }));
    }
    // Cells with the same tables are consecutive.
    for same in cells.chunk_by(|a, b| (a.rows, a.zipf) == (b.rows, b.zipf)) {
        measure_cells(args, same, &bar, &mut records, stop)?;
    }
    bar.finish_and_clear();
    Ok(records)
}

/// Measures cells that have the same tables. The tables' memory is freed when this returns.
fn measure_cells(
    args: &CycloJoinArgs,
    cells: &[Cell],
    bar: &ProgressBar,
    records: &mut Vec<Record>,
    stop: &Stop,
) -> Result<()> {
    let Some(first) = cells.first() else { return Ok(()) };
    bar.set_message(format!("figure {}, tables", first.figure.number()));
    let tables = Tables::new(Data::Even, first.rows, first.zipf, 1.0).context("cannot generate the tables")?;
    for &Cell { figure, by, link, hosts, threads, one_at_a_time, .. } in cells {
        bar.set_message(format!("figure {}, {}", figure.number(), counted(hosts.into(), "host")));
        let element = if args.quick { QUICK_ELEMENT } else { ELEMENT };
        let ring = Ring {
            tables: &tables,
            by,
            link,
            hosts,
            threads,
            config: join::config(element, RingConfig::default().buffers()),
        };
        let line = join::measure(&ring, one_at_a_time, args.rounds, &|| bar.inc(1), stop)?;
        records.push(Record { figure, what: What::Join(line.into()) });
    }
    Ok(())
}

/// Returns the options of `annulus bench roundabout` for figure 5.
fn transfer(args: &CycloJoinArgs) -> RoundaboutArgs {
    RoundaboutArgs {
        elements: [12, 14, 16, 18, 20, 22].map(|bits| 1 << bits).into(),
        bytes: args.bytes,
        ways: vec![Way::Plain, Way::Tcp, Way::Rustls, Way::Tls, Way::Shared],
        // These ways do not use it.
        #[cfg(feature = "ofi")]
        fabric: String::new(),
        places: 6,
        own: 4,
        rounds: args.rounds,
        json: false,
    }
}
